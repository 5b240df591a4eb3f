"""Incremental view maintenance, decided from a query's text: how a gold table can follow its sources."""

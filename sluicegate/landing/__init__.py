"""Landed files: discovery, ledger and file status. No Spark."""

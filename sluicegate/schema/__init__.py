"""Columns and values: what a table declares, infers and rescues."""

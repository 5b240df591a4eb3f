"""Columns and values: declared, inferred and rescued."""

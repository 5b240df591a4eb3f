"""Column lineage of a query: the columns that each of its own comes from, and those that decide about its rows."""

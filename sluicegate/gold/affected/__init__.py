"""Affected keys: which rows of any query's result changes of the tables that it reads can touch."""

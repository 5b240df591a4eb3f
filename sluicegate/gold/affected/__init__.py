"""Affected keys: which result rows of a query may be affected by changes of its tables."""

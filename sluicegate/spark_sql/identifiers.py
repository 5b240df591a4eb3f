"""Quoting of SQL identifiers and literals."""

from __future__ import annotations


def quote_name(name: str) -> str:
    """Quote a column's name for Spark, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote a text as a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

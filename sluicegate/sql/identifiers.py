"""Names and texts as SQL writes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

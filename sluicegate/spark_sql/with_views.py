"""Views in the text of a query: each that it reads becomes a WITH of it, so that it reads their tables."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, parse_sql


def to_one_line(text: str) -> str:
    """Remove comments and line breaks from a query, so that a text around it keeps its lines."""
    return Tokens(text).compose([], compact=True)


def add_views(text: str, views: Mapping[str, str]) -> str:
    """Return the text of a query with a WITH for each view; its own lines stay where they are.

    Args:
        text: the query.
        views: the views that it reads by name, each with its query, which reads no view any more.

    Raises:
        QuerySyntax: a WITH of the query has the name of one of the views.
    """
    tokens = Tokens(text)
    for name in _names(text):
        if name in views:
            raise QuerySyntax(f"{name} is both a view of the pipeline and a WITH in this query: rename the WITH", 1)
    definitions = ", ".join(f"{name} AS ({query})" for name, query in views.items())
    first = tokens[0].start
    if tokens.word(0) != "WITH":
        return f"{text[:first]}WITH {definitions} {text[first:]}"
    last = 0
    if tokens.word(1) == "RECURSIVE":
        last = 1
    end = tokens[last].end + 1
    return f"{text[:end]} {definitions},{text[end:]}"


def _names(text: str) -> set[str]:
    """Return the lower-case names of the outermost WITH of a query."""
    names = parse_sql(text).args.get("with_")
    if isinstance(names, exp.With):
        return {expression.alias.lower() for expression in names.expressions}
    return set()

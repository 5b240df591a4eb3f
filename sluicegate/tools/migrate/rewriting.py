"""Queries of a source as texts: with other names of tables, with and without STREAM, as part of one another."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.sql.clauses import select_list
from sluicegate.sql.query import Query
from sluicegate.sql.query_shape import is_from_with
from sluicegate.sql.tokens import QuerySyntax, Span, Tokens, parsed
from sluicegate.tools.migrate.model import FILES
from sluicegate.tools.scaffold.naming import ident


def places(text: str) -> int:
    """In how many places a query reads a table, and not one of its own WITH."""
    return sum(not is_from_with(table) for table in parsed(Tokens(text).compose([])).find_all(exp.Table))


def tables_of(text: str | None) -> list[str]:
    """The names of the tables that a query reads; none if it cannot be read."""
    try:
        return [name for name in Query.parse(str(text)).tables if name != FILES]
    except QuerySyntax:
        return []


def with_names(text: str, other: Callable[[str], str | None]) -> str:
    """A query with other names of tables: what ``other`` gives, as SQL, for one in small letters; None lets it be."""
    tokens = Tokens(text)
    spans = []
    for at in range(1, len(tokens)):
        in_stream = tokens.word(at - 2) == "STREAM" and tokens.is_type(at - 1, TokenType.L_PAREN)
        if not in_stream and tokens.word(at - 1) not in ("FROM", "JOIN"):
            continue
        last = at
        while tokens.is_type(last + 1, TokenType.DOT) and last + 2 < len(tokens):
            last += 2
        name = other(".".join(tokens.name(part) for part in range(at, last + 1, 2)).lower())
        if name is None:
            continue
        end = last + in_stream
        own = ident(tokens.name(last).lower())
        if own != name and not _has_alias(tokens, end + 1):
            name = f"{name}{')' * in_stream} AS {own}"  # its columns may be called by its own name
        else:
            end = last
        spans.append(Span(at, end, name))
    return tokens.compose(spans)


def _has_alias(tokens: Tokens, at: int) -> bool:
    return tokens.word(at) == "AS" or tokens.is_type(at, TokenType.VAR, TokenType.IDENTIFIER)


def without_stream(text: str) -> str:
    """A query with each ``STREAM(table)`` as the table."""
    tokens = Tokens(text)
    spans = [
        Span(at, close := tokens.closing(at + 1), tokens.compose([], at + 2, close))
        for at in range(len(tokens))
        if tokens.word(at) == "STREAM" and tokens.is_type(at + 1, TokenType.L_PAREN)
    ]
    return tokens.compose(spans)


def with_stream(text: str) -> str | None:
    """A query of tables with its first table as the stream; None if that is no table."""
    tokens = Tokens(text)
    try:
        _, from_ = select_list(tokens)
    except QuerySyntax:
        return None
    last = from_ + 1
    if not tokens.is_type(last, TokenType.VAR, TokenType.IDENTIFIER) or tokens.is_type(last + 1, TokenType.L_PAREN):
        return None
    while tokens.is_type(last + 1, TokenType.DOT):
        last += 2
    begin, end = tokens[from_ + 1].start, tokens[last].end + 1
    found = f"{text[:begin]}STREAM({text[begin:end]}){text[end:]}"
    try:
        Query.parse(found)
    except QuerySyntax:
        return None
    return found


def with_query(text: str, name: str, query: str) -> str:
    """A query with another one as its first WITH."""
    tokens = Tokens(text)
    one = f"WITH {ident(name)} AS (\n{query.strip()}\n)"
    if tokens.word(0) == "WITH":
        return f"{one},{text[tokens[0].end + 1 :]}"
    return f"{one}\n{text[tokens[0].start :]}"

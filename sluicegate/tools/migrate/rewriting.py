"""Rewriting of query texts: table names, STREAM, and inlining one query into another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.sql import union_all
from sluicegate.sql.clauses import select_list
from sluicegate.sql.query import Query
from sluicegate.sql.query_shape import is_from_with
from sluicegate.sql.tokens import QuerySyntax, Span, Tokens, parsed
from sluicegate.tools.migrate.model import FILES
from sluicegate.tools.scaffold.naming import ident


def places(text: str) -> int:
    """Number of places where a query reads a table other than its own WITH."""
    return sum(not is_from_with(table) for table in parsed(Tokens(text).compose([])).find_all(exp.Table))


def tables_of(text: str | None) -> list[str]:
    """Names of the tables that a query reads; none if it cannot be parsed."""
    try:
        queries = [Query.parse(one) for one in union_all.branches(str(text)) or [str(text)]]
    except QuerySyntax:
        return []
    return list(dict.fromkeys(name for query in queries for name in query.tables if name != FILES))


def with_names(text: str, other: Callable[[str], str | None]) -> str:
    """Query with other table names: ``other`` maps a name in lower case to SQL, or to None to keep it."""
    tokens = Tokens(text)
    reads = list(_reads(tokens))
    lasts = Counter(address.rpartition(".")[2] for address in {address for _, _, _, address in reads})
    used = {address for _, _, address in _qualifiers(tokens, {address for _, _, _, address in reads})}
    spans = []
    called: dict[str, str] = {}
    for at, last, in_stream, address in reads:
        name = other(address)
        if name is None:
            continue
        end = last + in_stream
        own = ident(tokens.name(last).lower())
        if _has_alias(tokens, end + 1):
            spans.append(Span(at, last, name))
            continue
        alone = lasts[address.rpartition(".")[2]] == 1 or address not in used
        called[address] = own if alone else name
        if called[address] == name:
            spans.append(Span(at, last, name))
        else:  # its columns may be qualified by its own name
            spans.append(Span(at, end, f"{name}{')' * in_stream} AS {own}"))
    spans += [Span(at, last, called[address]) for at, last, address in _qualifiers(tokens, called)]
    return tokens.compose(spans)


def _reads(tokens: Tokens) -> Iterator[tuple[int, int, bool, str]]:
    """Names after FROM and JOIN: first and last token, whether in ``STREAM(…)``, and the name in lower case."""
    for at in range(1, len(tokens)):
        in_stream = tokens.word(at - 2) == "STREAM" and tokens.is_type(at - 1, TokenType.L_PAREN)
        if in_stream or tokens.word(at - 1) in ("FROM", "JOIN"):
            last = _name_end(tokens, at)
            yield at, last, in_stream, _dotted(tokens, at, last)


def _name_end(tokens: Tokens, at: int) -> int:
    while tokens.is_type(at + 1, TokenType.DOT) and at + 2 < len(tokens):
        at += 2
    return at


def _dotted(tokens: Tokens, at: int, last: int) -> str:
    return ".".join(tokens.name(part) for part in range(at, last + 1, 2)).lower()


def _qualifiers(tokens: Tokens, addresses: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Addresses of tables that qualify columns, as ``silver.customers`` in ``silver.customers.id``."""
    for at in range(1, len(tokens)):
        end = at if tokens.is_type(at - 1, TokenType.DOT) else _name_end(tokens, at)
        found = ((last, _dotted(tokens, at, last)) for last in range(at + 2, end, 2))
        yield from ((at, last, address) for last, address in found if address in addresses)


def _has_alias(tokens: Tokens, at: int) -> bool:
    return tokens.word(at) == "AS" or tokens.is_type(at, TokenType.VAR, TokenType.IDENTIFIER)


def without_stream(text: str) -> str:
    """Query with each ``STREAM(table)`` replaced by the table."""
    tokens = Tokens(text)
    spans = [
        Span(at, close := tokens.closing(at + 1), tokens.compose([], at + 2, close))
        for at in range(len(tokens))
        if tokens.word(at) == "STREAM" and tokens.is_type(at + 1, TokenType.L_PAREN)
    ]
    return tokens.compose(spans)


def with_stream(text: str) -> str | None:
    """Query of tables with its first table as the stream; None if that is no table."""
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

"""Rewriting of query texts: table names, STREAM, and inlining one query into another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql import union_all
from sluicegate.spark_sql.clauses import select_list
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.query_shape import is_from_with
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens, parse_sql
from sluicegate.tools.migrate.model import FILES
from sluicegate.tools.scaffold.naming import ident


def count_reads(text: str) -> int:
    """Count the places where a query reads a table other than its own WITH."""
    return sum(not is_from_with(table) for table in parse_sql(Tokens(text).compose([])).find_all(exp.Table))


def tables_of(text: str | None) -> list[str]:
    """List the tables that a query reads, empty if it cannot be parsed."""
    try:
        queries = list(map(Query.parse, union_all.branches(str(text)) or [str(text)]))
    except QuerySyntax:
        return []
    return list(dict.fromkeys(name for query in queries for name in query.tables if name != FILES))


def columns_of(text: str | None) -> list[str] | None:
    """List the columns that a query returns, in lower case; None if they are not known."""
    try:
        outputs = Query.parse(str(text)).outputs
    except QuerySyntax:
        return None
    return outputs and [name.lower() for name in outputs]


def rename_tables(text: str, other: Callable[[str], str | None]) -> str:
    """Rename the tables of a query: ``other`` maps a name in lower case to SQL, or to None to keep it."""
    tokens = Tokens(text)
    reads = list(_reads(tokens))
    lasts = Counter(address.rpartition(".")[2] for address in {address for _, _, _, address in reads})
    used = {address for _, _, address in _qualifiers(tokens, {address for _, _, _, address in reads})}
    spans = []
    called: dict[str, str] = {}
    for first, last, in_stream, address in reads:
        name = other(address)
        if name is None:
            continue
        end = last + in_stream
        plain_name = ident(tokens.name(last).lower())
        if _has_alias(tokens, end + 1):
            spans.append(Span(first, last, name))
            continue
        alone = lasts[address.rpartition(".")[2]] == 1 or address not in used
        called[address] = plain_name if alone else name
        if called[address] == name:
            spans.append(Span(first, last, name))
        else:  # its columns may be qualified by its own name
            spans.append(Span(first, end, f"{name}{')' * in_stream} AS {plain_name}"))
    spans += [Span(first, last, called[address]) for first, last, address in _qualifiers(tokens, called)]
    return tokens.compose(spans)


def _reads(tokens: Tokens) -> Iterator[tuple[int, int, bool, str]]:
    """Yield names after FROM and JOIN: first and last token, whether in ``STREAM(…)``, and the name in lower case."""
    for index in range(1, len(tokens)):
        in_stream = tokens.word(index - 2) == "STREAM" and tokens.is_type(index - 1, TokenType.L_PAREN)
        if in_stream or tokens.word(index - 1) in ("FROM", "JOIN"):
            last = _name_end(tokens, index)
            yield index, last, in_stream, _dotted_name(tokens, index, last)


def _name_end(tokens: Tokens, index: int) -> int:
    while tokens.is_type(index + 1, TokenType.DOT) and index + 2 < len(tokens):
        index += 2
    return index


def _dotted_name(tokens: Tokens, first: int, last: int) -> str:
    return ".".join(map(tokens.name, range(first, last + 1, 2))).lower()


def _qualifiers(tokens: Tokens, addresses: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield addresses of tables that qualify columns, as ``silver.customers`` in ``silver.customers.id``."""
    for index in range(1, len(tokens)):
        if tokens.is_type(index - 1, TokenType.DOT):
            end = index
        else:
            end = _name_end(tokens, index)
        qualifiers = ((last, _dotted_name(tokens, index, last)) for last in range(index + 2, end, 2))
        yield from ((index, last, address) for last, address in qualifiers if address in addresses)


def _has_alias(tokens: Tokens, index: int) -> bool:
    return tokens.word(index) == "AS" or tokens.is_type(index, TokenType.VAR, TokenType.IDENTIFIER)


def remove_streams(text: str) -> str:
    """Replace each ``STREAM(table)`` of a query by the table."""
    tokens = Tokens(text)
    spans = [
        Span(index, close := tokens.closing_index(index + 1), tokens.compose([], index + 2, close))
        for index in range(len(tokens))
        if tokens.word(index) == "STREAM" and tokens.is_type(index + 1, TokenType.L_PAREN)
    ]
    return tokens.compose(spans)


def stream_first_table(text: str) -> str | None:
    """Make the first table of a query its stream; return None if that is not a table, or the name of a WITH."""
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
    streamed = f"{text[:begin]}STREAM({text[begin:end]}){text[end:]}"
    try:
        Query.parse(streamed)
    except QuerySyntax:
        return None
    if count_reads(streamed) != count_reads(text):  # a WITH comes before a table of its name, but not in STREAM(…)
        return None
    return streamed

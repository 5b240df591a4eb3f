"""Casts in a WHERE: a record that is filtered out only because a cast failed is kept and flagged.

A failed cast gives NULL, and a WHERE that is NULL filters out its record like one that is false, which is a loss that
the query did not ask for. So the conjuncts of the WHERE are rewritten one by one: a conjunct that is NULL keeps its
record if a cast in it failed; so does one that turns the NULL into something else (COALESCE, CASE, IS NULL). A conjunct
that is false on its own filters out the record, as the query says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.clauses import from_end
from sluicegate.spark_sql.conversion import casts as sql_casts
from sluicegate.spark_sql.conversion.casts import Watched
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens, parse_sql

_ENDS = (TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY,
         TokenType.DISTRIBUTE_BY)  # fmt: skip

# Functions and operators that turn a NULL into something else.
_HIDING = {"COALESCE", "NVL", "NVL2", "IFNULL", "IF", "IFF", "CASE", "ISNULL", "ISNOTNULL", "DECODE", "ZEROIFNULL",
           "EQUAL_NULL", "EXISTS", "FORALL", "FILTER", "TRANSFORM", "CONCAT_WS", "GREATEST", "LEAST", "ARRAY", "STRUCT",
           "NAMED_STRUCT", "MAP", "IS", "ISNAN", "NULLIF", "AGGREGATE", "REDUCE", "HASH", "XXHASH64", "FORMAT_STRING",
           "PRINTF"}  # fmt: skip


@dataclass(frozen=True)
class Conjunct:
    """A conjunct of the WHERE: its tokens ``[first, end)``, and the casts in it whose failure is flagged."""

    first: int
    end: int
    casts: tuple[Watched, ...]


def conjuncts_with_casts(tokens: Tokens, casts: Sequence[Watched], where: exp.Where | None) -> list[Conjunct]:
    """Return the conjuncts of the outermost WHERE that have casts.

    Conjuncts with a subquery, which Spark allows in few places, and casts inside of values are left out.

    Args:
        tokens: the query.
        casts: all casts in it.
        where: the WHERE as sqlglot parses it, None without one.
    """
    if where is None:
        return []
    condition_parts = []
    for start, stop in conjuncts(tokens, *extent(tokens), where.this):
        if "SELECT" in tokens.words(start, stop):
            continue
        casts_of_part = [cast for cast in casts if start <= cast.index < stop]
        reportable = sql_casts.reportable_casts(tokens, casts_of_part, start, stop)
        flagged = [c for c in reportable if not sql_casts.hidden_cast_objections(tokens, [c], start, stop)]
        if flagged:
            condition_parts.append(Conjunct(start, stop, tuple(flagged)))
    return condition_parts


def casts(condition_parts: Sequence[Conjunct]) -> list[Watched]:
    """Return the flagged casts of all conjuncts."""
    return [cast for part in condition_parts for cast in part.casts]


def extent(tokens: Tokens) -> tuple[int, int]:
    """Return the first token of the outermost WHERE, and the one after it."""
    first = from_end(tokens) + 1
    return first, next((i for i in tokens.top_level(first, len(tokens)) if tokens.is_type(i, *_ENDS)), len(tokens))


def rewritten_spans(tokens: Tokens, condition_parts: Sequence[Conjunct], spans: Sequence[Span]) -> list[Span]:
    """Return the spans of a query with rewritten conjuncts, which keep records whose casts failed.

    Args:
        tokens: the query.
        condition_parts: conjuncts of its WHERE that have casts.
        spans: other replacements.
    """
    outside = [span for span in spans if not any(part.first <= span.first < part.end for part in condition_parts)]
    return outside + [Span(part.first, part.end - 1, _keep_failed(tokens, part, spans)) for part in condition_parts]


def failures(tokens: Tokens, part: Conjunct, spans: Sequence[Span]) -> list[str]:
    """Return an expression for each cast of a conjunct: it failed, and the conjunct alone drops the record."""
    text = tokens.compose(spans, part.first, part.end, compact=True)
    return [f"(({text}) IS NOT TRUE AND {failed})" for failed in _failures_of_casts(tokens, part, spans)]


def _keep_failed(tokens: Tokens, part: Conjunct, spans: Sequence[Span]) -> str:
    text = tokens.compose(spans, part.first, part.end, compact=True)
    failed = " OR ".join(_failures_of_casts(tokens, part, spans))
    if may_hide_null(tokens, part.first, part.end):
        return f"(({text}) OR ({failed}))"
    return f"(({text}) OR (({text}) IS NULL AND ({failed})))"


def _failures_of_casts(tokens: Tokens, part: Conjunct, spans: Sequence[Span]) -> list[str]:
    return sql_casts.failures(tokens, part.casts, spans, part.first, part.end)


def may_hide_null(tokens: Tokens, first: int, end: int) -> bool:
    """Return whether a condition may turn a NULL into something else."""
    return any(tokens.word(index) in _HIDING or tokens.raw(index) == "<=>" for index in range(first, end))


def conditions(text: str, stream: str) -> list[str]:
    """Return the conjuncts of the outermost WHERE of a query, with ``TRY_CAST`` for ``CAST``.

    Those with a subquery are left out, and those over columns that are qualified by another table than the stream.

    Args:
        text: the query.
        stream: name of the stream's table in it.
    """
    tokens = Tokens(text)
    tree = parse_sql(tokens.compose([]))
    where = tree.args.get("where")
    if where is None:
        return []
    lookups = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)} - {stream.lower()}
    spans, texts = sql_casts.try_cast_spans(sql_casts.find(tokens)), []
    for start, stop in conjuncts(tokens, *extent(tokens), where.this):
        condition = _read(tokens.compose([], start, stop, compact=True))
        qualifiers = {column.parts[0].name.lower() for column in condition.find_all(exp.Column) if column.table}
        if not condition.find(exp.Query) and not qualifiers & lookups:
            texts.append(tokens.compose(spans, start, stop, compact=True))
    return texts


def conjuncts(tokens: Tokens, first: int, end: int, condition: exp.Expr) -> list[tuple[int, int]]:
    """Split a condition into conjuncts, parenthesised ones too, if sqlglot finds the same; else the whole."""
    first, end = tokens.strip_parentheses(first, end)
    parts = _split_at_ands(tokens, first, end)
    condition = condition.unnest()
    expressions = [condition]
    if isinstance(condition, exp.And):
        expressions = list(condition.flatten())
    try:
        parsed_parts = [_read(tokens.compose([], start, stop, compact=True)) for start, stop in parts]
    except (QuerySyntax, IndexError):
        return [(first, end)]
    if parsed_parts != expressions or len(parts) == 1:
        return [(first, end)]
    inner: list[tuple[int, int]] = []
    for (start, stop), expression in zip(parts, expressions, strict=True):
        inner += conjuncts(tokens, start, stop, expression)
    return inner


def _split_at_ands(tokens: Tokens, first: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a condition between its ANDs, those of BETWEEN and within CASE not among them."""
    starts, betweens, cases = [first], 0, 0
    for index in tokens.top_level(first, end):
        word = tokens.word(index)
        cases += (word == "CASE") - (word == "END")
        if cases:
            continue
        if word == "BETWEEN":
            betweens += 1
        elif word == "AND" and betweens:
            betweens -= 1
        elif word == "AND":
            starts.append(index + 1)
    return [(start, stop - 1) for start, stop in zip(starts, [*starts[1:], end + 1], strict=True)]


def _read(text: str) -> exp.Expr:
    read: exp.Expr = parse_sql(f"SELECT {text}").expressions[0]
    return read.unnest()

"""Rewriting of ``CAST`` to ``TRY_CAST``, with a hidden flag column for each cast that fails.

The same goes for other conversions, which ``conversions`` knows; what is said of casts here is meant of both.

Under ANSI rules one text that is not a number fails a whole batch with ``CAST_INVALID_INPUT``. ``TRY_CAST`` gives NULL
instead; a NULL made from a value is a data error that must not be lost, so each cast in the outermost SELECT list gets
a column that is true exactly when the cast was evaluated, its value was not NULL, and its result is.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.conversion import conversions
from sluicegate.spark_sql.conversion.conversions import Conversion
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens

_Text = Callable[[int, int], str]

# Spark's function spellings of a cast, which fail in the same way. `string(x)` and `binary(x)` cannot fail.
CAST_FUNCTIONS = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "DECIMAL"}
# Functions that take a lambda over the elements of an array or the entries of a map.
_EACH_ELEMENT = {"TRANSFORM", "FILTER", "EXISTS", "FORALL"}
_EACH_ENTRY = {"TRANSFORM_VALUES", "TRANSFORM_KEYS", "MAP_FILTER"}
# Types whose values have values in them.
_NESTED = {"ARRAY", "MAP", "STRUCT"}
# Functions of whose later arguments the first decides which is evaluated, and by what condition.
_CONDITIONS = {"IF": "({})", "NVL2": "({}) IS NOT NULL"}
# Functions whose later arguments are evaluated only if the former ones are all NULL.
_FIRST_NOT_NULL = {"COALESCE", "NVL", "IFNULL"}


@dataclass(frozen=True)
class Cast:
    """``CAST(value AS type)``: indices of ``CAST``, of ``AS`` and of the closing parenthesis."""

    index: int
    as_: int
    close: int

    def failure_sql(self, text: _Text) -> str:
        """Return a boolean expression that is true for a value that is not NULL and does not cast.

        Args:
            text: function that returns the text of tokens, with replacements.
        """
        value, kind = text(self.index + 2, self.as_), text(self.as_ + 1, self.close)
        return f"(({value}) IS NOT NULL AND TRY_CAST(({value}) AS {kind}) IS NULL)"


Watched = Cast | Conversion


@dataclass
class _Group:
    """A pair of parentheses, or CASE … END, with its separators: commas, or WHEN, THEN and ELSE."""

    open: int
    head: str
    close: int = -1
    boundaries: list[int] = field(default_factory=list)
    arrows: list[int] = field(default_factory=list)

    def part(self, index: int) -> int:
        """Return the number of separators before a token: the part that it is in."""
        return bisect(self.boundaries, index)


def find(tokens: Tokens) -> list[Cast]:
    """Return all casts of a text in order, nested ones included."""
    casts = []
    for index in range(len(tokens)):
        if tokens.word(index) == "CAST" and tokens.is_type(index + 1, TokenType.L_PAREN):
            close = tokens.closing_index(index + 1)
            aliases = [i for i in tokens.top_level(index + 2, close) if tokens.is_type(i, TokenType.ALIAS)]
            if not aliases:
                raise QuerySyntax("a CAST needs a type: CAST(value AS TYPE)", tokens.line(index))
            casts.append(Cast(index, aliases[0], close))
    return casts


def find_all(tokens: Tokens, generators: Collection[str]) -> list[Watched]:
    """Return all casts and other conversions of a text in order, without conversions in generators.

    Where one fails there, it may be that no row is made that could tell of it.

    Args:
        tokens: the query.
        generators: names of the functions that make several rows of one, in capitals.
    """
    groups = _groups(tokens, 0, len(tokens))
    conversions_alone = [
        conversion
        for conversion in conversions.find(tokens)
        if not any(group.head in generators for group in _enclosing_groups(groups, conversion))
    ]
    return sorted([*find(tokens), *conversions_alone], key=lambda cast: cast.index)


def spelling_objections(tokens: Tokens) -> list[QuerySyntax]:
    """Return the objections to unsupported spellings of casts, each with the one to use."""
    objections = []
    for index in range(len(tokens)):
        word = tokens.word(index)
        if tokens.raw(index) == "::":
            objections.append(QuerySyntax("write CAST(value AS TYPE) instead of value::TYPE", tokens.line(index)))
        elif word in CAST_FUNCTIONS and is_call(tokens, index):
            message = f"write CAST(value AS {word}) instead of {tokens.raw(index)}(value)"
            objections.append(QuerySyntax(message, tokens.line(index)))
    return objections


def is_call(tokens: Tokens, index: int) -> bool:
    """Return whether a type's name is called as a function; ``DECIMAL(10, 2)`` has only numbers in its parentheses."""
    if not tokens.is_type(index + 1, TokenType.L_PAREN):
        return False
    inner = range(index + 2, tokens.closing_index(index + 1))
    return any(not tokens.is_type(i, TokenType.NUMBER, TokenType.COMMA) for i in inner)


def try_cast_spans(casts: Sequence[Cast]) -> list[Span]:
    """Return the spans that replace each ``CAST`` by ``TRY_CAST``."""
    return [Span(cast.index, cast.index, "TRY_CAST") for cast in casts]


def replacement_spans(tokens: Tokens, flagged: Sequence[Watched], spans: Sequence[Span]) -> list[Span]:
    """Add the replacements of all casts of a query, and of its flagged conversions, to others."""
    return conversions.add_conversion_spans(tokens, flagged, [*spans, *try_cast_spans(find(tokens))])


def reportable_casts(tokens: Tokens, casts: Sequence[Watched], first: int, end: int) -> list[Watched]:
    """Return the casts of the SELECT list ``[first, end)`` whose failure a flag column of that list can report.

    Casts in a subquery are left out, as their values are out of scope. So are conversions in a lambda with unknown
    values: unlike casts there, they are not objected to.
    """
    groups = _groups(tokens, first, end)
    reportable: list[Watched] = []
    for cast in (watched for watched in casts if first <= watched.index < end):
        around = _enclosing_groups(groups, cast)
        hidden = isinstance(cast, Conversion) and _is_unknown(around, cast)
        if not hidden and not any(_is_subquery(tokens, group) for group in around):
            reportable.append(cast)
    return reportable


def _is_unknown(around: Sequence[_Group], cast: Watched) -> bool:
    """Return whether a cast is in a lambda whose values are unknown outside of it."""
    return any((arrow := _arrow(group, cast)) and not _is_followed(group, cast, arrow) for group in around)


def items(tokens: Tokens, casts: Sequence[Watched], first: int, end: int) -> list[int]:
    """Return, for each cast in the SELECT list ``[first, end)``, the number of its item, from 0."""
    ends = [stop for _, stop in tokens.split_list(first, end)]
    return [bisect(ends, cast.index) for cast in casts]


def hidden_cast_objections(tokens: Tokens, casts: Sequence[Watched], first: int, end: int) -> list[QuerySyntax]:
    """Return the objections to casts that give NULL inside of a value, where no flag column can report it."""
    objections = []
    groups = _groups(tokens, first, end)
    for cast in (watched for watched in casts if isinstance(watched, Cast)):
        kind = tokens.word(cast.as_ + 1)
        if kind in _NESTED:
            reason = f"a CAST to {kind} does not show which of its values failed: cast the values one by one"
        elif _is_unknown(_enclosing_groups(groups, cast), cast):
            reason = "a failing CAST in this lambda cannot be detected: CAST in transform(…)"
        else:
            continue
        objections.append(QuerySyntax(f"{reason}, or use TRY_CAST to store NULL", tokens.line(cast.index)))
    return objections


def generator_objections(tokens: Tokens, generators: Collection[str], first: int, end: int) -> list[QuerySyntax]:
    """Return objections to casts in arguments of generators: where one fails, no row may be there to tell of it.

    Those of ``hidden_cast_objections`` are left out.

    Args:
        tokens: the query.
        generators: names of the functions that make several rows of one, in capitals.
        first: first token of the SELECT list.
        end: the token after it.
    """
    groups, objections = _groups(tokens, 0, len(tokens)), []
    for cast in find(tokens):
        around, listed = _enclosing_groups(groups, cast), first <= cast.index < end
        if (listed and tokens.word(cast.as_ + 1) in _NESTED) or any(_is_subquery(tokens, group) for group in around):
            continue
        if name := next((group.head for group in around if group.head in generators), ""):
            fault = f"a failing CAST in {name}(…) may leave no row to quarantine"
            message = f"{fault}: CAST its result in the SELECT list, or use TRY_CAST to store NULL"
            objections.append(QuerySyntax(message, tokens.line(cast.index)))
    return objections


def failures(tokens: Tokens, casts: Iterable[Watched], spans: Sequence[Span], first: int, end: int) -> list[str]:
    """Return the boolean expression of each failed cast: it is evaluated, its value is not NULL, and its result is.

    Args:
        tokens: the query.
        casts: some of ``reportable_casts``.
        spans: replacements in the query, which apply to the cast's value too.
        first: first token of the SELECT list.
        end: the token after it.
    """

    def text(start: int, stop: int) -> str:
        return tokens.compose(spans, start, stop, compact=True)

    groups = _groups(tokens, first, end)
    return [_failure(tokens, cast, groups, text) for cast in casts]


def _failure(tokens: Tokens, cast: Watched, groups: Sequence[_Group], text: _Text) -> str:
    failed = cast.failure_sql(text)
    # From the inside out: a cast in a branch that is not taken has not failed.
    for group in _enclosing_groups(groups, cast):
        failed = _guard_failure(tokens, group, cast, failed, text)
    return failed


def _enclosing_groups(groups: Sequence[_Group], cast: Watched) -> list[_Group]:
    """Return the groups around a cast, the innermost first."""
    return [group for group in groups if group.open < cast.index < group.close]


def _is_subquery(tokens: Tokens, group: _Group) -> bool:
    return group.head != "CASE" and tokens.word(group.open + 1) in ("SELECT", "WITH", "FROM")


def _arrow(group: _Group, cast: Watched) -> int:
    """Return the arrow of the lambda whose body has the cast, 0 if this group has none."""
    start = [group.open, *group.boundaries][group.part(cast.index)]
    return next((arrow for arrow in group.arrows if start < arrow < cast.index), 0)


def _is_followed(group: _Group, cast: Watched, arrow: int) -> bool:
    """Return whether the lambda's values are known: those of the function's first argument."""
    return group.head in _EACH_ELEMENT | _EACH_ENTRY and group.part(cast.index) == 1 and arrow > group.boundaries[0]


def _groups(tokens: Tokens, first: int, end: int) -> list[_Group]:
    """Return all groups in ``[first, end)`` with their separators, inner ones before those around them."""
    closed: list[_Group] = []
    stack: list[_Group] = []
    for index in range(first, end):
        word = tokens.word(index)
        if tokens.is_type(index, TokenType.L_PAREN, TokenType.L_BRACKET):
            head = tokens.word(index - 1)
            stack.append(_Group(index, "" if head == "CASE" else head))
        elif word == "CASE":
            stack.append(_Group(index, "CASE"))
        elif stack and _closes_group(tokens, index, stack[-1]):
            stack[-1].close = index
            closed.append(stack.pop())
        elif stack and tokens.is_type(index, TokenType.ARROW):
            stack[-1].arrows.append(index)
        elif stack and (word in ("WHEN", "THEN", "ELSE") if stack[-1].head == "CASE" else word == ","):
            stack[-1].boundaries.append(index)
    return closed


def _closes_group(tokens: Tokens, index: int, group: _Group) -> bool:
    if tokens.is_type(group.open, TokenType.L_PAREN, TokenType.L_BRACKET):
        return tokens.is_type(index, TokenType.R_PAREN, TokenType.R_BRACKET)
    return tokens.word(index) == "END"


def _guard_failure(tokens: Tokens, group: _Group, cast: Watched, failed: str, text: _Text) -> str:
    """Return ``failed`` guarded to be false when the group does not evaluate the part with the cast."""
    part = group.part(cast.index)
    if group.head == "CASE":
        return _case_failure(tokens, group, part, failed, text)
    if part == 0:
        return failed
    if arrow := _arrow(group, cast):
        return _lambda_failure(group, arrow, failed, text)
    former = text(group.open + 1, group.boundaries[part - 1])
    test = text(group.open + 1, group.boundaries[0])
    if group.head in _FIRST_NOT_NULL:
        return f"CASE WHEN COALESCE({former}) IS NOT NULL THEN false ELSE {failed} END"
    if group.head not in _CONDITIONS:
        return failed
    condition = _CONDITIONS[group.head].format(test)
    if part == 1:
        return f"CASE WHEN {condition} THEN {failed} ELSE false END"
    return f"CASE WHEN {condition} THEN false ELSE {failed} END"


def _lambda_failure(group: _Group, arrow: int, failed: str, text: _Text) -> str:
    """Return the expression that ``failed`` is true for any value of the lambda."""
    values, names = text(group.open + 1, group.boundaries[0]), text(group.boundaries[0] + 1, arrow)
    if group.head in _EACH_ENTRY:
        each = f"map_values(transform_values({values}, {names} -> {failed}))"
    else:
        each = f"transform({values}, {names} -> {failed})"
    return f"COALESCE(exists({each}, _failed -> _failed), false)"


def _case_failure(tokens: Tokens, group: _Group, part: int, failed: str, text: _Text) -> str:
    """Return the CASE with ``failed`` in the cast's branch and false in all others.

    A cast in a WHEN is evaluated if no condition before it is true.
    """
    if part <= 1:
        return failed
    edges = [*group.boundaries, group.close]
    condition = text(group.open, group.boundaries[0])
    for number, boundary in enumerate(group.boundaries[: part - 1]):
        if tokens.word(boundary) == "WHEN":
            condition += f" WHEN {text(boundary + 1, edges[number + 1])}"
        else:
            condition += " THEN false"
    if tokens.word(group.boundaries[part - 1]) == "THEN":
        ending = f" THEN {failed} ELSE false END"
    else:
        ending = f" ELSE {failed} END"
    return condition + ending

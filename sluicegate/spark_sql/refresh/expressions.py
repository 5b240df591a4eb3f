"""Expressions of a query as the user wrote them: extraction, comparison and replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens, parse_sql

if TYPE_CHECKING:
    from sluicegate.spark_sql.refresh.group_by import Call
    from sluicegate.spark_sql.scopes import Scope

# Placeholder for a part of an expression, to see how the rest parses around it.
_PART = "_sluicegate_part"

_WORDS = {
    "AND", "OR", "NOT", "IN", "WHEN", "THEN", "ELSE", "ON", "BY", "SELECT", "WHERE", "HAVING", "BETWEEN", "FILTER",
    "OVER", "AS", "LIKE", "RLIKE", "ILIKE", "DISTINCT", "ALL", "INTERVAL", "CASE", "EXISTS", "FROM", "GROUP", "ORDER",
    "WITHIN", "IS", "END", "USING", "VALUES", "ESCAPE", "TO", "FOR",
}  # fmt: skip
"""Keywords that may come before a parenthesis and are not function calls."""


@dataclass(frozen=True)
class Name:
    """A column's name in a query.

    Attributes:
        last: its last token.
        parts: its parts, in lower case.
        meaning: table, column and fields (see spark_sql/scopes.py); None if no table of the FROM has it.
    """

    last: int
    parts: tuple[str, ...]
    meaning: tuple[str, ...] | None


@dataclass(frozen=True)
class Item:
    """An output: its tokens without the alias, its name, and its alias as SQL if it has one."""

    start: int
    end: int
    name: str
    alias: str


@dataclass(frozen=True)
class Expressions:
    """Tokens, tree and scope of a query.

    Attributes:
        tokens: its tokens.
        tree: its tree.
        scope: resolution of its names.
    """

    tokens: Tokens
    tree: exp.Select
    scope: Scope
    _parsed: dict[str, exp.Expr | None] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def columns(self) -> Mapping[int, Name]:
        """Column names, by their first tokens."""
        resolved = {}
        for column in self.tree.find_all(exp.Column):
            starts: list[Any] = [part.meta.get("start") for part in column.parts]
            if self.tokens.index_at.keys() >= set(starts):
                parts = tuple(part.name.lower() for part in column.parts)
                name = Name(self.tokens.index_at[starts[-1]], parts, self.scope.meaning(parts))
                resolved[self.tokens.index_at[starts[0]]] = name
        return resolved

    def is_call(self, index: int) -> bool:
        """Return whether the word at ``index`` calls a function."""
        word = self.tokens.word(index)
        if self.tokens.is_type(index, TokenType.GROUP_BY, TokenType.ORDER_BY):
            return False
        if word in _WORDS or (word in ("ANY", "SOME") and self.tokens.word(index - 1) in ("LIKE", "ILIKE")):
            return False
        return word[:1].isidentifier() and self.is_opening(index + 1)

    def is_opening(self, index: int) -> bool:
        """Return whether a parenthesis opens at ``index``."""
        return self.tokens.is_type(index, TokenType.L_PAREN)

    def text(self, start: int, end: int) -> str:
        """Return the text of the tokens ``[start, end)``, on one line."""
        if end > start:
            return self.tokens.compose([], start, end, compact=True)
        return ""

    def column_names(self, first: int, end: int) -> Iterator[tuple[int, Name]]:
        """Return the column names among some tokens."""
        return ((index, self.columns[index]) for index in range(first, end) if index in self.columns)

    def replace_parts(
        self, start: int, end: int, groups: Sequence[tuple[int, int]], calls: Sequence[tuple[Call, Span]],
        exchange: Exchange,
    ) -> str:  # fmt: skip
        """Replace grouping expressions and aggregate functions in an expression.

        Args:
            start: first token of the expression.
            end: the token after it.
            groups: the query's grouping expressions.
            calls: the aggregate functions to replace.
            exchange: the replacements.

        Raises:
            Left: another column remains, or a replacement would rename a field of a struct.
        """
        spans = [Span(span.first, span.last, exchange.call(call)) for call, span in calls if start <= span.first < end]
        spans += self._groups_in(start, end, groups, exchange, _tokens_of(spans))
        replaced = _tokens_of(spans)
        columns = [(index, name) for index, name in self.column_names(start, end) if index not in replaced]
        if exchange.outputs is not None:
            changed = {span.first for span in spans} | {index for index, _ in columns}
            if any(not changed.isdisjoint(range(*part)) for part in self._naming_arguments(start, end)):
                raise Left("a struct whose field names depend on its expressions")
            spans += [self._output(index, name, exchange.outputs) for index, name in columns]
        return self.tokens.compose(spans, start, end, compact=True)

    def _groups_in(
        self, start: int, end: int, groups: Sequence[tuple[int, int]], exchange: Exchange, replaced: set[int]
    ) -> list[Span]:
        """Return the occurrences of grouping expressions, the longest first, where no token is replaced yet."""
        spans: list[Span] = []
        longest = sorted(enumerate(groups), key=lambda group: group[1][0] - group[1][1])
        for number, group in longest:
            for span in self._occurrences(group, start, end, exchange.groups[number]):
                if replaced.isdisjoint(range(span.first, span.last + 1)):
                    spans.append(span)
                    replaced.update(range(span.first, span.last + 1))
        return spans

    def _output(self, index: int, name: Name, outputs: Mapping[str, str]) -> Span:
        """Return the replacement of a name that is an output of the query."""
        if name.parts[0] not in outputs or (name.meaning is not None and self.scope.known):
            raise Left(f"{self.text(index, name.last + 1)} outside of the grouping expressions and of supported "
                       f"aggregate functions")  # fmt: skip
        return Span(index, index, outputs[name.parts[0]])

    def qualify(self, start: int, end: int) -> str:
        """Return the text of an expression with each column qualified by its table."""
        spans = []
        for index, name in self.column_names(start, end):
            if name.meaning is not None and name.meaning != name.parts:
                table = quote_name(name.meaning[0])
                spans.append(Span(index, index, f"{table}.{quote_name(name.parts[0])}"))
        return self.tokens.compose(spans, start, end, compact=True)

    def _naming_arguments(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the arguments that name a field, such as x in ``struct(x)``, ``arrays_zip(x)`` and ``(x, y)``."""
        for index in filter(self.is_opening, range(start, end)):
            parts = self.tokens.split_list(index + 1, self.tokens.closing_index(index))
            before = ""
            if index:
                before = self.tokens.name(index - 1).lower()
            called = self.is_call(index - 1) or self.tokens.is_type(index - 1, TokenType.IDENTIFIER)
            called = called or self.tokens.is_type(index - 2, TokenType.DOT)
            if before == "arrays_zip":
                yield from parts
            elif before == "struct" or (not called and before != "in" and len(parts) > 1):
                yield from (part for part in parts if self.tokens.word(part[1] - 2) != "AS")

    def _occurrences(self, group: tuple[int, int], start: int, end: int, text: str) -> Iterator[Span]:
        names_of_group = self.names(*group)
        for first in range(start, end):
            if first and self.tokens.is_type(first - 1, TokenType.DOT):
                continue  # a part of a longer name is another name
            for last in range(first, end):
                if self._continues_name(first, last):
                    continue
                names = self.names(first, last + 1)
                if names == names_of_group:
                    if self._is_subtree(first, last, start, end):
                        yield Span(first, last, text)
                    break
                if names != names_of_group[: len(names)]:
                    break

    def _continues_name(self, first: int, last: int) -> bool:
        """Return whether a column's name continues after a token."""
        return any(i <= last < name.last for i, name in self.column_names(first, last + 1))

    def _is_subtree(self, first: int, last: int, start: int, end: int) -> bool:
        """Return whether these tokens are a subtree of the expression, not split by operator precedence."""
        whole = self._expression(self.tokens.compose([], start, end, compact=True))
        around = self._expression(self.tokens.compose([Span(first, last, _PART)], start, end, compact=True))
        part = self._expression(self.tokens.compose([], first, last + 1, compact=True))
        if around is None or part is None:
            return False

        def put_back(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.sql() == _PART:
                return part.copy()
            return node

        return bool(around.transform(put_back) == whole)

    def _expression(self, text: str) -> exp.Expr | None:
        if text not in self._parsed:
            try:
                [self._parsed[text]] = parse_sql(f"SELECT {text}").expressions
            except (QuerySyntax, ValueError):
                self._parsed[text] = None
        return self._parsed[text]

    def names(self, start: int, end: int) -> list[str]:
        """Normalize tokens for comparison: columns as resolved, other words in lower case."""
        words: list[str] = []
        index = start
        while index < end:
            name = self.columns.get(index)
            if name is not None:
                meaning = name.meaning or ("", *name.parts)
                words.append("\0".join(("column", *meaning)))
                index = name.last + 1
                continue
            word = self.tokens.raw(index)
            if not self.tokens.is_type(index, TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER):
                word = word.lower()
            words.append(word)
            index += 1
        return words

    def is_aggregate(self, index: int) -> bool:
        """Return whether the call at ``index`` is of a known aggregate function."""
        expression = self._expression(self.text(index, self.tokens.closing_index(index + 1) + 1))
        return expression is not None and query_shape.aggregate(expression.unalias()) != ""


class Left(Exception):
    """Raised when an expression needs more than the values of groups; its argument says what."""


def _tokens_of(spans: Iterable[Span]) -> set[int]:
    return {index for span in spans for index in range(span.first, span.last + 1)}


@dataclass(frozen=True)
class Exchange:
    """Replacements in an expression over groups.

    Attributes:
        groups: text for each grouping expression.
        call: gives the text for an aggregate call.
        outputs: text for each output name, in lower case, that is not a column; None to leave all names as they are.
    """

    groups: Sequence[str]
    call: Callable[[Call], str]
    outputs: Mapping[str, str] | None

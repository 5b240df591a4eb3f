"""Expressions of a query as the user wrote them: cutting them out, and telling which of them are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from sluicegate.sql_tokens import Span, Tokens

if TYPE_CHECKING:
    from sluicegate.grouped import Call

_NO_NAMES = {"null", "true", "false", "case", "when", "then", "else", "end", "and", "or", "not", "in", "is", "as"}


@dataclass(frozen=True)
class Expressions:
    """The tokens of a query.

    Attributes:
        tokens: all of them.
        tables: what the query calls its tables, in small letters, each with the columns that mean something else
            without that name before them.
    """

    tokens: Tokens
    tables: Mapping[str, frozenset[str]]

    def parts(self, first: int, end: int) -> list[tuple[int, int]]:
        """What stands between the commas of a list."""
        cuts = [i for i in self.tokens.top_level(first, end) if self.tokens.is_type(i, TokenType.COMMA)]
        return list(zip([first, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True))

    def inside(self, start: int, end: int) -> tuple[int, int]:
        """An expression without the parentheses around all of it."""
        while self.opens(start) and self.tokens.closing(start) == end - 1 and end - start > 2:
            start, end = start + 1, end - 1
        return start, end

    def is_call(self, index: int) -> bool:
        """Whether a function is called by the word at ``index``."""
        word = self.tokens.word(index)
        if self.tokens.is_type(index, TokenType.GROUP_BY, TokenType.ORDER_BY):
            return False
        if word in ("ANY", "SOME", "ALL") and self.tokens.word(index - 1) in ("LIKE", "ILIKE"):
            return False
        return bool(word) and (word[0].isalpha() or word[0] == "_") and self.opens(index + 1)

    def opens(self, index: int) -> bool:
        """Whether a parenthesis opens at ``index``."""
        return self.tokens.is_type(index, TokenType.L_PAREN)

    def text(self, start: int, end: int) -> str:
        """The tokens ``[start, end)`` as they are written, on one line."""
        return self.tokens.compose([], start, end, compact=True) if end > start else ""

    def over_groups(
        self, start: int, end: int, groups: Sequence[tuple[int, int]], calls: Sequence[tuple[Call, Span]]
    ) -> str:
        """An expression with names of values for what it groups by and for its aggregate functions."""
        spans = [span for _, span in calls if start <= span.first < end]
        taken = {index for span in spans for index in range(span.first, span.last + 1)}
        longest = sorted(enumerate(groups), key=lambda group: group[1][0] - group[1][1])
        for number, group in longest:
            for span in self._occurrences(group, start, end, f"_group_{number}"):
                inside = set(range(span.first, span.last + 1))
                if not inside & taken:
                    spans.append(span)
                    taken |= inside
        return self.tokens.compose(spans, start, end, compact=True)

    def _occurrences(self, group: tuple[int, int], start: int, end: int, name: str) -> Iterator[Span]:
        its = self.names(*group)
        for first in range(start, end):
            if first and self.tokens.is_type(first - 1, TokenType.DOT):
                continue  # a part of a longer name is not this one
            for last in range(first, end):
                names = self.names(first, last + 1)
                if names == its:
                    goes_on = self.tokens.is_type(last + 1, TokenType.DOT, TokenType.L_PAREN, TokenType.L_BRACKET)
                    if not goes_on and (self._is_one(*group) or self._fills(first, last, start, end)):
                        yield Span(first, last, name)
                    break
                if names != its[: len(names)]:
                    break

    def _is_one(self, start: int, end: int) -> bool:
        """Whether an expression is one name or one call, which no operator beside it can take apart."""
        if all(self.tokens.is_type(index, TokenType.DOT) for index in range(start + 1, end, 2)) and (end - start) % 2:
            return True
        return self.is_call(start) and self.tokens.closing(start + 1) == end - 1

    def _fills(self, first: int, last: int, start: int, end: int) -> bool:
        """Whether nothing stands beside some tokens but parentheses, commas and the ends of the expression."""
        opened = first == start or self.tokens.is_type(first - 1, TokenType.L_PAREN, TokenType.COMMA)
        return opened and (last + 1 == end or self.tokens.is_type(last + 1, TokenType.R_PAREN, TokenType.COMMA))

    def names(self, start: int, end: int) -> list[str]:
        """Tokens so that what is the same but for capitals, quotes and the table's name is the same."""
        found: list[str] = []
        index = start
        while index < end:
            raw = self.tokens.raw(index)
            quotes = self.tokens.is_type(index, TokenType.IDENTIFIER)
            plain = raw
            if not self.tokens.is_type(index, TokenType.STRING, TokenType.RAW_STRING):
                plain = raw.lower()
            if quotes and re.fullmatch(r"[a-z_]\w*", plain[1:-1]) and plain[1:-1] not in _NO_NAMES:
                plain = plain[1:-1]  # any other is only the same in its quotes
            if self._only_qualifies(index, plain):
                index += 2
                continue
            found.append(plain)
            index += 1
        return found

    def _only_qualifies(self, index: int, plain: str) -> bool:
        """Whether a token is a table's name in front of a column that is the same without it."""
        if not self.tokens.is_type(index + 1, TokenType.DOT) or self.tokens.is_type(index - 1, TokenType.DOT):
            return False
        others = self.tables.get(plain)
        return others is not None and self.tokens.name(index + 2).lower() not in others

"""Time windows in GROUP BY, as ``window(time, '1 hour')``: one is the struct of its start and its end.

A window is never NULL, and windows of one length differ in both fields or in none. So to group by a window is to group
by its start, by its end, or by both. These are plain values, which aggregate state can have as keys. Spark gives the
window's value the name ``window``: ``SELECT window.start … GROUP BY window(time, '1 hour')``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.refresh.expressions import Expressions, Item, Name
from sluicegate.spark_sql.tokens import Span, Tokens

FIELDS = (("start", "end"), ("start",), ("end",))
"""Fields by which rows can be grouped in place of a window."""

# Name of the function, and of the column that Spark makes of it.
_NAME = "window"


@dataclass(frozen=True)
class TimeWindow:
    """The window by which a query groups, outside of its SELECT list.

    Attributes:
        words: the query.
        group: tokens of the window in GROUP BY.
        fields: its fields in the SELECT list by the name ``window``, each with the text in its place.
    """

    words: Expressions
    group: tuple[int, int]
    fields: tuple[Span, ...]

    @classmethod
    def of_groups(cls, words: Expressions, groups: Sequence[tuple[int, int]], items: Sequence[Item]) -> Self | None:
        """Return the window among grouping expressions; None without one, or if its whole struct is selected.

        Args:
            words: the query.
            groups: tokens of the grouping expressions.
            items: the SELECT list.
        """
        window = next((group for group in groups if _is_window(words, *group)), None)
        if window is None:
            return None
        fields = []
        for item in items:
            for index, name in words.column_names(item.start, item.end):
                if not _is_field(words, name):
                    continue
                if len(name.parts) == 1:
                    return None
                text = f"{words.text(*window)}.{name.parts[1]}"
                if not item.alias and (index, name.last + 1) == (item.start, item.end):
                    text += f" AS {quote_name(item.name)}"
                fields.append(Span(index, name.last, text))
        return cls(words, window, tuple(fields))

    @property
    def text(self) -> str:
        """Text of the query with the window in place of its name."""
        return self.words.tokens.compose(self.fields)

    def text_grouped_by(self, fields: Sequence[str]) -> str:
        """Return the text of the query grouped by fields of the window."""
        start, end = self.group
        window = self.words.text(start, end)
        span = Span(start, end - 1, ", ".join(f"{window}.{field}" for field in fields))
        return self.words.tokens.compose([*self.fields, span])


def has_sliding_window(tokens: Tokens) -> bool:
    """Return whether a query has a window with a distance from each to the next, so that a row may be in several."""
    names = (index for index in range(len(tokens)) if tokens.name(index).lower() == _NAME)
    openings = [index + 1 for index in names if tokens.is_type(index + 1, TokenType.L_PAREN)]
    return any(len(tokens.split_list(opening + 1, tokens.closing_index(opening))) > 2 for opening in openings)


def _is_window(words: Expressions, start: int, end: int) -> bool:
    """Return whether a grouping expression is a window as a whole."""
    return words.names(start, end)[:2] == [_NAME, "("] and words.tokens.closing_index(start + 1) == end - 1


def _is_field(words: Expressions, name: Name) -> bool:
    """Return whether a name means the window by which rows are grouped, or a field of it, and no column."""
    return name.parts[0] == _NAME and (name.meaning is None or not words.scope.known)

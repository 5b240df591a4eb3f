"""SQL tokens with positions, so that a text can be edited in place.

sqlglot's tree gives the meaning of a query but loses its text, and SQL generated from it is not always the same query.
So the tree is used for analysis, and Spark runs the user's own text with spans of tokens replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

# Levels of nesting that a token opens, or closes.
_STEPS = {
    TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.L_BRACE: 1,
    TokenType.R_PAREN: -1, TokenType.R_BRACKET: -1, TokenType.R_BRACE: -1,
}  # fmt: skip
_WORDS = re.compile(r"\w\w")
_NOT_WORDS = {TokenType.IDENTIFIER, TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER}


class QuerySyntax(ValueError):
    """Raised when a text is not the one SELECT that a definition may hold.

    Attributes:
        message: one sentence that says what was found and what is allowed.
        line: line of the text, counted from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class Span:
    """Replacement of the tokens ``first`` to ``last`` (inclusive) by a text."""

    first: int
    last: int
    text: str


class Tokens(Sequence[Token]):
    """Tokens of a text, without white space, comments and trailing semicolons."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._items = _read(text)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._items[index]

    def raw(self, index: int) -> str:
        """Return the token as written, with its quotes."""
        token = self._items[index]
        return self.text[token.start : token.end + 1]

    def name(self, index: int) -> str:
        """Return the token as a name, unquoted."""
        raw = self.raw(index)
        if self.is_type(index, TokenType.IDENTIFIER):
            return raw[1:-1].replace("``", "`")
        return raw

    def word(self, index: int) -> str:
        """Return the token in upper case if it is a bare word, else empty (also out of range)."""
        if not 0 <= index < len(self._items) or self._items[index].token_type in _NOT_WORDS:
            return ""
        # A word after a dot is a field, even if it looks like a keyword.
        if self.is_type(index - 1, TokenType.DOT):
            return ""
        return self.raw(index).upper()

    def words(self, first: int, end: int) -> list[str]:
        """Return the bare words among the tokens ``[first, end)``, in the form of ``word``."""
        return [self.word(index) for index in range(first, end)]

    def is_type(self, index: int, *types: TokenType) -> bool:
        """Return whether there is a token at ``index`` and it is of one of ``types``."""
        return 0 <= index < len(self._items) and self._items[index].token_type in types

    def line(self, index: int) -> int:
        """Return the line of a token, counted from 1; the last line for a token past the end."""
        if index < len(self._items):
            start = self._items[index].start
        else:
            start = len(self.text)
        return line_at(self.text, start)

    @cached_property
    def index_at(self) -> dict[int, int]:
        """Index of each token, by the offset of the text at which it begins."""
        return {token.start: index for index, token in enumerate(self._items)}

    def closing_index(self, opening: int) -> int:
        """Return the index of the parenthesis that closes the one at ``opening``.

        Raises:
            QuerySyntax: it is never closed.
        """
        depth = 0
        for index in range(opening, len(self._items)):
            depth += _STEPS.get(self._items[index].token_type, 0)
            if depth == 0:
                return index
        raise QuerySyntax("unclosed parenthesis", self.line(opening))

    def top_level(self, first: int, end: int) -> Iterator[int]:
        """Yield the indices in ``[first, end)`` outside of parentheses and brackets opened there."""
        depth = 0
        for index in range(first, end):
            step = _STEPS.get(self._items[index].token_type, 0)
            if depth == 0 and step == 0:
                yield index
            depth += step

    def split_list(self, first: int, end: int) -> list[tuple[int, int]]:
        """Split a comma-separated list into token ranges of its items, none if ``[first, end)`` is empty."""
        if first == end:
            return []
        commas = [index for index in self.top_level(first, end) if self.is_type(index, TokenType.COMMA)]
        return list(zip([first, *(comma + 1 for comma in commas)], [*commas, end], strict=True))

    def strip_parentheses(self, first: int, end: int) -> tuple[int, int]:
        """Return the range of the tokens ``[first, end)`` without parentheses around all of them; ``()`` stays."""
        while end - first > 2 and self.is_type(first, TokenType.L_PAREN) and self.closing_index(first) == end - 1:
            first, end = first + 1, end - 1
        return first, end

    def compose(self, spans: Sequence[Span], first: int = 0, end: int | None = None, *, compact: bool = False) -> str:
        """Return the text of the tokens ``[first, end)`` with ``spans`` replaced.

        Args:
            spans: replacements, which do not overlap. Those outside of ``[first, end)`` are ignored.
            first: first token to take.
            end: token to stop before; all by default.
            compact: True to replace white space and comments by single spaces.

        A replacement that would run into the next word, as in ``STREAM(t)WHERE``, gets a space after it.
        """
        if end is None:
            end = len(self._items)
        starts = {span.first: span for span in spans}
        # Comments before the first token stay with the whole query.
        parts = []
        if first == 0 and not compact:
            parts = [self.text[: self._items[0].start]]
        index = first
        while index < end:
            span = starts.get(index, Span(index, index, self.raw(index)))
            parts.append(span.text)
            behind = span.last + 1
            if behind < end:
                gap = self.text[self._items[span.last].end + 1 : self._items[behind].start]
                runs_on = index in starts and _WORDS.fullmatch(span.text[-1:] + self.raw(behind)[0])
                if compact or not gap:
                    gap = " " * bool(gap or runs_on)
                parts.append(gap)
            index = behind
        return "".join(parts)


def line_at(text: str, offset: int) -> int:
    """Return the line of an offset, counted from 1."""
    return text.count("\n", 0, offset) + 1


def parse_sql(text: str, dialect: type[Spark] = Spark) -> exp.Expr:
    """Parse a text with sqlglot.

    Args:
        text: the text.
        dialect: Spark's dialect, or one derived from it.

    Raises:
        QuerySyntax: sqlglot cannot parse it; the message is sqlglot's, without class names.
    """
    try:
        return _parse_sql(text, dialect)
    except ParseError as error:
        first = next(iter(error.errors), {})
        description = str(first.get("description") or error).rstrip(".")
        if description.startswith("Required keyword"):
            description = "it is incomplete"
        near = str(first.get("highlight") or "").strip()
        raise QuerySyntax(description + (f", near {near}" if near else ""), int(first.get("line") or 1)) from None
    except (SqlglotError, AssertionError, RecursionError):
        # Broken hints, misplaced pipes, thousands of parentheses: the parser fails with various errors.
        raise QuerySyntax("it cannot be parsed", 1) from None


def _parse_sql(text: str, dialect: type[Spark]) -> exp.Expr:
    tokens = dialect().tokenize(text)
    for word, behind in pairwise(tokens):
        # Spark's function window(…); a WINDOW clause has a name there, and no parenthesis.
        if word.token_type == TokenType.WINDOW and behind.token_type == TokenType.L_PAREN:
            word.token_type = TokenType.VAR
    tree = next(iter(dialect().parser().parse(tokens, text)), None)
    if tree is None:
        raise ParseError("the text is empty")
    return tree


def _read(text: str) -> list[Token]:
    try:
        tokens_read = Spark().tokenize(text)
    except TokenError as error:
        raise QuerySyntax("unclosed string, quoted name or comment", _open_line(error, text)) from None
    tokens: list[Token] = []
    for token in tokens_read:
        # sqlglot makes three tokens of `1L` (1, ::, BIGINT) at one offset; the text has one.
        if not tokens or token.start > tokens[-1].end:
            tokens.append(token)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    _refuse_continued_comments(text, tokens)
    return tokens


def _open_line(error: TokenError, text: str) -> int:
    """Return the line of the unclosed quote or comment; sqlglot reports it as ``Missing ' from 2:7`` if it knows it."""
    quote = str(error.__cause__ or "").removeprefix("Missing ")[:1]
    if quote in ("'", '"', "`"):
        opened = text.rfind(quote)
    else:
        opened = text.rfind("/*")
    return line_at(text, max(opened, 0))


def _refuse_continued_comments(text: str, tokens: list[Token]) -> None:
    """Refuse a ``--`` comment that ends in a backslash: Spark continues it on the next line, sqlglot does not."""
    before = 0
    for token in tokens:
        gap = text[before : token.start]
        if "\\\n" in gap and "--" in gap:
            line = line_at(text, before + gap.index("\\\n"))
            raise QuerySyntax("remove the backslash at the end of this comment: Spark would skip the next line", line)
        before = token.end + 1

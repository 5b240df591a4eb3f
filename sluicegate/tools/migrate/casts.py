"""Normalisation of casts: ``DATE(x)`` and ``x::DATE`` become ``CAST(x AS DATE)``, which can be analysed."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sluicegate.sql.casts import CAST_FUNCTIONS, is_call
from sluicegate.sql.tokens import QuerySyntax, Span, Tokens

_FUNCTIONS = {*CAST_FUNCTIONS, "STRING", "BINARY"}
_NO_NAMES = {"SELECT", "WHERE", "AND", "OR", "NOT", "IN", "ON", "WHEN", "THEN", "ELSE", "BY", "AS", "FROM", "CASE",
             "BETWEEN", "LIKE", "HAVING", "DISTINCT", "USING", "INTERVAL"}  # fmt: skip


def plain(text: str) -> str:
    """Query or condition with ``CAST`` for each cast that is spelled otherwise; unchanged if it has none.

    A spelling that is not certain stays, and is reported when the definition is checked.
    """
    for _ in range(200):
        try:
            tokens = Tokens(text)
            changed = _first(tokens)
        except (QuerySyntax, IndexError):
            return text
        if changed is None:
            return text
        text = changed
    return text


def _first(tokens: Tokens) -> str | None:
    """Text with its first other spelling as a CAST; None if there is none."""
    for at in range(len(tokens)):
        word = tokens.word(at)
        called = word in _FUNCTIONS and is_call(tokens, at) and tokens.word(at - 1) not in ("AS", "::")
        if called and not _is_type(tokens, at):
            close = tokens.closing(at + 1)
            if any(tokens.is_type(i, TokenType.COMMA) for i in tokens.top_level(at + 2, close)):
                continue
            inner = tokens.compose([], at + 2, close)
            return tokens.compose([Span(at, close, f"CAST({inner} AS {word})")])
        if tokens.raw(at) == "::" and at:
            first, last = _operand(tokens, at - 1), _type_end(tokens, at + 1)
            if first is None:
                continue
            value, kind = (
                tokens.compose([], first, at, compact=True),
                tokens.compose([], at + 1, last + 1, compact=True),
            )
            # Verbatim: a comment within would end the line.
            return tokens.compose([Span(first, last, f"CAST({value} AS {kind})")])
    return None


def _is_type(tokens: Tokens, at: int) -> bool:
    """Whether a name is in the position of a type, as in ``STRUCT<a: DECIMAL(10, 2)>``."""
    return tokens.raw(at - 1) in ("<", ":") if at else False


def _operand(tokens: Tokens, last: int) -> int | None:
    """First token of the operand that ends with a token; None if that is not certain."""
    at = last
    while tokens.raw(at) in (")", "]"):
        at = _opening(tokens, at)
        if tokens.raw(at) == "[":
            at -= 1
            continue
        name = at - 1
        called = name >= 0 and tokens.word(name) not in _NO_NAMES and _is_word(tokens, name)
        at = name if called else at
        break
    if tokens.word(at) in _NO_NAMES or tokens.raw(at) in ("END", "end"):
        return None
    while at >= 2 and tokens.is_type(at - 1, TokenType.DOT):
        at -= 2
        if tokens.raw(at) in (")", "]"):
            return None
    return None if at and tokens.raw(at - 1) in (":", "-", "::") else at


def _is_word(tokens: Tokens, at: int) -> bool:
    return tokens.raw(at)[:1].isalpha() or tokens.raw(at)[:1] in ("_", "`")


def _opening(tokens: Tokens, close: int) -> int:
    depth = 0
    for at in range(close, -1, -1):
        depth += (tokens.raw(at) in (")", "]")) - (tokens.raw(at) in ("(", "["))
        if depth == 0:
            return at
    raise IndexError(close)


def _type_end(tokens: Tokens, first: int) -> int:
    """Last token of a type: a name, then numbers in parentheses or types in angle brackets."""
    if tokens.is_type(first + 1, TokenType.L_PAREN):
        return tokens.closing(first + 1)
    if first + 1 < len(tokens) and tokens.raw(first + 1) == "<":
        depth = 0
        for at in range(first + 1, len(tokens)):
            depth += tokens.raw(at).count("<") - tokens.raw(at).count(">")
            if depth <= 0:
                return at
    return first

"""Normalisation of casts: ``DATE(x)`` and ``x::DATE`` become ``CAST(x AS DATE)``, which can be analysed."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.conversion.casts import CAST_FUNCTIONS, is_call
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens

_FUNCTIONS = {*CAST_FUNCTIONS, "STRING", "BINARY"}
_NO_NAMES = {"SELECT", "WHERE", "AND", "OR", "NOT", "IN", "ON", "WHEN", "THEN", "ELSE", "BY", "AS", "FROM", "CASE",
             "BETWEEN", "LIKE", "HAVING", "DISTINCT", "USING", "INTERVAL"}  # fmt: skip


def standardize_casts(text: str) -> str:
    """Spell each cast in a query or condition as ``CAST``.

    A spelling that is not certain stays, and is reported when the definition is checked.
    """
    for _ in range(200):
        try:
            tokens = Tokens(text)
            changed = _replace_first_cast(tokens)
        except (QuerySyntax, IndexError):
            return text
        if changed is None:
            return text
        text = changed
    return text


def _replace_first_cast(tokens: Tokens) -> str | None:
    """Spell the first of the other casts as ``CAST``, and return None if there is none."""
    for index in range(len(tokens)):
        word = tokens.word(index)
        called = word in _FUNCTIONS and is_call(tokens, index) and tokens.word(index - 1) not in ("AS", "::")
        if called and not _is_type(tokens, index):
            close = tokens.closing_index(index + 1)
            if any(tokens.is_type(i, TokenType.COMMA) for i in tokens.top_level(index + 2, close)):
                continue
            inner = tokens.compose([], index + 2, close)
            return tokens.compose([Span(index, close, f"CAST({inner} AS {word})")])
        if tokens.raw(index) == "::" and index:
            first, last = _operand(tokens, index - 1), _type_end(tokens, index + 1)
            if first is None:
                continue
            value = tokens.compose([], first, index, compact=True)
            kind = tokens.compose([], index + 1, last + 1, compact=True)
            # Verbatim: a comment within would end the line.
            return tokens.compose([Span(first, last, f"CAST({value} AS {kind})")])
    return None


def _is_type(tokens: Tokens, index: int) -> bool:
    """Return whether a name is in the position of a type, as in ``STRUCT<a: DECIMAL(10, 2)>``."""
    if index:
        return tokens.raw(index - 1) in ("<", ":")
    return False


def _operand(tokens: Tokens, last: int) -> int | None:
    """Return the first token of the operand that ends with a token, None if that is not certain."""
    index = last
    while tokens.raw(index) in (")", "]"):
        index = _opening(tokens, index)
        if tokens.raw(index) == "[":
            index -= 1
            continue
        name = index - 1
        called = name >= 0 and tokens.word(name) not in _NO_NAMES and _is_word(tokens, name)
        if called:
            index = name
        break
    if tokens.word(index) in _NO_NAMES or tokens.raw(index) in ("END", "end"):
        return None
    while index >= 2 and tokens.is_type(index - 1, TokenType.DOT):
        index -= 2
        if tokens.raw(index) in (")", "]"):
            return None
    if index and tokens.raw(index - 1) in (":", "-", "::"):
        return None
    return index


def _is_word(tokens: Tokens, index: int) -> bool:
    return tokens.raw(index)[:1].isalpha() or tokens.raw(index)[:1] in ("_", "`")


def _opening(tokens: Tokens, close: int) -> int:
    depth = 0
    for index in range(close, -1, -1):
        depth += (tokens.raw(index) in (")", "]")) - (tokens.raw(index) in ("(", "["))
        if depth == 0:
            return index
    raise IndexError(close)


def _type_end(tokens: Tokens, first: int) -> int:
    """Return the last token of a type: a name, then numbers in parentheses or types in angle brackets."""
    if tokens.is_type(first + 1, TokenType.L_PAREN):
        return tokens.closing_index(first + 1)
    if first + 1 < len(tokens) and tokens.raw(first + 1) == "<":
        depth = 0
        for index in range(first + 1, len(tokens)):
            depth += tokens.raw(index).count("<") - tokens.raw(index).count(">")
            if depth <= 0:
                return index
    return first

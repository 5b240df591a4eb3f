"""Renaming of columns that begin with an underscore, which is reserved for the engine: they lose it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqlglot.tokenizer_core import TokenType

from sluicegate.sql.engine_columns import RESERVED
from sluicegate.sql.tokens import QuerySyntax, Span, Tokens

_TYPES = (TokenType.VAR, TokenType.IDENTIFIER)


def names(queries: Collection[str]) -> dict[str, str]:
    """New names of such columns made by some query, by their names there in lower case."""
    made = dict.fromkeys(name for text in queries for name, _, is_made in _named(text) if is_made)
    taken = {name for text in queries for name, _, _ in _named(text)}
    found: dict[str, str] = {}
    for name in made:
        plain = name.lstrip("_")
        while plain in taken or plain in RESERVED or plain in found.values():
            plain += "_"
        if plain.strip("_").isidentifier() and name not in RESERVED:
            found[name] = plain
    return found


def renamed(text: str, others: Mapping[str, str], *, only_made: bool = False) -> str:
    """SQL text with some columns renamed.

    Args:
        text: a query, or a condition.
        others: new names, by those in the text in lower case.
        only_made: whether only columns that the query makes are renamed: those that it reads are another table's.
    """
    if not others or not text:
        return text
    try:
        tokens = Tokens(text)
    except QuerySyntax:
        return text
    spans = [
        Span(at, at, others[name])
        for name, at, is_made in _named(text)
        if name in others and (is_made or not only_made)
    ]
    return tokens.compose(spans)


def _named(text: str) -> Iterator[tuple[str, int, bool]]:
    """Names of a text in lower case, each with its token, and whether it follows AS and begins with ``_``."""
    try:
        tokens = Tokens(text)
    except QuerySyntax:
        return
    for at in range(len(tokens)):
        if tokens.is_type(at, *_TYPES):
            name = tokens.name(at).lower()
            yield name, at, name.startswith("_") and tokens.word(at - 1) == "AS"

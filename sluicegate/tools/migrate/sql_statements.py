"""Statements of a SQL source: where each begins and ends, also without semicolons and in cells of a notebook."""

from __future__ import annotations

import re

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sluicegate.errors import UserError, Where

# End of a cell in an exported notebook.
_CELL = re.compile(r"^[ \t]*--[ \t]*COMMAND[ \t]*-{3,}[ \t]*$", re.MULTILINE)

# Words between CREATE and the kind of what it declares.
MODIFIERS = {"OR", "REFRESH", "REPLACE", "PRIVATE", "TEMPORARY", "TEMP", "STREAMING", "LIVE", "MATERIALIZED",
              "INCREMENTAL", "GLOBAL"}  # fmt: skip

_CREATED = ("TABLE", "VIEW", "FLOW", "FUNCTION", "SCHEMA", "DATABASE", "CATALOG", "VOLUME")


def title_of(statement: str) -> str:
    """Return the first words of a statement."""
    plain = " ".join(re.sub(r"--[^\n]*|/\*.*?\*/", " ", statement, flags=re.DOTALL).split())
    if len(plain) <= 60:
        return plain
    return plain[:59] + "…"


def split_statements(text: str, file: str) -> list[tuple[int, str]]:
    """Split a text into statements, each with its first line."""
    try:
        tokens = Spark().tokenize(text)
    except TokenError as error:
        hint = "look for an unclosed quote in the source or in a value of --set"
        cause = str(error).splitlines()[0]
        raise UserError(f"{file} is not SQL", where=Where(file=file), cause=cause, hint=hint) from None
    statements = []
    begin, end, depth = None, 0, 0
    for index, token in enumerate(tokens):
        over = token.token_type == TokenType.SEMICOLON
        if begin is not None and (
            over or _CELL.search(text, end, token.start) or _begins_statement(tokens, index, text, depth)
        ):
            statements.append((begin, token.start if over else end))
            begin = None
        if begin is None:
            begin, depth = (None if over else token.start), 0
        end = token.end + 1
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
    if begin is not None:
        statements.append((begin, len(text)))
    return [(text.count("\n", 0, first) + 1, text[first:end]) for first, end in statements]


def _begins_statement(tokens: list[Token], index: int, text: str, depth: int) -> bool:
    """Return whether a token begins a statement though none ended before: a declaring word, first on its line."""
    line = text.rfind("\n", 0, tokens[index].start) + 1
    if depth > 0 or text[line : tokens[index].start].strip():
        return False
    two = " ".join(text[token.start : token.end + 1].upper() for token in tokens[index : index + 2])
    before = ""
    if index:
        before = text[tokens[index - 1].start : tokens[index - 1].end + 1].upper()
    words = two.split()
    if words[0] == "CREATE":
        return words[-1] in (*MODIFIERS, *_CREATED)
    return two in ("APPLY CHANGES", "AUTO CDC") and before not in ("AS", "FLOW")

"""Checks of a query's tokens, before it is parsed."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sluicegate.sql.tokens import QuerySyntax, Tokens


def check_tokens(tokens: Tokens) -> None:
    """Token checks whose messages are better than the parser's.

    Raises:
        QuerySyntax: it is not one SELECT.
    """
    if not len(tokens):
        raise QuerySyntax("there is no SELECT", 1)
    if tokens.word(0) not in ("SELECT", "WITH", "("):
        raise QuerySyntax(f"a query begins with SELECT or WITH, not with {tokens.raw(0)}", tokens.line(0))
    for index in range(len(tokens)):
        fault = _fault(tokens, index)
        if fault:
            raise QuerySyntax(fault, tokens.line(index))


def _fault(tokens: Tokens, index: int) -> str:
    word = tokens.word(index)
    behind = tokens.word(index + 1)
    if word == ";":
        return "one SELECT is allowed, and here a second statement begins"
    if word == "|>":
        return "pipes (|>) cannot be followed: write it as a SELECT"
    if word == "," and behind in (",", "FROM", ")"):
        return "nothing follows this comma"
    if word == "STREAM" and tokens.word(index - 1) in ("FROM", "JOIN", ",") and _is_name(tokens, index + 1):
        return f"write STREAM({tokens.raw(index + 1)}), with parentheses"
    return ""


def _is_name(tokens: Tokens, index: int) -> bool:
    return tokens.is_type(index, TokenType.VAR, TokenType.IDENTIFIER)

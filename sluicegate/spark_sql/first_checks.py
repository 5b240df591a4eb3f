"""Checks of a query's tokens, before it is parsed."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens


def check_tokens(tokens: Tokens) -> None:
    """Check the tokens of a query for mistakes that get better messages here than from the parser.

    Raises:
        QuerySyntax: it is not one SELECT.
    """
    if not len(tokens):
        raise QuerySyntax("the query is empty: expected SELECT", 1)
    if tokens.word(0) not in ("SELECT", "WITH", "("):
        raise QuerySyntax(f"a query must start with SELECT or WITH, not {tokens.raw(0)}", tokens.line(0))
    for index in range(len(tokens)):
        if fault := _fault(tokens, index):
            raise QuerySyntax(fault, tokens.line(index))


def _fault(tokens: Tokens, index: int) -> str:
    word = tokens.word(index)
    behind = tokens.word(index + 1)
    if word == ";":
        return "only one SELECT is allowed, but a second statement starts here"
    if word == "|>":
        return "pipe syntax (|>) is not supported: write a SELECT"
    if word == "," and behind in (",", "FROM", ")"):
        return "unexpected comma at the end of a list"
    is_name = tokens.is_type(index + 1, TokenType.VAR, TokenType.IDENTIFIER)
    if word == "STREAM" and tokens.word(index - 1) in ("FROM", "JOIN", ",") and is_name:
        return f"write STREAM({tokens.raw(index + 1)}), with parentheses"
    return ""

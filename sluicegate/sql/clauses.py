"""Where the clauses of a query stand among its tokens."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sluicegate.sql.tokens import QuerySyntax, Tokens


def select_list(tokens: Tokens) -> tuple[int, int]:
    """The outermost SELECT list: its first token, and the FROM behind it.

    Raises:
        QuerySyntax: there is no such list.
    """
    first = None
    for index in tokens.top_level(0, len(tokens)):
        word = tokens.word(index)
        if word == "SELECT" and first is None:
            first = index + 1
        # `a IS DISTINCT FROM b` is the one FROM that a list may have outside of parentheses.
        elif word == "FROM" and first is not None and tokens.word(index - 1) != "DISTINCT":
            return first, index
        elif word == "FROM" and first is None:
            raise QuerySyntax("write SELECT before FROM", tokens.line(index))
    raise QuerySyntax("a SELECT … FROM was expected", 1)


def from_end(tokens: Tokens) -> int:
    """Where the FROM of the outermost SELECT ends: at its next clause, or with the text."""
    _, from_ = select_list(tokens)
    ends = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY)
    found = (i for i in tokens.top_level(from_, len(tokens)) if tokens.is_type(i, *ends) and tokens.word(i))
    return next(found, len(tokens))


def sample_end(tokens: Tokens, index: int) -> int:
    """Last token of ``TABLESAMPLE (…) [REPEATABLE (…)]`` behind a token, or that token: Spark wants the alias there."""
    while tokens.word(index + 1) in ("TABLESAMPLE", "REPEATABLE") and tokens.is_type(index + 2, TokenType.L_PAREN):
        index = tokens.closing(index + 2)
    return index

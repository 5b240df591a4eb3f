"""Token positions of a query's clauses."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens


def select_list(tokens: Tokens) -> tuple[int, int]:
    """Return the token range of the outermost SELECT list: its first token, and the FROM after it.

    Raises:
        QuerySyntax: there is no such list.
    """
    first = 0
    for index in tokens.top_level(0, len(tokens)):
        word = tokens.word(index)
        if word == "SELECT":
            first = first or index + 1
        if word == "FROM" and not first:
            raise QuerySyntax("write SELECT before FROM", tokens.line(index))
        # `a IS DISTINCT FROM b` is the only other FROM outside of parentheses.
        if word == "FROM" and tokens.word(index - 1) != "DISTINCT":
            return first, index
    raise QuerySyntax("expected SELECT … FROM", 1)


def from_end(tokens: Tokens) -> int:
    """Return the end of the outermost FROM clause: the next clause, or the end of the text."""
    _, from_ = select_list(tokens)
    ends = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY)
    ends_of_from = (i for i in tokens.top_level(from_, len(tokens)) if tokens.is_type(i, *ends) and tokens.word(i))
    return next(ends_of_from, len(tokens))


def sample_end(tokens: Tokens, index: int) -> int:
    """Return the last token of a TABLESAMPLE after a token, else that token: the alias follows it."""
    while tokens.word(index + 1) in ("TABLESAMPLE", "REPEATABLE") and tokens.is_type(index + 2, TokenType.L_PAREN):
        index = tokens.closing_index(index + 2)
    return index

"""UNION ALL of queries over streams: its branches, each as a query of its own.

A branch keeps its place in the text, with blanks for all else, so that its lines are those of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, parse_sql

_SET_OPERATIONS = {"UNION", "INTERSECT", "EXCEPT", "MINUS"}

# Clauses behind the last branch, which are of all rows together.
_OF_ALL = {"order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET", "sort": "SORT BY"}


def branches(text: str) -> list[str]:
    """Return the texts of the branches of a UNION ALL over streams, empty for any other query.

    Raises:
        QuerySyntax: the text cannot be read, or its branches are not put together by UNION ALL alone.
    """
    tokens = Tokens(text)
    tree = None
    if not _SET_OPERATIONS.isdisjoint(tokens.words(0, len(tokens))):
        tree = parse_sql(text)
    if not isinstance(tree, exp.SetOperation) or not any(map(query_shape.is_stream, tree.find_all(exp.Table))):
        return []
    first = _end_of_with(tokens)
    for part, name in _OF_ALL.items():
        if tree.args.get(part) is not None:
            raise QuerySyntax(
                f"{name} applies to all rows of a UNION ALL, which is only possible in gold: remove it",
                tokens.line(len(tokens) - 1),
            )
    return [_branch_text(tokens, first, *span) for span in _spans(tokens, first, len(tokens))]


def _spans(tokens: Tokens, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the tokens of each branch, without parentheses around it."""
    first, end = tokens.strip_parentheses(first, end)
    begins = first
    for index in tokens.top_level(first, end):
        if tokens.word(index) not in _SET_OPERATIONS or tokens.is_type(index - 1, TokenType.STAR):  # of * EXCEPT (…)
            continue
        if (tokens.word(index), tokens.word(index + 1)) != ("UNION", "ALL"):
            message = f"{tokens.word(index)} compares rows of several records: use UNION ALL"
            raise QuerySyntax(message, tokens.line(index))
        yield from _spans(tokens, begins, index)
        begins = index + 2
    if begins == first:
        yield first, end
    else:
        yield from _spans(tokens, begins, end)


def _end_of_with(tokens: Tokens) -> int:
    """Return the index of the first token behind WITH and its queries."""
    if tokens.word(0) != "WITH":
        return 0
    index = 1
    while True:
        opening = next(i for i in range(index, len(tokens)) if tokens.word(i) == "AS") + 1
        behind = tokens.closing_index(opening) + 1
        if not tokens.is_type(behind, TokenType.COMMA):
            return behind
        index = behind + 1


def _branch_text(tokens: Tokens, with_end: int, first: int, end: int) -> str:
    """Return the text with blanks for all but WITH and the tokens ``[first, end)``."""
    ranges = [(tokens[a].start, tokens[b - 1].end + 1) for a, b in ((0, with_end), (first, end)) if a < b]
    parts, start = [], 0
    for begin, behind in ranges:
        parts += [_blank(tokens.text[start:begin]), tokens.text[begin:behind]]
        start = behind
    return "".join([*parts, _blank(tokens.text[start:])]).rstrip()


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)

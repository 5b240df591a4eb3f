"""References to parameters, ``${param:name}``: found in a text, and in SQL replaced by literals.

In SQL a reference is a token of its own, as a literal is. So it is first exchanged for a word of its length, and the
text's tokens tell where that word stands: one within quotes, a name or a number would let a value out of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, line_at

REFERENCE = re.compile(r"\$\{param:([^}\n]*)\}")
"""A reference; its group is the name of the parameter."""


class Misplaced(QuerySyntax):
    """Raised for a reference where no literal can stand."""


@dataclass(frozen=True)
class Literals:
    """What stands for a reference in SQL.

    Attributes:
        text: literals, with commas between them.
        many: whether they are the items of a list.
    """

    text: str
    many: bool = False


def fill_placeholders(text: str, literals: Callable[[str, int], Literals]) -> str:
    """Fill literals into the references of a SQL text, except in comments.

    Args:
        text: SQL, whose lines stay the lines of the result.
        literals: function that returns the literals of a reference by its name and, for messages, its line.

    Raises:
        Misplaced: a reference stands within quotes or a word, or one to a list not alone in parentheses.
        QuerySyntax: a text, name or comment is opened and never closed.
    """
    matches = list(REFERENCE.finditer(text))
    if not matches:
        return text
    tokens = Tokens(REFERENCE.sub(lambda match: "p" * len(match[0]), text))
    parts, end = [], 0
    for match in matches:
        line = line_at(text, match.start())
        index = next((number for number, token in enumerate(tokens) if token.end >= match.start()), len(tokens))
        if index == len(tokens) or tokens[index].start >= match.end():
            continue  # in a comment
        whole = (tokens[index].start, tokens[index].end + 1) == match.span()
        # Spark makes one literal of two that touch, and one number of a number, a dot and digits.
        around = {text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]}
        if not whole or around & {"'", '"', "."} or tokens.is_type(index - 1, TokenType.DOT):
            message = f"{match[0]} must not be inside quotes, a name or a word, because it is a complete value"
            raise Misplaced(f"{message}: write it without quotes, and concatenate strings with ||", line)
        value = literals(match[1], line)
        if value.many and not _is_in_parentheses(tokens, index):
            message = f"{match[0]} is a list and must be the only item in parentheses"
            raise Misplaced(f"{message}: for example region IN ({match[0]}), or array({match[0]})", line)
        parts += [text[end : match.start()], value.text]
        end = match.end()
    return "".join([*parts, text[end:]])


def _is_in_parentheses(tokens: Tokens, index: int) -> bool:
    return tokens.is_type(index - 1, TokenType.L_PAREN) and tokens.is_type(index + 1, TokenType.R_PAREN)

"""What a gold query must not have, so that it can be taken apart into groups and aggregate functions."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.scopes import Scope
from sluicegate.spark_sql.tokens import Tokens

# Parts of a SELECT that a maintained query may have.
_PLAIN = {"expressions", "from_", "joins", "where", "group", "having", "order"}
CLAUSES = {"hint": "it has a hint", "with_": "it has a WITH", "distinct": "it has a DISTINCT",
           "limit": "it has a LIMIT",
           "offset": "it has an OFFSET", "qualify": "it has a QUALIFY", "windows": "it has a WINDOW",
           "laterals": "it has a LATERAL VIEW"}  # fmt: skip
# Nondeterministic functions known to sqlglot. This is for `plan`; a run asks Spark (see gold/query_analysis.py).
_OF_THE_RUN = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentUser, exp.Localtimestamp, exp.Rand,
               exp.Randn, exp.Uuid)  # fmt: skip


class Whole(Exception):
    """Raised when the query cannot be taken apart; its argument is the reason."""


class Never(Exception):
    """Raised when all rows are needed; its arguments are the reason and what would help."""


def check_plain(tree: exp.Select) -> None:
    """Refuse a SELECT whose clauses do not determine the groups of its rows."""
    for part in query_shape.clauses(tree):
        if part not in _PLAIN:
            raise Whole(CLAUSES.get(part, f"its {part.upper()} needs all rows"))
    if tree.find(exp.Window):
        raise Whole("a window function reads rows of other groups")
    group = tree.args.get("group") or exp.Group()
    if group.find(exp.Cube, exp.Rollup, exp.GroupingSets) or group.args.get("totals"):
        raise Whole("its rows belong to several groups (ROLLUP, CUBE or GROUPING SETS)")
    if None in query_shape.output_names(tree):
        raise Whole("its SELECT list has a star")
    if any(isinstance(expression, exp.Aliases) for expression in tree.expressions):
        raise Whole("an expression in its SELECT list has several names")


def check_tokens(tokens: Tokens) -> None:
    """Refuse a star, other than that of ``count(*)``, and session windows: a row's also depends on the rows near it."""
    if any(_is_star(tokens, index) for index in range(len(tokens))):
        raise Whole("it has a star, whose columns are not fixed")
    if any(tokens.name(index).lower() == "session_window" for index in range(len(tokens))):
        raise Whole("the bounds of a session window depend on several rows")


def check_lasting(tree: exp.Select, scope: Scope) -> None:
    """Refuse functions that give another value with each run."""
    for node in tree.find_all(*_OF_THE_RUN):
        name = node.sql("spark").lower().removesuffix("()")
        if scope.meaning((name,)) is None or not scope.known:
            raise Never(f"{name} may return another value in each run")


def _is_star(tokens: Tokens, index: int) -> bool:
    """Return whether a token is a star for columns, other than that of ``count(*)``."""
    if not tokens.is_type(index, TokenType.STAR) or tokens.words(index - 2, index) == ["COUNT", "("]:
        return False
    begins = tokens.is_type(index - 1, TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT)
    return begins or tokens.word(index - 1) == "DISTINCT"

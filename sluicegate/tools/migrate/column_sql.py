"""SQL of a column: a text with its name apart, so that a method or an operator can bind to all of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, parse_sql

_SELECT = "SELECT "
_BOUND = (exp.Column, exp.Literal, exp.Paren, exp.Null, exp.Boolean)


@dataclass(frozen=True)
class ColumnSql:
    """SQL of a column.

    Attributes:
        text: the expression, without its name.
        name: SQL of the name that ``alias`` or ``AS`` gives it; empty without.
        bound: whether it stays one operand beside any operator, as names, calls and parentheses do.
    """

    text: str
    name: str = ""
    bound: bool = True

    @property
    def item(self) -> str:
        """Text as an item of a select list."""
        if self.name:
            return f"{self.text} AS {self.name}"
        return self.text

    @property
    def operand(self) -> str:
        """Text as an operand; a name has no effect there, as in Spark."""
        if self.bound:
            return self.text
        return f"({self.text})"


def of_text(text: str) -> ColumnSql:
    """Parse a SQL expression, which may end in ``AS name``.

    Raises:
        QuerySyntax: the text is not one expression.
    """
    tokens = Tokens(text)
    if not len(tokens):
        raise QuerySyntax("the expression is empty", 1)
    written = tokens.compose([], compact=True)
    tree = parse_sql(f"{_SELECT}{written}")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or _clauses(tree):
        raise QuerySyntax(f"{written} is not one expression", 1)
    [item] = tree.expressions
    if isinstance(item, exp.Aliases):
        raise QuerySyntax(f"{written} has several names", 1)
    if not isinstance(item, exp.Alias):
        return ColumnSql(written, bound=isinstance(item, _BOUND))
    end = len(tokens) - 1
    if tokens.word(end - 1) == "AS":
        end -= 1
    name = tokens.raw(len(tokens) - 1)
    return ColumnSql(tokens.compose([], 0, end, compact=True), name, isinstance(item.this, _BOUND))


def _clauses(tree: exp.Select) -> list[str]:
    """List the clauses beside the select list, which no expression has."""
    return [name for name, part in tree.args.items() if name != "expressions" and part]

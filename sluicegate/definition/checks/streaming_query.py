"""Checks of a streaming aggregation's query, from its text; Spark has the last word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.tokens import parse_sql

if TYPE_CHECKING:
    from sluicegate.definition.tables.gold import GoldTable
    from sluicegate.spark_sql.query import Query

# Clauses that remove rows or combine groups: the newest batch of a group would not give its row.
_WITHOUT = {"having": "a HAVING", "distinct": "a DISTINCT", "limit": "a LIMIT", "offset": "an OFFSET",
            "order": "an ORDER BY", "qualify": "a QUALIFY", "with_": "a WITH", "joins": "a join",
            "laterals": "a LATERAL VIEW"}  # fmt: skip


class Unkeyed(ValueError):
    """Raised when a query cannot have the requested mode.

    Attributes:
        message: why.
        hint: what helps.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def objections(table: GoldTable) -> Iterator[Unkeyed]:
    """Yield objections to a gold table's query under its mode, without the schema of the table that it reads."""
    tree = parse_sql(table.query.text)
    reads = [node for node in tree.find_all(exp.Table) if not query_shape.is_from_with(node)]
    if len(table.query.tables) != 1 or len(reads) != 1:
        yield Unkeyed(f"mode {table.mode} reads exactly one table, as a stream", "join in a silver table")
        return
    grouped = any(select.args.get("group") or select.args.get("distinct") for select in tree.find_all(exp.Select))
    if table.mode != "append" and not (grouped or any(map(query_shape.aggregate, tree.walk()))):
        yield Unkeyed(
            f"mode {table.mode} requires an aggregation in the query",
            "add GROUP BY, or use mode: append; without mode the table holds the query's result over all rows",
        )
        return
    try:
        if table.mode == "update":
            keys(table.query)
    except Unkeyed as error:
        yield error


def keys(query: Query, columns: Sequence[str] = ()) -> list[str]:
    """Return output columns that identify a row's group, which mode ``update`` needs.

    Args:
        query: the query.
        columns: columns of the table that it reads, if they are known: a name in GROUP BY is a column first.

    Raises:
        Unkeyed: it is not a plain GROUP BY, or a grouping expression is not among its outputs.
    """
    tree = parse_sql(query.text)
    if not isinstance(tree, exp.Select) or query_shape.has_subqueries(tree):
        raise Unkeyed("mode update requires one plain SELECT with GROUP BY", "use mode: complete")
    for part, name in _WITHOUT.items():
        if tree.args.get(part):
            raise Unkeyed(f"mode update does not support {name}", "use mode: complete, or remove mode")
    group = tree.args.get("group")
    if group is None or not group.expressions or any(v for k, v in group.args.items() if k != "expressions"):
        raise Unkeyed("mode update requires each GROUP BY expression to be listed", "write GROUP BY a, b")
    return [_key(tree, expression, {column.lower() for column in columns}) for expression in group.expressions]


def _key(tree: exp.Select, expression: exp.Expr, columns: set[str]) -> str:
    """Return the output that is a grouping expression."""
    outputs = [(str(output.alias_or_name), output.unalias()) for output in tree.expressions]
    if isinstance(expression, exp.Literal) and not expression.is_string and 0 < int(expression.name) <= len(outputs):
        return outputs[int(expression.name) - 1][0]
    table = tree.args["from_"].this.alias_or_name.lower()
    texts = _texts(expression, table)
    for name, output in outputs:
        if name and _text(output, table) in texts:
            return name
    if isinstance(expression, exp.Column) and not expression.table and expression.name.lower() not in columns:
        for name, _ in outputs:
            if name.lower() == expression.name.lower():
                return name
    text = expression.sql("spark")
    raise Unkeyed(f"mode update requires each GROUP BY expression in the SELECT list, but {text} is missing",
                  "add it to the SELECT list")  # fmt: skip


def _text(expression: exp.Expr, table: str) -> str:
    """Return an expression in the one form in which equal ones are compared."""
    return query_shape.comparable_form(expression, table).sql("spark")


def _texts(expression: exp.Expr, table: str) -> set[str]:
    """Return the texts by which outputs can repeat a grouping expression; a window has its bounds, too.

    All windows have the same length, so either bound is enough.
    """
    text = _text(expression, table)
    if not isinstance(expression, exp.Anonymous) or expression.name.lower() != "window":
        return {text}
    bounds = {f"{window}.{bound}" for window in ("window", text) for bound in ("start", "end")}
    return {text, "window"} | bounds

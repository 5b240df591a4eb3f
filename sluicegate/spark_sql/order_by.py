"""ORDER BY of a query whose rows are stored in a table.

``sluicegate sql`` shows the rows in it, and the table is clustered by it. Names in ORDER BY are resolved as in Spark:
an output's name before a column of the source.
https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select-orderby.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from sqlglot import exp

from sluicegate.spark_sql import query_shape

# Parts of a SELECT that give one row per row of the table.
_ROW_FOR_ROW = {"expressions", "from_", "where", "limit", "offset"}

# Functions that may aggregate or generate rows.
_NOT_ROW_FOR_ROW = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Inline, exp.Anonymous)


@dataclass(frozen=True)
class Key:
    """A column that rows are ordered by.

    Attributes:
        column: name of an output of the query.
        descending: whether the greatest value comes first.
        nulls_first: whether NULL comes before all values.
    """

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ordering:
    """Order of a query's rows.

    Attributes:
        keys: the sort columns, most significant first.
        lost: SQL of the first sort expression that is not an output, where the keys end; empty if all are.
    """

    keys: tuple[Key, ...] = ()
    lost: str = ""

    def leading_keys(self, columns: Sequence[str]) -> tuple[Key, ...]:
        """Return the leading keys that a table has, under its column names."""
        names = {column.lower(): column for column in columns}
        keys: list[Key] = []
        for key in self.keys:
            if key.column.lower() not in names:
                break
            keys.append(Key(names[key.column.lower()], key.descending, key.nulls_first))
        return tuple(keys)


def ordering(tree: exp.Query) -> Ordering:
    """Return the order of a query's outermost ORDER BY."""
    while isinstance(tree, exp.Subquery) and not tree.args.get("order"):
        tree = tree.this
    order = tree.args.get("order")
    if order is None:
        return Ordering()
    outputs = _Outputs(tree)
    keys: list[Key] = []
    for ordered in order.expressions:
        columns = outputs.resolve(ordered.this)
        if not columns:
            return Ordering(tuple(keys), ordered.this.sql("spark"))
        direction = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
        keys += [Key(column, *direction) for column in columns]
    return Ordering(tuple(keys))


class _Outputs:
    """Outputs of a query, for name resolution in its ORDER BY."""

    def __init__(self, tree: exp.Query) -> None:
        select = query_shape.first_select(tree)
        self.all = query_shape.outputs(select)
        self.names = {name.lower(): name for name, _ in self.all if name}
        self.star = any(name is None for name, _ in self.all)
        # Expressions over source columns are allowed after a SELECT, but not after a UNION.
        self.select = select if isinstance(tree, exp.Select) else None
        from_ = select.args.get("from_")
        self.table = None
        if from_ is not None and query_shape.clauses(select).keys().isdisjoint({"joins", "laterals"}):
            self.table = from_.this.alias_or_name.lower()

    def resolve(self, term: exp.Expr) -> list[str]:
        """Return the outputs that a term of ORDER BY refers to; none if it is not an output."""
        node = term.unnest()
        if isinstance(node, exp.Var) and node.name.upper() == "ALL" and "all" not in self.names:
            if self.star:
                return []
            return [name for name, _ in self.all if name]
        if isinstance(node, exp.Literal):
            return self._output_by_number(node)
        if isinstance(node, (exp.Column, exp.Var)) and not node.args.get("table"):
            if node.name.lower() in self.names:
                return [self.names[node.name.lower()]]
            return self._output_by_expression(node) or ([node.name] if self.star else [])
        if self._is_shadowed(node):
            return []
        return self._output_by_expression(node) or self._star_column(node)

    def _output_by_number(self, node: exp.Literal) -> list[str]:
        number = query_shape.column_number(node)
        if not 0 < number <= len(self.all):
            return []
        upto = [name for name, _ in self.all[:number]]
        if upto[-1] and None not in upto:
            return [upto[-1]]
        return []

    def _output_by_expression(self, node: exp.Expr) -> list[str]:
        """Return the output with the same expression."""
        comparable = self._comparable_form(node)
        if self.select is None:
            return []
        same = (name for name, output in self.all if name and self._comparable_form(output.unalias()) == comparable)
        return list(islice(same, 1))

    def _star_column(self, node: exp.Expr) -> list[str]:
        """Return the qualified column that comes from the star of the only table."""
        if not (self.star and self.select is not None and isinstance(node, exp.Column)):
            return []
        if len(node.parts) != 2 or node.table.lower() != self.table or node.name.lower() in self.names:
            return []
        return [node.name]

    def _is_shadowed(self, node: exp.Expr) -> bool:
        """Return whether a bare name in an expression is an output that is another expression than that column."""
        bare = [column for column in node.find_all(exp.Column) if not column.table]
        outputs = {name.lower(): output.unalias() for name, output in self.all if name}
        return any(
            name in outputs and self._comparable_form(column) != self._comparable_form(outputs[name])
            for column in bare
            if (name := column.name.lower())
        )

    def _comparable_form(self, node: exp.Expr) -> exp.Expr:
        return query_shape.comparable_form(node, self.table)


def is_row_for_row(tree: exp.Query) -> bool:
    """Return whether a query returns one row per row of its only table, without an ORDER BY."""
    if not isinstance(tree, exp.Select) or not query_shape.clauses(tree).keys() <= _ROW_FOR_ROW:
        return False
    from_ = tree.args.get("from_")
    if from_ is None or not isinstance(from_.this, exp.Table):
        return False
    if not {"joins", "pivots", "sample", "laterals"}.isdisjoint(query_shape.clauses(from_.this)):
        return False
    return not any(expression.find(*_NOT_ROW_FOR_ROW) for expression in tree.expressions)


def order_by(tree: exp.Select, keys: Sequence[Key]) -> None:
    """Add ORDER BY columns of the table, selected or not, to a query that ``is_row_for_row``."""
    alias = tree.args["from_"].this.alias_or_name
    ordered = [
        exp.Ordered(
            this=exp.column(exp.to_identifier(key.column, quoted=True), exp.to_identifier(alias, quoted=True)),
            desc=key.descending,
            nulls_first=key.nulls_first,
        )
        for key in keys
    ]
    if ordered:
        tree.set("order", exp.Order(expressions=ordered))

"""What is left of a query's ORDER BY once its rows stand in a table, which has no order of its own.

``sluicegate sql`` shows the rows in it, and the table is clustered by it. What a name in ORDER BY means is as Spark has
it: an output's name goes before a column of what is read.
https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select-orderby.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.sql import query_shape

# Parts of a SELECT whose rows are rows of the table that it reads, one for one.
_ROW_FOR_ROW = {"expressions", "from_", "where", "limit", "offset"}

# Functions that make one row of many, or many of one, or may do so.
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
    """The order of a query's rows.

    Attributes:
        keys: the columns that rows are ordered by, the first of them first.
        lost: SQL of what rows with the same keys are ordered by, which is no output; empty if there is no such thing.
    """

    keys: tuple[Key, ...] = ()
    lost: str = ""

    def among(self, columns: Sequence[str]) -> tuple[Key, ...]:
        """The keys as far as a table has them, by the names that they have there."""
        names = {column.lower(): column for column in columns}
        found: list[Key] = []
        for key in self.keys:
            if key.column.lower() not in names:
                break
            found.append(Key(names[key.column.lower()], key.descending, key.nulls_first))
        return tuple(found)


def ordering(tree: exp.Query) -> Ordering:
    """The order that a query's outermost ORDER BY gives."""
    while isinstance(tree, exp.Subquery) and not tree.args.get("order"):
        tree = tree.this
    order = tree.args.get("order")
    if order is None:
        return Ordering()
    outputs = _Outputs(tree)
    keys: list[Key] = []
    for ordered in order.expressions:
        columns = outputs.meant(ordered.this)
        if not columns:
            return Ordering(tuple(keys), ordered.this.sql("spark"))
        how = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
        keys += [Key(column, *how) for column in columns]
    return Ordering(tuple(keys))


class _Outputs:
    """The outputs of a query as its ORDER BY can mean them."""

    def __init__(self, tree: exp.Query) -> None:
        select = query_shape.first_select(tree)
        self.all = query_shape.outputs(select)
        self.names = {name.lower(): name for name, _ in self.all if name}
        self.star = any(name is None for name, _ in self.all)
        # Expressions over what is read can be said below a SELECT, but not below a UNION of several.
        self.select = select if isinstance(tree, exp.Select) else None
        from_ = select.args.get("from_")
        alone = from_ is not None and not (select.args.get("joins") or select.args.get("laterals"))
        self.table = from_.this.alias_or_name.lower() if from_ is not None and alone else None

    def meant(self, term: exp.Expr) -> list[str]:
        """The outputs that an expression of ORDER BY means; none if it is not one of them."""
        node = term.unnest()
        if isinstance(node, exp.Var) and node.name.upper() == "ALL" and "all" not in self.names:
            return [] if self.star else [name for name, _ in self.all if name]
        if isinstance(node, exp.Literal):
            return self._numbered(node)
        if isinstance(node, (exp.Column, exp.Var)) and not node.args.get("table"):
            if node.name.lower() in self.names:
                return [self.names[node.name.lower()]]
            return self._same(node) or ([node.name] if self.star else [])
        if self._shadowed(node):
            return []
        return self._same(node) or self._of_star(node)

    def _numbered(self, node: exp.Literal) -> list[str]:
        if node.is_string or not node.name.isdecimal() or not 1 <= int(node.name) <= len(self.all):
            return []
        upto = [name for name, _ in self.all[: int(node.name)]]
        return [upto[-1]] if upto[-1] and None not in upto else []

    def _same(self, node: exp.Expr) -> list[str]:
        """The output that is made by this very expression."""
        comparable = self._comparable(node)
        made = self.all if self.select is not None else []
        same = (name for name, output in made if name and self._comparable(output.unalias()) == comparable)
        return [name for name in [next(same, None)] if name]

    def _of_star(self, node: exp.Expr) -> list[str]:
        """A qualified column that the star of the one table brings."""
        if not (self.star and self.select is not None and isinstance(node, exp.Column)):
            return []
        own = len(node.parts) == 2 and node.table.lower() == self.table and node.name.lower() not in self.names
        return [node.name] if own else []

    def _shadowed(self, node: exp.Expr) -> bool:
        """Whether a name in an expression is an output's that is not the column of this name."""
        bare = [column for column in node.find_all(exp.Column) if not column.table]
        outputs = {name.lower(): output.unalias() for name, output in self.all if name}
        return any(
            name in outputs and self._comparable(column) != self._comparable(outputs[name])
            for column in bare
            if (name := column.name.lower())
        )

    def _comparable(self, node: exp.Expr) -> exp.Expr:
        return query_shape.comparable(node, self.table)


def is_row_for_row(tree: exp.Query) -> bool:
    """Whether a query gives rows of the one table behind its FROM, and says nothing of their order."""
    if not isinstance(tree, exp.Select) or any(value and part not in _ROW_FOR_ROW for part, value in tree.args.items()):
        return False
    from_ = tree.args.get("from_")
    if from_ is None or not isinstance(from_.this, exp.Table):
        return False
    odd = any(from_.this.args.get(part) for part in ("joins", "pivots", "sample", "laterals"))
    makers = any(isinstance(node, _NOT_ROW_FOR_ROW) for expression in tree.expressions for node in expression.walk())
    return not (odd or makers)


def order_by(tree: exp.Select, keys: Sequence[Key]) -> None:
    """Orders a query that ``is_row_for_row`` by columns of its table, whether it shows them or not."""
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

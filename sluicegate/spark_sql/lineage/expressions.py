"""Columns that an expression comes from, and what is done with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.lineage.model import IDENTITY, NONE, TRANSFORMATION, Origins, Use, apply_use, unite_origins
from sluicegate.spark_sql.lineage.names import Names, Relation, Unsure

if TYPE_CHECKING:
    Subquery = Callable[[exp.Query, Names], Relation]

Expressions = Callable[..., "ExpressionReader"]
"""Makes the reader of expressions over names; see ``ExpressionReader``."""

# Functions of whose result the value cannot be told: those that OpenLineage's integration of Spark takes for masking.
_MASKING = {"MD5", "SHA", "SHA1", "SHA2", "CRC32", "HASH", "XXHASH64", "MASK", "COUNT"}

# Functions that take the value of one row of a window.
_OF_ONE_ROW = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)

# What no column's value goes into: grouping(a) is about which groups there are, and not about a.
_OF_NO_VALUE = (exp.Identifier, exp.Var, exp.DataType, exp.Literal, exp.Grouping, exp.GroupingId)

_AGGREGATION, _CONDITIONAL, _WINDOW = Use("AGGREGATION"), Use("CONDITIONAL"), Use("WINDOW")


class ExpressionReader:
    """Reader of expressions.

    Args:
        names: what the names in them mean.
        subquery: reads a query within them.
        windows: windows that a WINDOW clause names.
    """

    def __init__(self, names: Names, subquery: Subquery, windows: dict[str, exp.Window] | None = None) -> None:
        self.names, self.subquery, self.windows = names, subquery, windows or {}

    def origins(self, node: exp.Expr, use: Use = IDENTITY) -> Origins:
        """Return the columns that an expression comes from.

        Args:
            node: the expression.
            use: use of the expression's value.

        Raises:
            Unsure: a name in it means nothing that is known.
        """
        for kind, read in self._readers():
            if isinstance(node, kind):
                return read(node, use)
        if isinstance(node, _OF_NO_VALUE):
            return NONE
        aggregates = query_shape.aggregate(node) and not isinstance(node, _OF_ONE_ROW)
        masked = query_shape.function_name(node).upper() in _MASKING
        inner = Use("AGGREGATION" if aggregates else "TRANSFORMATION", masked)
        return self.origins_of_all(node.iter_expressions(), use.compose(inner))

    def origins_of_all(self, nodes: Iterator[exp.Expr], use: Use) -> Origins:
        """Return the columns that several expressions come from together."""
        return unite_origins(self.origins(node, use) for node in nodes)

    def _readers(self) -> Iterator[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[..., Origins]]]:
        yield exp.Column, self._column
        yield exp.Star, self._star
        yield (exp.Alias, exp.Paren), lambda node, use: self.origins(node.this, use)
        yield exp.Aliases, lambda node, use: self.origins(node.this, use)
        yield exp.Exists, self._exists
        yield exp.Subquery, lambda node, use: self._query(node.this, use)
        yield exp.Query, self._query
        yield exp.Case, self._case
        yield exp.If, self._if
        yield exp.Nvl2, self._if
        yield exp.Window, self._window
        yield exp.Filter, self._filter
        yield exp.WithinGroup, lambda node, use: self.origins_of_all(node.iter_expressions(), use.compose(_AGGREGATION))
        yield (exp.PropertyEQ, exp.Kwarg), lambda node, use: self.origins(node.expression, use)

    def _column(self, node: exp.Column, use: Use) -> Origins:
        if query_shape.is_of_lambda(node):
            return NONE
        if not node.is_star:
            return apply_use(use, self.names.column([part.name for part in node.parts]))
        if node.args.get("db"):
            raise Unsure("a star follows a field")
        return apply_use(use, self.names.star(node.table).all_origins)

    def _star(self, node: exp.Star, use: Use) -> Origins:
        if isinstance(node.parent, exp.Count) and not node.parent.expressions and not any(node.args.values()):
            return NONE  # count(*) alone: any other star in it is its columns, and a row with a NULL does not count
        return apply_use(use, self.names.star().all_origins)

    def _query(self, node: exp.Expr, use: Use) -> Origins:
        if not isinstance(node, exp.Query):
            raise Unsure("an unsupported kind of subquery")
        relation = self.subquery(node, self.names)
        return apply_use(use.compose(TRANSFORMATION), relation.all_origins) | relation.rows

    def _exists(self, node: exp.Exists, use: Use) -> Origins:
        """Return the origins of the rows: their values do not matter to EXISTS."""
        if isinstance(node.this, exp.Query):
            return self.subquery(node.this, self.names).rows
        return self.origins_of_all(node.iter_expressions(), use.compose(TRANSFORMATION))  # exists(array, lambda)

    def _case(self, node: exp.Case, use: Use) -> Origins:
        tested = [node.this, *(branch.this for branch in node.args["ifs"])]
        results = [*(branch.args.get("true") for branch in node.args["ifs"]), node.args.get("default")]
        return self._conditional_origins(tested, results, use)

    def _if(self, node: exp.If | exp.Nvl2, use: Use) -> Origins:
        return self._conditional_origins([node.this], [node.args.get("true"), node.args.get("false")], use)

    def _conditional_origins(self, tested: list[exp.Expr | None], results: list[exp.Expr | None], use: Use) -> Origins:
        conditions = self.origins_of_all(filter(None, tested), use.compose(_CONDITIONAL))
        return conditions | self.origins_of_all(filter(None, results), use.compose(TRANSFORMATION))

    def _window(self, node: exp.Window, use: Use) -> Origins:
        origins = self.origins(node.this, use.compose(TRANSFORMATION))
        within: exp.Window | None = node
        visited: set[str] = set()
        while within is not None:
            parts = [*query_shape.items(within, "partition_by"), within.args.get("order"), within.args.get("spec")]
            origins |= self.origins_of_all(filter(None, parts), use.compose(_WINDOW))
            within = self._base(within, visited)
        return origins

    def _base(self, node: exp.Window, visited: set[str]) -> exp.Window | None:
        """Return the window that another one names."""
        name = node.args.get("alias") or node.args.get("first")
        if name is None or not isinstance(name, exp.Identifier):
            return None
        window = self.windows.get(name.name.lower())
        if window is None or name.name.lower() in visited:
            raise Unsure(f"the window {name.name} is unknown")
        visited.add(name.name.lower())
        return window

    def _filter(self, node: exp.Filter, use: Use) -> Origins:
        """Return the origins of an aggregate with a FILTER."""
        return self.origins(node.this, use) | self.origins(node.expression.this, use.compose(_CONDITIONAL))

"""Tables of a FROM: what they bring, and how joins put them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.lineage import names
from sluicegate.spark_sql.lineage.expressions import Expressions
from sluicegate.spark_sql.lineage.model import IDENTITY, TRANSFORMATION, Columns, Origins, SourceColumn, Use, apply_use
from sluicegate.spark_sql.lineage.names import Column, Names, Relation, Unsure

Subquery = Callable[[exp.Query, Names], Relation]

_FILTER, _JOIN = Use("FILTER"), Use("JOIN")
_HALF = ("SEMI", "ANTI")


def demand(node: exp.Expr, supported: set[str], place: str) -> None:
    """Check that a node has only parts that can be read here.

    Raises:
        Unsure: it has another one.
    """
    for part in query_shape.clauses(node):
        if part not in supported:
            raise Unsure(f"{place} has {part.strip('_').replace('_', ' ').upper()}")


@dataclass(frozen=True)
class FromReader:
    """Reader of the FROM of a SELECT.

    Attributes:
        schemas: columns of the tables.
        ctes: queries of a WITH by name.
        subquery: reads a query, with the names that it may use.
        expressions: reads expressions, with the names in them.
    """

    schemas: Mapping[str, Columns]
    ctes: Mapping[str, Relation]
    subquery: Subquery
    expressions: Expressions

    def read(self, select: exp.Select, outer: Names | None) -> names.From:
        """Return the columns and rows of a SELECT's FROM, with its joins and LATERAL VIEWs.

        Args:
            select: the SELECT.
            outer: names of the query around it.
        """
        from_names = names.From()
        if (from_ := select.args.get("from_")) is not None:
            from_names = self._item(from_.this, Names(from_names, outer))
        from_names = self._add_joins(from_names, select, outer)
        for view in query_shape.items(select, "laterals"):
            from_names = from_names.join(self._generator_columns(view, Names(from_names, outer)))
        return from_names

    def _item(self, node: exp.Expr, around: Names) -> names.From:
        """Read one table of a FROM; only a LATERAL one may use the names around it."""
        readers: dict[type[exp.Expr], Callable[..., names.From]] = {
            exp.Table: self._table,
            exp.Subquery: self._subquery,
            exp.Values: self._values,
            exp.Lateral: self._lateral,
        }
        if type(node) not in readers:
            raise Unsure(f"FROM has {node.key}")
        return readers[type(node)](node, around)

    def _table(self, node: exp.Table, around: Names) -> names.From:
        demand(node, {"this", "db", "catalog", "alias", "joins", "sample"}, "a table")
        streamed = query_shape.is_stream(node)
        if not streamed and not isinstance(node.this, exp.Identifier):
            return self._function(node)
        name = query_shape.table_name(node)
        relation = _table_relation(name, self.schemas.get(name, Columns()))
        if not streamed and query_shape.is_from_with(node):
            if name not in self.ctes:
                raise Unsure(f"{name} is a WITH that is not in scope")
            relation = self.ctes[name]
        own_name = query_shape.name_parts(node)[-1].name
        return self._add_joins(_apply_alias(node, relation, own_name), node, around.outer)

    def _function(self, node: exp.Table) -> names.From:
        """Read a table function, whose rows are made of constants."""
        if list(node.find_all(exp.Column)):
            raise Unsure("a function in FROM takes columns")
        columns, name = node.alias_column_names, ""
        if isinstance(node.this, exp.Anonymous):
            name = node.this.name.lower()
        if not columns and name != "range":
            raise Unsure("a function in FROM does not name its columns")
        return _apply_alias(node, Relation(tuple((column, frozenset()) for column in columns or ["id"])), name)

    def _subquery(self, node: exp.Subquery, around: Names) -> names.From:
        demand(node, {"this", "alias", "joins", "sample"}, "a subquery")
        if isinstance(node.this, exp.Query) and not isinstance(node.this, exp.Values):
            relation = replace(self.subquery(node.this, _outer_names(around)), hidden=())
            return self._add_joins(_apply_alias(node, relation, ""), node, around.outer)
        from_names = self._item(node.this, around)  # parentheses around joins
        if node.args.get("alias") is not None:
            from_names = _apply_alias(node, from_names.all, "")
        return self._add_joins(from_names, node, around.outer)

    def _add_joins(self, from_names: names.From, node: exp.Expr, outer: Names | None) -> names.From:
        for join in query_shape.items(node, "joins"):
            from_names = self._join(from_names, join, outer)
        return from_names

    def _values(self, node: exp.Values, around: Names) -> names.From:
        demand(node, {"expressions", "alias"}, "VALUES")
        first = node.expressions[0]
        count = 1
        if isinstance(first, exp.Tuple):
            count = len(first.expressions)
        origins = self.expressions(around, self.subquery).origins_of_all(iter(node.expressions), TRANSFORMATION)
        return _apply_alias(node, Relation(tuple((f"col{number + 1}", origins) for number in range(count))), "")

    def _lateral(self, node: exp.Lateral, around: Names) -> names.From:
        demand(node, {"this", "alias", "outer", "view"}, "LATERAL")
        if isinstance(node.this, exp.Subquery):
            demand(node.this, {"this"}, "LATERAL")
            return _apply_alias(node, self.subquery(node.this.this, around), "")
        return self._generator_columns(node, around)

    def _generator_columns(self, node: exp.Lateral, around: Names) -> names.From:
        """Return the columns that a function makes of each row; where it makes none, the row is not there."""
        demand(node, {"this", "alias", "outer", "view"}, "LATERAL VIEW")
        columns = node.alias_column_names
        if not columns:
            raise Unsure("LATERAL VIEW does not name its columns")
        origins = self.expressions(around, self.subquery).origins(node.this, TRANSFORMATION)
        relation = Relation(tuple((column, origins) for column in columns), rows=apply_use(_FILTER, origins))
        return _apply_alias(node, relation, "")

    def _join(self, before: names.From, join: exp.Join, outer: Names | None) -> names.From:
        demand(join, {"this", "side", "kind", "on", "using", "method", "hint"}, "a join")
        right = self._item(join.this, Names(before, outer))
        both = before.join(right)
        using = query_shape.items(join, "using")
        if join.method == "NATURAL":
            using = _common_columns(before, right)
        elif join.method:
            raise Unsure(f"a join is {join.method}")
        rows = both.all.rows
        if (on := join.args.get("on")) is not None:
            rows |= self.expressions(Names(both, outer), self.subquery).origins(on, _JOIN)
        keys: list[tuple[str, Origins, Origins]] = []
        for key in using:
            near, theirs = (self._key_origins(key, side) for side in (before, right))
            rows |= apply_use(_JOIN, near | theirs)
            keys.append((key.name, near, theirs))
        if join.kind in _HALF:
            return replace(before, all=replace(before.all, rows=rows))
        if keys:
            both = _join_using(both, before, right, keys, join.side)
        return replace(both, all=replace(both.all, rows=rows))

    def _key_origins(self, key: exp.Identifier, side: names.From) -> Origins:
        return self.expressions(Names(side), self.subquery).origins(exp.Column(this=key.copy()))


def _table_relation(name: str, columns: Columns) -> Relation:
    def to_columns(names: Sequence[str]) -> tuple[Column, ...]:
        return tuple((column, frozenset({(SourceColumn(name, column.lower()), IDENTITY)})) for column in names)

    rest = frozenset() if columns.complete else frozenset({name})
    return Relation(to_columns(columns.names), to_columns(columns.hidden), rest)


def _apply_alias(node: exp.Expr, relation: Relation, name: str) -> names.From:
    relation = relation.rename(node.alias_column_names)
    name = node.alias or name
    return names.From(((name.lower(), relation),), relation)


def _outer_names(around: Names) -> Names:
    """Return the names that a derived table may use: those of the query around its own."""
    return around.outer or Names(names.From())


def _common_columns(before: names.From, right: names.From) -> list[exp.Identifier]:
    if before.all.rest or right.all.rest:
        raise Unsure("NATURAL JOIN joins on columns that are not all known")
    theirs = {name.lower() for name, _ in right.all.columns}
    return [exp.to_identifier(name) for name, _ in before.all.columns if name.lower() in theirs]


def _join_using(
    both: names.From, left: names.From, right: names.From, keys: list[tuple[str, Origins, Origins]], side: str
) -> names.From:
    """Join by columns of both sides, which the result has once, and first."""
    merged: list[Column] = []
    for name, left_origins, right_origins in keys:
        if side == "FULL":
            merged.append((name, apply_use(TRANSFORMATION, left_origins | right_origins)))
        else:
            merged.append((name, right_origins if side == "RIGHT" else left_origins))
    key_names = {name.lower() for name, _, _ in keys}
    other_columns = [
        column for relation in (left, right) for column in relation.all.columns if column[0].lower() not in key_names
    ]
    hidden = tuple(column for column in both.all.hidden if column[0].lower() not in key_names)
    return replace(both, all=replace(both.all, columns=(*merged, *other_columns), hidden=hidden))

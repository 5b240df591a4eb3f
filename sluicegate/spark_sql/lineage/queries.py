"""Column lineage of a query, read from sqlglot's tree with the columns of its tables.

Of what it does not know, a clause or the kind of a table, it says so: then every column may come from all. sqlglot's
own lineage is of the SELECT list alone, and tells nothing of columns that decide about rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.lineage import tables
from sluicegate.spark_sql.lineage.expressions import ExpressionReader, Expressions
from sluicegate.spark_sql.lineage.model import (
    EVERY,
    NONE,
    TRANSFORMATION,
    Columns,
    Lineage,
    Origins,
    SourceColumn,
    Use,
    apply_use,
    unite_origins,
)
from sluicegate.spark_sql.lineage.names import Column, From, Names, Relation, Unsure
from sluicegate.spark_sql.tokens import QuerySyntax, parse_sql

_FILTER, _GROUP_BY, _SORT = Use("FILTER"), Use("GROUP_BY"), Use("SORT")

# Clauses of a SELECT that are understood here, or of which no column depends.
_CLAUSES = {"expressions", "from_", "joins", "laterals", "where", "group", "having", "qualify", "order", "sort",
            "cluster", "distribute", "windows", "distinct", "limit", "offset", "hint", "with_"}  # fmt: skip
_OF_SETS = {"this", "expression", "distinct", "order", "sort", "cluster", "distribute", "limit", "offset", "with_"}
_OF_GROUP = {"expressions", "grouping_sets", "cube", "rollup", "all"}


def lineage(text: str, schemas: Mapping[str, Columns]) -> Lineage:
    """Return the column lineage of a query.

    Args:
        text: the query.
        schemas: columns of the tables that it reads, by lower-case name, as far as they are known.
    """
    try:
        tree = parse_sql(text)
        if not isinstance(tree, exp.Query):
            raise Unsure("it is not a query")
        relation = QueryReader(schemas).query(tree, None, {})
    except (Unsure, QuerySyntax) as reason:
        return unknown_lineage(schemas, str(reason))
    except RecursionError:
        return unknown_lineage(schemas, "it is nested too deeply")
    names = [name for name, _ in relation.columns]
    if "" in names or len({name.lower() for name in names}) < len(names):
        return unknown_lineage(schemas, "columns have no name or duplicate names")
    return Lineage(dict(relation.columns), relation.rows, relation.rest)


def unknown_lineage(tables: Mapping[str, Columns], unsure: str) -> Lineage:
    """Return the lineage of tables alone: each may be in every column, and decide about the rows."""
    of_all = frozenset((SourceColumn(table, EVERY), TRANSFORMATION) for table in tables)
    return Lineage({EVERY: of_all}, apply_use(_FILTER, of_all), unsure=unsure)


Ctes = Mapping[str, Relation]
"""Queries of a WITH by their lower-case names."""


class QueryReader:
    """Reader of queries over tables.

    Args:
        schemas: columns of the tables.
        expressions: reads expressions, with the names in them.
    """

    def __init__(self, schemas: Mapping[str, Columns], expressions: Expressions = ExpressionReader) -> None:
        self.schemas, self.expressions = schemas, expressions

    def query(self, node: exp.Query, outer: Names | None, ctes: Ctes) -> Relation:
        """Return the columns and rows of a query.

        Args:
            node: the query.
            outer: names of the query around it, if it may use them.
            ctes: the queries of a WITH that it may read.

        Raises:
            Unsure: it has something in it that is not known here.
        """
        ctes = self._read_with(node, outer, ctes)
        if isinstance(node, exp.Select):
            return _Select(self, node, outer, ctes).relation()
        if isinstance(node, exp.SetOperation):
            return self.sets(node, outer, ctes)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            tables.demand(node, {"this", "with_"}, "parentheses")
            return self.query(node.this, outer, ctes)
        raise Unsure(f"{node.key} is not supported")

    def _read_with(self, node: exp.Query, outer: Names | None, ctes: Ctes) -> Ctes:
        """Return the queries that a query may read; its own may use the names around it, too."""
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise Unsure("a WITH RECURSIVE reads itself")
        visible = dict(ctes)
        for cte in with_.expressions:
            visible[cte.alias.lower()] = self.query(cte.this, outer, visible).rename(cte.alias_column_names)
        return visible

    def sets(self, node: exp.SetOperation, outer: Names | None, ctes: Ctes) -> Relation:
        """Return the columns and rows of a UNION, INTERSECT or EXCEPT; see ``query``."""
        tables.demand(node, _OF_SETS, "a set operation")
        first = self.query(node.this, outer, ctes)
        right = self.query(node.expression, outer, ctes)
        if first.rest or right.rest or len(first.columns) != len(right.columns):
            raise Unsure("the branches of a set operation have columns that are not all known")
        rows = first.rows | right.rows
        columns = first.columns
        if isinstance(node, exp.Union):
            pairs = zip(first.columns, right.columns, strict=True)
            columns = tuple((name, origins | theirs) for (name, origins), (_, theirs) in pairs)
        else:  # of the rows of one branch those that are, or are not, in the other one
            rows |= apply_use(_FILTER, first.all_origins | right.all_origins)
        relation = Relation(columns, rows=rows)
        if not isinstance(node, exp.Union) or node.args.get("distinct"):
            relation = replace(relation, rows=relation.rows | apply_use(_GROUP_BY, relation.all_origins))
        read = self.expressions(Names(From((), relation), outer), self.subquery_reader(ctes))
        return replace(relation, rows=relation.rows | _sort_origins(node, read, relation))

    def subquery_reader(self, ctes: Ctes) -> tables.Subquery:
        """Read a query within an expression, which may use the names around it."""
        return lambda node, names: self.query(node, names, ctes)


class _Select:
    """One SELECT."""

    def __init__(self, reader: QueryReader, node: exp.Select, outer: Names | None, ctes: Ctes) -> None:
        tables.demand(node, _CLAUSES, "a SELECT")
        self.node = node
        from_reader = tables.FromReader(reader.schemas, ctes, reader.subquery_reader(ctes), reader.expressions)
        from_names = from_reader.read(node, outer)
        self.rows = from_names.all.rows
        self.names = Names(from_names, outer)
        windows = {window.this.name.lower(): window for window in query_shape.items(node, "windows")}
        self.expressions = reader.expressions
        self.read = self.expressions(self.names, reader.subquery_reader(ctes), windows)

    def relation(self) -> Relation:
        """Return the columns and rows of the SELECT."""
        if (where := self.node.args.get("where")) is not None:
            self.rows |= self.read.origins(where.this, _FILTER)
        items, unknown = self._items()
        plain = Relation(tuple(items), rest=unknown)
        self._group(items)
        names = Names(self.names.from_, self.names.outer, dict(self.names.aliases))
        for clause in ("having", "qualify"):
            if (condition := self.node.args.get(clause)) is not None:
                self.rows |= self._ambiguous_origins(condition.this, plain, names, _FILTER)
        ordered = Names(From((), plain), names)  # a column of its own comes before one of the FROM
        self.rows |= _sort_origins(self.node, self.expressions(ordered, self.read.subquery, self.read.windows), plain)
        if self.node.args.get("distinct") is not None:
            if self.node.args["distinct"].args.get("on") is not None:
                raise Unsure("DISTINCT ON is not supported")
            self.rows |= apply_use(_GROUP_BY, plain.all_origins)
        return replace(plain, rows=self.rows)

    def _items(self) -> tuple[list[Column], frozenset[str]]:
        """Return the columns of the SELECT list, and the tables with unknown columns that a star selects."""
        items: list[Column] = []
        unknown: frozenset[str] = frozenset()
        for node in self.node.expressions:
            if node.is_star:
                brought = self._star_columns(node)
                items += brought.columns
                unknown |= brought.rest
                continue
            origins = self.read.origins(node)
            self._note_generator(node, origins)
            for name in query_shape.item_names(node):
                items.append((name, origins))
                if name:
                    self.names.aliases.setdefault(name.lower(), [origins])
        return items, unknown

    def _star_columns(self, node: exp.Expr) -> Relation:
        star = next(node.find_all(exp.Star))
        tables.demand(star, {"except_"}, "a star")
        if node.text("db"):
            raise Unsure("a star follows a field")
        brought = self.names.star(node.text("table"))
        without = query_shape.items(star, "except_")
        if any(not isinstance(excluded, (exp.Column, exp.Identifier)) or "." in excluded.sql() for excluded in without):
            raise Unsure("a star excludes a field")
        names = {excluded.name.lower() for excluded in without}
        return replace(brought, columns=tuple(column for column in brought.columns if column[0].lower() not in names))

    def _note_generator(self, node: exp.Expr, origins: Origins) -> None:
        """Add the origins of a generator to those of the rows, as it decides how many there are."""
        inner = node
        if isinstance(node, (exp.Alias, exp.Aliases)):
            inner = node.this
        if query_shape.generator(inner):
            if inner is node:
                raise Unsure("the columns of a generator have no names")
            self.rows |= apply_use(_FILTER, origins)

    def _group(self, items: list[Column]) -> None:
        group = self.node.args.get("group")
        if group is None:
            return
        tables.demand(group, _OF_GROUP, "GROUP BY")
        if group.args.get("all"):
            plain = [item for item in self.node.expressions if not _is_aggregating(item)]
            self.rows |= self.read.origins_of_all(iter(plain), _GROUP_BY)
        for node in _group_expressions(group):
            place = query_shape.column_number(node)
            if 0 < place <= len(items):
                self.rows |= apply_use(_GROUP_BY, items[place - 1][1])
            else:
                self.rows |= self.read.origins(node, _GROUP_BY)

    def _ambiguous_origins(self, node: exp.Expr, relation: Relation, names: Names, use: Use) -> Origins:
        """Return the origins of a condition, whose names may be of its SELECT list or its FROM: both."""
        scopes = (names, Names(From((), relation), names))
        readers = (self.expressions(scope, self.read.subquery, self.read.windows) for scope in scopes)
        return unite_origins(reader.origins(node, use) for reader in readers)


def _sort_origins(node: exp.Query, read: ExpressionReader, relation: Relation) -> Origins:
    """Return the columns that decide about the order of rows."""
    origins = NONE
    for clause in filter(None, map(node.args.get, ("order", "sort", "cluster"))):
        for part in clause.expressions:
            inner = part
            if isinstance(part, exp.Ordered):
                inner = part.this
            place = query_shape.column_number(inner)
            if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
                origins |= apply_use(_SORT, relation.all_origins)
            elif 0 < place <= len(relation.columns):
                origins |= apply_use(_SORT, relation.columns[place - 1][1])
            else:
                origins |= read.origins(inner, _SORT)
    return origins


def _group_expressions(group: exp.Group) -> Iterator[exp.Expr]:
    """Yield the expressions of a GROUP BY, with those of its grouping sets."""
    for part in ("expressions", "grouping_sets", "cube", "rollup"):
        for node in query_shape.items(group, part):
            yield from _flatten(node)


def _flatten(node: exp.Expr) -> Iterator[exp.Expr]:
    if not isinstance(node, (exp.GroupingSets, exp.Cube, exp.Rollup, exp.Tuple, exp.Paren)):
        yield node
        return
    for expression in node.iter_expressions():
        yield from _flatten(expression)


def _is_aggregating(node: exp.Expr) -> bool:
    own_nodes = node.walk(prune=lambda inner: isinstance(inner, exp.Query))
    return any(query_shape.aggregate(inner) and not isinstance(inner.parent, exp.Window) for inner in own_nodes)

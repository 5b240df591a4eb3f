"""Column lineage of a query, read from sqlglot's tree with the columns of its tables.

Of what it does not know, a clause or the kind of a table, it says so: then every column may come from all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from sluicegate.sql import query_shape
from sluicegate.sql.lineage import tables
from sluicegate.sql.lineage.expressions import Expressions
from sluicegate.sql.lineage.model import (
    EVERY,
    NONE,
    TRANSFORMATION,
    Columns,
    Lineage,
    Origins,
    Source,
    Use,
    through,
    together,
)
from sluicegate.sql.lineage.names import Column, From, Names, Relation, Unsure
from sluicegate.sql.tokens import QuerySyntax, parsed

_FILTER, _GROUP_BY, _SORT = Use("FILTER"), Use("GROUP_BY"), Use("SORT")

# Clauses of a SELECT that are understood here, or of which no column depends.
_CLAUSES = {"expressions", "from_", "joins", "laterals", "where", "group", "having", "qualify", "order", "sort",
            "cluster", "distribute", "windows", "distinct", "limit", "offset", "hint", "with_"}  # fmt: skip
_OF_SETS = {"this", "expression", "distinct", "order", "sort", "cluster", "distribute", "limit", "offset", "with_"}
_OF_GROUP = {"expressions", "grouping_sets", "cube", "rollup", "all"}


def lineage(text: str, schemas: Mapping[str, Columns]) -> Lineage:
    """Column lineage of a query.

    Args:
        text: the query.
        schemas: columns of the tables that it reads, by lower-case name, as far as they are known.
    """
    try:
        tree = parsed(text)
        if not isinstance(tree, exp.Query):
            raise Unsure("it is no query")
        made = Reader(schemas).query(tree, None, {})
    except (Unsure, QuerySyntax, RecursionError) as reason:
        return anything(schemas, str(reason) or "it is too deep")
    names = [name for name, _ in made.columns]
    if "" in names or len({name.lower() for name in names}) < len(names):
        return anything(schemas, "columns have no name, or the same one")
    return Lineage(dict(made.columns), made.rows, made.rest)


def anything(tables: Mapping[str, Columns], unsure: str) -> Lineage:
    """Lineage of which only the tables are known: each of them may be in every column, and decide about the rows."""
    every = frozenset((Source(table, EVERY), TRANSFORMATION) for table in tables)
    return Lineage({EVERY: every}, through(_FILTER, every), unsure=unsure)


class Reader:
    """Reader of queries over tables.

    Args:
        schemas: columns of the tables.
    """

    def __init__(self, schemas: Mapping[str, Columns]) -> None:
        self.schemas = schemas

    def query(self, node: exp.Query, outer: Names | None, ctes: Mapping[str, Relation]) -> Relation:
        """Columns and rows of a query.

        Args:
            node: the query.
            outer: names of the query around it, if it may use them.
            ctes: the queries of a WITH that it may read.

        Raises:
            Unsure: it has something in it that is not known here.
        """
        ctes = self._with(node, ctes)
        if isinstance(node, exp.Select):
            return _Select(self, node, outer, ctes).relation()
        if isinstance(node, exp.SetOperation):
            return self._sets(node, outer, ctes)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            tables.demand(node, {"this", "with_"}, "parentheses")
            return self.query(node.this, outer, ctes)
        raise Unsure(f"{node.key} is not known")

    def _with(self, node: exp.Query, ctes: Mapping[str, Relation]) -> Mapping[str, Relation]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise Unsure("a WITH RECURSIVE reads itself")
        found = dict(ctes)
        for cte in with_.expressions:
            names = [column.name for column in cte.args["alias"].args.get("columns") or []]
            found[cte.alias.lower()] = self.query(cte.this, None, found).renamed(names)
        return found

    def _sets(self, node: exp.SetOperation, outer: Names | None, ctes: Mapping[str, Relation]) -> Relation:
        tables.demand(node, _OF_SETS, "a set operation")
        left = self.query(node.this, outer, ctes)
        right = self.query(node.expression, outer, ctes)
        if left.rest or right.rest or len(left.columns) != len(right.columns):
            raise Unsure("the branches of a set operation have columns that are not all known")
        rows = left.rows | right.rows
        columns = left.columns
        if isinstance(node, exp.Union):
            pairs = zip(left.columns, right.columns, strict=True)
            columns = tuple((name, ours | theirs) for (name, ours), (_, theirs) in pairs)
        else:  # of the rows of one branch those that are, or are not, in the other one
            rows |= through(_FILTER, left.every | right.every)
        made = Relation(columns, rows=rows)
        if not isinstance(node, exp.Union) or node.args.get("distinct"):
            made = replace(made, rows=made.rows | through(_GROUP_BY, made.every))
        names = Names(From((), made), outer)
        return replace(made, rows=made.rows | _sorted(node, Expressions(names, self.within(ctes)), made))

    def within(self, ctes: Mapping[str, Relation]) -> tables.Subquery:
        """Reads a query within an expression, which may use the names around it."""
        return lambda node, names: self.query(node, names, ctes)


class _Select:
    """One SELECT."""

    def __init__(self, reader: Reader, node: exp.Select, outer: Names | None, ctes: Mapping[str, Relation]) -> None:
        tables.demand(node, _CLAUSES, "a SELECT")
        self.node = node
        found = tables.From(reader.schemas, ctes, reader.within(ctes)).of(node, outer)
        self.rows = found.all.rows
        self.names = Names(found, outer)
        windows = {one.this.name.lower(): one for one in node.args.get("windows") or []}
        self.read = Expressions(self.names, reader.within(ctes), windows)

    def relation(self) -> Relation:
        """Its columns and rows."""
        if (where := self.node.args.get("where")) is not None:
            self.rows |= self.read.origins(where.this, _FILTER)
        items, rest = self._items()
        made = Relation(tuple(items), rest=rest)
        self._group(items)
        names = Names(self.names.from_, self.names.outer, dict(self.names.aliases))
        for clause in ("having", "qualify"):
            if (condition := self.node.args.get(clause)) is not None:
                self.rows |= self._either(condition.this, made, names, _FILTER)
        ordered = Names(From((), made), names)  # a column of its own comes before one of the FROM
        self.rows |= _sorted(self.node, Expressions(ordered, self.read.subquery, self.read.windows), made)
        if self.node.args.get("distinct") is not None:
            if self.node.args["distinct"].args.get("on") is not None:
                raise Unsure("DISTINCT ON is not known")
            self.rows |= through(_GROUP_BY, made.every)
        return replace(made, rows=self.rows)

    def _items(self) -> tuple[list[Column], frozenset[str]]:
        """Columns of the SELECT list, and tables that a star brings whose columns are not all known."""
        found: list[Column] = []
        rest: frozenset[str] = frozenset()
        for node in self.node.expressions:
            star = node.this if isinstance(node, exp.Column) else node
            if isinstance(star, exp.Star):
                brought = self._starred(node, star)
                found += brought.columns
                rest |= brought.rest
                continue
            origins = self.read.origins(node)
            self._generates(node, origins)
            for name in _names(node):
                found.append((name, origins))
                if name:
                    self.names.aliases.setdefault(name.lower(), origins)
        return found, rest

    def _starred(self, node: exp.Expr, star: exp.Star) -> Relation:
        tables.demand(star, {"except_"}, "a star")
        if isinstance(node, exp.Column) and node.args.get("db"):
            raise Unsure("a star stands behind a field")
        brought = self.names.star(node.table if isinstance(node, exp.Column) else "")
        without = [one for one in star.args.get("except_") or []]
        if any(not isinstance(one, (exp.Column, exp.Identifier)) or "." in one.sql() for one in without):
            raise Unsure("a star leaves out a field")
        names = {one.name.lower() for one in without}
        return replace(brought, columns=tuple(one for one in brought.columns if one[0].lower() not in names))

    def _generates(self, node: exp.Expr, origins: Origins) -> None:
        """A function that makes several rows decides how many there are."""
        inner = node.unalias() if isinstance(node, exp.Alias) else node.this if isinstance(node, exp.Aliases) else node
        if query_shape.generator(inner):
            if not isinstance(node, (exp.Alias, exp.Aliases)):
                raise Unsure("the columns of a generator have no names")
            self.rows |= through(_FILTER, origins)

    def _group(self, items: list[Column]) -> None:
        group = self.node.args.get("group")
        if group is None:
            return
        tables.demand(group, _OF_GROUP, "GROUP BY")
        if group.args.get("all"):
            plain = [item for item in self.node.expressions if not _aggregates(item)]
            self.rows |= self.read.every(iter(plain), _GROUP_BY)
        for node in _grouped(group):
            place = _place(node)
            named = items[place - 1][1] if place and place <= len(items) else None
            self.rows |= through(_GROUP_BY, named) if named is not None else self.read.origins(node, _GROUP_BY)

    def _either(self, node: exp.Expr, made: Relation, names: Names, use: Use) -> Origins:
        """Origins of a condition whose names may be columns of its own as well as of the FROM: both of them."""
        both = []
        for scope in (names, Names(From((), made), names)):
            both.append(Expressions(scope, self.read.subquery, self.read.windows).origins(node, use))
        return together(both)


def _sorted(node: exp.Query, read: Expressions, made: Relation) -> Origins:
    """Columns that decide about the order of rows."""
    found = NONE
    for clause in ("order", "sort", "cluster"):
        for part in node.args[clause].expressions if node.args.get(clause) is not None else []:
            inner = part.this if isinstance(part, exp.Ordered) else part
            place = _place(inner)
            if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
                found |= through(_SORT, made.every)
            elif place and place <= len(made.columns):
                found |= through(_SORT, made.columns[place - 1][1])
            else:
                found |= read.origins(inner, _SORT)
    return found


def _place(node: exp.Expr) -> int:
    """The column that a number in GROUP BY or ORDER BY means, counted from 1; 0 for all else."""
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else 0


def _grouped(group: exp.Group) -> Iterator[exp.Expr]:
    """Expressions of a GROUP BY, with those of its grouping sets."""
    for part in ("expressions", "grouping_sets", "cube", "rollup"):
        for node in group.args.get(part) or []:
            yield from _flat(node)


def _flat(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, (exp.GroupingSets, exp.Cube, exp.Rollup, exp.Tuple)):
        for one in node.expressions:
            yield from _flat(one)
    elif isinstance(node, exp.Paren):
        yield from _flat(node.this)
    else:
        yield node


def _aggregates(node: exp.Expr) -> bool:
    for one in node.walk(prune=lambda found: isinstance(found, exp.Query)):
        if query_shape.aggregate(one) and not isinstance(one.parent, exp.Window):
            return True
    return False


def _names(node: exp.Expr) -> list[str]:
    """Names of the columns of an item; empty for one without a name."""
    if isinstance(node, exp.Aliases):
        return [one.name for one in node.args["expressions"]]
    if isinstance(node, exp.Alias):
        return [node.alias]
    return [node.name if isinstance(node, (exp.Column, exp.Dot)) else ""]

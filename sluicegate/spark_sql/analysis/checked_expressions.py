"""Reader of expressions that notes what Spark would refuse: columns that are not there, and types that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.analysis.kinds import result_kind, type_mistakes
from sluicegate.spark_sql.analysis.plain_tree import SqlMistake
from sluicegate.spark_sql.analysis.signatures import UNKNOWN, signatures
from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.lineage.expressions import ExpressionReader
from sluicegate.spark_sql.lineage.model import IDENTITY, NONE, Origins, Use
from sluicegate.spark_sql.lineage.names import Names, Relation, Unsure
from sluicegate.spark_sql.lineage.tables import Subquery
from sluicegate.suggestions import suggest_name

Kinds = Mapping[tuple[str, str], str]
"""Kind of each column by table and name, in lower case."""

# Columns that a hint lists where none has a name near the unknown one.
SHOWN = 10

# Functions with three arguments of which the first is a word for a unit, and no column.
_OF_UNITS = ("timestampadd", "timestampdiff", "timediff", "dateadd", "datediff", "date_add", "date_diff")

# Columns that Spark gives to what it groups by.
_OF_GROUPS = ("window", "session_window", "grouping__id")


class Notes:
    """What is noted of the nodes of a query.

    A condition may be read several times, with one or the other meaning of its names: it has a mistake if it has one
    each time.

    Args:
        kinds: kinds of the columns of tables.
    """

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.kinds_of_nodes: dict[int, str] = {}
        self._nodes: list[exp.Expr] = []  # so that no other one has their ids
        self._readings: dict[int, list[dict[str, SqlMistake]]] = {}

    def add(self, node: exp.Expr, kind: str, mistakes: Iterable[SqlMistake]) -> None:
        """Note one reading of a node."""
        self._nodes.append(node)
        self.kinds_of_nodes[id(node)] = kind
        self._readings.setdefault(id(node), []).append({mistake.code: mistake for mistake in mistakes})

    def mistakes(self) -> Iterator[SqlMistake]:
        """Yield the mistakes that all readings of a node have."""
        for readings in self._readings.values():
            for code, mistake in readings[0].items():
                if all(code in reading for reading in readings):
                    yield mistake


class CheckedExpressions(ExpressionReader):
    """Reader of the expressions of a query; see ``ExpressionReader``."""

    def __init__(
        self, notes: Notes, names: Names, subquery: Subquery, windows: dict[str, exp.Window] | None = None
    ) -> None:
        super().__init__(names, subquery, windows)
        self.notes = notes
        self._kinds: dict[int, str] = {}

    def origins(self, node: exp.Expr, use: Use = IDENTITY) -> Origins:
        """Return the columns that an expression comes from, and note its mistakes."""
        if isinstance(node, exp.Column) and not node.is_star:
            return self._checked_column(node, use)
        if isinstance(node, exp.Anonymous) and node.name.lower() in _OF_UNITS and len(node.expressions) > 2:
            return self.origins_of_all(iter(node.expressions[1:]), use)
        origins = super().origins(node, use)
        self.notes.add(node, self.kind(node), type_mistakes(node, self.kind))
        return origins

    def kind(self, node: exp.Expr) -> str:
        """Return the kind of an expression; ``UNKNOWN`` if nothing is certain."""
        if id(node) not in self._kinds:
            self._kinds[id(node)] = self._new_kind(node)
        return self._kinds[id(node)]

    def _new_kind(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Column):
            return self._column_kind(node)
        if isinstance(node, exp.Query):
            return UNKNOWN  # its names are others
        return result_kind(node, self.kind)

    def _column_kind(self, node: exp.Column) -> str:
        if query_shape.is_of_lambda(node):
            return UNKNOWN
        try:
            origins = [*self.names.column([part.name for part in node.parts])]
        except Unsure:
            return UNKNOWN
        if len(origins) != 1 or origins[0][1] != IDENTITY:
            return UNKNOWN
        return self.notes.kinds.get((origins[0][0].table, origins[0][0].column), UNKNOWN)

    def _checked_column(self, node: exp.Column, use: Use) -> Origins:
        try:
            origins = super().origins(node, use)
        except Unsure:
            unknown = [] if self._may_be_there(node) else [self._unknown_column(node)]
            self.notes.add(node, UNKNOWN, unknown)
            return NONE
        self.notes.add(node, self.kind(node), type_mistakes(node, self.kind))
        return origins

    def _may_be_there(self, node: exp.Column) -> bool:
        """Return whether only Spark knows a name: an engine column, a function, a column without a name."""
        first = node.parts[0].name.lower()
        names = [part.name.lower() for part in node.parts]
        if first.startswith("_") or first in _OF_GROUPS or not {*RESERVED}.isdisjoint(names):
            return True
        if len(names) == 1 and first in signatures().bare:
            return True
        if len(names) > 1 and isinstance(node.find_ancestor(exp.Query), exp.SetOperation):
            return True  # its ORDER BY may name the tables of its first branch
        relations = [*_relations(self.names)]
        columns = [column for relation in relations for column, _ in relation.columns]
        return "" in columns or any(relation.rest for relation in relations) or not all(map(_is_plain, names))

    def _unknown_column(self, node: exp.Column) -> SqlMistake:
        """Make the mistake of a name, with the nearest one of its table, or of all if it has none."""
        table, *fields = [part.name for part in node.parts]
        owners = [owner for scope in _scopes(self.names) for owner in scope.from_.find_relations(table)]
        relations = owners[:1] or _relations(self.names)
        columns = list(dict.fromkeys(column for relation in relations for column, _ in relation.columns))
        message, name, qualified_columns = f"unknown column {table}", table, []
        if fields and owners:
            message, name = f"unknown column {fields[0]} of {table}", fields[0]
        elif fields:
            message, name = f"unknown column {table}.{fields[0]}", f"{table}.{fields[0]}"
            tables = [table for scope in _scopes(self.names) for table in scope.from_.tables]
            qualified_columns = [f"{alias}.{column}" for alias, owner in tables for column, _ in owner.columns]
        hint = suggest_name(name, [*columns, *qualified_columns]) or _list_columns(columns)
        return SqlMistake("unknown-column", node, message, hint)


def _list_columns(columns: Sequence[str]) -> str:
    """Return the first columns as a hint, and how many more there are; empty if there are none."""
    if not columns:
        return ""
    hint = f"known columns: {', '.join(columns[:SHOWN])}"
    if len(columns) > SHOWN:
        hint += f" and {len(columns) - SHOWN:,} more"
    return hint


def _scopes(names: Names) -> Iterator[Names]:
    """Yield the names of a query, and those of the queries around it."""
    scope: Names | None = names
    while scope is not None:
        yield scope
        scope = scope.outer


def _relations(names: Names) -> Iterator[Relation]:
    """Yield the columns of each scope's FROM and its earlier aliases, from the query outwards."""
    for scope in _scopes(names):
        yield scope.from_.all
        yield Relation(tuple((alias, NONE) for alias in scope.aliases))


def _is_plain(name: str) -> bool:
    """Return whether a name can only be a user's: names that Spark makes have parentheses, for example."""
    return re.fullmatch(r"\w+", name) is not None

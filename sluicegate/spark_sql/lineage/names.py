"""Names in a query: the columns that they mean, as Spark resolves them.

https://spark.apache.org/docs/latest/sql-ref-name-resolution.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sluicegate.spark_sql.lineage.model import IDENTITY, TRANSFORMATION, Origins, SourceColumn, apply_use, unite_origins


class Unsure(Exception):
    """Raised where the text does not tell for certain what a column comes from; its argument is the reason."""


Column = tuple[str, Origins]
"""A column's name, and where it comes from."""


@dataclass(frozen=True)
class Relation:
    """Columns and rows of a table, a subquery, or a whole FROM.

    Attributes:
        columns: its columns in order.
        hidden: columns that a star does not bring.
        rest: tables of whose columns those that are not known are there, too.
        rows: columns that decide which rows there are.
    """

    columns: tuple[Column, ...] = ()
    hidden: tuple[Column, ...] = ()
    rest: frozenset[str] = frozenset()
    rows: Origins = frozenset()

    def column_origins(self, name: str) -> list[Origins]:
        """Return the origins of the columns that certainly have a name."""
        return [origins for column, origins in (*self.columns, *self.hidden) if column.lower() == name.lower()]

    def possible_origins(self, name: str) -> list[Origins]:
        """Return the origins of the columns that may have a name, among those that are not known."""
        return [frozenset({(SourceColumn(table, name.lower()), IDENTITY)}) for table in self.rest]

    def rename(self, names: Sequence[str]) -> Relation:
        """Return the same columns under other names.

        Raises:
            Unsure: there are not as many.
        """
        if not names:
            return self
        if self.rest or len(names) != len(self.columns):
            raise Unsure("an alias renames columns that are not all known")
        return replace(self, columns=tuple(zip(names, (of for _, of in self.columns), strict=True)), hidden=())

    @property
    def all_origins(self) -> Origins:
        """Origins of all of its columns."""
        rest = ((SourceColumn(table, "*"), IDENTITY) for table in self.rest)
        return unite_origins(origins for _, origins in self.columns) | frozenset(rest)


@dataclass(frozen=True)
class From:
    """What a FROM brings: its tables by their aliases, and all of their columns together.

    Attributes:
        tables: alias, in lower case, and columns of each table.
        all: the columns that names without a table, and a star, mean.
    """

    tables: tuple[tuple[str, Relation], ...] = ()
    all: Relation = field(default_factory=Relation)

    def find_relations(self, alias: str) -> list[Relation]:
        """Return the tables of an alias, more than one if a join has the alias twice."""
        return [relation for name, relation in self.tables if name == alias.lower()]

    def join(self, other: From) -> From:
        """Join two FROMs as a cross join does."""
        near, theirs = self.all, other.all
        columns, hidden = near.columns + theirs.columns, near.hidden + theirs.hidden
        both = Relation(columns, hidden, near.rest | theirs.rest, near.rows | theirs.rows)
        return From(self.tables + other.tables, both)


@dataclass
class Names:
    """Names that an expression may use.

    Attributes:
        from_: what the FROM brings.
        outer: names of the query around it, for a subquery.
        aliases: columns of the SELECT list before it, which come after those of the FROM.
    """

    from_: From
    outer: Names | None = None
    aliases: dict[str, list[Origins]] = field(default_factory=dict)

    def column(self, parts: Sequence[str]) -> Origins:
        """Return the origins of a name, which may have a table before it and fields behind it.

        Raises:
            Unsure: nothing has this name.
        """
        sure, perhaps = self._resolve(parts)
        if not sure and not perhaps:
            raise Unsure(f"{'.'.join(parts)} is not a known column")
        return unite_origins(sure + perhaps)

    def _resolve(self, parts: Sequence[str]) -> tuple[list[Origins], list[Origins]]:
        """Return the certain origins of a name, and the possible ones in tables with unknown columns."""
        tables = []
        if len(parts) > 1:
            tables = self.from_.find_relations(parts[0])
        sure = [origins for table in tables for origins in table.column_origins(parts[1])]
        if sure:
            return _fields(sure, parts[2:]), []
        perhaps = _fields([origins for table in tables for origins in table.possible_origins(parts[1])], parts[2:])
        sure = self.from_.all.column_origins(parts[0])
        if not sure and not tables:
            perhaps += _fields(self.from_.all.possible_origins(parts[0]), parts[1:])
        sure = sure or self.aliases.get(parts[0].lower(), [])
        if sure or self.outer is None:
            return _fields(sure, parts[1:]), perhaps
        sure, further = self.outer._resolve(parts)
        return sure, perhaps + further

    def star(self, alias: str = "") -> Relation:
        """Return the columns of ``*``, or of ``alias.*``.

        Raises:
            Unsure: there is no such table: it is a struct, whose fields are not known here.
        """
        if not alias:
            return self.from_.all
        relation = self.from_.find_relations(alias)
        if len(relation) != 1:
            raise Unsure(f"{alias}.* matches no table of the FROM")
        return relation[0]


def _fields(columns: list[Origins], fields: Sequence[str]) -> list[Origins]:
    """Return the origins of a field of columns, which are those of the columns."""
    if fields:
        return [apply_use(TRANSFORMATION, origins) for origins in columns]
    return columns

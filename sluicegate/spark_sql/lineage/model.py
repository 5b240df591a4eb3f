"""Model of column lineage, with the words of OpenLineage's ColumnLineageDatasetFacet.

https://openlineage.io/docs/spec/facets/dataset-facets/column_lineage_facet
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Subtype = Literal[
    "IDENTITY", "TRANSFORMATION", "AGGREGATION",
    "CONDITIONAL", "FILTER", "GROUP_BY", "JOIN", "SORT", "WINDOW",
]  # fmt: skip

# From the least to the most that is done to a value.
_DIRECT: tuple[Subtype, ...] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")

EVERY = "*"
"""Stands for every column of a table."""


@dataclass(frozen=True, order=True)
class Use:
    """What is done with a column.

    Attributes:
        subtype: of a value that a column is made of ``IDENTITY``, ``TRANSFORMATION`` or ``AGGREGATION``; of a column
            that only decides about it one of the others.
        masked: whether the value cannot be told from what is made of it, such as of a hash.
    """

    subtype: Subtype
    masked: bool = False

    @property
    def is_direct(self) -> bool:
        """Whether the value itself goes in."""
        return self.subtype in _DIRECT

    def compose(self, inner: Use) -> Use:
        """Return the use of a column that is already put to the inner use."""
        masked = self.masked or inner.masked
        if not inner.is_direct:
            return Use(inner.subtype, masked)
        if not self.is_direct:
            return Use(self.subtype, masked)
        return Use(max(self.subtype, inner.subtype, key=_DIRECT.index), masked)


IDENTITY, TRANSFORMATION = Use("IDENTITY"), Use("TRANSFORMATION")


@dataclass(frozen=True, order=True)
class SourceColumn:
    """A column of a table that a query reads; the column ``*`` is every one of them."""

    table: str
    column: str


Origins = frozenset[tuple[SourceColumn, Use]]
"""Columns that something comes from, each with what is done with it."""

NONE: Origins = frozenset()


def apply_use(use: Use, origins: Origins) -> Origins:
    """Return the origins of a value after a use of it."""
    return frozenset((source, use.compose(inner)) for source, inner in origins)


def unite_origins(parts: Iterable[Origins]) -> Origins:
    """Return the origins of a value that is made of several others."""
    return NONE.union(*parts)


@dataclass(frozen=True)
class Columns:
    """What is known of the columns of a table that a query reads.

    Attributes:
        names: the known ones, in order.
        hidden: those that only their names bring, and no star.
        complete: whether these are all.
    """

    names: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    complete: bool = False


@dataclass(frozen=True)
class Lineage:
    """Column lineage of a query.

    Attributes:
        columns: of each of its columns, by its name, where it comes from.
        rows: columns that decide which rows there are, and in which order.
        rest: tables of whose columns those that are not known come through a star, too.
        unsure: why the text does not tell; then every column may come from every column of every table.
    """

    columns: Mapping[str, Origins] = field(default_factory=dict)
    rows: Origins = NONE
    rest: frozenset[str] = frozenset()
    unsure: str = ""

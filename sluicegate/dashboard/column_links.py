"""Columns that the columns of a table are computed from, and those that use them, as the table's page links them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluicegate.dashboard import other_pipelines
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import SluicegateError
from sluicegate.monitor.impact import ROWS
from sluicegate.monitor.lineage import QUARANTINE, TableLineage, lineage
from sluicegate.schema import history as schema_history
from sluicegate.schema.columns import ENGINE_COLUMNS, PROVENANCE
from sluicegate.spark_sql.lineage.model import EVERY, IDENTITY, Origins, Use
from sluicegate.spark_sql.lineage.model import SourceColumn as Origin

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from sluicegate.dashboard.source import Source
    from sluicegate.definition import Pipeline

# Columns that the engine gives each bronze table anew: none of them is passed on from the table that it reads.
_OF_ENGINE = {*ENGINE_COLUMNS, *PROVENANCE}


@dataclass(frozen=True)
class ColumnLink:
    """A column that another one is computed from, or that uses it.

    Attributes:
        pipeline: its pipeline.
        table: its table.
        column: its name; ``*`` for every column of the table, ``(rows)`` for which rows it has.
        how: what is done with the one or with this one, in OpenLineage's words, in small letters.
    """

    pipeline: str
    table: str
    column: str
    how: tuple[str, ...] = ()


Links = Mapping[str, tuple[ColumnLink, ...]]
"""Links of each column of a table, by its lower-case name."""


@dataclass(frozen=True)
class ColumnLinks:
    """Links of the columns of a table.

    Attributes:
        reads: columns that each is computed from.
        used_by: columns that each goes into, or decides about.
        rows: columns that decide which rows the table has.
        unsure: why it is not certain what the columns are computed from; empty where it is.
        searching: whether other pipelines are still being read for those that use the columns.
    """

    reads: Links = field(default_factory=dict)
    used_by: Links = field(default_factory=dict)
    rows: tuple[ColumnLink, ...] = ()
    unsure: str = ""
    searching: bool = False


def lineage_of(source: Source, pipeline: Pipeline) -> Mapping[str, TableLineage]:
    """Read the column lineage of a pipeline once for each definition and the columns of its tables.

    Raises:
        SluicegateError: a table cannot be read.
    """
    columns = tuple(
        (layer, name, tuple(kinds(source, pipeline, layer, name))) for layer in LAYERS for name in pipeline.names(layer)
    )
    lake = source.lake(pipeline)
    return source.remember(
        ("lineage", pipeline.name), (pipeline, columns), lambda: lineage(pipeline, lake, source.table_handles())
    )


def kinds(source: Source, pipeline: Pipeline, layer: str, table: str) -> dict[str, str]:
    """Return the types of a table's columns by lower-case name, empty if there is no table.

    Raises:
        SluicegateError: the table cannot be read.
    """
    return source.compute_once(source.lake(pipeline).table(layer, table), "kinds", _kinds) or {}


def _kinds(table: DeltaTable) -> dict[str, str]:
    return {name.lower(): kind for name, kind in schema_history.columns_of(table).items()}


def links(source: Source, pipeline: Pipeline, table: str, readable: Collection[str] = ()) -> ColumnLinks:
    """Link the columns of a table to their sources and uses, or give the reason why a table cannot be read.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        table: the table.
        readable: other pipelines whose tables and columns the viewer may see.
    """
    try:
        tables = lineage_of(source, pipeline)
    except SluicegateError as error:
        return ColumnLinks(unsure=error.message)
    of_table = tables[table]
    reads = {
        column.lower(): _column_links(tables, pipeline.name, origins) for column, origins in of_table.columns.items()
    }
    used_by = _column_uses(tables, pipeline.name, of_table)
    if of_table.layer == "bronze":
        reads |= _columns_of_source(source, pipeline, table, reads, readable)
    elsewhere = None
    if len(source.names()) > 1:
        elsewhere = other_pipelines.readers(source)
    readers = (elsewhere.value if elsewhere else None) or {}
    for other, bronze in readers.get((pipeline.name, of_table.layer, of_table.table), ()):
        if other not in readable:
            continue
        for column, link in _passed_columns(source, other, bronze, of_table).items():
            used_by[column] = (*used_by.get(column, ()), link)
    searching = elsewhere is not None and elsewhere.since is None
    return ColumnLinks(reads, used_by, _column_links(tables, pipeline.name, of_table.rows), of_table.unsure, searching)


def _column_links(tables: Mapping[str, TableLineage], pipeline: str, origins: Origins) -> tuple[ColumnLink, ...]:
    uses: dict[Origin, set[Use]] = {}
    for source, use in origins:
        uses.setdefault(source, set()).add(use)
    return tuple(
        ColumnLink(pipeline, source.table, _spell_column(tables, source), _words(uses[source]))
        for source in sorted(uses)
    )


def _spell_column(tables: Mapping[str, TableLineage], source: Origin) -> str:
    of = tables.get(source.table)
    if of is None:
        return source.column
    return of.spell_column(source.column)


def _words(uses: Iterable[Use]) -> tuple[str, ...]:
    """Describe the uses of a column in the words of ``plan --impact``."""
    return tuple(sorted({use.subtype.lower().replace("_", " ") + (" (masked)" if use.masked else "") for use in uses}))


def _column_uses(
    tables: Mapping[str, TableLineage], pipeline: str, of_table: TableLineage
) -> dict[str, tuple[ColumnLink, ...]]:
    """Find the columns of the pipeline's other tables that use a table's columns, in the order of the tables.

    Quarantines are left out: their records have all columns of their sources.
    """
    names = [column.lower() for column in of_table.columns]
    used_by: dict[str, tuple[ColumnLink, ...]] = {}
    for other in tables.values():
        if other.table.endswith(QUARANTINE) and other.table.removesuffix(QUARANTINE) in tables:
            continue
        for column, origins in (*other.columns.items(), (ROWS, other.rows)):
            uses: dict[str, set[Use]] = {}
            for source, use in origins:
                if source.table == of_table.table:
                    for name in names if source.column == EVERY else [source.column]:
                        uses.setdefault(name, set()).add(use)
            for name, subtypes in uses.items():
                used_by[name] = (*used_by.get(name, ()), ColumnLink(pipeline, other.table, column, _words(subtypes)))
    return used_by


# --- other pipelines -------------------------------------------------------------------------------------------------


def _columns_of_source(
    source: Source, pipeline: Pipeline, bronze: str, columns: Iterable[str], readable: Collection[str]
) -> dict[str, tuple[ColumnLink, ...]]:
    """Link a bronze table's columns to those of the other pipeline's table that it copies."""
    place = other_pipelines.source_table(source, pipeline, bronze)
    if place is None or place[0] not in readable:
        return {}
    of, layer, name = place
    try:
        present = kinds(source, source.pipeline(of), layer, name)
    except SluicegateError:  # its own page says what is wrong with it
        return {}
    passed = set(columns) - _OF_ENGINE
    return {column: (ColumnLink(of, name, column, _words([IDENTITY])),) for column in passed if column in present}


def _passed_columns(source: Source, other: str, bronze: str, of_table: TableLineage) -> dict[str, ColumnLink]:
    """Find the columns that a bronze table of another pipeline copies from a table."""
    try:
        present = kinds(source, source.pipeline(other), "bronze", bronze)
    except SluicegateError:  # as above
        return {}
    passed = {column.lower() for column in of_table.columns} - _OF_ENGINE
    return {column: ColumnLink(other, bronze, column, _words([IDENTITY])) for column in passed if column in present}

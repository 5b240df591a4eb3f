"""Where the personal data of a pipeline are, by its lineage: from the silver columns that the definition marks back to
what they are made of, and on to what is made of them.

A bronze table may hold rows of another pipeline of the lake, with that pipeline's personal data in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluicegate.dashboard import other_pipelines
from sluicegate.dashboard.column_links import kinds, lineage_of
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import SluicegateError
from sluicegate.monitor.lineage import QUARANTINE, TableLineage
from sluicegate.schema.columns import CORRUPT, RECORD, RESCUED
from sluicegate.spark_sql.lineage.model import EVERY, Origins
from sluicegate.spark_sql.lineage.model import SourceColumn as Column

# Columns that the engine adds, which have no value of a record in them.
_OURS = ("_chunk", "_pos", "_record_row", "_record_flow", "receipt_time", "_file_modification_time", "source_file",
         "_failed_expectations", "_quarantined_at", "_sequence")  # fmt: skip

# Columns with a whole record, or any part of it.
_WHOLE = (RESCUED, CORRUPT, RECORD)

_NESTED = ("ARRAY", "MAP", "STRUCT", "VARIANT", "OBJECT")
_TEXTS = ("STRING", "VARCHAR", "CHAR", "BINARY", *_NESTED)


@dataclass(frozen=True)
class PersonalColumns:
    """Columns of a pipeline that have personal data, or may have.

    Attributes:
        named: lower-case names of the columns that the pipeline marks; if there are any, its records have personal
            data under any name.
        columns: columns that are marked, and those that a value of theirs goes into; ``*`` is all of a table.
        origins: those whose values go into marked ones.
        unchanged: those that a silver column without personal data has as they are.
        harmless: lower-case names that silver columns without personal data have, and none with them.
        traced_columns: all columns whose lineage is known.
    """

    named: frozenset[str]
    columns: frozenset[Column] = frozenset()
    origins: frozenset[Column] = frozenset()
    unchanged: frozenset[Column] = frozenset()
    harmless: frozenset[str] = frozenset()
    traced_columns: frozenset[Column] = frozenset()

    def shows(self, layer: str, table: str, column: str, kind: str) -> bool:
        """Return whether values of a column may be shown; in doubt they may not.

        Args:
            layer: layer of the table.
            table: the table, or the quarantine of a silver table.
            column: lower-case name of the column.
            kind: type of the column.
        """
        column_of_table, any_column = Column(table, column), Column(table, EVERY)
        if column in _OURS:
            return True
        if column in self.named or column in _WHOLE or not self.columns.isdisjoint((column_of_table, any_column)):
            return False
        if not self.named:  # all personal data are from other pipelines, and their columns are known
            return column_of_table in self.traced_columns
        if layer == "bronze":
            return (
                not kind.startswith(_NESTED)
                and column_of_table in self.unchanged
                and self.origins.isdisjoint((column_of_table, any_column))
            )
        if table.endswith(QUARANTINE):
            return column in self.harmless
        is_fact = layer == "silver" or column in self.harmless or not kind.startswith(_TEXTS)
        return column_of_table in self.traced_columns and is_fact


def find_columns(source: Source, pipeline: Pipeline, readers: frozenset[str] = frozenset()) -> PersonalColumns | None:
    """Find the columns of a pipeline that have personal data, None if it has none.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        readers: pipelines that read this one, directly or through others.
    """
    foreign = frozenset(_foreign_columns(source, pipeline, readers | {pipeline.name}))
    if not pipeline.pii and not foreign:
        return None
    try:
        tables = lineage_of(source, pipeline)
        version = (pipeline, tables, foreign)
        return source.remember(
            ("personal", pipeline.name), version, lambda: _compute_columns(pipeline, tables, foreign)
        )
    except SluicegateError:  # a table cannot be read: then of none of them it is known what is in it
        return PersonalColumns(pipeline.pii or frozenset({EVERY}))


def _compute_columns(
    pipeline: Pipeline, tables: Mapping[str, TableLineage], foreign: frozenset[Column]
) -> PersonalColumns:
    all_columns = frozenset(Column(name, column.lower()) for name, table in tables.items() for column in table.columns)
    declared = {Column(name, column.lower()) for name, table in pipeline.silver.items() for column in table.pii}
    origins = frozenset(_origins(tables, declared))
    columns = frozenset(_derived_columns(pipeline, tables, declared | foreign, origins))
    of_silver = {of_table for of_table in all_columns if of_table.table in pipeline.names("silver")}
    personal = {
        of_table for of_table in of_silver if of_table in columns or of_table.column in (*pipeline.pii, *_WHOLE)
    }
    shown = of_silver - personal
    unchanged = frozenset(
        of for of_table in shown for of, use in _column_origins(tables, of_table) if use.subtype == "IDENTITY"
    )
    harmless = frozenset({of_table.column for of_table in shown} - {of_table.column for of_table in personal})
    return PersonalColumns(pipeline.pii, columns, origins, unchanged, harmless, all_columns)


def _column_origins(tables: Mapping[str, TableLineage], column: Column) -> Origins:
    table = tables[column.table]
    return table.columns[table.spell_column(column.column)]


def _origins(tables: Mapping[str, TableLineage], declared: set[Column]) -> set[Column]:
    """Find all columns whose values flow into declared ones, through any number of tables."""
    origins, pending = set[Column](), list(declared)
    while pending:
        for origin in _value_columns(tables, pending.pop()):
            if origin not in origins:
                origins.add(origin)
                pending.append(origin)
    return origins


def _value_columns(tables: Mapping[str, TableLineage], column: Column) -> Iterator[Column]:
    table = tables.get(column.table)
    if table is None or table.layer == "bronze":
        return
    if column.column == EVERY:
        names = [*table.columns]
    else:
        names = [table.spell_column(column.column)]
    for name in names:
        if name in table.columns:
            yield from (source for source, use in table.columns[name] if use.is_direct)
        else:  # the query does not tell what it is made of
            yield from (Column(read, EVERY) for read in table.reads)


def _derived_columns(
    pipeline: Pipeline, tables: Mapping[str, TableLineage], begin: set[Column], origins: frozenset[Column]
) -> set[Column]:
    """Find columns computed from or decided by personal values, given tables that come after those they read."""
    personal, named = set(begin), {*pipeline.pii, *_WHOLE}
    for name, table in tables.items():
        partly = {of_table.table for of_table in personal}
        for column, uses in table.columns.items():
            for source, use in uses:
                any_column = Column(source.table, EVERY)
                goes_in = source.column in named or not personal.isdisjoint((source, any_column))
                goes_in |= source.column == EVERY and source.table in partly
                # What a marked column is made of is personal wherever it stands as it came. Of a part of it, such as a
                # field, a silver column says by itself whether it is; gold has no columns that are marked.
                of_named = use.subtype == "IDENTITY" and source in origins
                of_named |= table.layer == "gold" and not origins.isdisjoint((source, any_column))
                if goes_in or of_named:
                    personal.add(Column(name, column.lower()))
    return personal


# --- other pipelines -------------------------------------------------------------------------------------------------


def _foreign_columns(source: Source, pipeline: Pipeline, readers: frozenset[str]) -> Iterator[Column]:
    """Yield bronze columns with personal data from the tables of other pipelines that they read."""
    for name, table in pipeline.bronze.items():
        for of, layer, read in other_pipelines.places(table.path) if table.format == "delta" else ():
            if of in source.names() and layer in (*LAYERS, "_state"):
                yield from (Column(name, column) for column in _hidden_columns(source, of, layer, read, readers))


def _hidden_columns(source: Source, other: str, layer: str, table: str, readers: frozenset[str]) -> Iterator[str]:
    """Yield columns with personal data of another pipeline's table, ``*`` where they cannot be determined."""
    try:
        pipeline = source.pipeline(other)
        personal = None
        if other not in readers:
            personal = find_columns(source, pipeline, readers)
        if personal is None and other not in readers:
            return
        columns = {}
        if personal is not None and layer in LAYERS and table in pipeline.names(layer):
            columns = kinds(source, pipeline, layer, table)
    except SluicegateError:
        personal, columns = None, {}
    if personal is None or not columns:
        yield EVERY
        return
    yield from (name for name, kind in columns.items() if not personal.shows(layer, table, name, kind))

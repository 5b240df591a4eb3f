"""Impact of a column: the columns, tables and rules of a pipeline that depend on it, across its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluicegate.definition import Layer, Pipeline
from sluicegate.definition.fields import suggest_name
from sluicegate.errors import ColumnMissing, PipelineMissing, UserError, Where
from sluicegate.lake.layout import Lake
from sluicegate.monitor.lineage import QUARANTINE, TableLineage, lineage
from sluicegate.spark_sql.lineage import model, queries
from sluicegate.spark_sql.lineage.model import Columns, Lineage, Origins, SourceColumn, Use

# Stands for which rows a table has.
ROWS = "(rows)"


@dataclass(frozen=True)
class Affected:
    """What depends on a column.

    Attributes:
        layer: layer of its table.
        table: the table.
        column: the column; ``(rows)`` for which rows the table has.
        direct: whether the column's value goes in, and does not only decide about it.
        how: what is done with it on the last step, as OpenLineage's subtypes.
        of: what it depends on in that step, as ``table.column``.
    """

    layer: Layer
    table: str
    column: str
    direct: bool
    how: tuple[str, ...]
    of: tuple[str, ...]


@dataclass(frozen=True)
class Impact:
    """All that depends on a column.

    Attributes:
        table: the table.
        column: its column, as the table spells it.
        affected: what depends on it, each after what it depends on by.
        named_by: fields of the definition that name it or a column that it goes into, as ``table: field``.
        unsure: tables of which only what they read is known, each with the reason.
    """

    table: str
    column: str
    affected: tuple[Affected, ...]
    named_by: tuple[str, ...]
    unsure: Mapping[str, str]


def impact(pipeline: Pipeline, lake: Lake, name: str) -> Impact:
    """Return what depends on a column.

    Args:
        pipeline: the definition.
        lake: its lake.
        name: the column, as ``table.column``.

    Raises:
        UserError: the name has no table in it.
        PipelineMissing: there is no such table.
        ColumnMissing: the table has no such column.
    """
    table, _, column = name.partition(".")
    if not table or not column:
        raise UserError(f"{name} is not TABLE.COLUMN", hint="write TABLE.COLUMN, for example recordings_bronze.mrn")
    tables = lineage(pipeline, lake)
    start = _demand_column(pipeline, tables, table.lower(), column)
    affected = tuple(_affected_columns(tables, start))
    direct = {start, *(SourceColumn(use.table, use.column.lower()) for use in affected if use.direct)}
    named_by = (*_naming_fields(pipeline, direct), *_rules_that_read(pipeline, tables, direct))
    unsure = {use: tables[use].unsure for use in dict.fromkeys(use.table for use in affected) if tables[use].unsure}
    spelled = tables[start.table].spell_column(column)
    return Impact(start.table, spelled, affected, named_by, unsure)


def _demand_column(pipeline: Pipeline, tables: Mapping[str, TableLineage], table: str, column: str) -> SourceColumn:
    if table not in tables:
        hint = suggest_name(table, tables) or f"its tables: {', '.join(tables)}"
        raise PipelineMissing(f"unknown table {table} of the pipeline {pipeline.name}", hint=hint)
    columns = tables[table].columns
    start = SourceColumn(table, column.lower())
    exists = start.column in map(str.lower, columns) or any(start in _sources(other) for other in tables.values())
    near = suggest_name(column, [*columns])
    if not exists and (tables[table].complete or near):
        hint = near or f"its columns: {', '.join(columns)}"
        raise ColumnMissing(f"unknown column {column} of {table}", where=Where(table=table), hint=hint)
    return start


def _sources(read: TableLineage | Lineage) -> set[SourceColumn]:
    """Return the columns that a table or a query comes from."""
    return {source for source, _ in model.unite_origins([*read.columns.values(), read.rows])}


def _affected_columns(tables: Mapping[str, TableLineage], start: SourceColumn) -> Iterator[Affected]:
    """Yield the columns and rows that depend on a column; tables come after those that they read."""
    touched: dict[SourceColumn, bool] = {start: True}
    for name, table in tables.items():
        named = {ROWS, *map(str.lower, table.columns)}
        passed = (source for source in touched if source.table in table.rest and source.column not in named)
        brought = {source.column: frozenset({(source, model.IDENTITY)}) for source in passed}
        for column, origins in {**table.columns, **brought}.items():
            step = _step(origins, touched)
            if step is not None:
                touched[SourceColumn(name, column.lower())] = step.direct
                yield Affected(table.layer, name, column, step.direct, step.subtypes, step.of)
        step = _step(table.rows, touched) or _rows_of(table, touched)
        if step is not None:
            touched[SourceColumn(name, ROWS)] = False
            yield Affected(table.layer, name, ROWS, False, step.subtypes, step.of)


@dataclass(frozen=True)
class _Step:
    direct: bool
    subtypes: tuple[str, ...]
    of: tuple[str, ...]


def _step(origins: Origins, touched: Mapping[SourceColumn, bool]) -> _Step | None:
    """Return how something depends on what is touched already; None if it does not."""
    uses: set[Use] = set()
    of: set[SourceColumn] = set()
    direct = False
    for source, use in origins:
        for read in touched if source.column == model.EVERY else [source]:
            if read in touched and read.table == source.table and read.column != ROWS:
                uses.add(use)
                of.add(read)
                direct |= use.is_direct and touched[read]
    if not uses:
        return None
    words_of_uses = sorted({f"{use.subtype} (masked)" if use.masked else use.subtype for use in uses})
    return _Step(direct, tuple(words_of_uses), tuple(f"{read.table}.{read.column}" for read in sorted(of)))


def _rows_of(table: TableLineage, touched: Mapping[SourceColumn, bool]) -> _Step | None:
    """List a table whose rows come from an affected table."""
    of = sorted(source.table for source in touched if source.column == ROWS and source.table in table.reads)
    if of:
        return _Step(False, ("ROWS",), tuple(f"{source}.{ROWS}" for source in of))
    return None


def _naming_fields(pipeline: Pipeline, touched: set[SourceColumn]) -> Iterator[str]:
    """Yield the fields of a definition that name one of the columns."""
    for source in sorted(touched):
        if source.table.endswith(QUARANTINE) or source.table in pipeline.deidentified_tables:
            continue
        _, table = pipeline.table(source.table)
        for field, names in _fields(table):
            if source.column in {name.lower() for name in names}:
                yield f"{source.table}: {field}"


def _rules_that_read(pipeline: Pipeline, tables: dict[str, TableLineage], touched: set[SourceColumn]) -> Iterator[str]:
    """List rules about whole tables that read one of the columns of another table."""
    touched_tables = {source.table for source in touched}
    for name in pipeline.ruled:
        for rule_name, rule in pipeline.table(name)[1].expect_table.items():
            table, columns = rule.foreign_key_target
            read = {SourceColumn(table, column.lower()) for column in columns}
            if rule.sql is not None:
                columns_of_tables = {
                    table_name: Columns(tuple(tables[table_name].columns), complete=tables[table_name].complete)
                    for table_name in rule.query.tables
                }
                read = _sources(queries.lineage(rule.query.text, columns_of_tables))
            read_whole = {source.table for source in read if source.column == model.EVERY}
            if not (touched.isdisjoint(read) and touched_tables.isdisjoint(read_whole)):
                yield f"{name}: rule {rule_name}"


def _fields(table: object) -> Iterator[tuple[str, list[str]]]:
    """Yield the fields of a table that name columns, with these."""
    of = getattr(table, "changes", None) or table
    yield "keys", list(getattr(of, "keys", ()))
    yield "sequence_by", [*filter(None, [getattr(of, "sequence_by", None)])]
    yield "apply_as_deletes", list(getattr(of, "delete_columns", ()))
    yield "event_time", [*filter(None, [getattr(table, "event_time", None)])]
    yield "withWatermark", list(getattr(table, "withWatermark", ()))
    yield "pii", list(getattr(table, "pii", ()))
    yield "deidentified", list(getattr(table, "deidentified", None) or ())
    yield "column_comments", list(getattr(table, "column_comments", ()))
    yield "schema", list(getattr(table, "declared_columns", None) or ())
    for name, rule in getattr(table, "expectations", {}).items():
        yield f"expectation {name}", rule.columns
    for name, rule in getattr(table, "expect_table", {}).items():
        yield f"rule {name}", rule.columns

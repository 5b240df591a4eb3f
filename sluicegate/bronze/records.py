"""Read records of landed files for a bronze table, and its stored schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from sluicegate.bronze import copy_reader
from sluicegate.bronze.reader import Reader
from sluicegate.definition import BronzeTable
from sluicegate.definition.tables.kafka import COLUMNS
from sluicegate.lake import tables
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.schema.columns import data_columns
from sluicegate.schema.evolution import Schema
from sluicegate.schema.landed import landed_names, record_landed_names
from sluicegate.spark import table_reader


def records(reader: Reader, copy: CopyOptions, paths: Sequence[str], *, strict: bool = False) -> DataFrame:
    """Read some files, through the SELECT of their copy if it has one.

    Args:
        reader: reader of the table's files.
        copy: options of the copy that brings them.
        paths: where to read the files.
        strict: whether a field that no file has is an error in the SELECT.
    """
    if not paths:
        frame = reader.empty_frame()
    elif copy.selects:
        frame = copy_reader.read(reader, copy, paths, strict=strict)
    else:
        frame = reader.read(paths)
    return record_landed_names(frame, reader.schema.landed)


def schema_factory(name: str, table: BronzeTable, target: str) -> Callable[[], Schema]:
    """Return a factory of the stored schema: a new one for each attempt, as reading adds columns to it."""
    stored = tables.delta_table(target)
    columns, landed = {}, {}
    if stored is not None:
        columns, landed = _data_columns(stored, table), landed_names(table_reader.schema(stored))
    is_empty = tables.rows(stored) == 0
    return lambda: Schema(name, table, columns, is_empty, dict(landed))


def _data_columns(stored: DeltaTable, table: BronzeTable) -> dict[str, DataType]:
    """Return the columns of a table that come from its files or topic values."""
    schema = table_reader.schema(stored)
    names = {*data_columns(schema.names)}
    if table.kafka is not None:
        names -= {*COLUMNS}
    return {field.name: field.dataType for field in schema if field.name in names}

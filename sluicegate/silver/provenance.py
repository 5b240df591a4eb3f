"""Add the provenance of a row: arrival of its record, its file, and the original record.

The record is a struct beside its rows: in one column, or with several flows in one for each, which is NULL beside the
rows of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.schema.columns import FLOW, PROVENANCE, RECORD_STRUCT, ROW, working_column
from sluicegate.schema.values import MICROSECONDS
from sluicegate.spark_sql.identifiers import quote_name

# The file that a record came in, and its place in the order of arrival, under names that no query's own column has.
SOURCE, ARRIVED = working_column("source_file"), working_column("arrived")

# Columns of a record that tell of its file, with their types.
STAMPS = {"_file_modification_time": "timestamp", "source_file": "string"}


def add_record(records: DataFrame, names: Collection[str] | None = None, *more: Column) -> DataFrame:
    """Add each record as a struct.

    Args:
        records: the records.
        names: lower-case names of the struct's columns; by default all.
        more: additional values of the struct by name.
    """
    its = [column for column in records.columns if names is None or column.lower() in names]
    return records.withColumn(RECORD_STRUCT, F.struct(*[F.col(quote_name(column)) for column in its], *more))


def file_of(frame: DataFrame, records: Sequence[str]) -> tuple[Column, Column]:
    """Return the arrival position of each row's record, and its file.

    Args:
        frame: rows with their records.
        records: columns with the records.
    """
    parts = [_file_of(frame, column) for column in records]
    arrived, file = ([part[place] for part in parts] for place in range(2))
    return _coalesce(arrived).alias(ARRIVED), _coalesce(file).alias(SOURCE)


def text_of(frame: DataFrame, records: Sequence[str]) -> Column:
    """Return the original record of each row as JSON text.

    Args:
        frame: rows with their records.
        records: columns with the records.
    """
    texts = {record: original_json(_fields(frame, record), f"{quote_name(record)}.") for record in records}
    if [*records] == [RECORD_STRUCT]:
        return texts[RECORD_STRUCT]
    return _coalesce([F.when(F.col(quote_name(record)).isNotNull(), text) for record, text in texts.items()])


def original_json(columns: Iterable[str], within: str = "") -> Column:
    """Return a record in its original form as JSON text.

    Args:
        columns: the record's columns.
        within: prefix of their names, if they are fields of a struct.
    """
    engine_columns = {*PROVENANCE, ROW, FLOW} - {"_rescued_data", "_corrupt_record"}
    values = [F.col(f"{within}{quote_name(column)}") for column in sorted({*columns} - engine_columns)]
    return F.to_json(F.struct(*values), MICROSECONDS)


def _file_of(frame: DataFrame, record: str) -> tuple[Column, Column]:
    fields, null = _fields(frame, record), F.lit(None).cast("string")
    file = null
    if "source_file" in fields:
        file = F.col(f"{quote_name(record)}.source_file")
    stamps = {name: F.col(f"{quote_name(record)}.{name}") for name in STAMPS if name in fields}
    if record == RECORD_STRUCT and not stamps:
        return null, file
    if record == RECORD_STRUCT:
        return F.struct(*[value.alias(name) for name, value in stamps.items()]), file
    # Of one type in all flows, and NULL in the records of others.
    values = [stamps.get(name, F.lit(None).cast(kind)).alias(name) for name, kind in STAMPS.items()]
    return F.when(F.col(quote_name(record)).isNotNull(), F.struct(*values)), file


def _fields(frame: DataFrame, record: str) -> set[str]:
    return set(getattr(frame.schema[record].dataType, "names", ()))


def _coalesce(columns: Sequence[Column]) -> Column:
    if len(columns) == 1:
        return columns[0]
    return F.coalesce(*columns)

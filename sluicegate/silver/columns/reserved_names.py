"""Handle columns of a transform with reserved names.

Bronze creates no column for a field with a reserved name. A lake from before the name was reserved may have one, and
continues: the value stays in bronze, a query that names the column gets it, and a star drops it with a remark. From any
other source, such a column is a mistake in the query.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from sluicegate.definition import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.errors import QueryError, Where
from sluicegate.schema.columns import RECORD_STRUCT, SEQUENCE
from sluicegate.silver.side_tables.rescued import UNFIT
from sluicegate.silver.silver_batch import SilverBatch
from sluicegate.spark_sql.engine_columns import OF_SILVER, is_working
from sluicegate.spark_sql.query import CAST_PREFIX


def drop_working_columns(records: DataFrame) -> DataFrame:
    """Drop data columns whose names are used during evaluation."""
    names = [column for column in records.columns if is_working(column)]
    if not names:
        return records
    return records.drop(*names)


def drop_reserved_columns(
    rows: DataFrame, records: Sequence[str], silver_batch: SilverBatch, maker: SilverTable | SilverFlow, flow: str
) -> DataFrame:
    """Drop columns of records from a transform's result whose names a silver table reserves.

    Args:
        rows: the result, with the columns that identify a record and a flag for each failed cast.
        records: columns of the records.
        silver_batch: the batch, which gets a remark for each of these columns.
        maker: whose transform it is.
        flow: its name among several.

    Raises:
        QueryError: the transform has a reserved column from elsewhere, as by the star of a lookup.
    """
    clashing = [column for column in rows.columns if _is_reserved(column, silver_batch)]
    of_records = {column.lower() for column in records}
    for column in clashing:
        if column.lower() not in of_records:
            raise QueryError(
                f"the query of {silver_batch.name} returns a column {column}, a name that is reserved for the engine",
                where=Where(table=silver_batch.name, file=maker.sql_file),
                hint="exclude it from the star, as in * EXCEPT (…), and rename it with AS",
            )
    source = silver_batch.batch.flow.source
    if flow:
        source = silver_batch.batch.flow.streams[flow]
    *_, layer, name = source.rstrip("/").split("/")
    for column in [*clashing, *filter(is_working, records)]:
        if layer == "bronze" or column != SEQUENCE:  # a silver table's own sequence is none of its data
            silver_batch.remarks[
                f"{column} of {name} is a name of the engine's own, and {silver_batch.name} has no such column: "
                f"{name} keeps its values, and a query may have them under another name, {column} AS other"
            ] = None
    if not clashing:
        return rows
    return rows.drop(*clashing)


def _is_reserved(column: str, silver_batch: SilverBatch) -> bool:
    """Return whether a query's result has a column with a name reserved for the engine."""
    if column in (*silver_batch.record_id, RECORD_STRUCT, UNFIT) or column.startswith(CAST_PREFIX):
        return False
    return column.lower() in OF_SILVER or is_working(column)

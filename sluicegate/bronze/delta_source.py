"""Fill bronze from another Delta table, with the rows that the source has at the offset.

There is no ledger: the source's version is the offset. Commits that only added rows are followed by a plain stream,
since other programs' tables seldom have a change data feed. After any other commit, after a change of columns other
than additions, and when history is missing, the bronze table gets a full refresh in one commit, which states the
reason. The effect of a commit is read from its actions, not from its operation's name: a MERGE may only insert, and an
OPTIMIZE only moves rows. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.bronze import record_rules
from sluicegate.definition import BronzeTable
from sluicegate.flow import prerequisites
from sluicegate.flow.batch import Batch
from sluicegate.lake import log, tables
from sluicegate.schema.evolution import Schema


def apply(batch: Batch, name: str, table: BronzeTable) -> None:
    """Append the source's new rows, or replace all by those that it has, in one commit.

    Raises:
        SchemaMismatch: a column is new, and the definition has failOnNewColumns.
        ExpectationFailed: rows break a rule that fails the run; nothing is written.
    """
    from sluicegate.bronze.ingest import CASE_SENSITIVE
    from sluicegate.spark.session import override_settings

    source = tables.delta_table(table.path)
    if source is None:
        raise prerequisites.missing_source_error(batch.flow)
    with (
        override_settings(batch.session, CASE_SENSITIVE),
        record_rules.checked_records(batch, table, _frame(batch, name, table), few=False) as checked,
    ):
        rows = batch.add_comments(checked.records)
        writer = rows.write.format("delta").mode("overwrite" if batch.whole else "append")
        # A full refresh takes the source's own columns; where they were frozen, they stay.
        overwrites_schema = batch.whole and table.schemaEvolutionMode == "addNewColumns"
        writer = writer.option("overwriteSchema" if overwrites_schema else "mergeSchema", "true")
        checked.demand_table((lambda: checked.records) if batch.whole else None)
        _faults.point("bronze.before_commit")
        with batch.commit(source=tables.table_id(source), **checked.facts):
            writer.save(batch.flow.target)
        checked.count()
    _faults.point("bronze.after_commit")
    target = tables.delta_table(batch.flow.target)
    of_batch = pc.field("_chunk") == batch.progress.until
    if target is not None:
        batch.report.read = batch.report.written = tables.dataset(target).count_rows(filter=of_batch)
        batch.report.rescued = tables.dataset(target).count_rows(filter=of_batch & pc.field("_rescued_data").is_valid())


def _frame(batch: Batch, name: str, table: BronzeTable) -> DataFrame:
    """Return the source's rows with the bronze table's columns."""
    from sluicegate.schema.values import Value, rescued_json
    from sluicegate.spark_sql.identifiers import quote_name
    from sluicegate.spark_sql.type_parts import is_void

    columns = _schema(batch, name, table).columns([field for field in batch.rows.schema if not is_void(field.dataType)])
    values = [Value(column, F.col(quote_name(column.field)), {}) for column in columns]
    path = F.lit(table.path)
    return batch.rows.select(
        # Without the source's metadata of a column (a default, an identity, a length): these are rules for its writers.
        *[value.typed_value.alias(value.column.name, metadata={}) for value in values if value.column.name],
        rescued_json(values, F.struct(path.alias("file_path"))).alias("_rescued_data"),
        F.lit(None).cast("string").alias("_corrupt_record"),
        F.current_timestamp().alias("receipt_time"),
        path.alias("source_file"),
        F.lit(_commit_time(table.path, batch.progress.until)).cast("timestamp").alias("_file_modification_time"),
        F.lit(batch.progress.until).cast("bigint").alias("_chunk"),
        F.monotonically_increasing_id().alias("_pos"),
    )


def _schema(batch: Batch, name: str, table: BronzeTable) -> Schema:
    from sluicegate.schema.columns import data_columns
    from sluicegate.schema.evolution import Schema
    from sluicegate.spark import table_reader

    there = tables.delta_table(batch.flow.target)
    if there is None or (batch.whole and table.schemaEvolutionMode == "addNewColumns"):
        return Schema(name, table, {}, first=True)
    schema = table_reader.schema(there)
    known = {field.name: field.dataType for field in schema if field.name in data_columns(schema.names)}
    return Schema(name, table, known, first=tables.rows(there) == 0)


def _commit_time(uri: str, version: int) -> datetime | None:
    """Return the commit time of a version of the source (UTC); None if its log no longer has it."""
    table = tables.delta_table(uri)
    for commit in log.commits(table, table.version() - version + 1) if table else ():
        if commit.version == version:
            return datetime.fromtimestamp(commit.timestamp / 1000, UTC)
    return None

"""Write few rows: computed by Spark, collected once, and committed by delta-rs where possible.

Where it cannot (a new table, new columns, a type or a feature that it does not have), Spark writes as it always did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sluicegate.frames import row_bytes, stored_types
from sluicegate.frames.data_skipping import RANGES, ranges
from sluicegate.lake import tables
from sluicegate.lake.commits import file_statistics, small_commits
from sluicegate.spark import commit_settings, table_reader

EPOCH = date(1970, 1, 1)


def append(rows: DataFrame, uri: str, *, few: bool, constants: Mapping[str, Any] | None = None, **options: str) -> None:
    """Append rows to a table or create it, in the one commit that the session is set for (``Batch.commit``).

    Args:
        rows: the rows; computed twice if delta-rs turns out not to be able to write them.
        uri: the table.
        few: whether the rows are few enough for the driver.
        constants: columns of the rows with one value in all of them. Spark would compile its code anew for each value,
            so that it does not compute these columns of few rows.
        options: options of Delta's writer for a table that is created here.
    """
    table = tables.delta_table(uri)
    if table is not None:
        stored_types.demand_same(rows.schema, uri, table)
    if few and table is not None and _fits(table, rows.schema, all_columns=False):
        arrow_rows = _collect(rows, constants or {}, table)
        if arrow_rows is not None and file_statistics.are_right_for_rows(arrow_rows):
            small_commits.append(uri, arrow_rows, commit_settings.facts(rows.sparkSession), table)
            return
    rows.write.format("delta").mode("append").option("mergeSchema", "true").options(**options).save(uri)


def _collect(rows: DataFrame, constants: Mapping[str, Any], table: DeltaTable) -> pa.Table | None:
    """Collect rows on the driver if they have few bytes, with constant columns in the types of the table."""
    collected = row_bytes.collect_if_small(rows.drop(*constants))
    if collected is None:
        return None
    kinds = pa.schema(table.schema().to_arrow())
    for name, value in constants.items():
        constant = pa.scalar(value, kinds.field(name).type)
        collected = collected.append_column(name, pa.repeat(constant, collected.num_rows))
    return collected


def commit_only(session: SparkSession, uri: str) -> None:
    """Make the session's commit without rows: only the offset and the metadata are new."""
    table = tables.table_at(uri)
    if small_commits.can_write(table):
        small_commits.append(uri, pa.table({}), commit_settings.facts(session), table)
    else:
        nothing = session.createDataFrame([], table_reader.schema(table))
        nothing.write.format("delta").mode("append").save(uri)


@dataclass(frozen=True)
class Changes:
    """Few changes to a table, collected on the driver, which delta-rs can merge by key.

    Attributes:
        table: the table as of the version of the changes.
        rows: rows with the columns of the table, and with ``op``.
        keys: key columns.
        op: the column with the operation.
    """

    table: DeltaTable
    rows: pa.Table
    keys: Sequence[str]
    op: str

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each operation."""
        return dict(Counter(self.rows[self.op].to_pylist()))

    def merge(self, session: SparkSession, uri: str, kinds: Sequence[str], numbers: Sequence[str] = ()) -> bool:
        """Merge the rows of some operations, in the one commit that the session is set for.

        Args:
            session: the session.
            uri: the table's address.
            kinds: the operations.
            numbers: keys whose values are the engine's numbers, which a commit may always quote.

        Returns:
            False, and nothing is written, if Spark has to merge them.
        """
        facts = commit_settings.facts(session)
        rows = self.rows.filter(pc.is_in(self.rows[self.op], pa.array(kinds)))
        if rows.num_rows:
            quoted = [key for key in self.keys if key in numbers or not facts.private]
            near = " AND ".join(filter(None, (_value_predicate(rows[key], key) for key in quoted)))
            return small_commits.merge(self.table, rows, self.keys, self.op, facts, near)
        small_commits.append(uri, rows.drop_columns([self.op]), facts, self.table)
        return True


def collect_changes(uri: str, changes: DataFrame, keys: Sequence[str], op: str) -> Changes | None:
    """Collect changes on the driver in one job.

    Args:
        uri: the table to change.
        changes: few rows with ``op``, materialized.
        keys: key columns.
        op: the column with the operation.

    Returns:
        None where Spark has to merge them.
    """
    table = tables.delta_table(uri)
    if table is None or _bytes(table) > small_commits.MOST_BYTES:
        return None
    names = all(map(file_statistics.NAME.fullmatch, changes.columns))
    if (
        not names
        or not _fits(table, changes.drop(op).schema, all_columns=True)
        or not file_statistics.are_right_for_table(table)
    ):
        return None
    rows = row_bytes.collect_if_small(changes)
    if (
        rows is None
        or not file_statistics.are_right_for_rows(rows.drop_columns([op]))
        or not _are_comparable_keys(rows, keys)
    ):
        return None
    return Changes(table, rows, keys, op)


def _fits(table: DeltaTable, schema: StructType, *, all_columns: bool) -> bool:
    """Return whether a table has these columns and types, so that no write changes its schema.

    Args:
        table: the table.
        schema: the columns.
        all_columns: whether the table must have no other columns.
    """
    if not small_commits.can_write(table) or not table_reader.is_plain(table):
        return False
    stored = table_reader.schema(table)
    if stored != stored.toNullable():  # of a NULL where none may be, Spark's error tells
        return False
    stored_kinds = {field.name: field.dataType.simpleString() for field in stored}
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    return kinds.items() <= stored_kinds.items() and (not all_columns or kinds.keys() == stored_kinds.keys())


def _bytes(table: DeltaTable) -> int:
    return sum(tables.statistics(table, "size_bytes")[0].to_pylist())


def _value_predicate(values: pa.ChunkedArray, column: str) -> str:
    """Return the predicate for rows of a table with these values, or between them; empty for other types.

    delta-rs skips files only by an explicit predicate, not by one that it could derive from the merged rows.
    """
    kind = values.type
    if pa.types.is_string(kind):
        distinct = sorted(pc.unique(values).to_pylist())
        spans = [(distinct[0], distinct[-1])]
        if len(distinct) <= RANGES:
            spans = [(text, text) for text in distinct]
        texts = [tuple("'" + bound.replace("'", "''") + "'" for bound in span) for span in spans]
    elif pa.types.is_signed_integer(kind):
        texts = [(str(first), str(last)) for first, last in ranges(sorted(pc.unique(values).to_pylist()))]
    elif pa.types.is_date32(kind):
        days = ranges(sorted(pc.unique(values.cast(pa.int32())).to_pylist()))
        texts = [tuple(f"DATE '{EPOCH + timedelta(days=day)}'" for day in span) for span in days]
    else:
        return ""
    return "(" + " OR ".join(f"held.`{column}` BETWEEN {first} AND {last}" for first, last in texts) + ")"


def _are_comparable_keys(rows: pa.Table, keys: Sequence[str]) -> bool:
    """Return whether ``=`` matches a key: no NULL, and no number that can equal another."""
    columns = rows.select(keys)
    inexact = (pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in columns.schema.types)
    return not any(inexact) and not any(column.null_count for column in columns.columns)

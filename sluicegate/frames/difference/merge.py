"""Compute the difference between expected and stored rows, and write it by a MERGE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluicegate.frames import small_writes, stored_types
from sluicegate.frames.data_skipping import chunk_predicate
from sluicegate.frames.difference.value_equality import comparable_forms, group_form, is_loose, is_plain
from sluicegate.frames.record_ids import Identities
from sluicegate.schema.columns import IDENTITY
from sluicegate.spark import commit_settings, connect
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.identifiers import quote_name

# Columns that say when a row was written, not what it is.
WRITTEN = ("_quarantined_at",)

# Column with the operation for a row, one of ``KINDS``.
OP = "_sluicegate_op"

KINDS = ("insert", "update", "delete")


def difference(new: DataFrame, old: DataFrame | None, keys: Sequence[str] = IDENTITY) -> DataFrame:
    """Compare expected with stored rows, and return the source of the MERGE: the rows to write, each with ``OP``.

    Args:
        new: expected rows of some records.
        old: stored rows of these records; None without a table.
        keys: key columns, unique in each frame; NULL equals NULL.
    """
    if old is None:
        return new.withColumn(OP, F.lit("insert"))
    old = _add_missing_columns(new, old)
    stored_values, new_values = _comparable_values(old, new, _compared_columns(new, keys))
    new_row, old_key = F.struct(*map(quote_name, new.columns)), F.struct(*map(quote_name, keys))
    expected = new.select(_key(new, keys).alias("key"), new_row.alias("new"), new_values.alias("is"))
    stored = old.select(_key(old, keys).alias("held"), old_key.alias("old"), stored_values.alias("was"))
    both = expected.join(stored, F.col("key").eqNullSafe(F.col("held")), "full_outer")
    kind = F.when(F.col("was").isNull(), "insert").when(F.col("is").isNull(), "delete").otherwise("update")
    changed = both.where("NOT (`is` <=> `was`)").withColumn(OP, kind)

    def column(name: str) -> Column:
        value = F.col(f"new.{quote_name(name)}")
        if name in keys:  # which a row to delete has, too
            value = F.when(F.col("is").isNull(), F.col(f"old.{quote_name(name)}")).otherwise(value)
        return value.alias(name)

    names = [*keys, *(name for name in new.columns if name not in keys)]
    return changed.select(*map(column, names), OP)


def _add_missing_columns(new: DataFrame, old: DataFrame) -> DataFrame:
    """Add the columns that only the expected rows have to the stored rows, as NULL."""
    stored = {column.lower() for column in old.columns}
    absent = {field.name: F.lit(None).cast(field.dataType) for field in new.schema if field.name.lower() not in stored}
    if not absent:
        return old
    return old.withColumns(absent)


def _compared_columns(rows: DataFrame, keys: Sequence[str]) -> list[str]:
    """Return the columns that are compared: those that are not keys, and keys that can differ although equal."""
    fixed_keys = {field.name for field in rows.schema if field.name in keys and not is_loose(field.dataType)}
    return [name for name in rows.columns if name not in {*WRITTEN, *fixed_keys}]


def merged_rows(stored: DataFrame, changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows of a table after a merge of rows with ``OP``; nothing is written.

    Args:
        stored: the table's rows.
        changes: rows with ``OP``.
        keys: key columns; NULL equals NULL.
    """
    leaving = changes.where(F.col(OP) != "insert").select(_key(changes, keys).alias("_sluicegate_gone"))
    keyed = stored.withColumn("_sluicegate_key", _key(stored, keys))
    stays = keyed.join(leaving, F.col("_sluicegate_key").eqNullSafe(F.col("_sluicegate_gone")), "left_anti")
    new_rows = changes.where(F.col(OP) != "delete").drop(OP)
    return stays.drop("_sluicegate_key").unionByName(new_rows, allowMissingColumns=True)


def exchange(new: DataFrame, old: DataFrame) -> DataFrame:
    """Return the rows to write to replace some rows of a table by others, each as often as it occurs.

    Rows that are equal as keys of all columns are indistinguishable. If some are deleted, all are, by one row with
    ``OP`` ``delete``, and the expected ones are inserted by as many rows with ``insert``; otherwise only missing
    rows are inserted.

    Args:
        new: expected rows.
        old: stored rows, with the same columns.
    """
    kinds = {field.name: field.dataType for field in new.schema}
    row = F.struct(*[F.col(quote_name(c)).alias(c) for c in kinds])
    key = F.struct(
        *(group_form(F.col(quote_name(c)), kind).alias(f"c{n}") for n, (c, kind) in enumerate(kinds.items()))
    )
    old_values, new_values = _comparable_values(old, new, list(kinds))

    def add_counts(frame: DataFrame, form: Column, new_count: int, old_count: int) -> DataFrame:
        values = {"key": key, "is": form, "row": row, "came": F.lit(new_count), "held": F.lit(old_count)}
        return frame.select(*[value.alias(name) for name, value in values.items()])

    both = add_counts(new, new_values, 1, 0).unionByName(add_counts(old, old_values, 0, 1))
    sums = [F.sum(side).alias(side) for side in ("came", "held")]
    each = both.groupBy("key", "is").agg(F.first("row").alias("row"), *sums)
    same = each.groupBy("key").agg(
        F.collect_list(F.struct("row", "came", "held")).alias("rows"),
        F.bool_or(F.col("came") != F.col("held")).alias("other"),
        F.bool_or(F.col("came") < F.col("held")).alias("goes"),
    ).where("other")  # fmt: skip
    deletes = same.where("goes").select(F.col("rows")[0]["row"].alias("row"), F.lit("delete").alias(OP))
    come = same.select("goes", F.explode("rows").alias("one"))
    count = "array_repeat(1, int(one.came - if(goes, 0, one.held)))"
    come = come.select(F.col("one.row").alias("row"), F.explode(F.expr(count)))
    return deletes.unionByName(come.select("row", F.lit("insert").alias(OP))).select("row.*", OP)


def merge(
    uri: str, changes: DataFrame, records: Identities, row_id: Sequence[str] = IDENTITY, kinds: Sequence[str] = KINDS
) -> None:
    """Merge rows with ``OP`` into a table by their identity, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, materialized: a MERGE reads its source twice, and must see the same.
        records: the records of these rows.
        row_id: the columns that identify a row.
        kinds: the operations to write; rows with others are skipped.
    """

    def is_same_row(names: _Names) -> Column:
        chunks = chunk_predicate(records.chunks, names.stored_column("_chunk"))  # so that no other files are opened
        return reduce(and_, [F.col(names.stored_column(c)) == F.col(names.new_column(c)) for c in row_id], chunks)

    brought = collect_changes(uri, changes, row_id, few=records.are_few)
    if brought is None or not brought.merge(changes.sparkSession, uri, kinds, row_id):
        _merge(uri, changes, is_same_row, few=records.are_few, kinds=kinds)


def collect_changes(uri: str, changes: DataFrame, keys: Sequence[str], *, few: bool) -> small_writes.Changes | None:
    """Collect rows with ``OP`` on the driver, to be merged without Spark; None if Spark must merge them."""
    if not few:
        return None
    return small_writes.collect_changes(uri, changes, keys, OP)


def merge_by_keys(
    uri: str,
    changes: DataFrame,
    keys: Sequence[str],
    *,
    few: bool,
    brought: small_writes.Changes | None,
    near: Callable[[str], Column] | None = None,
    numbers: Sequence[str] = (),
) -> None:
    """Merge rows with ``OP`` into a table by its key columns, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, materialized.
        keys: key columns; NULL equals NULL.
        few: whether to broadcast the rows.
        brought: the same rows from ``collect_changes``; None to merge by Spark.
        near: predicate for the rows of the table that have one of these keys, so that no other files are opened,
            made for a prefix of the table's columns. The commit quotes it.
        numbers: keys whose values are the engine's numbers, which a commit may always quote.
    """
    if brought is not None and brought.merge(changes.sparkSession, uri, KINDS, numbers):
        return

    def is_same_row(names: _Names) -> Column:
        condition = reduce(and_, [_same_value(changes, key, names) for key in keys])
        if near is None:
            return condition
        return near(names.prefix) & condition

    _merge(uri, changes, is_same_row, few=few, kinds=KINDS)


def merge_rows(uri: str, changes: DataFrame, *, few: bool, near: Callable[[str], Column] | None = None) -> None:
    """Merge the rows of ``exchange`` into a table, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, materialized.
        few: whether to broadcast the rows.
        near: predicate for the rows of the table that may go, as of ``merge_by_keys``.
    """
    columns = [column for column in changes.columns if column != OP]

    def is_same_row(names: _Names) -> Column:
        is_delete = F.col(names.new_column(OP)) == "delete"
        condition = reduce(and_, [_same_value(changes, column, names) for column in columns], is_delete)
        if near is None:
            return condition
        return near(names.prefix) & condition

    _merge(uri, changes, is_same_row, few=few, kinds=("insert", "delete"))


@dataclass(frozen=True)
class _Names:
    """Names of the columns of the two sides of a MERGE in its condition."""

    prefix: str
    start: str

    def stored_column(self, column: str) -> str:
        """Return a column of the table in the condition."""
        return f"{self.prefix}{quote_name(column)}"

    def new_column(self, column: str) -> str:
        """Return a column of the rows in the condition."""
        if not self.start:
            return f"new.{quote_name(column)}"
        return quote_name(f"{self.start}{column}")


def _same_value(changes: DataFrame, column: str, names: _Names) -> Column:
    """Return the condition that a row of the table and a change have equal values; NULL equals NULL."""
    stored = _comparable_key(changes, column, names.stored_column(column))
    return stored.eqNullSafe(_comparable_key(changes, column, names.new_column(column)))


# Names of the sides where both have aliases, and where the table can have none and the rows' columns are renamed.
_ALIASED, _RENAMED = _Names("held.", ""), _Names("", "_sluicegate_new_")


def _merge(uri: str, changes: DataFrame, same: Callable[[_Names], Column], *, few: bool, kinds: Sequence[str]) -> None:
    session = changes.sparkSession
    stored_types.demand_same(changes.drop(OP).schema, uri)
    rows = changes.where(F.col(OP).isin(*kinds))
    if few:
        rows = F.broadcast(rows)
    if connect.is_remote(session):
        _merge_remotely(uri, rows, same(_RENAMED), kinds)
        return
    values: dict[str, str | Column] = {quote_name(c): F.col(f"new.{quote_name(c)}") for c in changes.columns if c != OP}
    work = DeltaTable.forPath(session, uri).alias("held").merge(rows.alias("new"), same(_ALIASED)).withSchemaEvolution()
    if "delete" in kinds:
        work = work.whenMatchedDelete(f"new.{OP} = 'delete'")
    if "update" in kinds:
        work = work.whenMatchedUpdate(f"new.{OP} = 'update'", values)
    if "insert" in kinds:
        work = work.whenNotMatchedInsert(f"new.{OP} = 'insert'", values)
    with override_settings(session, {"spark.databricks.delta.merge.materializeSource": "none"}):
        work.execute()


def _merge_remotely(uri: str, rows: DataFrame, same: Column, kinds: Sequence[str]) -> None:
    """Merge rows with ``OP`` into a table by a Spark Connect server, whose client has no ``DeltaTable``.

    New columns come before, by a commit without rows and without offset: MERGE adds only columns that have the same
    name on both sides.
    """
    session = rows.sparkSession
    table = f"delta.{quote_name(uri)}"
    values = {quote_name(c): F.col(_RENAMED.new_column(c)) for c in rows.columns if c != OP}
    _add_columns(session, uri, rows.drop(OP))
    renamed = rows.select(*[F.col(quote_name(c)).alias(f"{_RENAMED.start}{c}") for c in rows.columns])
    work, kind = renamed.mergeInto(table, same), F.col(_RENAMED.new_column(OP))
    if "delete" in kinds:
        work = work.whenMatched(kind == "delete").delete()
    if "update" in kinds:
        work = work.whenMatched(kind == "update").update(values)
    if "insert" in kinds:
        work = work.whenNotMatched(kind == "insert").insert(values)
    with override_settings(session, {"spark.databricks.delta.merge.materializeSource": "none"}):
        work.merge()


def _add_columns(session: SparkSession, uri: str, rows: DataFrame) -> None:
    """Add the columns, fields and types of rows that a table lacks."""
    target = session.read.format("delta").load(uri)
    stored = {field.name.lower(): field.dataType for field in target.schema}
    if all(stored.get(field.name.lower()) == field.dataType for field in rows.schema):
        return
    with override_settings(session, commit_settings.NOTHING):
        rows.limit(0).write.format("delta").mode("append").option("mergeSchema", "true").save(uri)


def _key(frame: DataFrame, keys: Sequence[str]) -> Column:
    """Return the row key as a struct that Spark can compare, never NULL."""
    return F.struct(*[_comparable_key(frame, c, quote_name(c)) for c in keys])


def _comparable_key(frame: DataFrame, key: str, name: str) -> Column:
    """Return the key column in its comparable form: unchanged where possible, for data skipping."""
    kind = frame.schema[key].dataType
    if is_plain(kind):
        return F.col(name)
    return group_form(F.col(name), kind).alias(key)


def _comparable_values(old: DataFrame, new: DataFrame, columns: Sequence[str]) -> tuple[Column, Column]:
    """Return stored and expected values in forms that Spark can compare; neither is NULL."""
    old_kinds, new_kinds = ({field.name.lower(): field.dataType for field in frame.schema} for frame in (old, new))
    pairs = [
        comparable_forms(F.col(quote_name(c)), old_kinds[c.lower()], F.col(quote_name(c)), new_kinds[c.lower()])
        for c in columns
    ]
    return _combine([stored for stored, _ in pairs]), _combine([expected for _, expected in pairs])


def _combine(values: Sequence[Column]) -> Column:
    if not values:
        return F.lit(True)
    return F.struct(*[value.alias(f"c{number}") for number, value in enumerate(values)])

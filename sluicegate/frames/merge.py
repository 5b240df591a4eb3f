"""Diff of expected against stored rows, and the MERGE that writes it (insert, update, delete)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from sluicegate.frames import small_writes, stored_types
from sluicegate.frames.data_skipping import of_chunks
from sluicegate.frames.value_equality import grouped, is_loose, is_plain, together
from sluicegate.schema.columns import IDENTITY
from sluicegate.spark import commit_settings, connect
from sluicegate.spark.session import configured
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from sluicegate.frames.record_ids import Identities

# Columns that say when a row was written, not what it is.
WRITTEN = ("_quarantined_at",)

OP = "_sluicegate_op"
"""Column with the operation for a row, one of ``KINDS``."""

KINDS = ("insert", "update", "delete")


def difference(new: DataFrame, old: DataFrame | None, keys: Sequence[str] = IDENTITY) -> DataFrame:
    """Diff expected against stored rows and build the MERGE source: the rows to write, each with ``OP``.

    Args:
        new: expected rows of some records.
        old: stored rows of these records; None if there is no table.
        keys: key columns, unique in each frame; NULL equals NULL.
    """
    if old is None:
        return new.withColumn(OP, F.lit("insert"))
    kinds = {field.name: field.dataType for field in new.schema}
    there = {column.lower() for column in old.columns}
    absent = {c: F.lit(None).cast(kind) for c, kind in kinds.items() if c.lower() not in there}
    old = old.withColumns(absent) if absent else old
    values = [c for c in kinds if c not in (*keys, *WRITTEN) or (c in keys and is_loose(kinds[c]))]
    held, made = _comparable(old, new, values)
    own = F.struct(*[quoted(c) for c in keys])
    now = new.select(_key(new, keys).alias("key"), F.struct(*[quoted(c) for c in kinds]).alias("new"), made.alias("is"))
    before = old.select(_key(old, keys).alias("held"), own.alias("old"), held.alias("was"))
    both = now.join(before, F.col("key").eqNullSafe(F.col("held")), "full_outer")
    kind = F.when(F.col("was").isNull(), "insert").when(F.col("is").isNull(), "delete").otherwise("update")
    other = both.where("NOT (`is` <=> `was`)").withColumn(OP, kind)
    its = [F.when(F.col("is").isNull(), F.col(f"old.{quoted(c)}")).otherwise(F.col(f"new.{quoted(c)}")) for c in keys]
    rest = [F.col(f"new.{quoted(c)}").alias(c) for c in kinds if c not in keys]
    return other.select(*[one.alias(c) for one, c in zip(its, keys, strict=True)], *rest, OP)


def merged(held: DataFrame, changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows that a table will have once rows with ``OP`` are merged into it; nothing is written.

    Args:
        held: the table's rows.
        changes: rows with ``OP``.
        keys: key columns; NULL equals NULL.
    """
    gone = changes.where(F.col(OP) != "insert").select(_key(changes, keys).alias("_sluicegate_gone"))
    keyed = held.withColumn("_sluicegate_key", _key(held, keys))
    stays = keyed.join(gone, F.col("_sluicegate_key").eqNullSafe(F.col("_sluicegate_gone")), "left_anti")
    comes = changes.where(F.col(OP) != "delete").drop(OP)
    return stays.drop("_sluicegate_key").unionByName(comes, allowMissingColumns=True)


def exchange(new: DataFrame, old: DataFrame) -> DataFrame:
    """Rows to write so that a table has some rows instead of others, each as often as it is among them.

    Rows that are the same as keys of all columns cannot be told apart. Where some of them go, all do, by one row with
    ``OP`` ``delete``, and those that are to be there come, by as many with ``insert``; else only those come that are
    not there yet.

    Args:
        new: expected rows.
        old: stored rows, with the same columns.
    """
    kinds = {field.name: field.dataType for field in new.schema}
    row = F.struct(*[F.col(quoted(c)).alias(c) for c in kinds])
    key = F.struct(*[grouped(F.col(quoted(c)), kind).alias(f"c{n}") for n, (c, kind) in enumerate(kinds.items())])
    held, made = _comparable(old, new, list(kinds))

    def counted(frame: DataFrame, form: Column, came: int, held: int) -> DataFrame:
        values = {"key": key, "is": form, "row": row, "came": F.lit(came), "held": F.lit(held)}
        return frame.select(*[value.alias(name) for name, value in values.items()])

    both = counted(new, made, 1, 0).unionByName(counted(old, held, 0, 1))
    each = both.groupBy("key", "is").agg(
        F.first("row").alias("row"), F.sum("came").alias("came"), F.sum("held").alias("held")
    )
    same = each.groupBy("key").agg(
        F.collect_list(F.struct("row", "came", "held")).alias("rows"),
        F.bool_or(F.col("came") != F.col("held")).alias("other"),
        F.bool_or(F.col("came") < F.col("held")).alias("goes"),
    ).where("other")  # fmt: skip
    gone = same.where("goes").select(F.col("rows")[0]["row"].alias("row"), F.lit("delete").alias(OP))
    come = same.select("goes", F.explode("rows").alias("one"))
    count = "array_repeat(1, int(one.came - if(goes, 0, one.held)))"
    come = come.select(F.col("one.row").alias("row"), F.explode(F.expr(count)))
    return gone.unionByName(come.select("row", F.lit("insert").alias(OP))).select("row.*", OP)


def merge(
    uri: str,
    changes: DataFrame,
    records: Identities,
    row_id: Sequence[str] = IDENTITY,
    kinds: Sequence[str] = KINDS,
) -> None:
    """Merges rows with ``OP`` into a table by their identity, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, materialized: a MERGE reads its source twice, and must see the same.
        records: the records of these rows.
        row_id: the columns by which a row is known.
        kinds: the operations to write; rows with another are left out.
    """

    def same(names: _Names) -> Column:
        found = of_chunks(records.chunks, names.held("_chunk"))  # so that no other files are opened
        return reduce(and_, [F.col(names.held(c)) == F.col(names.new(c)) for c in row_id], found)

    brought = bring(uri, changes, row_id, few=records.few)
    if brought is None or not brought.merge(changes.sparkSession, uri, kinds, row_id):
        _merge(uri, changes, same, few=records.few, kinds=kinds)


def bring(uri: str, changes: DataFrame, keys: Sequence[str], *, few: bool) -> small_writes.Changes | None:
    """Brings rows with ``OP`` to the driver, to be merged without Spark; None where they have to be merged by it."""
    return small_writes.brought(uri, changes, keys, OP) if few else None


def merge_by(
    uri: str,
    changes: DataFrame,
    keys: Sequence[str],
    *,
    few: bool,
    brought: small_writes.Changes | None,
    near: Callable[[str], Column] | None = None,
    numbers: Sequence[str] = (),
) -> None:
    """Merges rows with ``OP`` into a table by its key columns, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, materialized.
        keys: key columns; NULL equals NULL.
        few: whether to broadcast the rows.
        brought: the same rows as ``bring`` gives them; None to merge them by Spark.
        near: predicate for the rows of the table that have one of these keys, so that no other files are opened,
            made for a prefix of the table's columns. The commit quotes it.
        numbers: keys whose values are numbers of ours, which a commit may quote whatever the rows are.
    """
    if brought is not None and brought.merge(changes.sparkSession, uri, KINDS, numbers):
        return

    def same(names: _Names) -> Column:
        sides = [[_grouped(changes, key, side(key)) for side in (names.held, names.new)] for key in keys]
        found = reduce(and_, [held.eqNullSafe(made) for held, made in sides])
        return found if near is None else near(names.prefix) & found

    _merge(uri, changes, same, few=few, kinds=KINDS)


def merge_rows(uri: str, changes: DataFrame, *, few: bool, near: Callable[[str], Column] | None = None) -> None:
    """Merges the rows of ``exchange`` into a table, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, materialized.
        few: whether to broadcast the rows.
        near: predicate for the rows of the table that may go, as of ``merge_by``.
    """
    columns = [column for column in changes.columns if column != OP]

    def same(names: _Names) -> Column:
        sides = [[_grouped(changes, key, side(key)) for side in (names.held, names.new)] for key in columns]
        found = reduce(and_, [held.eqNullSafe(made) for held, made in sides], F.col(names.new(OP)) == "delete")
        return found if near is None else near(names.prefix) & found

    _merge(uri, changes, same, few=few, kinds=("insert", "delete"))


@dataclass(frozen=True)
class _Names:
    """Names of the columns of the two sides of a MERGE in its condition."""

    prefix: str
    start: str

    def held(self, column: str) -> str:
        """Name of a column of the table."""
        return f"{self.prefix}{quoted(column)}"

    def new(self, column: str) -> str:
        """Name of a column of the rows."""
        return quoted(f"{self.start}{column}") if self.start else f"new.{quoted(column)}"


# Names of the sides where both have aliases, and where the table can have none and the rows' columns are renamed.
_ALIASED, _RENAMED = _Names("held.", ""), _Names("", "_sluicegate_new_")


def _merge(
    uri: str,
    changes: DataFrame,
    same: Callable[[_Names], Column],
    *,
    few: bool,
    kinds: Sequence[str],
) -> None:
    session = changes.sparkSession
    stored_types.demand_same(changes.drop(OP).schema, uri)
    rows = changes.where(F.col(OP).isin(*kinds))
    rows = F.broadcast(rows) if few else rows
    if connect.is_remote(session):
        _merge_remotely(uri, rows, same(_RENAMED), kinds)
        return
    values: dict[str, str | Column] = {quoted(c): F.col(f"new.{quoted(c)}") for c in changes.columns if c != OP}
    work = DeltaTable.forPath(session, uri).alias("held").merge(rows.alias("new"), same(_ALIASED)).withSchemaEvolution()
    if "delete" in kinds:
        work = work.whenMatchedDelete(f"new.{OP} = 'delete'")
    if "update" in kinds:
        work = work.whenMatchedUpdate(f"new.{OP} = 'update'", values)
    if "insert" in kinds:
        work = work.whenNotMatchedInsert(f"new.{OP} = 'insert'", values)
    with configured(session, {"spark.databricks.delta.merge.materializeSource": "none"}):
        work.execute()


def _merge_remotely(uri: str, rows: DataFrame, same: Column, kinds: Sequence[str]) -> None:
    """Merges rows with ``OP`` into a table by a Spark Connect server, whose client has no ``DeltaTable``.

    New columns come before, by a commit without rows and without offset: MERGE adds only columns that have the same
    name on both sides.
    """
    session = rows.sparkSession
    table = f"delta.{quoted(uri)}"
    values = {quoted(c): F.col(_RENAMED.new(c)) for c in rows.columns if c != OP}
    _add_columns(session, uri, rows.drop(OP))
    renamed = rows.select(*[F.col(quoted(c)).alias(f"{_RENAMED.start}{c}") for c in rows.columns])
    work, kind = renamed.mergeInto(table, same), F.col(_RENAMED.new(OP))
    if "delete" in kinds:
        work = work.whenMatched(kind == "delete").delete()
    if "update" in kinds:
        work = work.whenMatched(kind == "update").update(values)
    if "insert" in kinds:
        work = work.whenNotMatched(kind == "insert").insert(values)
    with configured(session, {"spark.databricks.delta.merge.materializeSource": "none"}):
        work.merge()


def _add_columns(session: SparkSession, uri: str, rows: DataFrame) -> None:
    """Gives a table the columns, fields and types of rows that it does not have yet."""
    target = session.read.format("delta").load(uri)
    held = {field.name.lower(): field.dataType for field in target.schema}
    if all(held.get(field.name.lower()) == field.dataType for field in rows.schema):
        return
    with configured(session, commit_settings.NOTHING):
        rows.limit(0).write.format("delta").mode("append").option("mergeSchema", "true").save(uri)


def _key(frame: DataFrame, keys: Sequence[str]) -> Column:
    """Row key as a struct that Spark compares and that is never NULL."""
    return F.struct(*[_grouped(frame, c, quoted(c)) for c in keys])


def _grouped(frame: DataFrame, key: str, name: str) -> Column:
    """Key column as it is compared: unchanged where that is possible, for data skipping."""
    kind = frame.schema[key].dataType
    return F.col(name) if is_plain(kind) else grouped(F.col(name), kind).alias(key)


def _comparable(old: DataFrame, new: DataFrame, columns: Sequence[str]) -> tuple[Column, Column]:
    """Values of stored and of expected rows in forms that Spark compares; neither is NULL."""
    was, now = ({one.name.lower(): one.dataType for one in frame.schema} for frame in (old, new))
    pairs = [together(F.col(quoted(c)), was[c.lower()], F.col(quoted(c)), now[c.lower()]) for c in columns]
    return _together([held for held, _ in pairs]), _together([made for _, made in pairs])


def _together(values: Sequence[Column]) -> Column:
    named = [value.alias(f"c{number}") for number, value in enumerate(values)]
    return F.struct(*named) if named else F.lit(True)

"""How a table is to change: from the rows that it should have of some records, and those that it has of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from sluicegate.frames.data_skipping import of_chunks
from sluicegate.frames.value_equality import grouped, is_loose, is_plain, together
from sluicegate.schema.columns import IDENTITY
from sluicegate.spark.session import configured
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sluicegate.frames.record_ids import Identities

# Columns that say when a row was written, not what it is.
WRITTEN = ("_quarantined_at",)

OP = "_sluicegate_op"
"""What is to be done with a row."""

KINDS = ("insert", "update", "delete")


def difference(new: DataFrame, old: DataFrame | None, keys: Sequence[str] = IDENTITY) -> DataFrame:
    """The rows by which a table is to change, each with ``OP``: new ones, those that are other, and gone ones.

    Args:
        new: the rows that it should have of some records.
        old: the rows that it has of them; None if there is no table.
        keys: the columns by which a row is known; no two rows have the same, NULL being the same as NULL.
    """
    if old is None:
        return new.withColumn(OP, F.lit("insert"))
    kinds = {field.name: field.dataType for field in new.schema}
    absent = {c: F.lit(None).cast(kind) for c, kind in kinds.items() if c not in old.columns}
    old = old.withColumns(absent)
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


def merge(uri: str, changes: DataFrame, records: Identities, kinds: Sequence[str] = KINDS) -> None:
    """Writes a difference into a table, by identity, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, cut off from all tables: a MERGE looks at its source twice, and must see the same.
        records: the records that these rows are of.
        kinds: what of the difference is to be written.
    """
    same = of_chunks(records.chunks, "held._chunk")  # so that no other files are opened
    for column in IDENTITY:
        same &= F.col(f"held.{column}") == F.col(f"new.{column}")
    _merge(uri, changes, same, few=records.few, kinds=kinds)


def merge_by(uri: str, changes: DataFrame, keys: Sequence[str], *, few: bool) -> None:
    """Writes a difference into a table, by its keys, in one commit.

    Args:
        uri: the table, which exists.
        changes: rows with ``OP``, cut off from all tables.
        keys: the columns by which a row is known, NULL being the same as NULL.
        few: whether to send the rows to the tasks that read the table.
    """
    sides = [[_grouped(changes, key, f"{side}.{quoted(key)}") for side in ("held", "new")] for key in keys]
    pairs = [held.eqNullSafe(made) for held, made in sides]
    _merge(uri, changes, reduce(and_, pairs), few=few, kinds=KINDS)


def _merge(uri: str, changes: DataFrame, same: Column, *, few: bool, kinds: Sequence[str]) -> None:
    session = changes.sparkSession
    rows = changes.where(F.col(OP).isin(*kinds))
    rows = F.broadcast(rows) if few else rows
    values: dict[str, str | Column] = {quoted(c): F.col(f"new.{quoted(c)}") for c in changes.columns if c != OP}
    work = DeltaTable.forPath(session, uri).alias("held").merge(rows.alias("new"), same).withSchemaEvolution()
    if "delete" in kinds:
        work = work.whenMatchedDelete(f"new.{OP} = 'delete'")
    if "update" in kinds:
        work = work.whenMatchedUpdate(f"new.{OP} = 'update'", values)
    if "insert" in kinds:
        work = work.whenNotMatchedInsert(f"new.{OP} = 'insert'", values)
    with configured(session, {"spark.databricks.delta.merge.materializeSource": "none"}):
        work.execute()


def _key(frame: DataFrame, keys: Sequence[str]) -> Column:
    """What rows are known by, so that Spark compares it, without a NULL to look after."""
    return F.struct(*[_grouped(frame, c, quoted(c)) for c in keys])


def _grouped(frame: DataFrame, key: str, name: str) -> Column:
    """A key column as it is compared; as it stands, where it can be, so that files are left out by it."""
    kind = frame.schema[key].dataType
    return F.col(name) if is_plain(kind) else grouped(F.col(name), kind).alias(key)


def _comparable(old: DataFrame, new: DataFrame, columns: Sequence[str]) -> tuple[Column, Column]:
    """The values of old and of new rows so that Spark compares them; neither is NULL."""
    was, now = ({one.name: one.dataType for one in frame.schema} for frame in (old, new))
    pairs = [together(F.col(quoted(c)), was[c], F.col(quoted(c)), now[c]) for c in columns]
    return _together([held for held, _ in pairs]), _together([made for _, made in pairs])


def _together(values: Sequence[Column]) -> Column:
    named = [value.alias(f"c{number}") for number, value in enumerate(values)]
    return F.struct(*named) if named else F.lit(True)

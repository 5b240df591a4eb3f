"""Applying records again: those that changed or went, and those that a lookup, an interval or a replay touches.

What these records made before is found by identity in the table and in both tables beside; what they make now is
compared with it, and only the difference is written. With keys the choice is closed under them first: where a winner
goes, the records that lost against it are judged as well, so that one of them takes its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable as SparkDeltaTable
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from sluicegate import beside, fault, lake, lookups
from sluicegate.accounts import Account
from sluicegate.errors import SluicegateError, Where
from sluicegate.expectations import FATE
from sluicegate.flow import ENGINE_COLUMNS
from sluicegate.judging import IDENTITY, Judge
from sluicegate.nearby import chunks_of, of_chunks
from sluicegate.progress import name_of
from sluicegate.session import configured

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

# Columns that say when a row was written, not what it is.
WRITTEN = ("_quarantined_at",)

OP = "_sluicegate_op"


def apply(judge: Judge, at: lake.Lake) -> None:
    """Applies the batch's records again, whatever they made before.

    Raises:
        ExpectationFailed: rows break an ``expect_or_fail``; nothing is written.
        FanOut: the query makes several rows of one record; nothing is written.
        AccountingError: records are missing from what the query gave; nothing is written.
    """
    with ExitStack() as held:
        _Again(judge, at, held).apply()


@dataclass(frozen=True)
class _Change:
    """How one of the three tables is to change: rows with ``OP``, and how many of each kind."""

    uri: str
    rows: DataFrame
    counts: dict[str, int]

    @property
    def comes(self) -> int:
        return self.counts.get("insert", 0) + self.counts.get("update", 0)

    @property
    def leaves(self) -> int:
        return self.counts.get("delete", 0)


@dataclass
class _Again:
    judge: Judge
    at: lake.Lake
    held: ExitStack
    op: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.batch, self.name = self.judge.batch, self.judge.name
        self.table = self.batch.flow.target
        self.quarantine, self.set_aside = self.at.quarantine(self.name), self.at.set_aside(self.name)

    def _keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist()
        self.held.callback(kept.unpersist)
        return kept

    def apply(self) -> None:
        chosen = self._keep(self._chosen().distinct())
        self.chunks = chunks_of(chosen)
        records, judged, chosen = self._judged(chosen)
        rows = self._keep(self.judge.settled(judged, None))
        account = Account.of(self.judge, rows, records.count())
        account.fill(self.batch.report)
        left_out = records.join(rows, [*IDENTITY], "left_anti") if account.filtered else None
        makes = {
            self.table: beside.good(self.judge, rows),
            self.quarantine: beside.quarantine(self.judge, rows),
            self.set_aside: beside.set_aside(self.judge, rows, left_out),
        }
        changes = self._changes(makes, chosen)
        self.held.close()
        self._write(changes, account)

    # --- which records -----------------------------------------------------------------------------------------------

    def _chosen(self) -> DataFrame:
        """The identities of all records that are to be applied; some may come twice."""
        batch, now = self.batch, self.batch.progress
        parts = [batch.rows.select(*IDENTITY)]
        query = self.judge.table.query
        for name in now.changed:
            ties = query.ties[name] if query else []
            parts.append(lookups.touched(batch.records(), batch.changes_of(name), ties, ENGINE_COLUMNS))
        if now.retry:
            again = [rule for rule, its in self.judge.table.expectations.items() if its.retry]
            broken = F.arrays_overlap("_failed_expectations", F.array(*map(F.lit, again)))
            parts += [frame.where(broken).select(*IDENTITY) for frame in self._there(self.quarantine)]
        if now.repair:
            parts.append(self._left_behind())
        if batch.choice is not None:
            parts.append(batch.choice.identities(self.judge, self.at))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _left_behind(self) -> DataFrame:
        """What a run that was stopped between its commits left in two tables, or beside though the source has lost it.

        The table itself changed in one commit or not at all: it has nothing that the source had lost by its mark.
        """
        table, *others = [
            [f.select(*IDENTITY) for f in self._there(uri)] for uri in (self.table, self.quarantine, self.set_aside)
        ]
        aside = [frame for its in others for frame in its]
        every = reduce(lambda a, b: a.unionByName(b), [*table, *aside])
        twice = every.groupBy(*IDENTITY).count().where("count > 1").select(*IDENTITY)
        lost = [frame.join(self.batch.records(), [*IDENTITY], "left_anti") for frame in aside]
        return reduce(lambda a, b: a.unionByName(b), [twice, *lost])

    def _there(self, uri: str) -> list[DataFrame]:
        """A table as it is now; none if there is none yet."""
        return [] if lake.delta_table(uri) is None else [self.batch.session.read.format("delta").load(uri)]

    # --- what they make now ------------------------------------------------------------------------------------------

    def _judged(self, chosen: DataFrame) -> tuple[DataFrame, DataFrame, DataFrame]:
        """The records that are still there, the rows that they make, and all identities that were looked at."""
        records = self._records(chosen, self.chunks)
        rows = self._keep(self.judge.rows(records))
        if not self.judge.keys:
            return records, rows, chosen
        keys = self._keep(self._keys(chosen, rows).distinct())
        while True:
            others = self._keep(self._others(keys).join(chosen, [*IDENTITY], "left_anti").distinct())
            chunks = chunks_of(others)
            if not chunks:
                return records, rows, chosen
            self.chunks = sorted({*self.chunks, *chunks})
            more = self._records(others, chunks)
            judged = self._keep(self.judge.rows(more))
            records, rows = self._keep(records.unionByName(more)), self._keep(rows.unionByName(judged))
            chosen = self._keep(chosen.unionByName(others))
            # Judged anew they may have other keys than before: then these are looked at, too.
            new = judged.where(f"{FATE} = 'good'").select(self.judge.key.alias("_key"))
            keys = self._keep(new.distinct().join(keys, "_key", "left_anti"))

    def _records(self, identities: DataFrame, chunks: Sequence[int]) -> DataFrame:
        source = of_chunks(self.batch.records(), chunks)
        return self._keep(source.join(identities, [*IDENTITY], "left_semi"))

    def _keys(self, chosen: DataFrame, rows: DataFrame) -> DataFrame:
        """Hashes of the keys that the records' rows have and had."""
        has = [rows.where(f"{FATE} = 'good'")]
        had = [of_chunks(t, self.chunks).join(chosen, [*IDENTITY], "left_semi") for t in self._there(self.table)]
        return reduce(lambda a, b: a.unionByName(b), [f.select(self.judge.key.alias("_key")) for f in has + had])

    def _others(self, keys: DataFrame) -> DataFrame:
        """The identities of all records with these keys: the row's that holds one, and of those that lost."""
        frames = [t.select(*IDENTITY, self.judge.key.alias("_key")) for t in self._there(self.table)]
        frames += [t.select(*IDENTITY, "_key") for t in self._there(self.set_aside)]
        return reduce(lambda a, b: a.unionByName(b), frames).join(keys, "_key", "left_semi").select(*IDENTITY)

    # --- what changes by it ------------------------------------------------------------------------------------------

    def _changes(self, makes: dict[str, DataFrame], chosen: DataFrame) -> dict[str, _Change]:
        """What is to be written into each table, counted in one job."""
        found = {}
        for uri, new in makes.items():
            old = [of_chunks(t, self.chunks).join(chosen, [*IDENTITY], "left_semi") for t in self._there(uri)]
            # Cut off from the tables: what is kept of a table, Delta makes anew when it writes that one. A winner that
            # has left would no longer be found then, and the loser that took its place would stay in set-aside as well.
            found[uri] = _difference(new, old[0] if old else None).localCheckpoint()
        counted = [frame.groupBy(OP).count().withColumn("uri", F.lit(uri)) for uri, frame in found.items()]
        counts = reduce(lambda a, b: a.unionByName(b), counted).collect()
        return {
            uri: _Change(uri, frame, {row[OP]: row["count"] for row in counts if row["uri"] == uri})
            for uri, frame in found.items()
        }

    def _write(self, changes: dict[str, _Change], account: Account) -> None:
        table, others = changes[self.table], [changes[self.quarantine], changes[self.set_aside]]
        report, now = self.batch.report, self.batch.progress
        report.inserted, report.updated, report.deleted = (
            table.counts.get(kind, 0) for kind in ("insert", "update", "delete")
        )
        if self.batch.choice is not None and self.batch.choice.validate:
            return
        work = any(change.comes or change.leaves for change in (table, *others))
        news = now.changed or now.retry or now.repair or self.judge.of_others != self.judge.made_by["mixed"]
        if not work and now.since == now.until and not news:
            report.unchanged = True
            return
        fault.point("silver.before_commit")
        self._demand_not_overtaken()
        for change in others:
            if change.comes:
                with self.batch.commit(fenced=False, op=self.op, step="enter"):
                    self._merge(change, ("insert", "update"))
        fault.point("silver.between_commits")
        self._demand_not_overtaken()
        leaves = [name_of(change.uri) for change in others if change.leaves]
        with self.batch.commit(op=self.op, leaves=leaves, **account.facts()):
            if table.comes or table.leaves:
                self._merge(table, ("insert", "update", "delete"))
            else:  # the mark moves, and the commit says that the others' changes are of a whole batch
                [there] = self._there(self.table)
                there.limit(0).write.format("delta").mode("append").save(self.table)
        fault.point("silver.after_commit")
        for change in others:
            if change.leaves:
                with self.batch.commit(fenced=False, op=self.op, step="leave"):
                    self._merge(change, ("delete",))
        fault.point("silver.after_removal")

    def _demand_not_overtaken(self) -> None:
        """Delta refuses what meets another commit, but looks only at those that come after a MERGE has begun.

        Raises:
            SluicegateError: the table is no longer the one that these rows were compared with.
        """
        if self.batch.target_version() != self.batch.progress.seen:
            raise SluicegateError(
                f"{self.name} was changed by another run while records were applied again",
                where=Where(table=self.name, file=self.table),
                hint="run again: the next run brings the tables in order",
            )

    def _merge(self, change: _Change, kinds: Sequence[str]) -> None:
        columns = [column for column in change.rows.columns if column != OP]
        rows = change.rows.where(F.col(OP).isin(*kinds))
        if lake.delta_table(change.uri) is None:
            rows.select(*[f"`{column}`" for column in columns]).write.format("delta").save(change.uri)
            return
        values: dict[str, str | Column] = {f"`{column}`": F.col(f"new.`{column}`") for column in columns}
        same = " AND ".join(f"held.{column} = new.{column}" for column in IDENTITY)
        merge = SparkDeltaTable.forPath(self.batch.session, change.uri).alias("held").merge(rows.alias("new"), same)
        merge = merge.withSchemaEvolution()
        if "delete" in kinds:
            merge = merge.whenMatchedDelete(f"new.{OP} = 'delete'")
        if "update" in kinds:
            merge = merge.whenMatchedUpdate(f"new.{OP} = 'update'", values)
        if "insert" in kinds:
            merge = merge.whenNotMatchedInsert(f"new.{OP} = 'insert'", values)
        # The rows are cut off from all tables already: nothing else is seen by a MERGE's second look at its source.
        with configured(self.batch.session, {"spark.databricks.delta.merge.materializeSource": "none"}):
            merge.execute()


def _difference(new: DataFrame, old: DataFrame | None) -> DataFrame:
    """The rows by which a table is to change: new ones, those that are other than they were, and gone ones."""
    if old is None:
        return new.withColumn(OP, F.lit("insert"))
    kinds = {field.name: field.dataType for field in new.schema}
    absent = {c: F.lit(None).cast(kind) for c, kind in kinds.items() if c not in old.columns}
    old = old.withColumns(absent)
    held, made = _comparable(old, new, [c for c in kinds if c not in (*IDENTITY, *WRITTEN)])
    now = new.select(*IDENTITY, F.struct(*[f"`{c}`" for c in kinds]).alias("new"), made.alias("is"))
    before = old.select(*IDENTITY, held.alias("was"))
    both = now.join(before, [*IDENTITY], "full_outer")
    kind = F.when(F.col("was").isNull(), "insert").when(F.col("is").isNull(), "delete").otherwise("update")
    other = both.where("NOT (`is` <=> `was`)").withColumn(OP, kind)
    rest = [F.col(f"new.`{c}`").alias(c) for c in kinds if c not in IDENTITY]
    return other.select(*IDENTITY, *rest, OP)


def _comparable(old: DataFrame, new: DataFrame, columns: Sequence[str]) -> tuple[Column, Column]:
    """The values of old and of new rows so that Spark compares them.

    Maps and variants, which it does not compare, and structs of which one has more fields are compared by their JSON,
    where a field that is NULL is as one that is not there. A value of another type is compared as the table keeps it.
    """
    was, now = ({one.name: one.dataType for one in frame.schema} for frame in (old, new))
    pairs = []
    for column in columns:
        kind = now[column]
        held, made = F.col(f"`{column}`"), F.col(f"`{column}`")
        same = was[column].simpleString() == kind.simpleString()
        if _odd(kind) or not (same or _plain(kind, was[column])):
            held = made = F.to_json(F.struct(held))
        elif not same:
            made = made.try_cast(was[column])
        pairs.append((held, made))
    return _together([held for held, _ in pairs]), _together([made for _, made in pairs])


def _together(values: Sequence[Column]) -> Column:
    return F.struct(*[value.alias(f"c{number}") for number, value in enumerate(values)])


def _plain(*kinds: DataType) -> bool:
    return not any(isinstance(kind, (ArrayType, MapType, StructType, VariantType)) for kind in kinds)


def _odd(kind: DataType) -> bool:
    inner: list[Any] = [getattr(kind, "elementType", None), *(f.dataType for f in getattr(kind, "fields", []))]
    return isinstance(kind, (MapType, VariantType)) or any(_odd(one) for one in inner if one is not None)

"""Silver: typed rows, joined, judged by rules, one for each key. Every record of the source ends in one place.

There is one operation, to apply records: judge them by today's definition, take away what they made before, and put
what they make now. Records that are new have made nothing yet, and that is the short way, here;
``silver/reprocess.py`` has the long one. Either way a batch writes first what comes into the tables beside
(quarantine, set-aside), then the table, whose commit carries the mark and closes the batch, and last takes away beside
what has left. So a kill leaves a record in two places at worst, never in none, and the commits tell the next run of it.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch
from sluicegate.frames.data_skipping import near
from sluicegate.frames.merge import OP, merge
from sluicegate.frames.record_ids import Identities, cut
from sluicegate.lake import layout, tables
from sluicegate.schema.columns import IDENTITY
from sluicegate.silver import quarantine, reprocess
from sluicegate.silver.deduplicate import REPLACED
from sluicegate.silver.evaluate import Judge
from sluicegate.silver.expectations import FATE
from sluicegate.silver.reconcile import Account
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sluicegate.definition import SilverTable


# From so many rows on it pays to look first where in the table the keys of a batch can be.
MANY_ROWS = 200_000


def apply(batch: Batch, name: str, table: SilverTable, at: layout.Lake) -> None:
    """Judges the batch's records and puts each to the place where it belongs.

    Raises:
        ExpectationFailed: rows break an ``expect_or_fail``; nothing is written.
        FanOut: the query makes several rows of one record; nothing is written.
        AccountingError: records are missing from what the query gave; nothing is written.
    """
    if table.apply_changes_from_snapshot and not batch.whole:
        batch = batch.of_everything()  # a snapshot speaks of every key, also of those that are not in it
    judge = Judge(batch, name, table)
    if not batch.whole and judge.target is not None and judge.bound - {*judge.held_columns}:
        judge = Judge(batch.of_everything(), name, table)  # rows without a column of today's keys have none of them
    put(judge, at)


def put(judge: Judge, at: layout.Lake) -> None:
    """Puts what a judge makes of its batch's records to the places where it belongs; see ``apply``."""
    batch = judge.batch
    if batch.again or ((judge.history is not None or judge.unique) and not batch.whole):
        reprocess.apply(judge, at)
        return
    with ExitStack() as kept:
        work = _New(batch, judge, at, kept)
        rows = work.keep(work.settled())
        work.write(rows, Account.of(judge, rows, batch.read))


@dataclass
class _New:
    """A batch of records that nothing has been made of yet, or of all records there are."""

    batch: Batch
    judge: Judge
    at: layout.Lake
    kept: ExitStack
    op: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.few = not self.batch.whole and self.batch.read <= thresholds.FEW

    def keep(self, frame: DataFrame) -> DataFrame:
        """A frame that is looked at more than once, kept until the batch has been applied."""
        if self.few:
            return cut(frame, few=True, adaptive=True)
        kept = frame.persist()
        self.kept.callback(kept.unpersist)
        return kept

    def settled(self) -> DataFrame:
        """The judged rows, of which one has each key."""
        rows, keys, there = self.judge.rows(self.batch.rows), self.judge.keys, tables.rows(self.judge.target)
        if not keys or self.batch.whole or not there:
            return self.judge.settled(rows, None)
        [held] = self.judge.there(self.batch.flow.target)
        if self.few or there > MANY_ROWS:
            rows = self.keep(rows)
        if there > MANY_ROWS:
            held = near(held, rows, self.judge.table.event_time, keys)
        if self.few:
            held = cut(held.join(F.broadcast(rows.select(*map(quoted, keys))), [*keys], "left_semi"), few=True)
        return self.judge.settled(rows, held)

    def write(self, rows: DataFrame, account: Account) -> None:
        """Writes quarantine, set-aside and the table, in this order."""
        account.fill(self.batch.report)
        _faults.point("silver.before_commit")
        name = self.judge.name
        self._write_beside(
            self.at.quarantine(name), quarantine.quarantine(self.judge, rows), account.sums["quarantine"]
        )
        left_out = self.batch.rows.join(rows, [*IDENTITY], "left_anti") if account.filtered else None
        self._write_beside(self.at.set_aside(name), quarantine.set_aside(self.judge, rows, left_out), account.aside)
        _faults.point("silver.between_commits")
        with self.batch.commit(op=self.op, **account.facts()):
            self._write_table(rows, account)
        _faults.point("silver.after_commit")

    def _write_table(self, rows: DataFrame, account: Account) -> None:
        uri, good = self.batch.flow.target, quarantine.good(self.judge, rows)
        if self.batch.whole:
            good.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(uri)
        elif account.sums["replaced"]:
            gone = rows.where(f"{FATE} = 'good' AND {REPLACED[0]} IS NOT NULL").select(
                *[F.col(was).alias(column) for was, column in zip(REPLACED, IDENTITY, strict=True)],
                F.lit("delete").alias(OP),
            )
            changes = cut(
                good.withColumn(OP, F.lit("insert")).unionByName(gone, allowMissingColumns=True), few=self.few
            )
            merge(uri, changes, Identities(changes.select(*IDENTITY)))
        else:  # winners' keys are known not to be in the table: nothing to match
            good.write.format("delta").mode("append").option("mergeSchema", "true").save(uri)

    def _write_beside(self, uri: str, frame: DataFrame, count: int) -> None:
        # What stands beside a table that starts anew is of a former one.
        anew = tables.delta_table(uri) is not None and self.batch.whole
        if not (count or anew):
            return
        writer = frame.write.format("delta")
        if anew:
            writer = writer.mode("overwrite").option("overwriteSchema", "true")
        else:
            writer = writer.mode("append").option("mergeSchema", "true")
        # A replacement must happen although this mark may have been set before a kill, with other rows.
        with self.batch.commit(fenced=not anew, op=self.op, step="enter"):
            writer.save(uri)

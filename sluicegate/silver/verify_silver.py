"""Verify silver: evaluate all records of its sources again by the current definition, and compare the rows.

The engine evaluates, over tables that are proved by other means. So the proof is that a table, its quarantine and its
set-aside records are the result of the current definition for the processed versions. Only proofs are written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from sluicegate.console import ignore_line, time_left
from sluicegate.definition import Pipeline
from sluicegate.errors import SluicegateError
from sluicegate.flow import flows
from sluicegate.flow.batch import Batch
from sluicegate.flow.model import Flow, Progress, ProgressKind
from sluicegate.flow.progress import progress
from sluicegate.flow.several import several_batch
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.table_report import TableReport
from sluicegate.flow.verification.finding import Finding, FindingKind, FindingReason
from sluicegate.flow.verification.proofs import Proofs
from sluicegate.flow.verification.sample import EVERYTHING, Sample
from sluicegate.frames.difference.equal_rows import excuse
from sluicegate.frames.difference.merge import OP, difference
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.table import Tables
from sluicegate.silver import many_rows, sampled_records
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import Disposition
from sluicegate.silver.reconcile import Reconciliation
from sluicegate.silver.records_since import RecordsSince
from sluicegate.silver.sampled_records import SampledPart
from sluicegate.silver.side_tables import deidentified, quarantine
from sluicegate.silver.side_tables.left_out import add_left_out_rows
from sluicegate.spark import table_reader
from sluicegate.spark.spark_errors import translate_error

# Records named in a finding; all are counted.
SHOWN = 3

# What differing rows come to, by what a MERGE would do to them.
DIFFERENCES = {"insert": "{:,} {} missing", "delete": "{:,} should not exist", "update": "{:,} {} other values"}

BY = "is what the current definition returns for the versions that it has processed, evaluated again by Spark"


def prove(
    spark: SparkSession,
    pipeline: Pipeline,
    at: layout.Lake,
    tell: Callable[[str], None] = ignore_line,
    sample: Sample = EVERYTHING,
    proofs: Proofs | None = None,
) -> Iterator[Finding]:
    """Compare each silver table with side tables and de-identified copy with the current definition's result.

    Args:
        spark: the session; each table gets one of its own, for its views.
        pipeline: the definition.
        at: the lake.
        tell: receives a line before each of several tables.
        sample: records to compare, for tables whose records do not depend on others.
        proofs: proofs of former verifications; None to neither use nor record them.
    """
    names, began = flows.stored_silver(pipeline, at), time.monotonic()
    proofs = proofs or Proofs(at, keeps=False)
    defined = flows.flows(pipeline, at, "silver")
    for number, name in enumerate(names):
        left = time_left(time.monotonic() - began, number, len(names) - number)
        tell(f"  verifying {name}, {number + 1} of {len(names)} silver tables{left}")
        flow = defined[name]
        try:
            with ExitStack() as persisted:
                yield from _Proof(spark.newSession(), pipeline, flow, at, persisted, sample, proofs).findings()
        except Exception as raised:
            error = translate_error(raised, "silver", name, private=flow.private)
            if isinstance(error, SluicegateError):
                reason, cause = error.message, error.cause.split("\n")[0]
            else:
                reason, cause = str(error).split("\n")[0], ""
            sentence = ": ".join(filter(None, [reason, cause]))
            yield Finding(FindingKind.UNPROVED, name, f"its records could not be evaluated: {sentence}")


@dataclass
class _Proof:
    """Verification of one table."""

    spark: SparkSession
    pipeline: Pipeline
    flow: Flow
    at: layout.Lake
    persisted: ExitStack
    sample: Sample
    proofs: Proofs
    opened: Tables = field(default_factory=Tables)
    part: SampledPart | None = None

    def findings(self) -> Iterator[Finding]:
        target = tables.delta_table(self.flow.target)
        if target is None:
            return
        history, waiting = offsets.restore_history(target), progress(self.flow, self.opened)
        info = log.info_of(history.ours)
        if not info or _is_unfinished(waiting):
            reason = waiting.why or "a run was stopped while writing it"
            yield self._finding(FindingKind.UNPROVED, f"it is not final: {reason}")
            return
        every = self._evaluator(self._batch(waiting, info))
        since = RecordsSince(self.proofs, every, self.at, self._side_tables)
        records = 0
        if not since.is_unchanged:
            self.part, records = since.part(self._keep) or (self._sampled_part(every), 1)
        if not records:
            since.keep(since.proof)
            sentence = f"its rows, {since.proof}: by their files and the change feeds of what it reads, nothing is new"
            yield Finding(FindingKind.UNSEEN, self.flow.table, sentence, reason=FindingReason.PROVED_BEFORE)
            return
        yield from self._compare_and_prove(every, target.version(), since)

    def _compare_and_prove(self, every: RowEvaluator, version: int, since: RecordsSince) -> Iterator[Finding]:
        """Yield the findings on the records; record a proof if nothing is wrong or unproved."""
        findings = list(self._compare(every, version))
        if not {finding.kind for finding in findings} & {FindingKind.WRONG, FindingKind.UNPROVED}:
            former = since.proof
            if self.part is None:
                former = None
            since.keep(former)
        yield from findings

    def _sampled_part(self, evaluator: RowEvaluator) -> SampledPart | None:
        """Return the records in the sample; None if all are to be compared."""
        if self.sample.is_whole or not sampled_records.are_independent(evaluator):
            return None
        return sampled_records.records_in_sample(self.sample)

    def _compare(self, every: RowEvaluator, version: int) -> Iterator[Finding]:
        """Yield the findings of a comparison of all or some records."""
        evaluator, of = every, ""
        if self.part is not None:
            evaluator = self._evaluator(sampled_records.narrow_batch(every.batch, self.part))
            of = f" of {self.part.which}"
            if left := every.batch.read - evaluator.batch.read:
                what = f"the rows of {left:,} of {every.batch.read:,} records, {self.part.why}"
                yield Finding(FindingKind.UNSEEN, self.flow.table, what, reason=self.part.reason)
        due = self._expected_rows(evaluator)
        differing = {uri: self._difference(evaluator, uri, frame) for uri, frame in due.items()}
        if not any(differing.values()):
            sides = ""
            if len(due) > 1:
                sides = ", and so are its quarantine, but for its times, and its set-aside records"
            yield self._finding(FindingKind.PROVED, f"each row{of} {BY}{sides}", version=version)
            return
        excuse = self._excuse(evaluator, due)
        for uri, how in differing.items():
            if how:
                if uri == self.flow.target:
                    side = ""
                else:
                    side = f" of {uri.rstrip('/').rpartition('/')[2]}"
                said = f"rows{side}{of} differ from what the current definition returns: {how}"
                yield self._finding(*self._classify(said, excuse))

    @property
    def _side_tables(self) -> tuple[str, ...]:
        """Side tables that are compared with the table."""
        table = self.flow.table
        if self.flow.side_tables:
            return (self.at.quarantine(table), self.at.set_aside(table))
        return ()

    def _finding(self, kind: FindingKind, what: str, mend: str = "", version: int | None = None) -> Finding:
        return Finding(kind, self.flow.table, what, mend, version=version)

    def _classify(self, said: str, excuse: str) -> tuple[FindingKind, str, str]:
        refresh = f"sluicegate run {self.pipeline.name} --full-refresh {self.flow.table}"
        if excuse:
            return (FindingKind.UNPROVED, f"{excuse}; {said}", "")
        return (FindingKind.WRONG, said, refresh)

    # --- what it should be -------------------------------------------------------------------------------------------

    def _batch(self, now: Progress, info: CommitInfo) -> Batch:
        """Return a batch of all records of the processed versions."""
        stamps = {**now.stamps, **info.inputs}
        versions = {name: int(stamp.rpartition("@")[2]) for name, stamp in stamps.items()}
        taken_in = {name: replace(one, until=one.since) for name, one in now.streams.items() if one.since >= 0}
        if now.streams:
            until = now.until
        else:
            until = now.since
        then = replace(
            now, kind=ProgressKind.FULL_REFRESH, until=until, versions=versions, stamps=stamps, streams=taken_in,
            changed={}, retry=False,
        )  # fmt: skip
        report = TableReport(self.flow.table, "silver")
        if self.flow.streams:
            nothing = Delivery(self.spark.range(0), self.flow)
            batch = Batch(nothing, 0, True, False, then, self.flow, report, {}, opened=self.opened)
            return several_batch.batch_of(self.spark, batch)
        source = self.opened[self.flow.source].delta
        rows = table_reader.records(self.spark, self.flow.source, until, source)
        read = self.opened.rows_at(self.flow.source, until)
        return Batch(Delivery(rows, self.flow), read, True, False, then, self.flow, report, {}, opened=self.opened)

    def _evaluator(self, batch: Batch) -> RowEvaluator:
        name = self.flow.table
        of = self.pipeline.deidentified_tables.get(name)
        if of is None:
            return RowEvaluator(batch, name, self.pipeline.silver[name])
        return deidentified.evaluator(batch, name, self.pipeline.silver[of])

    def _expected_rows(self, evaluator: RowEvaluator) -> dict[str, DataFrame]:
        """Return the expected rows of the table and its side tables, by address."""
        batch = evaluator.batch
        records = batch.rows
        rows = self._keep(evaluator.settle(evaluator.rows(batch.rows_by_flow or records), None))
        counted = Reconciliation.from_rows(evaluator, rows, batch.read, batch.counts_by_flow)
        rows, counted = add_left_out_rows(evaluator, rows, records, counted, self._keep)
        found = {self.flow.target: quarantine.good_rows(evaluator, rows)}
        if not self._side_tables:
            return found
        left_out = None
        if counted.filtered_records:
            left_out = records.join(rows, [*evaluator.record_id], "left_anti")
        broken = quarantine.quarantine(evaluator, rows, records, counted.sums[Disposition.QUARANTINED])
        aside = quarantine.set_aside(evaluator, rows, left_out)
        return found | dict(zip(self._side_tables, (broken, aside), strict=True))

    def _keep(self, frame: DataFrame) -> DataFrame:
        cached = frame.persist()
        self.persisted.callback(cached.unpersist)
        return cached

    # --- how it differs ----------------------------------------------------------------------------------------------

    def _difference(self, evaluator: RowEvaluator, uri: str, due: DataFrame) -> str:
        """Describe how stored rows differ from the expected ones; empty if they do not."""
        stored_rows = self._stored_rows(evaluator, uri)
        keys = [*evaluator.row_id]
        if stored_rows is not None:
            missing = {*keys} - {*stored_rows.columns}
            if missing:
                return f"they have no {', '.join(sorted(missing))}"
        differing = self._keep(difference(due, stored_rows, keys))
        counts = {row[OP]: row["count"] for row in differing.groupBy(OP).count().collect()}
        clauses = [self._count_phrase(kind, counts[kind]) for kind in DIFFERENCES if kind in counts]
        if stored_rows is not None:
            repeated = stored_rows.groupBy(*keys).count().where("count > 1").count()
            if repeated:
                clauses.append(f"{repeated:,} exist more than once")
        if not clauses:
            return ""
        return f"{', '.join(clauses)}{_example_clause(differing, keys)}"

    def _stored_rows(self, evaluator: RowEvaluator, uri: str) -> DataFrame | None:
        """Return the compared rows of a table or side table; None if it does not exist."""
        frames = evaluator.stored_frames(uri)
        if not frames:
            return None
        rows = frames[0]
        if self.part is not None:
            rows = self.part.choose(rows)
        if evaluator.many and uri == self.at.set_aside(self.flow.table):
            rows = many_rows.final_rows(rows)
        return rows

    @staticmethod
    def _count_phrase(kind: str, count: int) -> str:
        verb = {"insert": ("is", "are"), "update": ("has", "have")}.get(kind, ("", ""))[count != 1]
        return DIFFERENCES[kind].format(count, verb)

    def _excuse(self, evaluator: RowEvaluator, due: Mapping[str, DataFrame]) -> str:
        """Return why a difference need not be damage; empty if it is damage."""
        if evaluator.has_former_rows:
            return "its definition changed after rows were written, which keep their values"
        if self.flow.as_of_run:
            lookups = ", ".join(sorted(self.flow.as_of_run))
            return f"it has values of {lookups} as of former runs, which are no longer available"
        if not evaluator.table.is_python:
            excuses = (excuse(transformed.rows) for transformed in evaluator.made.values())
            return next(filter(None, excuses), "")
        other_time = self._evaluator(evaluator.batch)
        rows = quarantine.good_rows(
            other_time, other_time.settle(other_time.rows(evaluator.batch.rows_by_flow or evaluator.batch.rows), None)
        )
        other = not difference(rows, due[self.flow.target], [*evaluator.row_id]).isEmpty()
        if other:
            return "its function returns other rows each time"
        return ""


def _is_unfinished(waiting: Progress) -> bool:
    """Return whether the next run completes or replaces the table."""
    whole = waiting.kind in (ProgressKind.FULL_REFRESH, ProgressKind.BLOCKED)
    return bool(whole or waiting.replaced_flows or waiting.repair)


def _example_clause(differing: DataFrame, keys: Sequence[str]) -> str:
    """Return a clause with the first differing identities; empty if there are none."""
    first = differing.select(*keys).sort(*keys).limit(SHOWN).collect()
    if not first:
        return ""
    identities = ", ".join("/".join(map(str, row)) for row in first)
    return f", such as {identities} (chunk/position)"

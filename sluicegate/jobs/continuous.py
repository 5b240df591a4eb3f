"""Continuous run: at each tick, the layers that have work, in one Spark session that stays.

It keeps no state of its own: offsets are in the tables' logs, so it can be killed at any instant. Ticks are those of
Spark's ``Trigger.ProcessingTime``: multiples of the interval since 1970; after a batch that takes longer the next
begins at once, and missed ticks are not made up for.
Source: ProcessingTimeExecutor of Spark, sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/runtime.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluicegate import console, processes
from sluicegate.definition import load
from sluicegate.errors import (
    AccountingError,
    DefinitionError,
    ExpectationFailed,
    LakeLocked,
    SluicegateError,
    SparkUnreachable,
    UserError,
)
from sluicegate.flow import report
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base
from sluicegate.jobs import layer as layer_job
from sluicegate.lake import layout
from sluicegate.monitor import event_log, plan, streams
from sluicegate.run.continuous import interval, next_tick
from sluicegate.settings import Settings
from sluicegate.spark.session import SharedSpark
from sluicegate.times import utc_now

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline


# Consecutive ticks that may fail for a cause that may be gone at the next: a lost executor, another writer's commit.
FAILURES = 3

# Seconds between checks for a request to stop.
POLL_SECONDS = 1.0


# --- the job ---------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """The whole of ``spark_jobs/tools/continuous.py``; the exit codes are those of ``jobs.layer.main``."""
    return base.guarded(lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    """The command line of the job."""
    made = base.parser("continuous")
    made.description = "Runs the layers of a pipeline that have work, at each tick, until it is stopped."
    made.add_argument("--every", required=True, metavar="TIME", help="the interval, as 4s or 2 minutes")
    made.add_argument("--layer", choices=layout.LAYERS, help="only this layer")
    made.add_argument("--id", help="what it is called in `sluicegate streams`: eight hexadecimal digits")
    return made


def _run(arguments: argparse.Namespace) -> RunReport:
    identity = arguments.id or streams.new_id()
    if not streams.ID.fullmatch(identity):
        raise UserError("--id is eight hexadecimal digits")
    every = interval(arguments.every)
    pipeline, at, facts = base.subject(arguments)
    stream = streams.Stream(pipeline.name, identity, arguments.every, arguments.layer, world=processes.world())
    with streams.Registration(at, stream) as known:
        return Continuous(pipeline.settings, at, stream, facts, known).run(every)


class Continuous:
    """Loop of a continuous run.

    Args:
        settings: where things are.
        at: the pipeline's lake.
        stream: its registration.
        facts: who runs this, for every commit.
        known: the registry entry, by which it reports its state and is asked to stop.
        spark: a Spark to use instead of one of its own.
    """

    def __init__(
        self,
        settings: Settings,
        at: layout.Lake,
        stream: streams.Stream,
        facts: dict[str, Any],
        known: streams.Registration,
        spark: SharedSpark | None = None,
    ) -> None:
        self.settings, self.at, self.stream, self.known, self._spark = settings, at, stream, known, spark
        self.facts = {"run_id": f"continuous {stream.id}", **facts}
        self.batches = self.rows = self.failures = 0
        self._pipeline: Pipeline | None = None
        self._files: dict[str, tuple[int, int]] = {}
        self._waits_for = ""
        self._parent = os.getppid()
        self._opens = spark is None
        self._private = False

    def run(self, every: float) -> RunReport:
        """Runs until it is asked to stop.

        Args:
            every: seconds between two ticks.

        Raises:
            SluicegateError: the user's mistake, a broken ``expect_or_fail``, or the last of ``FAILURES`` in a row.
        """
        began = time.monotonic()
        self.definition()
        name, identity = self.at.pipeline, self.stream.id
        console.say(f"continuous run {identity} of {name}, every {self.stream.every}; "
                   f"`{console.program()} streams --stop {identity}` or Ctrl-C stops it")  # fmt: skip
        while self._goes_on():
            due = next_tick(time.time(), every)
            self.tick()
            while (left := due - time.time()) > 0 and self._goes_on():
                if left > every:  # somebody set the clock back
                    due = next_tick(time.time(), every)
                time.sleep(min(left, every, POLL_SECONDS))
        done = RunReport(self.at.pipeline, "continuous", seconds=time.monotonic() - began)
        done.notes = [f"stopped: {self.batches:,} batches, {self.rows:,} rows in {done.seconds:.0f} s"]
        console.say(done.notes[0])
        return done

    def _goes_on(self) -> bool:
        # A JVM that was ended leaves its Python behind.
        return os.getppid() == self._parent and not self.known.stop_requested()

    def tick(self) -> None:
        """Runs the layers that have work, if there are any.

        Raises:
            SluicegateError: see ``run``.
        """
        try:
            self._work()
        except LakeLocked as busy:
            # The holder does the same work, or work that comes first.
            if self._waits_for != busy.message:
                console.say(f"{_clock()}  this tick is left out: {busy.message}")
            self._waits_for = busy.message
        except DefinitionError as error:  # it may have been read while it was being written
            self._failed(error, error)
        except (UserError, ExpectationFailed, AccountingError):
            raise
        except Exception as error:
            self._failed(error, error if isinstance(error, SluicegateError) else base.unexpected(error))
        else:
            if self.failures:
                self.failures = 0
                self.known.tell(failures=0)
            self._waits_for = ""

    def _work(self) -> None:
        pipeline = self.definition()
        found = plan.pending(pipeline, self.settings).late
        layers = [layer for layer in found if self.stream.layer in (None, layer)]
        if layers:
            with base.writing(self.at, f"continuous run {self.stream.id}", wait=0, target=self.settings.target):
                self._batch(pipeline, layers)

    def _batch(self, pipeline: Pipeline, layers: Sequence[str]) -> None:
        began, reports = time.monotonic(), []
        spark = self._shared(pipeline)
        try:
            for layer in layers:
                job = layer_job.Job(
                    pipeline, self.at, layer, self.facts, spark, tell=console.silent, copies_events=False
                )
                reports.append(job.run())
                spark.clear_cache()
        finally:
            event_log.copy_events(pipeline, self.at)
        self.batches += 1
        self.rows += sum(table.read for table in reports[0].tables)
        self.known.tell(batches=self.batches, rows=self.rows, last_batch=utc_now())
        self._send(batch=self.batches, ended=utc_now(), seconds=round(time.monotonic() - began, 3),
                   layers=[done.as_dict() for done in reports])  # fmt: skip
        console.say(*_lines(self.batches, reports, time.monotonic() - began))

    def definition(self) -> Pipeline:
        """Current definition, loaded again only if one of its files changed.

        Raises:
            PipelineMissing: it is gone.
            DefinitionError: it has mistakes.
        """
        folder = self.settings.pipelines / self.at.pipeline
        files = {str(file): (stat.st_mtime_ns, stat.st_size) for file in sorted(folder.rglob("*"))
                 if file.is_file() for stat in [file.stat()]}  # fmt: skip
        if self._pipeline is None or files != self._files:
            reloads = self._pipeline is not None
            self._pipeline = load(self.at.pipeline, self.settings)
            self._files = files
            if reloads:
                console.say(f"{_clock()}  the definition changed, and counts from here on")
        return self._pipeline

    def _shared(self, pipeline: Pipeline) -> SharedSpark:
        private = bool(pipeline.pii)
        # Opened anew where the definition has marked personal data since: Spark's log must not quote it.
        if self._spark is None or (self._opens and private != self._private):
            self._spark = SharedSpark(f"{pipeline.name}.continuous", self.at, private=private)
            self._private = private
        return self._spark

    def _failed(self, raised: Exception, error: SluicegateError) -> None:
        self.failures += 1
        if self._opens and isinstance(error, SparkUnreachable):
            self._spark = None  # its sessions are gone with the server
        if self.failures >= FAILURES:
            raise error from raised
        self.known.tell(failures=self.failures)
        self._send(failed=error.as_dict(), in_a_row=self.failures)
        console.say(f"{_clock()}  failed, and tried again at the next tick ({self.failures} of {FAILURES}):",
                    *error.for_people().split("\n"))  # fmt: skip

    def _send(self, **facts: Any) -> None:
        """Sends a message; a line for people follows it, at which its reader takes it."""
        report.send(report.BATCH, {"pipeline": self.at.pipeline, "id": self.stream.id, **facts})


def _lines(number: int, reports: Sequence[RunReport], seconds: float) -> list[str]:
    """Lines for a batch: a summary, and the tables that should not be overlooked."""
    parts = [part for done in reports if (part := _part(done))]
    lines = [f"{_clock()}  batch {number:,}: {'; '.join(parts) or 'nothing new'}   {seconds:.1f} s"]
    for table in (table for done in reports for table in done.tables):
        if table.failed or table.changed_files or table.late or (table.state == "rebuilt" and table.why):
            lines += [table.line(), *table.remarks()]
    return lines


def _part(done: RunReport) -> str:
    tables = [table for table in done.tables if table.state not in ("idle", "blocked")]
    if not tables:
        return ""
    read, written = sum(table.read for table in tables), sum(table.written for table in tables)
    if done.layer == "bronze":
        count = sum(table.files for table in tables)  # none of Kafka's records
        return f"bronze {read:,} read" + (f" from {console.files(count)}" if count else "")
    if done.layer == "silver":
        counts = ("quarantined", "dropped", "duplicates")
        others = [f" + {n:,} {what}" for what in counts if (n := sum(getattr(table, what) for table in tables))]
        adds_up = all(table.rows is None for table in tables)  # else it is rows that do, and not records
        return f"silver {read:,} read{' =' if adds_up else ','} {written:,} written{''.join(others)}"
    return f"gold {', '.join(table.table for table in tables)}"


def _clock() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S")

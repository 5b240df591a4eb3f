"""Continuous run: at each tick, run the layers that have work, in one Spark session that stays open.

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
from typing import Any

from sluicegate import console, processes
from sluicegate.definition import Pipeline, load
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
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs import base, layer_job
from sluicegate.lake import layout
from sluicegate.launch.continuous import interval, next_tick
from sluicegate.monitor import event_log, plan, streams
from sluicegate.settings import Settings
from sluicegate.spark.session import SharedSpark
from sluicegate.times import utc_now

# Consecutive ticks that may fail for a cause that may be gone at the next: a lost executor, another writer's commit.
FAILURES = 3

# Seconds between checks for a request to stop.
POLL_SECONDS = 1.0


# --- the job ---------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/continuous.py``; the exit codes are those of ``jobs.layer_job.main``."""
    return base.run_guarded(lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    job_parser = base.parser("continuous")
    job_parser.description = "Runs the layers of a pipeline that have work, at each tick, until it is stopped."
    job_parser.add_argument("--every", required=True, metavar="TIME", help="the interval, as 4s or 2 minutes")
    job_parser.add_argument("--layer", choices=layout.LAYERS, help="only this layer")
    job_parser.add_argument("--id", help="its ID in `sluicegate streams`: eight hexadecimal digits")
    return job_parser


def _run(arguments: argparse.Namespace) -> RunReport:
    identity = arguments.id or streams.new_id()
    if not streams.ID.fullmatch(identity):
        raise UserError("--id must be eight hexadecimal digits")
    seconds = interval(arguments.every)
    pipeline, lake, facts = base.job_context(arguments)
    stream = streams.Stream(
        pipeline.name, identity, arguments.every, arguments.layer, world=processes.process_namespace()
    )
    with streams.Registration(lake, stream) as registration:
        return Continuous(pipeline.settings, lake, stream, facts, registration).run(seconds)


class Continuous:
    """Loop of a continuous run.

    Args:
        settings: places of pipelines, landing and lake.
        lake: the pipeline's lake.
        stream: registration of the run.
        facts: facts on the run for every commit.
        registration: registry entry, which has its state and requests to stop.
        spark: a Spark to use instead of a new one.
    """

    def __init__(
        self,
        settings: Settings,
        lake: layout.Lake,
        stream: streams.Stream,
        facts: dict[str, Any],
        registration: streams.Registration,
        spark: SharedSpark | None = None,
    ) -> None:
        self.settings, self.lake, self.stream, self._spark = settings, lake, stream, spark
        self.registration = registration
        self.facts = {"run_id": f"continuous {stream.id}", **facts}
        self.batches = self.rows = self.failures = 0
        self._pipeline: Pipeline | None = None
        self._files: dict[str, tuple[int, int]] = {}
        self._waits_for = ""
        self._parent = os.getppid()
        self._opens = spark is None
        self._private = False

    def run(self, seconds: float) -> RunReport:
        """Run until a stop is requested.

        Args:
            seconds: time between two ticks.

        Raises:
            SluicegateError: the user's mistake, a broken ``expect_or_fail``, or the last of ``FAILURES`` in a row.
        """
        started = time.monotonic()
        self.definition()
        name, identity = self.lake.pipeline, self.stream.id
        console.say(f"continuous run {identity} of {name}, every {self.stream.every}; "
                   f"`{console.program()} streams --stop {identity}` or Ctrl-C stops it")  # fmt: skip
        while self._goes_on():
            due = next_tick(time.time(), seconds)
            self.tick()
            self._wait(due, seconds)
        run_report = RunReport(self.lake.pipeline, "continuous", seconds=time.monotonic() - started)
        run_report.notes = [f"stopped: {self.batches:,} batches, {self.rows:,} rows in {run_report.seconds:.0f} s"]
        console.say(run_report.notes[0])
        return run_report

    def _wait(self, due: float, seconds: float) -> None:
        """Wait for the next tick or a request to stop."""
        while self._goes_on():
            remaining = due - time.time()
            if remaining <= 0:
                return
            if remaining > seconds:  # somebody set the clock back
                due = next_tick(time.time(), seconds)
            time.sleep(min(remaining, seconds, POLL_SECONDS))

    def _goes_on(self) -> bool:
        # A JVM that was ended leaves its Python behind.
        return os.getppid() == self._parent and not self.registration.is_stop_requested()

    def tick(self) -> None:
        """Run the layers that have work, if there are any.

        Raises:
            SluicegateError: see ``run``.
        """
        try:
            self._work()
        except LakeLocked as busy:
            # The holder does the same work, or work that comes first.
            if self._waits_for != busy.message:
                console.say(f"{_clock()}  tick skipped: {busy.message}")
            self._waits_for = busy.message
        except DefinitionError as error:  # it may have been read while it was being written
            self._record_failure(error, error)
        except (UserError, ExpectationFailed, AccountingError):
            raise
        except Exception as error:
            self._record_failure(error, base.to_sluicegate_error(error))
        else:
            if self.failures:
                self.failures = 0
                self.registration.update_facts(failures=0)
            self._waits_for = ""

    def _work(self) -> None:
        pipeline = self.definition()
        late = plan.pending(pipeline, self.settings).late_layers
        layers = [layer for layer in late if self.stream.layer in (None, layer)]
        if layers:
            with base.hold_write_lock(
                self.lake, f"continuous run {self.stream.id}", wait=0, target=self.settings.target
            ):
                self._batch(pipeline, layers)

    def _batch(self, pipeline: Pipeline, layers: Sequence[str]) -> None:
        began, reports = time.monotonic(), []
        spark = self._shared_spark(pipeline)
        try:
            for layer in layers:
                job = layer_job.Job(
                    pipeline, self.lake, layer, self.facts, spark, tell=console.ignore_line, copies_events=False
                )
                reports.append(job.run())
                spark.clear_cache()
        finally:
            event_log.copy_events(pipeline, self.lake)
        self.batches += 1
        self.rows += sum(table.read for table in reports[0].tables)
        self.registration.update_facts(batches=self.batches, rows=self.rows, last_batch=utc_now())
        self._send(batch=self.batches, ended=utc_now(), seconds=round(time.monotonic() - began, 3),
                   layers=[layer_report.as_dict() for layer_report in reports])  # fmt: skip
        console.say(*_lines(self.batches, reports, time.monotonic() - began))

    def definition(self) -> Pipeline:
        """Return the current definition, reloaded only if one of its files changed.

        Raises:
            PipelineMissing: the definition is gone.
            DefinitionError: the definition has mistakes.
        """
        folder = self.settings.pipelines / self.lake.pipeline
        stats = {str(file): file.stat() for file in sorted(folder.rglob("*")) if file.is_file()}
        files = {file: (stat.st_mtime_ns, stat.st_size) for file, stat in stats.items()}
        if self._pipeline is None or files != self._files:
            reloads = self._pipeline is not None
            self._pipeline = load(self.lake.pipeline, self.settings)
            self._files = files
            if reloads:
                console.say(f"{_clock()}  the definition changed, and applies from now on")
        return self._pipeline

    def _shared_spark(self, pipeline: Pipeline) -> SharedSpark:
        private = bool(pipeline.pii)
        # Opened anew where the definition has marked personal data since: Spark's log must not quote it.
        if self._spark is None or (self._opens and private != self._private):
            self._spark = SharedSpark(f"{pipeline.name}.continuous", self.lake, private=private)
            self._private = private
        return self._spark

    def _record_failure(self, raised: Exception, error: SluicegateError) -> None:
        self.failures += 1
        if self._opens and isinstance(error, SparkUnreachable):
            self._spark = None  # its sessions are gone with the server
        if self.failures >= FAILURES:
            raise error from raised
        self.registration.update_facts(failures=self.failures)
        self._send(failed=error.as_dict(), in_a_row=self.failures)
        console.say(f"{_clock()}  failed; retrying at the next tick ({self.failures} of {FAILURES}):",
                    *error.for_people().split("\n"))  # fmt: skip

    def _send(self, **facts: Any) -> None:
        """Send a message; its reader takes it at the line for people that follows."""
        report.send(report.BATCH, {"pipeline": self.lake.pipeline, "id": self.stream.id, **facts})


def _lines(number: int, reports: Sequence[RunReport], seconds: float) -> list[str]:
    """Return the lines for a batch: a summary, and the tables that need attention."""
    summary = "; ".join(filter(None, map(_summary, reports))) or "nothing new"
    lines = [f"{_clock()}  batch {number:,}: {summary}   {seconds:.1f} s"]
    for layer_report in reports:
        for table in layer_report.tables:
            if _needs_attention(table):
                lines += [table.line(), *table.remarks()]
    return lines


def _needs_attention(table: TableReport) -> bool:
    """Return whether people should see the result of a batch for a table."""
    if table.failed or table.changed_files or table.late:
        return True
    return table.state == "rebuilt" and bool(table.why)


def _summary(layer_report: RunReport) -> str:
    """Summarize a batch in a layer; empty if it had nothing to do there."""
    tables = [table for table in layer_report.tables if table.state not in ("idle", "blocked")]
    if not tables:
        return ""
    if layer_report.layer == "bronze":
        return _summary_of_bronze(tables)
    if layer_report.layer == "silver":
        return _summary_of_silver(tables)
    return f"gold {', '.join(table.table for table in tables)}"


def _summary_of_bronze(tables: Sequence[TableReport]) -> str:
    summary = f"bronze {sum(table.read for table in tables):,} read"
    count = sum(table.files for table in tables)
    if not count:  # of Kafka's records
        return summary
    return f"{summary} from {console.files(count)}"


def _summary_of_silver(tables: Sequence[TableReport]) -> str:
    read, written = sum(table.read for table in tables), sum(table.written for table in tables)
    adds_up = all(table.rows is None for table in tables)  # else it is rows that do, and not records
    summary = f"silver {read:,} read{' =' if adds_up else ','} {written:,} written"
    for name in ("quarantined", "dropped", "duplicates"):
        if count := sum(getattr(table, name) for table in tables):
            summary += f" + {count:,} {name}"
    return summary


def _clock() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S")

"""Job of a layer: arguments, lock, one layer of one pipeline, report."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.definition.reading import places
from sluicegate.errors import ExpectationFailed, QueryError, SluicegateError
from sluicegate.flow import flows
from sluicegate.flow.model import Flow, ProgressKind
from sluicegate.flow.progress import progress
from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs.base import hold_job_lock, job_context, parser, run_guarded, to_sluicegate_error
from sluicegate.jobs.parallel import run_side_by_side
from sluicegate.jobs.table_step import TableStep, step_of
from sluicegate.lake import layout
from sluicegate.lake.damage.files import cause_of
from sluicegate.landing import discovery
from sluicegate.launch.request import Request
from sluicegate.launch.run_mode import MODES, RunMode
from sluicegate.monitor import event_log
from sluicegate.spark import connect, s3_commits
from sluicegate.spark.session import SharedSpark
from sluicegate.storage import aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import Layer, Pipeline
    from sluicegate.flow.selection import Choice


# Tables of a layer filled concurrently. They share the executors; while one waits for its commit, others use them.
SIDE_BY_SIDE = 4


def main(layer: Layer, argv: Sequence[str] | None = None) -> int:
    """Run one layer of one pipeline; the whole of a script in ``spark_jobs/``.

    Args:
        layer: bronze, silver or gold.
        argv: the command line; by default the process's own.

    Returns:
        the exit code: 0 done, 1 anything else, 2 the user's mistake, 3 data broke an ``expect_or_fail`` or a case of
            the tests.
    """
    return run_guarded(lambda: _layer(layer, layer_parser(layer).parse_args(argv)))


def _layer(layer: Layer, arguments: argparse.Namespace) -> RunReport:
    pipeline, lake, facts = job_context(arguments)
    return run_layer(pipeline, lake, layer, facts, request_of(pipeline, arguments))


def run_layer(
    pipeline: Pipeline,
    lake: layout.Lake,
    layer: Layer,
    facts: Mapping[str, Any],
    request: Request,
    spark: SharedSpark | None = None,
) -> RunReport:
    """Run a layer's part of a request under the pipeline's lock."""
    with hold_job_lock(pipeline, lake, facts, f"{layer} job of {pipeline.name}"):
        return Job.from_request(pipeline, lake, layer, facts, request, spark).run()


def layer_parser(layer: str) -> argparse.ArgumentParser:
    """Return the argument parser of a layer's job."""
    job_parser = parser(layer)
    add_request(job_parser, files=layer == "bronze")
    return job_parser


def add_request(job_parser: argparse.ArgumentParser, *, files: bool) -> None:
    """Add the options of a request; see ``Request``.

    Args:
        job_parser: a job's parser.
        files: whether the job reads files.
    """
    job_parser.add_argument("--mode", choices=[mode.value for mode in MODES], default=RunMode.INCREMENTAL.value,
                      help="new data only; new data and an interval reprocessed; or a full refresh")  # fmt: skip
    job_parser.add_argument(
        "--from", dest="since", metavar="TIME", help="start of the interval by event time, inclusive, ISO 8601, UTC"
    )
    job_parser.add_argument("--to", dest="until", metavar="TIME", help="end of the interval, exclusive")
    job_parser.add_argument("--tables", metavar="NAMES", help="only these tables, comma-separated (default: all)")
    if files:
        job_parser.add_argument("--max-files", type=int, metavar="N",
                          help="maximum number of files for each table, oldest first")  # fmt: skip


def request_of(pipeline: Pipeline, arguments: argparse.Namespace) -> Request:
    """Return the request in a job's arguments.

    Raises:
        SluicegateError: see ``Request.from_arguments``.
    """
    tables = list(filter(None, (arguments.tables or "").split(",")))
    max_files = getattr(arguments, "max_files", None)
    return Request.from_arguments(pipeline, arguments.mode, arguments.since, arguments.until, tables, max_files)


class Job:
    """Run of one layer: its tables run concurrently in one Spark, which starts only when there is work.

    Args:
        pipeline: the definition.
        lake: the lake.
        layer: bronze, silver or gold.
        facts: facts on the run for every commit.
        spark: a session, or a Spark that jobs share, to use instead of a new one.
        only: tables to run; None for all tables of the layer.
        finder: finds landed files in place of plain discovery.
        choice: records of silver tables to reprocess.
        full_refresh: full refresh of silver and gold tables, and of bronze tables with a Delta source.
        tell: receives each line for people.
        copies_events: whether to copy its commits to the event log; a run of several layers may do so once at its end.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        lake: layout.Lake,
        layer: str,
        facts: Mapping[str, Any],
        spark: SparkSession | SharedSpark | None = None,
        *,
        only: str | Collection[str] | None = None,
        finder: discovery.FileFinder | None = None,
        choice: Choice | None = None,
        full_refresh: bool = False,
        tell: Callable[[str], None] = say,
        copies_events: bool = True,
    ) -> None:
        self.pipeline, self.lake, self.layer, self.facts = pipeline, lake, layer, {"pipeline": pipeline.name, **facts}
        self._finder, self._choice, self._full_refresh, self._tell = finder, choice, full_refresh, tell
        self._telling = Lock()
        self._copies_events = copies_events
        self._only = [only] if isinstance(only, str) else only
        if not isinstance(spark, SharedSpark):
            spark = SharedSpark(f"{pipeline.name}.{layer}", lake, private=bool(pipeline.pii), opened=spark)
        self._spark = spark
        self.done = RunReport(pipeline.name, layer)

    @classmethod
    def from_request(
        cls,
        pipeline: Pipeline,
        lake: layout.Lake,
        layer: Layer,
        facts: Mapping[str, Any],
        request: Request,
        spark: SparkSession | SharedSpark | None = None,
    ) -> Job:
        """Create the job for a layer's part of a request."""
        full_refresh = request.mode == RunMode.FULL_REFRESH
        return cls(
            pipeline, lake, layer, facts, spark, only=request.names(pipeline, layer), finder=request.finder,
            choice=request.interval, full_refresh=full_refresh,
        )  # fmt: skip

    def run(self) -> RunReport:
        """Run the tables in order; a table that fails does not stop the others.

        Raises:
            SluicegateError: the first failure, after all tables were tried, with those of the other tables.
        """
        started = time.monotonic()
        self._tell(f"{self.pipeline.name} {self.layer}")
        if aws.is_on_s3(self.lake.root) and not s3_commits.is_proven(self.lake.locks):
            self._spark.session_of("")  # refuses a store that is not safe, before anything is written to it
        # With separate handles: each step reads what others committed.
        chosen = flows.flows(self.pipeline, self.lake, self.layer)
        if self._only is not None:
            chosen = {name: flow for name, flow in chosen.items() if name in self._only}
        errors = self._run_tables(chosen)
        self.done.tables.sort(key=lambda table: [*chosen].index(table.table))
        if self._copies_events:
            event_log.copy_events(self.pipeline, self.lake, [self.layer])
        self.done.seconds = time.monotonic() - started
        if errors:
            raise _join_errors(errors[0], errors[1:])
        return self.done

    def _run_tables(self, chosen: Mapping[str, Flow]) -> list[Exception]:
        """Run tables, several at a time, each after those that it reads; return the errors, and raise an interrupt.

        A silver record is evaluated again when its source gets it. A gold table would combine some tables as they
        are now with others as they were before, so it is not refreshed.
        """
        needs = flows.dependencies(chosen)

        def run_table(name: str) -> bool:
            return self._run_table(name, chosen[name], renew=bool(needs[name]))

        leave = self._report_blocked if self.layer == "gold" else None
        errors = []
        for error in run_side_by_side(needs, run_table, SIDE_BY_SIDE, connect.interrupt_all, leave).values():
            if not isinstance(error, Exception):
                raise error
            errors.append(error)
        return errors

    def _report_blocked(self, name: str, missing: Sequence[str]) -> None:
        """Report a table that waits because tables that it reads were not filled."""
        reason = f"it reads {', '.join(missing)}, which this run could not bring up to date"
        self.done.tables.append(TableReport(name, self.layer, state="blocked", why=reason))
        self._tell(self.done.tables[-1].line())

    def _run_table(self, name: str, flow: Flow, *, renew: bool) -> bool:
        """Run a table, and report a failure at once.

        Args:
            name: the table.
            flow: flow that fills it.
            renew: whether it reads tables of this layer, which this run may have created or changed.

        Returns:
            whether the tables that read it can continue: not if it has former rows and waits.
        """
        try:
            return self._fill_and_report(name, flows.renew_flow(flow, self.pipeline, self.lake) if renew else flow)
        except Exception as error:
            if isinstance(error, QueryError) and error.at:
                error.where = places.locate_field(error.where, self.pipeline, self.layer, name, error.at)
            damaged = self._damage(error, name, flow)
            self._tell(f"  {self.layer:<6} {name:<28} FAILED: {damaged or error}".split("\n")[0])
            if damaged is not None:
                raise damaged from error
            raise

    def _damage(self, error: Exception, name: str, flow: Flow) -> SluicegateError | None:
        """Return the damage of a table that caused an error; None if there is none."""
        if isinstance(error, ExpectationFailed):
            return None
        return cause_of(error, self._tables_of(name, flow))

    def _tables_of(self, name: str, flow: Flow) -> list[str]:
        """Return the addresses of all tables that a step reads or writes."""
        addresses = [*flow.sources, *flow.inputs.values(), *flow.references.values()]
        addresses += [flow.target, *flow.side_tables, layout.rejected_table(flow.target)]
        if self.layer == "bronze":
            addresses += [self.lake.file_status(name), self.lake.archive(name)]
        if self.layer == "gold":
            addresses.append(self.lake.group_state(name))
        return addresses

    def _fill_and_report(self, name: str, flow: Flow) -> bool:
        """Fill and report a table; return whether the tables that read it can continue."""
        step = step_of(self.layer, flow, self.pipeline, self.lake, self._finder)
        session = partial(self._spark.session_of, f"{self.layer}.{name}")
        step.prepare(session)
        report = self._fill_table(step, session)
        step.complete(report)
        self.done.tables.append(report)
        described = step.describe(session)
        with self._telling:  # tables run concurrently
            for line in (report.line(), *report.remarks(), *described, *step.clean_up()):
                self._tell(line)
        return report.state != "blocked" or step.opened[flow.target].delta is None

    def _fill_table(self, step: TableStep, session: Callable[[], SparkSession]) -> TableReport:
        """Fill a table if there is work, and report on it; Spark starts only then."""
        waiting = progress(step.flow, step.opened)
        choice = self._choice
        if choice is not None and not choice.has_records_of(step.name, self.pipeline):
            choice = None
        full_refresh = self._full_refresh and step.refreshes and waiting.kind != ProgressKind.BLOCKED
        if waiting.has_work or full_refresh or (choice is not None and waiting.kind == ProgressKind.IDLE):
            return step.fill(session(), self.facts, choice, full_refresh=full_refresh)
        return TableReport(step.name, self.layer, state=waiting.kind, why=waiting.why)


def _join_errors(error: Exception, further_errors: Sequence[Exception]) -> Exception:
    """Return an error of a table with those of other failed tables in its text."""
    if not further_errors:
        return error
    first, *further = map(to_sluicegate_error, (error, *further_errors))
    first.others = further
    return first

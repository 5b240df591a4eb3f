"""Job of a layer: arguments, lock, one layer of one pipeline, report."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.definition import places
from sluicegate.errors import ExpectationFailed, QueryError, SluicegateError
from sluicegate.flow import flows
from sluicegate.flow.model import Flow
from sluicegate.flow.progress import progress
from sluicegate.flow.report import RunReport, TableReport
from sluicegate.jobs.base import guarded, parser, subject, unexpected, writing
from sluicegate.jobs.parallel import side_by_side
from sluicegate.jobs.table_step import step_of
from sluicegate.lake import layout
from sluicegate.lake.damage.files import cause_of
from sluicegate.landing import discovery
from sluicegate.monitor import event_log
from sluicegate.run.request import MODES, Request
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
    """Runs one layer of one pipeline; the whole of a script in ``spark_jobs/``.

    Args:
        layer: bronze, silver or gold.
        argv: the command line; by default the process's own.

    Returns:
        the exit code: 0 done, 1 anything else, 2 the user's mistake, 3 data broke an ``expect_or_fail`` or a case of
            the tests.
    """
    return guarded(lambda: _layer(layer, layer_parser(layer).parse_args(argv)))


def _layer(layer: Layer, arguments: argparse.Namespace) -> RunReport:
    pipeline, at, facts = subject(arguments)
    return run_layer(pipeline, at, layer, facts, request_of(pipeline, arguments))


def run_layer(
    pipeline: Pipeline,
    at: layout.Lake,
    layer: Layer,
    facts: Mapping[str, Any],
    request: Request,
    spark: SharedSpark | None = None,
) -> RunReport:
    """Runs a layer's part of a request under the pipeline's lock."""
    with writing(at, str(facts.get("run_id") or f"{layer} job of {pipeline.name}"), target=pipeline.settings.target):
        return Job.of_request(pipeline, at, layer, facts, request, spark).run()


def layer_parser(layer: str) -> argparse.ArgumentParser:
    """Argument parser of a layer's job."""
    made = parser(layer)
    add_request(made, files=layer == "bronze")
    return made


def add_request(made: argparse.ArgumentParser, *, files: bool) -> None:
    """Adds the options of a request; see ``Request``.

    Args:
        made: a job's parser.
        files: whether the job reads files.
    """
    made.add_argument("--mode", choices=MODES, default="incremental",
                      help="new data only; new data and an interval reprocessed; or a full refresh")  # fmt: skip
    made.add_argument("--from", dest="since", metavar="TIME", help="its beginning by event time, ISO 8601, UTC")
    made.add_argument("--to", dest="until", metavar="TIME", help="its end, which does not belong to it")
    made.add_argument("--tables", metavar="NAMES", help="only these tables, with commas between (default: all)")
    if files:
        made.add_argument("--max-files", type=int, metavar="N",
                          help="each table takes in so many files at most, the oldest first")  # fmt: skip


def request_of(pipeline: Pipeline, arguments: argparse.Namespace) -> Request:
    """Request in a job's arguments.

    Raises:
        SluicegateError: see ``Request.of``.
    """
    tables = [name for name in (arguments.tables or "").split(",") if name]
    max_files = getattr(arguments, "max_files", None)
    return Request.of(pipeline, arguments.mode, arguments.since, arguments.until, tables, max_files)


class Job:
    """One layer of a pipeline: its tables run concurrently in one Spark, which is started only when there is work.

    Args:
        pipeline: the definition.
        at: the lake.
        layer: bronze, silver or gold.
        facts: who runs this, for every commit.
        spark: a session, or a Spark that jobs share, to use instead of one of its own.
        only: tables to run; None for all of the layer.
        finder: finds landed files in place of plain discovery.
        choice: records of silver tables to reprocess.
        full_refresh: full refresh of silver and gold tables, and of bronze tables with a Delta source.
        tell: takes each line for people.
        copies_events: whether its commits go to the event log; a run of several layers may do that once, at its end.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        at: layout.Lake,
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
        self.pipeline, self.at, self.layer, self.facts = pipeline, at, layer, {"pipeline": pipeline.name, **facts}
        self._finder, self._choice, self._full_refresh, self._tell = finder, choice, full_refresh, tell
        self._telling = Lock()
        self._copies_events = copies_events
        self._only = [only] if isinstance(only, str) else only
        self._spark = (
            spark
            if isinstance(spark, SharedSpark)
            else SharedSpark(f"{pipeline.name}.{layer}", at, private=bool(pipeline.pii), opened=spark)
        )
        self.done = RunReport(pipeline.name, layer)

    @classmethod
    def of_request(
        cls,
        pipeline: Pipeline,
        at: layout.Lake,
        layer: Layer,
        facts: Mapping[str, Any],
        request: Request,
        spark: SparkSession | SharedSpark | None = None,
    ) -> Job:
        """Job for a layer's part of a request."""
        only = request.names(pipeline, layer)
        full_refresh = request.mode == "full-refresh"
        return cls(
            pipeline,
            at,
            layer,
            facts,
            spark,
            only=only,
            finder=request.finder,
            choice=request.interval,
            full_refresh=full_refresh,
        )

    def run(self) -> RunReport:
        """Runs the tables in order. A table that fails does not keep the others from running.

        Raises:
            SluicegateError: the first failure, after all tables were tried, with those of the other tables.
        """
        started = time.monotonic()
        self._tell(f"{self.pipeline.name} {self.layer}")
        if aws.on_s3(self.at.root) and not s3_commits.is_proven(self.at.locks):
            self._spark.session_of("")  # refuses a store that is not safe, before anything is written to it
        # By handles of their own: the step of each table reads anew what those before it have committed.
        chosen = flows.flows(self.pipeline, self.at, self.layer)
        chosen = {name: flow for name, flow in chosen.items() if self._only is None or name in self._only}
        needs = flows.needs(chosen)
        failed = side_by_side(
            needs,
            lambda name: self._reported(name, chosen[name], renew=bool(needs[name])),
            SIDE_BY_SIDE,
            connect.interrupt_all,
            # A record of silver is evaluated again when its source gets it. A gold table would be made of some tables
            # as they are now, and of others as they were before.
            self._left if self.layer == "gold" else None,
        )
        self.done.tables.sort(key=lambda table: [*chosen].index(table.table))
        for interrupt in (error for error in failed.values() if not isinstance(error, Exception)):
            raise interrupt
        if self._copies_events:
            event_log.copy_events(self.pipeline, self.at)
        self.done.seconds = time.monotonic() - started
        errors = [error for error in failed.values() if isinstance(error, Exception)]
        if errors:
            raise _with_others(errors[0], errors[1:])
        return self.done

    def _left(self, name: str, missing: Sequence[str]) -> None:
        """Reports a table that is not filled, as tables that it reads were not."""
        why = f"it reads {', '.join(missing)}, which this run could not bring up to date"
        self.done.tables.append(TableReport(name, self.layer, state="blocked", why=why))
        self._tell(self.done.tables[-1].line())

    def _reported(self, name: str, flow: Flow, *, renew: bool) -> bool:
        """Runs a table, and reports a failure at once.

        Args:
            name: the table.
            flow: what fills it.
            renew: whether it reads tables of this layer, which this run may have made, or given other columns.

        Returns:
            whether those that read it can go on: not if it has rows of before, and waits.
        """
        try:
            return self._table(name, flows.renewed(flow, self.pipeline, self.at) if renew else flow)
        except Exception as error:
            if isinstance(error, QueryError) and error.at:
                error.where = places.placed(error.where, self.pipeline, self.layer, name, error.at)
            damaged = None if isinstance(error, ExpectationFailed) else cause_of(error, self._tables_of(name, flow))
            self._tell(f"  {self.layer:<6} {name:<28} FAILED: {damaged or error}".split("\n")[0])
            if damaged is not None:
                raise damaged from error
            raise

    def _tables_of(self, name: str, flow: Flow) -> list[str]:
        """Addresses of all tables that are read or written to fill one."""
        others = [self.at.outcome(name), self.at.archive(name)] if self.layer == "bronze" else []
        others += [self.at.groups(name)] if self.layer == "gold" else []
        read = [*flow.sources, *flow.inputs.values(), *flow.references.values()]
        return [*read, flow.target, *flow.side_tables, layout.rejected(flow.target), *others]

    def _table(self, name: str, flow: Flow) -> bool:
        step = step_of(self.layer, flow, self.pipeline, self.at, self._finder)
        step.prepare(lambda: self._spark.session_of(f"{self.layer}.{name}"))
        now = progress(flow, step.opened)
        choice = self._choice if self._choice and self._choice.of(name, self.pipeline) else None
        full_refresh = self._full_refresh and step.refreshes and now.kind != "blocked"
        if now.work or full_refresh or (choice is not None and now.kind == "idle"):
            done = step.fill(
                self._spark.session_of(f"{self.layer}.{name}"), self.facts, choice, full_refresh=full_refresh
            )
        else:
            done = TableReport(name, self.layer, state=now.kind, why=now.why)
        step.complete(done)
        self.done.tables.append(done)
        described = step.describe(lambda: self._spark.session_of(f"{self.layer}.{name}"))
        with self._telling:  # tables run concurrently
            for line in (done.line(), *done.remarks(), *described, *step.remarks()):
                self._tell(line)
        return done.state != "blocked" or step.opened[flow.target].delta is None


def _with_others(error: Exception, others: Sequence[Exception]) -> Exception:
    """An error of a table with those of the others that failed, each in its own words."""
    if not others:
        return error
    ours, *rest = [one if isinstance(one, SluicegateError) else unexpected(one) for one in (error, *others)]
    ours.others = rest
    return ours

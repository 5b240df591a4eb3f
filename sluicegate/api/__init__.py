"""What ``import sluicegate`` gives: the functions behind the command line, for notebooks, tests and tasks.

Each returns typed facts, prints nothing, never ends the process, and raises errors of ``sluicegate.errors``. What one
needs is imported when it is called: to ask for a plan takes neither DuckDB nor Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sluicegate.api.chosen import copy_into, discard, reload, replay, reset, skip
from sluicegate.console import ignore_line
from sluicegate.errors import DefinitionError, JobFailed, PipelineMissing, QueryError, UserError
from sluicegate.flow.verification.finding import FindingKind, FindingReason
from sluicegate.launch.run_mode import RunMode
from sluicegate.settings import Settings
from sluicegate.storage import aws
from sluicegate.storage.store_errors import translate_errors

__all__ = ["alerts", "copy_into", "discard", "files", "history", "impact", "lineage", "load", "plan", "reload",
           "replay", "reset", "run", "skip", "spark_session", "sql", "status", "verify"]  # fmt: skip

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from sluicegate.definition import Layer, Pipeline
    from sluicegate.flow.report import RunReport
    from sluicegate.flow.selection import Interval
    from sluicegate.flow.verification.finding import Finding
    from sluicegate.monitor.alerts import Alert
    from sluicegate.monitor.estimate import Plan
    from sluicegate.monitor.impact import Impact
    from sluicegate.monitor.lineage import TableLineage
    from sluicegate.monitor.status import Status


@translate_errors()
def load(name: str, settings: Settings | None = None) -> Pipeline:
    """Read and check the definition of a pipeline, which remembers the settings that it was read with.

    Args:
        name: name of its folder below ``settings.pipelines``.
        settings: where things are; None for ``Settings.of()``, that is the environment's.

    Raises:
        PipelineMissing: there is no such pipeline.
        PipelineRenamed: there is none of that name, or not yet, as it was renamed or is being renamed.
        DefinitionError: its definition has mistakes; ``mistakes`` has all of them.
    """
    from sluicegate import definition

    settings = settings or Settings.of()
    try:
        return definition.load(name, settings)
    except (PipelineMissing, DefinitionError) as error:
        _demand_not_renamed(name, settings, finished=isinstance(error, PipelineMissing))
        raise


def _demand_not_renamed(name: str, settings: Settings, *, finished: bool) -> None:
    """Check that it is no rename by which a definition cannot be read; a finished one counts with ``finished``."""
    from sluicegate.definition.fields import name_fault
    from sluicegate.lake import layout
    from sluicegate.lake.exclusion import renamed

    if name_fault(name) or not layout.is_local(settings.lake):
        return
    rename = renamed.recorded_rename(settings.lake, name)
    if rename is not None and (finished or not rename.done):
        renamed.demand_current(layout.Lake(settings.lake, name))


@aws.brief_requests()
@translate_errors()
def plan(pipeline: Pipeline, *, partly: bool = False) -> Plan:
    """Estimate what a run would do, table by table, as ``sluicegate plan``. Write nothing and start no JVM.

    Args:
        pipeline: the definition.
        partly: continue if landing or the lake cannot be reached, with the errors in ``problems``.

    Returns:
        Pending work of each table. ``outdated`` lists tables with rows of a former definition; ``touched`` estimates
        what a run would read and change for gold tables that are behind.

    Raises:
        LandingMissing: a landing folder, or the Delta table that a bronze table reads, does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    from sluicegate.lake.damage import files as damaged_files
    from sluicegate.lake.layout import Lake
    from sluicegate.monitor import estimate

    with damaged_files.name_damaged_file(Lake(pipeline.settings.lake, pipeline.name)):
        return estimate.plan(pipeline, pipeline.settings, partly=partly)


@translate_errors()
def lineage(pipeline: Pipeline) -> dict[str, TableLineage]:
    """Of each column of the pipeline's tables the columns that it comes from, by table. No JVM.

    Raises:
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    from sluicegate.lake.layout import Lake
    from sluicegate.monitor import lineage as monitor_lineage

    return monitor_lineage.lineage(pipeline, Lake(pipeline.settings.lake, pipeline.name))


@translate_errors()
def impact(pipeline: Pipeline, column: str) -> Impact:
    """List what depends on a column, across all layers, as ``sluicegate plan --impact``. Start no JVM.

    Args:
        pipeline: the definition.
        column: the column, as ``table.column``.

    Raises:
        UserError: the name has no table in it.
        PipelineMissing: there is no such table.
        ColumnMissing: the table has no such column.
    """
    from sluicegate.lake.layout import Lake
    from sluicegate.monitor import impact as monitor_impact

    return monitor_impact.impact(pipeline, Lake(pipeline.settings.lake, pipeline.name), column)


@translate_errors()
def run(
    pipeline: Pipeline,
    *,
    layer: Layer | None = None,
    interval: Interval | None = None,
    full_refresh: Sequence[str] | None = None,
    tell: Callable[[str], None] = ignore_line,
    warm_minutes: float | None = None,
) -> list[RunReport]:
    """Process new landed files through bronze, silver and gold in one Spark, as ``sluicegate run``.

    Args:
        pipeline: the definition.
        layer: run this layer alone; None for all that have work.
        interval: event times of records to reprocess as well.
        full_refresh: tables to compute from their whole source; the tables that read them follow. None for none.
        tell: called with each line that the jobs print for people, such as ``print``.
        warm_minutes: minutes that Spark stays ready for the next run; 0 for a Spark of this run alone, None for
            ``SLUICEGATE_WARM`` or its default.

    Returns:
        A report of each layer that ran; empty if nothing was pending.

    Raises:
        PipelineMissing: there is no such layer or table.
        UserError: no table has an event time, or two arguments exclude each other.
        SluicegateError: a layer failed, with the type of its error. Later layers were not run; ``reports`` has the
            reports of earlier ones.
    """
    from sluicegate.launch import pipeline as run_pipeline
    from sluicegate.launch import warm_spark
    from sluicegate.launch.request import Request

    if warm_minutes is None:
        warm_minutes = warm_spark.minutes()
    if interval:
        since, until = (interval.since.isoformat(), interval.until.isoformat())
    else:
        since, until = (None, None)
    if full_refresh is not None:
        request = Request.from_arguments(pipeline, RunMode.FULL_REFRESH, since, until, full_refresh)
        return run_pipeline.refresh(pipeline, pipeline.settings, layer, tell, request, warm_minutes)
    request = Request.from_arguments(pipeline, RunMode.INTERVAL if interval else RunMode.INCREMENTAL, since, until)
    return run_pipeline.run(pipeline, pipeline.settings, layer, tell, request.interval, warm_minutes)


@aws.brief_requests()
@translate_errors()
def status(pipeline: Pipeline) -> Status:
    """Return rows, version, freshness and pending work of each table, as ``sluicegate status``. Start no JVM.

    Raises:
        LandingMissing: a landing folder does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    from sluicegate.lake.damage import files as damaged_files
    from sluicegate.lake.layout import Lake
    from sluicegate.monitor import status as monitor_status

    with damaged_files.name_damaged_file(Lake(pipeline.settings.lake, pipeline.name)):
        return monitor_status.status(pipeline, pipeline.settings)


@translate_errors()
def alerts(pipeline: Pipeline) -> list[Alert]:
    """Check the limits under ``alerts`` of the definition, as ``sluicegate alerts``. Start no JVM.

    Raises:
        LandingMissing: a landing folder does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    from datetime import UTC, datetime

    from sluicegate.monitor import alerts as monitor_alerts

    return monitor_alerts.evaluate(pipeline, pipeline.settings, datetime.now(UTC))


@translate_errors()
def verify(
    pipeline: Pipeline,
    *,
    percent: float = 100,
    since_last: bool = False,
    spark: bool = True,
    tell: Callable[[str], None] = ignore_line,
) -> list[Finding]:
    """Verify tables, as ``sluicegate status --verify``.

    Landed files are read again and compared with bronze, silver with what the definition gives of bronze, gold with
    what its queries give.

    Args:
        pipeline: the definition.
        percent: how much is compared by value: of landed files, of records of silver that depend on no other, and of
            rows of gold. Landed files and records are another part each day.
        since_last: whether to compare only what came or changed since the last verification: the rest is ``unseen``,
            with the reason ``proved-before``. What was last compared a week ago is compared again.
        spark: whether to evaluate silver and run gold's queries again, in a job of Spark; without, the values of silver
            are ``unseen``, and gold is ``unproved``.
        tell: takes each line that the job says to people.

    Returns:
        What does not hold (``wrong``), waits (``behind``), cannot be said (``unproved``) or was not looked at
        (``unseen``), and last what is right (``proved``).

    Raises:
        UserError: ``percent`` is out of range, or below 100 with ``since_last``.
        SluicegateError: the job failed.
    """
    from sluicegate.flow import flows
    from sluicegate.flow.report import FINDING, facts_of
    from sluicegate.flow.verification.finding import Finding
    from sluicegate.flow.verification.sample import Sample
    from sluicegate.gold import verify_gold
    from sluicegate.lake.layout import Lake
    from sluicegate.launch import submit, verification
    from sluicegate.monitor import verify_damage

    if not 0 < percent <= 100:
        raise UserError(f"invalid sample of {percent:g} percent", hint="above 0 and at most 100")
    settings = pipeline.settings
    sample = Sample(percent)
    proofs = verification.proofs_of(pipeline, sample, tell, since_last=since_last)
    if damaged := verify_damage.findings(pipeline, settings):
        return damaged
    findings = verification.findings_without_spark(pipeline, tell, sample, proofs)

    def sorted_findings() -> list[Finding]:
        verification.forget_doubtful(pipeline, findings, proofs)
        return verification.sort_findings(findings)

    lake = Lake(settings.lake, pipeline.name)
    names, evaluated = verify_gold.provable_tables(pipeline, lake), flows.stored_silver(pipeline, lake)
    if not spark:
        without = partial(Finding, reason=FindingReason.WITHOUT_SPARK)
        findings += [without(FindingKind.UNSEEN, table_name, "its values") for table_name in evaluated]
        findings += [without(FindingKind.UNPROVED, name, "its query was not re-run") for name in names]
        return sorted_findings()
    if not (names or evaluated):
        findings += verify_gold.unprovable_findings(pipeline)
        return sorted_findings()

    def take(message: str) -> None:
        if (facts := facts_of(FINDING, message)) is not None:
            findings.append(Finding(**facts))

    arguments = ["--queries", f"--sample={percent:g}", *(["--since-last"] if since_last else [])]
    reports = submit.submit("verify", pipeline.name, settings, submit.run_info(), tell, arguments, take)
    if reports.unreported:  # a finding may be missing
        raise JobFailed("the verification of silver and gold ended without a report", hint="verify it again")
    return sorted_findings()


@translate_errors()
def files(pipeline: Pipeline, table: str, *, states: Sequence[str] = (), newest: int | None = None) -> pa.Table:
    """Return the ledger of a bronze table, a row for each landed file, as ``sluicegate files``. Start no JVM.

    Args:
        pipeline: the definition.
        table: name of a bronze table. For one that reads a Delta table, rows are the versions that each run read.
        states: return only files in these states; empty for all.
        newest: return only the last N.

    Raises:
        PipelineMissing: there is no such bronze table.
        LandingMissing: the landing folder does not exist, or cannot be listed.
        UserError: a state is unknown, or ``newest`` is less than 1.
    """
    from sluicegate.monitor import status as monitor_status

    _demand_limit(newest)
    return monitor_status.files(table, pipeline, pipeline.settings, states, newest)


@translate_errors()
def history(pipeline: Pipeline, table: str | None = None, *, newest: int = 20) -> pa.Table:
    """Return the event log, a row for each commit of a run, oldest first, as ``sluicegate history``. Start no JVM.

    Args:
        pipeline: the definition.
        table: return events of this table alone; None for all.
        newest: return only the last N.

    Returns:
        Rows of ``monitor.event_log.EVENTS``; ``details`` has the commit's metadata as JSON.

    Raises:
        UserError: there is no such table, or ``newest`` is less than 1.
    """
    from sluicegate.lake.layout import Lake
    from sluicegate.monitor import event_log

    _demand_limit(newest)
    event_log.demand_table(pipeline, table)
    return event_log.history(pipeline, Lake(pipeline.settings.lake, pipeline.name), table, newest)


@translate_errors()
def sql(query: str, settings: Settings | None = None) -> pa.Table:
    """Return the rows of one SELECT in Spark's SQL over ``pipeline.table``, as ``sluicegate sql``. Start no JVM.

    Args:
        query: the SELECT; ``table VERSION AS OF 3`` and ``table TIMESTAMP AS OF '…'`` travel in time.
        settings: locations of lake, landing and pipelines; None for the environment's.

    Raises:
        QueryError: the query is refused. A note of the error names pipelines that could not be loaded.
        NotADeltaTable: there are files, but no Delta table, where one is defined.
    """
    from sluicegate.tools.sqlshell import shell
    from sluicegate.tools.sqlshell.definitions import definitions_of_tables

    settings = settings or Settings.of()
    definitions, wrong = definitions_of_tables(shell.table_names(query), settings)
    try:
        return shell.query(query, definitions, settings)
    except QueryError as error:
        for name, mistakes in wrong.items():
            error.add_note(f"the tables of {name} are unknown: {mistakes.message}")
        raise


def spark_session(name: str = "notebook") -> SparkSession:
    """Return this process's Spark session, or start one with the settings of jobs.

    If ``SPARK_REMOTE`` names a Spark Connect server, connect to it.

    Args:
        name: name of the application in Spark.

    Raises:
        JavaMissing: Java 17 or newer, or a jar, is missing.
        SparkUnreachable: the server does not answer, or refuses the token.
    """
    from sluicegate.spark import connect, session

    if connect.address():
        return session.open_session(name)
    return session.session_inside(name)


def _demand_limit(newest: int | None) -> None:
    if newest is not None and newest < 1:
        raise UserError(f"invalid limit newest={newest}", hint="use 1 or more")

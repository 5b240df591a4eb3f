"""Last task of a run: reconciliation of files and records, tables that are behind, and counts of expectations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, TriggerRule
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluicegate.airflow.connections import provide_store
from sluicegate.airflow.operators.submit import exclude_other_runs
from sluicegate.airflow.reporting import metrics
from sluicegate.airflow.reporting.failure_reason import REASON, keep_failure_reason
from sluicegate.airflow.reporting.task_alerts import LOST, REPEATED, FirstFailureCallback
from sluicegate.airflow.run_request import create_exception, failure, read_request, run_name
from sluicegate.definition import LAYERS, load
from sluicegate.errors import SluicegateError
from sluicegate.escapes import escape_text
from sluicegate.flow.report import closing_sentence
from sluicegate.flow.verification.finding import FindingKind

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.definition import Pipeline
    from sluicegate.flow.verification.finding import Finding
    from sluicegate.lake.layout import Lake
    from sluicegate.lake.log import Commit
    from sluicegate.monitor.backlog import Waiting
    from sluicegate.settings import Settings

# Rows of a table up to which each record is looked up by identity: some seconds, and a few hundred MB. Larger tables
# are proven by the row counts in their logs; `sluicegate status --verify` reads all.
RECORDS = 5_000_000


class Account(BaseOperator):
    """Proves that every file and record that was taken in is in exactly one place, and fails if not. No Spark.

    It fails, too, if a run over everything that is new ends with a table behind: its job may have been ended, or marked
    as done by hand. What arrived while the run went on is only reported.

    It runs after tasks that failed, too, and fails with the reason of the first.

    Args:
        pipeline: name of the pipeline.
        settings: where things are, as ``settings_below`` or ``Settings.of`` gives it.
        sensor: task id of the LandedFilesSensor: files that it saw must have been read.
        kwargs: what every operator takes.
    """

    def __init__(self, *, pipeline: str, settings: Settings, sensor: str = "wait_for_files", **kwargs: Any) -> None:
        # Not after a rejected request, nor where nothing has landed, which skip all that follows.
        super().__init__(**{"trigger_rule": TriggerRule.NONE_SKIPPED, **kwargs})
        self.on_failure_callback = [FirstFailureCallback(callback) for callback in self.on_failure_callback]
        self.sensor = sensor
        self.pipeline = pipeline
        self.settings = settings

    @keep_failure_reason
    @provide_store
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Read all tables, while no other run changes them.

        Returns:
            for each table its rows, those of its side tables, of bronze the files that could not be read or were
            skipped, what waits for it, and how many rows broke each rule in this run.

        Raises:
            AirflowFailException: something does not add up, or a task before failed; no retry changes that.
            AirflowException: a table is behind that this run should have brought up to date.
        """
        from sluicegate.lake.exclusion.lock import pipeline_lock
        from sluicegate.lake.layout import Lake

        # not above: parsing a DAG file needs neither pyarrow nor deltalake
        from sluicegate.monitor import backlog, verify

        run, outcome = context["dag_run"], _earlier_failure(context)
        if outcome is not None:
            self.log.error(str(outcome))
        try:
            pipeline = load(self.pipeline, self.settings)
            lake = Lake(self.settings.lake, self.pipeline)
            with (
                exclude_other_runs(self.pipeline, self.settings, context),
                pipeline_lock(lake, f"account of {run_name(context)}"),
            ):
                problems = verify.findings(pipeline, self.settings, RECORDS)
                waiting = backlog.waiting_tables(pipeline, self.settings)
                tables = _tables(pipeline, self.settings, run.run_id, waiting)
                behind = [problem for problem in problems if problem.kind == FindingKind.BEHIND]
                overdue = self._overdue_work(pipeline, context, waiting, behind)
        except SluicegateError as error:
            if outcome is None:
                raise failure(error) from None
            self.log.warning(escape_text(error.for_people(), keep="\n"))
            raise outcome from None
        for line in _lines(tables):
            self.log.info(escape_text(line))
        metrics.send_tables(self.pipeline, tables, {table["table"]: _last_change(lake, table) for table in tables})
        if outcome is not None:
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, tables)
        verdict = _verdict(problems, outcome, overdue)
        if verdict is not None:
            raise verdict
        self.log.info(escape_text(closing_sentence(tables)))
        return tables

    def _overdue_work(
        self, pipeline: Pipeline, context: Context, waiting: list[Waiting], behind: list[Finding]
    ) -> list[str]:
        """What this run should have done and has not, and the command.

        That is: the status of files that a job read, and then was killed; and backlog, unless the run is over some of
        the tables.
        """
        late = [f"  {escape_text(str(problem))}" for problem in behind] + self._backlog(pipeline, context, waiting)
        rerun = f"  trigger {pipeline.name} again, or run: sluicegate run {pipeline.name}"
        if late:
            return [*late, rerun]
        return []

    def _backlog(self, pipeline: Pipeline, context: Context, waiting: list[Waiting]) -> list[str]:
        """Backlog that this run should have taken in; empty for a run over some of the tables."""
        from sluicegate.monitor import backlog

        run, request = context["dag_run"], read_request(pipeline, context)
        if request.mode != "incremental" or request.tables or request.max_files is not None or not run.start_date:
            return []

        def is_own_commit(_table: str, commit: Commit) -> bool:
            return bool(commit.info.run_id == run.run_id)

        late = [
            f"  {wait.table}: {escape_text(wait.what)}"
            for wait in backlog.overdue_tables(waiting, run.start_date, is_own_commit)
        ]
        unread = backlog.unread_files(pipeline, self.settings, run.start_date)
        # Files that came later may look old. These count if this run was begun for files, and none has been entered.
        if unread and (context["ti"].xcom_pull(task_ids=self.sensor) or {}).get("files"):
            late += [f"  {table}: {text}" for table, text in unread.items()]
        return late


def _verdict(
    problems: Sequence[Finding], outcome: AirflowException | None, overdue: Sequence[str]
) -> AirflowException | None:
    """Return the error of the run: records that do not add up, an earlier failure, or what is overdue; None if none."""
    if any(problem.kind != FindingKind.BEHIND for problem in problems):
        lines = [f"  {escape_text(line)}" for problem in problems for line in problem.lines()]
        return AirflowFailException("\n".join(["reconciliation failed:", *lines]))
    if outcome is None and overdue:
        return AirflowException(
            "\n".join(["this run did not process all data that was new when it started:", *overdue])
        )
    return outcome


def _earlier_failure(context: Context) -> AirflowException | None:
    """Return the error of a run whose first failed task left a reason, or none; None if no task failed."""
    task, instance = context["task"], context["ti"]
    states = instance.get_task_states(dag_id=task.dag_id, run_ids=[instance.run_id]).get(instance.run_id, {})
    before = task.get_flat_relative_ids(upstream=True)
    first = next((name for name in context["dag"].task_ids if name in before and states.get(name) == "failed"), None)
    if first is None:
        return None
    sentence = escape_text(f"failed in {first}: {instance.xcom_pull(task_ids=first, key=REASON) or LOST}")
    return create_exception(sentence, {"message": sentence, REPEATED: True}, final=True)


def _tables(pipeline: Pipeline, settings: Settings, run_id: str, waiting: list[Waiting]) -> list[dict[str, Any]]:
    from sluicegate.lake import layout, log
    from sluicegate.lake import tables as lake_tables
    from sluicegate.lake.table import Tables
    from sluicegate.monitor import status

    waits = {wait.table: wait.what for wait in waiting}
    lake = layout.Lake(settings.lake, pipeline.name)
    facts_of_tables = []
    for layer in LAYERS:
        for name in pipeline.names(layer):
            table = lake_tables.delta_table(lake.table(layer, name))
            info = log.info_of(log.last_own_commit(table))
            side_tables = {}
            if layer == "silver":
                side_tables = {"quarantined": lake.quarantine(name), "set aside": lake.set_aside(name)}
            side_tables["rejected"] = layout.rejected_table(lake.table(layer, name))
            counts = {side: lake_tables.rows(lake_tables.delta_table(uri)) for side, uri in side_tables.items()}
            if counts.get("quarantined") and (discarded := status.discarded_rows(lake, name, Tables())):
                counts |= {"quarantined": counts["quarantined"] - discarded, "discarded": discarded}
            if not counts["rejected"]:
                del counts["rejected"]
            if layer == "bronze":
                counts |= _files(pipeline, lake, name)
            facts = {"layer": layer, "table": name, "rows": lake_tables.rows(table), **counts}
            facts |= {"waits": waits[name]} if name in waits else {}
            facts_of_tables.append({**facts, "expectations": info.expectations if info.run_id == run_id else {}})
    return facts_of_tables


def _files(pipeline: Pipeline, lake: Lake, name: str) -> dict[str, Any]:
    """Numbers of the files of a bronze table that are not in it: those that cannot be read, and those that it skips."""
    from sluicegate.lake import tables as lake_tables
    from sluicegate.landing import file_status, on_record

    ledger = None
    if pipeline.bronze[name].reads_files:
        ledger = lake_tables.delta_table(lake.ledger(name))
    if ledger is None:
        return {}
    failed = sorted(file_status.failed_files(lake, name, ""))
    facts: dict[str, Any] = {}
    if failed:
        facts |= {"failed files": len(failed), "first failed file": failed[0].rsplit("/", 1)[-1]}
    skipped = on_record.skipped_files(ledger).files
    if skipped:
        facts |= {"skipped files": skipped}
    return facts


def _last_change(lake: Lake, table: dict[str, Any]) -> datetime | None:
    from sluicegate.monitor import arrivals

    return arrivals.change_time(table["layer"], table["table"], lake)


def _lines(tables: list[dict[str, Any]]) -> list[str]:
    """Table lines for people."""
    lines = []
    for table in tables:
        names = ("quarantined", "discarded", "set aside", "rejected", "failed files", "skipped files")
        sides = [name for name in names if name in table]
        side_counts = "".join(f", {table[side]:,} {side}" for side in sides)
        lines.append(f"{table['layer']:<6} {table['table']:<28} {table['rows']:>9,} rows{side_counts}")
        if "waits" in table:
            lines += [f"         behind: {table['waits']}"]
        for rule, counts in table["expectations"].items():
            if counts["failed"]:
                lines.append(
                    f"         {rule}: {counts['failed']:,} of {sum(counts.values()):,} rows failed in this run"
                )
    return lines

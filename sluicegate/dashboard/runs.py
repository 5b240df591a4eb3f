"""Runs of a pipeline: their batches together, and what Airflow knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

from sluicegate.dashboard.batches import Balance, CommittedBatch, total_balance
from sluicegate.definition.tables.table import LAYERS
from sluicegate.monitor.event_log import BREAK

USUAL = 10
"""Runs before that say what is usual."""

RUNNING = ("running", "queued")
"""States of a run in Airflow that has not ended."""

TASKS = ("check_request", "wait_for_files", "bronze", "silver", "gold", "run", "catalog", "account")
"""Tasks of the DAG of a pipeline's runs, in their order; ``run`` stands for the layers in a DAG with one job."""

SENSOR = "wait_for_files"
"""Task that waits for landed files."""

WAITING = ("running", "deferred", "up_for_reschedule")
"""States of that task while it waits."""

# States of a task that did not do its work.
_UNDONE = ("failed", "upstream_failed", "skipped")

# A run that is still queued is the newest of all.
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class RunStep:
    """A task of a run, as Airflow has it, or what a job reported of a table.

    Attributes:
        name: the task.
        state: its state in Airflow.
        began: when it was started.
        ended: when it ended.
        tries: how often it was started.
        reason: why it failed.
    """

    name: str
    state: str
    began: datetime | None = None
    ended: datetime | None = None
    tries: int = 1
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """Seconds that it took."""
        if self.began and self.ended:
            return (self.ended - self.began).total_seconds()
        return None


@dataclass(frozen=True)
class DagRun:
    """A run as Airflow has it.

    Attributes:
        run_id: its id.
        state: queued, running, success or failed.
        kind: scheduled, manual, backfill, asset_triggered.
        began: when it was started.
        ended: when it ended.
        interval: its data interval.
        waited: seconds that it waited for files.
        by: who started it, if a person did.
        note: its note.
        requested: its configuration, as the form or a client gave it.
        steps: its tasks.
        seconds: seconds that a table took, by its name, as the job reported.
    """

    run_id: str
    state: str
    kind: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    interval: tuple[datetime, datetime] | None = None
    by: str = ""
    note: str = ""
    requested: Mapping[str, object] = field(default_factory=dict)
    steps: tuple[RunStep, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    waited: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether all of its tasks did their work: a person may call a run a success that failed or was stopped."""
        return self.state == "success" and not any(step.state in _UNDONE for step in self.steps)

    @property
    def failed_step(self) -> RunStep | None:
        """The first task that failed, in the order of the DAG; None if none failed, or tasks are not loaded."""
        return next((step for step in self.steps if step.state == "failed"), None)


@dataclass(frozen=True)
class PipelineRun:
    """A run with its batches.

    Attributes:
        key: what it is addressed by.
        run_id: its id, as commits have it.
        state: as Airflow has it; ``committed`` of a run that Airflow does not know.
        kind: scheduled, manual, backfill, continuous, or command line.
        began: when it began, or its first commit.
        ended: when it ended, or its last commit so far.
        batches: its commits, oldest first.
        dag_run: what Airflow knows of it.
    """

    key: str
    run_id: str
    state: str
    kind: str
    began: datetime | None
    ended: datetime | None
    batches: tuple[CommittedBatch, ...] = ()
    dag_run: DagRun | None = None

    @property
    def work_began(self) -> datetime | None:
        """When it began, later by the seconds in which it waited for files."""
        if self.began is None or self.dag_run is None:
            return self.began
        return self.began + timedelta(seconds=self.dag_run.waited)

    @property
    def seconds(self) -> float | None:
        """Seconds from its beginning to its end, without those in which it waited for files."""
        if self.ended is None:
            return None
        return self.seconds_until(self.ended)

    def seconds_until(self, moment: datetime) -> float | None:
        """Seconds of its work until a moment; None if it has not begun."""
        began = self.work_began
        if began is None:
            return None
        return max((moment - began).total_seconds(), 0.0)

    @property
    def entered(self) -> int:
        """Rows that it wrote to bronze."""
        return sum(batch.balance.written for batch in self.batches if batch.layer == "bronze")

    @property
    def quarantined(self) -> int:
        """Records that it put into quarantine."""
        return sum(batch.balance.quarantined for batch in self.batches)

    @property
    def is_running(self) -> bool:
        """Whether Airflow still runs it."""
        return self.state in RUNNING

    @property
    def outcome(self) -> str:
        """Its state in one word, in which a wait for files is no work."""
        if self.waits_for_files and self.is_running:
            return "waiting"
        return self.state

    @property
    def failed_step(self) -> RunStep | None:
        """The first of its tasks that failed; None if none did, or Airflow does not know it."""
        if self.dag_run is None:
            return None
        return self.dag_run.failed_step

    @property
    def waits_for_files(self) -> bool:
        """Whether it has begun nothing but its wait for landed files."""
        steps = self.dag_run.steps if self.dag_run is not None else ()
        return any(step.name == SENSOR and step.state in WAITING for step in steps)

    def step(self, layer: str) -> str:
        """Return the state of the task that fills the tables of a layer; empty if its tasks are not loaded."""
        if self.dag_run is None:
            return ""
        return next((step.state for step in self.dag_run.steps if step.name in (layer, "run")), "")

    def table_batches(self, table: str) -> tuple[CommittedBatch, ...]:
        """Return the run's commits to a table, oldest first."""
        return tuple(batch for batch in self.batches if batch.table == table)

    def table_seconds(self, table: str) -> float | None:
        """Return the seconds spent on a table, by its job's report or else its commits; None if neither says."""
        if self.dag_run is not None and table in self.dag_run.seconds:
            return self.dag_run.seconds[table]
        took = [batch.seconds for batch in self.table_batches(table) if batch.seconds is not None]
        if took:
            return sum(took)
        return None

    def balance(self, table: str) -> Balance:
        """Return the balance of the records that the run read for a table."""
        return total_balance(self.table_batches(table))


def group_batches(batches: Iterable[CommittedBatch], dag_runs: Sequence[DagRun] = ()) -> tuple[PipelineRun, ...]:
    """Group batches into the runs that made them, with other runs that Airflow has, newest first.

    Args:
        batches: the batches, in any order.
        dag_runs: runs of the DAG.
    """
    by_run: dict[str, list[CommittedBatch]] = {}
    unnamed: list[list[CommittedBatch]] = []
    for batch in sorted(batches, key=lambda batch: batch.time):
        if batch.by_airflow or batch.run_id.startswith("continuous"):
            by_run.setdefault(batch.run_id, []).append(batch)
        elif unnamed and _continues_run(unnamed[-1], batch):
            unnamed[-1].append(batch)
        else:
            unnamed.append([batch])
    by_id = {dag_run.run_id: dag_run for dag_run in dag_runs}
    runs = [_run_from_commits(key, commits) for key, commits in by_run.items() if key not in by_id]
    runs += [_run_from_commits(f"{commits[0].time:%Y-%m-%dT%H:%M:%S.%f}", commits) for commits in unnamed]
    runs += [_run_from_airflow(dag_run, by_run.get(dag_run.run_id, ())) for dag_run in dag_runs]
    return tuple(sorted(runs, key=lambda run: (run.began or _END, run.key), reverse=True))


def _continues_run(run: Sequence[CommittedBatch], batch: CommittedBatch) -> bool:
    """Return whether a batch is of the same command: soon after its last batch, and of no earlier layer."""
    last = run[-1]
    soon = batch.time - last.time <= BREAK and batch.run_id == last.run_id
    return soon and LAYERS.index(batch.layer) >= LAYERS.index(last.layer)


def _run_from_commits(key: str, batches: Sequence[CommittedBatch]) -> PipelineRun:
    first, last = batches[0], batches[-1]
    kind = "command line"
    if first.run_id.startswith("continuous"):
        kind = "continuous"
    if first.by_airflow:
        kind = first.run_id.split("__", 1)[0]
    return PipelineRun(key, first.run_id, "committed", kind, first.time, last.time, tuple(batches))


def _run_from_airflow(dag_run: DagRun, batches: Sequence[CommittedBatch]) -> PipelineRun:
    began = dag_run.began or (batches[0].time if batches else None)
    return PipelineRun(
        dag_run.run_id, dag_run.run_id, dag_run.state, dag_run.kind, began, dag_run.ended, tuple(batches), dag_run
    )


def choose_run(runs: Sequence[PipelineRun], key: str | None) -> PipelineRun | None:
    """Return the run of a key, by default the newest that changed a table, is under way or failed; None if none."""
    if key is not None:
        return next((run for run in runs if run.key == key), None)
    notable = (run for run in runs if run.batches or run.is_running or run.state == "failed")
    return next(notable, runs[0] if runs else None)


def usual_rows(runs: Sequence[PipelineRun], run: PipelineRun, table: str) -> float | None:
    """Return the median number of rows that earlier runs wrote to a table, None without such runs."""
    before = [
        former
        for former in runs
        if former.began and run.began and former.began < run.began and former.table_batches(table)
    ][:USUAL]
    if before:
        return median(former.balance(table).written for former in before)
    return None

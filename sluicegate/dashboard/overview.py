"""All pipelines, a line for each, the ones in trouble first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from croniter import croniter

from sluicegate.console import files, quantity
from sluicegate.dashboard import batches, discarded, runs
from sluicegate.dashboard.as_json import OF_THE_MOMENT
from sluicegate.dashboard.batches import CommittedBatch
from sluicegate.dashboard.runs import DagRun, PipelineRun
from sluicegate.dashboard.source import Answer, Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import DefinitionError, LandingMissing, SluicegateError
from sluicegate.flow import flows
from sluicegate.monitor.plan import Pending, TableState, pending
from sluicegate.settings import Settings

NEWEST = 400
"""Batches of a pipeline that its line is made of."""

RUNS = 5
"""Runs that a line has."""

LATE_AFTER = 2
"""Intervals of a schedule without a successful run after which a pipeline is late."""


class PipelineState(StrEnum):
    """State of a pipeline as its line shows it; those that need a person come first."""

    MISTAKES = "mistakes"
    """Its definition cannot be read."""

    BROKEN = "broken"
    """What waits for it cannot be found out."""

    FAILED = "failed"
    """Its last run failed."""

    LATE = "late"
    """Its schedule has wanted several runs since the last that succeeded."""

    FAILED_FILES = "failed files"
    """Files could not be read."""

    BEHIND = "behind"
    """Files or changes wait."""

    PAUSED = "paused"
    """Airflow starts no run of its DAG."""

    RUNNING = "running"
    """A run is under way."""

    WAITING = "waiting"
    """A run has been started and waits for files to land."""

    BEING_READ = "being read"
    """What waits is still being found out."""

    FINE = "fine"
    """Its last run succeeded, and nothing waits."""

    EMPTY = "never started"
    """It has not run yet."""


NEED_HAND = (
    PipelineState.MISTAKES, PipelineState.BROKEN, PipelineState.FAILED, PipelineState.LATE, PipelineState.FAILED_FILES,
)  # fmt: skip
"""States that do not pass without a person."""


@dataclass(frozen=True)
class RunPoint:
    """A run as a point of a line."""

    key: str
    state: str
    began: datetime | None
    entered: int
    quarantined: int


@dataclass(frozen=True)
class PipelineBacklog:
    """What waits for a pipeline.

    Attributes:
        sentence: in words.
        files: files that landed and are not read.
        bytes: their size.
        settling: files that may still be being written.
        failed: files that could not be read and are not tried a second time.
        failed_tables: bronze tables that these files are of.
        changed: files that changed after they were read.
        behind: tables that have not taken in what arrived or changed; of Kafka only a run can find that out.
        since: when landing was listed (UTC); None while it is being listed.
        error: why landing cannot be listed.
    """

    sentence: str = ""
    files: int = 0
    bytes: int = 0
    settling: int = 0
    failed: int = 0
    failed_tables: tuple[str, ...] = ()
    changed: int = 0
    behind: tuple[str, ...] = ()
    since: datetime | None = field(default=None, metadata=OF_THE_MOMENT)
    error: str = ""


@dataclass(frozen=True)
class Line:
    """A pipeline.

    Attributes:
        name: its name.
        state: its state.
        sentence: what is the matter, in words; empty if nothing is.
        description: what it is for.
        owner: who answers for it.
        tags: its tags.
        tables: number of its tables.
        runs: its last runs, oldest first.
        fresh: when a run last changed something, or found nothing to do (UTC).
        schedule: its schedule.
        backlog: what waits.
        quarantined: records that wait in quarantine.
        quarantine: the table in whose quarantine most of them are.
        trend: records that its last runs put into quarantine, oldest first.
        mistakes: what is wrong with its definition.
        paused: whether its DAG is paused.
        failed_run: id of its last run, if that failed.
        failed_task: the task that it failed in.
    """

    name: str
    state: PipelineState
    sentence: str = ""
    description: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    tables: int = 0
    runs: tuple[RunPoint, ...] = ()
    fresh: datetime | None = None
    schedule: str | None = None
    backlog: PipelineBacklog = field(default_factory=PipelineBacklog)
    quarantined: int = 0
    quarantine: str = ""
    trend: tuple[int, ...] = ()
    mistakes: tuple[str, ...] = ()
    paused: bool = False
    failed_run: str = ""
    failed_task: str = ""

    @property
    def needs_hand(self) -> bool:
        """Whether a person has to act."""
        return self.state in NEED_HAND


def overview(
    source: Source, names: Sequence[str], dag_runs: Mapping[str, Sequence[DagRun]], time: datetime | None = None,
    paused: Collection[str] = (),
) -> tuple[Line, ...]:  # fmt: skip
    """Return a line for each pipeline, those in trouble first.

    Args:
        source: the source of the lake's tables.
        names: pipelines that the viewer may see.
        dag_runs: last runs in Airflow by pipeline, where there are any.
        time: UTC time by which a pipeline is late, by default the current time.
        paused: pipelines whose DAG is paused.
    """
    time, until = time or datetime.now(UTC), source.deadline()
    if source.patience is not None:  # all at once; those that are not read in time are there as being read
        for name in names:
            source.compute_soon(("line", name), partial(_read, source, name), 0.0)
    lines = [line(source, name, dag_runs.get(name, ()), time, until) for name in names]
    lines = [*(of_dag for of_dag in lines if of_dag.name not in paused),
             *(_pause(of_dag) for of_dag in lines if of_dag.name in paused)]  # fmt: skip
    return tuple(sorted(lines, key=lambda entry: ([*PipelineState].index(entry.state), -entry.quarantined, entry.name)))


@dataclass(frozen=True)
class _Facts:
    """What a line is made of, apart from Airflow's runs."""

    pipeline: Pipeline
    backlog: PipelineBacklog
    batches: tuple[CommittedBatch, ...] = ()
    quarantined: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    landing_missing: bool = False

    @property
    def quarantine(self) -> str:
        """The table in whose quarantine most records are; empty without one."""
        return max(self.quarantined, key=lambda table: self.quarantined[table], default="")


def _read(source: Source, name: str) -> _Facts:
    pipeline = source.pipeline(name)
    landing_missing = False
    try:
        backlog_now = _backlog_from_pending(_pending(source, pipeline), datetime.now(UTC))
    except SluicegateError as error:
        backlog_now = PipelineBacklog(error=error.message)
        landing_missing = isinstance(error, LandingMissing)
    lake = source.lake(pipeline)
    try:
        last = batches.newest_batches(source, pipeline, NEWEST)
        quarantined = {table: discarded.waiting_rows(source, lake, table) for table in pipeline.silver}
    except SluicegateError as error:
        return _Facts(pipeline, backlog_now, error=error.message)
    return _Facts(pipeline, backlog_now, last, quarantined, landing_missing=landing_missing)


def _pause(of_dag: Line) -> Line:
    """Return a pipeline's line with its DAG shown as paused."""
    if of_dag.state in _IDLE:
        of_dag = replace(of_dag, state=PipelineState.PAUSED, sentence="its DAG is paused: Airflow starts no run")
    return replace(of_dag, paused=True)


# States that a pause explains.
_IDLE = (PipelineState.LATE, PipelineState.BEHIND, PipelineState.FINE)


def line(source: Source, name: str, dag_runs: Sequence[DagRun], moment: datetime, until: float | None = None) -> Line:
    """Return the line of one pipeline, whatever is wrong with it."""
    answer = source.compute_soon(("line", name), partial(_read, source, name), until)
    if isinstance(answer.error, DefinitionError):
        mistakes = mistakes_of(answer.error, source.settings)
        sentence = f"pipeline.yaml has {quantity(len(mistakes), 'mistake')}"
        return Line(name, PipelineState.MISTAKES, sentence, mistakes=mistakes)
    if answer.error is not None:
        return Line(name, PipelineState.BROKEN, answer.error.message)
    work = answer.value
    if work is None:
        return Line(name, PipelineState.BEING_READ)
    pipeline, waiting = work.pipeline, work.backlog
    about = Line(
        name, PipelineState.BROKEN, work.error, pipeline.description, pipeline.owner, tuple(pipeline.tags),
        sum(len(pipeline.names(layer)) for layer in LAYERS), schedule=pipeline.schedule, backlog=waiting,
    )  # fmt: skip
    if work.error:
        return about
    last = runs.group_batches(work.batches, dag_runs)
    points = tuple(RunPoint(r.key, r.state, r.began, r.entered, r.quarantined) for r in reversed(last[:RUNS]))
    if work.landing_missing and not last:
        return replace(about, state=PipelineState.EMPTY, sentence=f"it has not run yet: {waiting.error}")
    state, sentence = _state(last, waiting, pipeline.schedule, moment)
    return replace(
        about, state=state, sentence=sentence, runs=points, fresh=_last_success(last),
        quarantined=sum(work.quarantined.values()), quarantine=work.quarantine,
        trend=tuple(point.quarantined for point in points), **_failure_place(last, state),
    )  # fmt: skip


def mistakes_of(error: DefinitionError, settings: Settings) -> tuple[str, ...]:
    """List the mistakes of a definition in words, with its file relative to the definitions' folder."""
    return tuple(str(mistake).replace(f"{settings.pipelines}/", "") for mistake in error.mistakes)


def pending_work(source: Source, pipeline: Pipeline, until: float | None = None) -> Answer[Pending]:
    """Return the work that waits for each table, as far as it is known: a large landing folder takes a while to list.

    See ``Source.compute_soon``.
    """
    return source.compute_soon(("pending", pipeline.name), lambda: _pending(source, pipeline), until)


def _pending(source: Source, pipeline: Pipeline) -> Pending:
    opened = flows.open_all_tables(pipeline, source.lake(pipeline), source.table_handles())
    return pending(pipeline, pipeline.settings, opened)


def backlog_from_answer(answer: Answer[Pending]) -> PipelineBacklog:
    """Summarize the waiting work in numbers and words."""
    if answer.error is not None:
        return PipelineBacklog(error=answer.error.message, since=answer.since)
    if answer.value is None:
        return PipelineBacklog()
    return _backlog_from_pending(answer.value, answer.since)


def _backlog_from_pending(work: Pending, since: datetime | None) -> PipelineBacklog:
    failed = [table for table in work.tables if table.failed]
    behind = tuple(table.table for table in work.tables if table.waits and table.state != TableState.UNASKED)
    return PipelineBacklog(
        work.sentence(), work.files, work.bytes, work.settling, sum(table.failed for table in failed),
        tuple(table.table for table in failed), work.changed, behind, since,
    )  # fmt: skip


def _state(
    last: Sequence[PipelineRun], waiting: PipelineBacklog, schedule: str | None, time: datetime
) -> tuple[PipelineState, str]:
    trouble = _trouble(last, waiting)
    if trouble is not None:
        return trouble
    running = [run for run in last if run.is_running]
    if not all(run.waits_for_files for run in running):
        return PipelineState.RUNNING, "a run is under way"
    if late_since := _late_since(last, schedule, time):
        return PipelineState.LATE, f"no run has succeeded since {late_since:%Y-%m-%d %H:%M} UTC"
    if waiting.files or waiting.behind:
        return PipelineState.BEHIND, waiting.sentence
    if running:
        return PipelineState.WAITING, "a run is waiting for files"
    if last:
        return (PipelineState.FINE, "")
    return (PipelineState.EMPTY, "it has not run yet")


def _trouble(last: Sequence[PipelineRun], waiting: PipelineBacklog) -> tuple[PipelineState, str] | None:
    """Return what needs a person whether a run is under way or not; None if nothing does."""
    ended = _last_ended(last)
    if ended is not None and ended.state == "failed":
        return PipelineState.FAILED, _failure_sentence(ended)
    if waiting.error:
        return PipelineState.BROKEN, waiting.error
    if waiting.failed:
        return PipelineState.FAILED_FILES, f"{files(waiting.failed)} could not be read"
    return None


def _last_ended(last: Sequence[PipelineRun]) -> PipelineRun | None:
    return next((run for run in last if run.dag_run is not None and not run.is_running), None)


def _failure_place(last: Sequence[PipelineRun], state: PipelineState) -> dict[str, Any]:
    """Return the run and the task that a failure can be read about in: fields of a line."""
    ended = _last_ended(last)
    if state != PipelineState.FAILED or ended is None:
        return {}
    step = ended.failed_step
    return {"failed_run": ended.run_id, "failed_task": step.name if step is not None else ""}


def _failure_sentence(run: PipelineRun) -> str:
    step = run.failed_step
    if step is None:
        return "its last run failed"
    return f"its last run failed in {step.name}: {step.reason}"


def _late_since(last: Sequence[PipelineRun], schedule: str | None, time: datetime) -> datetime | None:
    """Return the end of the last successful run if several are due since by the schedule, else None."""
    ended = next((run.ended for run in last if run.state == "success"), None)
    if ended is None or schedule is None:
        return None
    ticks = croniter(schedule, ended)
    due: datetime = ended
    for _ in range(LATE_AFTER):
        due = ticks.get_next(datetime)
    if due + timedelta(minutes=1) < time:
        return ended
    return None


def _last_success(last: Sequence[PipelineRun]) -> datetime | None:
    return next((run.ended for run in last if run.ended and run.state in ("success", "committed")), None)

"""One DAG for each pipeline definition."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, CronDataIntervalTimetable, chain
from airflow.sdk.exceptions import AirflowFailException
from croniter import croniter

from sluicegate import definition, definition_yaml
from sluicegate.airflow.operator import SluicegateJob
from sluicegate.airflow.sensor import LandedFilesSensor
from sluicegate.errors import DefinitionError, PipelineMissing
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context

# Schedules count from here. Fixed, since a date that moves would make a new version of the DAG at each parse; nothing
# before the first run is made up for (catchup), because a run takes whatever has landed since the last one.
START = datetime(2025, 1, 1, tzinfo=UTC)
JOB_ENDS_WITHIN = timedelta(hours=2)

log = logging.getLogger(__name__)


def settings_below(root: Path) -> Settings:
    """``SLUICEGATE_*`` of the environment, else folders below ``root``.

    Not below the current folder, as on a command line: Airflow's processes each have one of their own.
    """
    places = {
        name: os.environ.get(f"SLUICEGATE_{name.upper()}") or str(root / name)
        for name in ("lake", "landing", "pipelines")
    }
    return Settings.of(**places)


def medallion_dag(name: str, settings: Settings) -> DAG:
    """The DAG of a pipeline: a sensor for landed files, then a job for each layer that has tables, one after another.

    Args:
        name: name of the pipeline, which becomes that of the DAG.
        settings: where things are.

    Raises:
        PipelineMissing: there is no such pipeline.
        DefinitionError: its definition has mistakes.
    """
    pipeline = definition.load(name, settings)
    about = {
        "description": pipeline.description,
        "doc_md": _about(pipeline),
        "tags": pipeline.tags,
        "default_args": {"owner": pipeline.owner},
    }
    with _dag(name, pipeline.schedule, **about) as dag:
        wait = LandedFilesSensor(
            task_id="wait_for_files",
            pipeline=name,
            settings=settings,
            timeout=_step(pipeline.schedule),
            retries=1,
            retry_delay=timedelta(minutes=1),
        )
        jobs = [
            SluicegateJob(
                task_id=layer,
                pipeline=name,
                layer=layer,
                settings=settings,
                retries=1,
                retry_delay=timedelta(minutes=1),
                execution_timeout=JOB_ENDS_WITHIN,
            )
            for layer in definition.LAYERS
            if getattr(pipeline, layer)
        ]
        chain(wait, *jobs)
    return dag


def medallion_dags(settings: Settings) -> dict[str, DAG]:
    """A DAG for each definition, by name. For one with mistakes it is a DAG that only says what they are.

    Airflow has no import error for one DAG among several of a file: whatever ends up among the import errors of a file
    (an exception at its end, or one from ``DAG.validate``) also makes ``_update_import_errors`` mark *all* DAGs of that
    file as stale, and no pipeline would run for a typo in another's definition. So the DAG stays in its place, with its
    history and, where that can still be read, its schedule; it shows the mistakes as its documentation, and each run
    fails at once with them, so that whoever is told of failed runs is told of this.

    Raises:
        PipelineMissing: there is no definition at all.
    """
    names = definition.names(settings.pipelines)
    if not names:
        raise PipelineMissing(
            f"there is no pipeline definition in {settings.pipelines}",
            hint=f"make NAME/{definition.FILE} there, or say with SLUICEGATE_PIPELINES where the definitions are",
        )
    dags = {}
    for name in names:
        try:
            dags[name] = medallion_dag(name, settings)
        except DefinitionError as error:
            log.error("%s", error.for_people())
            dags[name] = _dag_of_mistakes(name, error, settings)
    return dags


class DefinitionMistakes(BaseOperator):
    """Fails with the mistakes of a definition.

    Args:
        mistakes: what is wrong, for people.
        kwargs: what every operator takes.
    """

    def __init__(self, *, mistakes: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mistakes = mistakes

    def execute(self, context: Context) -> None:
        """Says what is wrong.

        Raises:
            AirflowFailException: always.
        """
        raise AirflowFailException(self.mistakes)


def _dag_of_mistakes(name: str, error: DefinitionError, settings: Settings) -> DAG:
    told = error.for_people()
    with _dag(
        name,
        _readable_schedule(settings.pipelines / name / definition.FILE),
        description=f"Does not run: {error.message}",
        doc_md=f"This pipeline does not run, because its definition has mistakes:\n\n```\n{told}\n```",
        tags=["mistakes"],
    ) as dag:
        DefinitionMistakes(task_id="definition_has_mistakes", mistakes=told, retries=0)
    return dag


def _readable_schedule(path: Path) -> str | None:
    """The schedule of a definition that has mistakes, if that is not one of them."""
    try:
        schedule = definition_yaml.read(path.read_text()).data["schedule"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return schedule if isinstance(schedule, str) and croniter.is_valid(schedule) else None


def _dag(name: str, schedule: str | None, **about: Any) -> DAG:
    return DAG(
        dag_id=name,
        # A cron text as `schedule` gives intervals of no width in Airflow 3; this gives a run the time since the last.
        schedule=CronDataIntervalTimetable(schedule, timezone="UTC") if schedule else None,
        start_date=START,
        catchup=False,
        # Two runs at once would be right, but the second would only wait for the first one's lock.
        max_active_runs=1,
        **about,
    )


def _step(schedule: str | None) -> timedelta:
    """How long a run waits for files: until the next one would begin, which then waits instead; at most a day."""
    if schedule is None:
        return timedelta(hours=1)
    ticks = croniter(schedule, START)
    first: datetime = ticks.get_next(datetime)
    second: datetime = ticks.get_next(datetime)
    return min(timedelta(days=1), second - first)


def _about(pipeline: definition.Pipeline) -> str:
    tables = [
        f"- {layer}: {', '.join(getattr(pipeline, layer))}" for layer in definition.LAYERS if getattr(pipeline, layer)
    ]
    return "\n".join([pipeline.description, "", *tables])

"""What all DAGs of pipelines have in common: their start, their timetable, and how many runs may be under way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronDataIntervalTimetable
from croniter import croniter

from sluicegate.airflow.loaded import plugin_is_loaded
from sluicegate.airflow.timetable import MAX_BACKFILL_RUNS, PipelineTimetable

# Start of schedules. Fixed, since a moving date would make a new version of the DAG at each parse. Nothing before the
# first run is caught up (catchup), because a run takes whatever has landed since the last one.
START = datetime(2025, 1, 1, tzinfo=UTC)


def new_dag(
    name: str,
    schedule: str | None,
    watched: Asset | None = None,
    max_backfill_runs: int = MAX_BACKFILL_RUNS,
    **about: Any,
) -> DAG:
    """Create a DAG without tasks, which Airflow does not find before ``register_dag``, so that a failure leaves none.

    Args:
        name: the DAG's id.
        schedule: cron expression, in UTC.
        watched: asset whose events start runs, too.
        max_backfill_runs: runs that a backfill has at most.
        about: other arguments of DAG, which come before those set here.
    """
    times = _timetable(schedule, max_backfill_runs) if schedule else None
    # A timetable beside the events allows backfills, and takes files whose event was lost.
    events = AssetOrTimeSchedule(timetable=times, assets=[watched]) if times and watched else watched
    # Not `fail_fast`: it skips what follows a failed task, and a run whose last task was skipped is green. Runs do not
    # meet in the tables (see ``operators.submit.exclude_other_runs``), and a manual run is not to queue behind one that
    # waits for files, for a day perhaps.
    common: dict[str, Any] = {"schedule": events or times, "start_date": START, "catchup": False, "max_active_runs": 3}
    return DAG(dag_id=name, **common | about | {"auto_register": False})


def register_dag(dag: DAG) -> DAG:
    """Register a DAG with Airflow, even if the DAG file does not name it, and return it.

    By itself Airflow registers each DAG at the end of its ``with``, even if an error left it without tasks. It would do
    so beside the DAG of mistakes with the same id, and parse now one and now the other.
    """
    dag.auto_register = True
    with dag:
        return dag


def _timetable(schedule: str, max_backfill_runs: int) -> Any:
    """Return a timetable whose runs cover the time since the last; with a cron text, Airflow 3's intervals are empty.

    Without the plugin each interval of a backfill is a run, as Airflow has it.
    """
    if plugin_is_loaded():
        return PipelineTimetable(schedule, max_backfill_runs)
    return CronDataIntervalTimetable(schedule, timezone="UTC")


@cache
def files_timeout(schedule: str | None) -> timedelta:
    """Return the timeout of the wait for files: until the next run begins, which then waits instead, at most a day.

    It is the shortest time between runs of an uneven schedule. With a longer one, runs would wait beside each other,
    and when ``max_active_runs`` of them do, one by hand would queue behind them.
    """
    if schedule is None:
        return timedelta(hours=1)
    ticks = croniter(schedule, START)
    times: list[datetime] = [ticks.get_next(datetime) for _ in range(50)]  # of days at least, if they are of one day
    return min(timedelta(days=1), *(after - before for before, after in pairwise(times)))

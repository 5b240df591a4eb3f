"""Runs of a schedule and of backfills, by the code with which Airflow makes them of a DAG that it has stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

MONTH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 23, 45, tzinfo=UTC)


def stored(dag: Any) -> Any:
    """A DAG as the scheduler and the API server have it."""
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def runs(dag: Any, since: datetime, until: datetime, *, reverse: bool = False) -> list[Any]:
    """Runs that Airflow makes in a backfill of a range, both ends included."""
    from airflow.models.backfill import _get_info_list

    return _get_info_list(from_date=since, to_date=until, reverse=reverse, dag=stored(dag))


def intervals(found: list[Any]) -> list[tuple[datetime, datetime]]:
    """Intervals that these runs reprocess."""
    from sluicegate.airflow.timetable import interval_begin

    return [(interval_begin(one.data_interval.start), one.data_interval.end) for one in found]


def says(workspace: Workspace, schedule: str = "*/15 * * * *", more: str = "") -> Any:
    workspace.edit("pipeline.yaml", 'schedule: "*/15 * * * *"', f'schedule: "{schedule}"{more}')
    return dag_of(workspace)


@pytest.mark.parametrize("most", [1, 4, 31])
def test_a_month_of_quarters_of_an_hour_is_in_few_runs(workspace: Workspace, most: int) -> None:
    found = runs(says(workspace, more=f"\nairflow: {{max_backfill_runs: {most}}}"), *MONTH)
    spans = intervals(found)
    assert len(spans) == most
    assert (spans[0][0], spans[-1][1]) == (MONTH[0], datetime(2026, 2, 1, tzinfo=UTC))
    assert all(former[1] == latter[0] for former, latter in pairwise(spans))


@pytest.mark.parametrize(("days", "count"), [(30, 30), (31, 31), (32, 31)])
def test_a_backfill_has_at_most_MAX_BACKFILL_RUNS(workspace: Workspace, days: int, count: int) -> None:
    found = runs(says(workspace, "0 0 * * *"), MONTH[0], MONTH[0] + timedelta(days=days - 1))
    assert len(found) == count
    spans = [until - since for since, until in intervals(found)]
    assert sorted(spans) == [timedelta(days=1)] * min(days, 30) + [timedelta(days=days - 30)] * (days > 30)
    if days <= 31:  # as Airflow's own timetable has them
        assert all(
            one.logical_date == one.data_interval.start and one.run_after == one.data_interval.end for one in found
        )


def test_runs_of_several_intervals_are_those_of_no_other_backfill(workspace: Workspace) -> None:
    """By its logical date and its id Airflow finds the run that there is already, whatever its interval."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.types import DagRunType

    dag = says(workspace)
    found: list[Any] = []
    for days in (1, 2, 3, 31, 62):  # of several widths, which begin and end together
        found += runs(dag, MONTH[0], MONTH[0] + timedelta(days=days) - timedelta(minutes=15))
    kind = DagRunType.BACKFILL_JOB
    facts: Any = [
        (
            one.logical_date,
            DagRun.generate_run_id(run_type=kind, logical_date=one.logical_date, run_after=one.run_after),
        )
        for one in found
    ]
    assert len({date for date, _ in facts}) == len({run_id for _, run_id in facts}) == len(found)
    again = runs(dag, *MONTH)
    assert again == runs(dag, *MONTH)  # so that it is the same, and is not made twice
    assert list(reversed(again)) == runs(dag, *MONTH, reverse=True)


@pytest.mark.parametrize("schedule", ["0 9,17 * * mon-fri", "30 6 1 * *", "* * * * *"])
def test_uneven_schedules_have_all_their_intervals(workspace: Workspace, schedule: str) -> None:
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable
    from pendulum import instance

    since, until = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 3, 31, tzinfo=UTC)
    spans = intervals(runs(says(workspace, schedule), since, until))
    assert 1 <= len(spans) <= 31
    assert all(former[1] == latter[0] for former, latter in pairwise(spans))
    plain = CronDataIntervalTimetable(schedule, timezone="UTC")
    restriction = TimeRestriction(instance(since), instance(until), catchup=True)
    first = plain.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert first is not None
    assert spans[0][0] == first.data_interval.start  # type: ignore[union-attr]
    assert spans[-1][1] == plain._get_next(plain._align_to_prev(instance(until)))


def test_what_is_not_over_is_left_to_the_schedule(workspace: Workspace) -> None:
    now = datetime.now(UTC)
    spans = intervals(runs(says(workspace), now - timedelta(days=20), now + timedelta(days=20)))
    assert timedelta(0) < now - spans[-1][1] <= timedelta(minutes=16)


def test_scheduled_runs_have_one_interval_each(workspace: Workspace) -> None:
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    restriction = TimeRestriction(earliest=None, latest=None, catchup=False)
    found = [
        one.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
        for one in (stored(dag_of(workspace)).timetable, CronDataIntervalTimetable("*/15 * * * *", timezone="UTC"))
    ]
    assert found[0] == found[1]


def test_the_run_of_several_reprocesses_whole_intervals(workspace: Workspace) -> None:
    from sluicegate.airflow.run_request import read_request

    dag = says(workspace, more="\nairflow: {max_backfill_runs: 1}")
    [one] = runs(dag, *MONTH)
    task = dag.task_dict["check_request"]
    interval = (one.data_interval.start, one.data_interval.end)
    request = read_request(workspace.definition, context_of(task, "backfill", interval=interval))
    assert "reprocesses [2026-01-01 00:00:00, 2026-02-01 00:00:00)" in str(request)


def test_without_the_plugin_each_interval_has_a_run(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the package is on the path of Airflow's processes, and not installed; nor would there be the pool."""
    from airflow import plugins_manager

    monkeypatch.setattr(plugins_manager, "get_timetables_plugins", dict)
    dag = says(workspace)
    assert len(runs(dag, MONTH[0], MONTH[0] + timedelta(hours=12))) == 49
    assert {task.pool for task in dag.tasks} == {"default_pool"}
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "heart_rate")
    assert {task.pool for task in dag_of(workspace).tasks} == {"default_pool", "spark"}  # a task loads no plugins


@pytest.mark.parametrize("more", ["", "\ntrigger: file_arrival"])
def test_airflow_stores_it_and_shows_the_schedule(workspace: Workspace, more: str) -> None:
    dag = says(workspace, more=f"{more}\nairflow: {{max_backfill_runs: 2}}")
    assert len(runs(dag, *MONTH)) == 2
    assert "*/15 * * * *" in stored(dag).timetable.summary or more
    assert stored(dag).timetable.periodic

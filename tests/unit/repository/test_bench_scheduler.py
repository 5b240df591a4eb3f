"""What is made of the figures of a running Airflow; the series itself starts one, and takes minutes."""

from __future__ import annotations

import re
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench import scheduler
from bench.airflow_load import Load, Measured, Phase, loads, most_concurrent, table
from bench.measure import Process
from bench.statsd import Statsd, parse_metric
from sluicegate.definition import load
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_part_has_what_is_below_it_and_tasks_are_apart_from_the_scheduler() -> None:
    there = {
        1: Process(0, 1, 9.0, 9.0, 9.0),
        10: Process(1, 2, 2.0, 1.0, 100.0),  # the scheduler, which has waited for a task that ended
        11: Process(10, 3, 0.5, 4.0, 50.0),
        12: Process(11, 4, 0.25, 0.0, 25.0),
        20: Process(1, 5, 3.0, 7.0, 200.0),
    }
    assert loads({"scheduler": 10, "dag-processor": 20}, there) == {
        "scheduler": Load(2.0, 100.0), "tasks": Load(5.75, 75.0), "dag-processor": Load(10.0, 200.0),
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="Airflow's triggerer ended"):
        loads({"triggerer": 30}, there)


def test_jobs_that_follow_each_other_are_one_at_a_time() -> None:
    def span(begin: int, end: int) -> tuple[datetime, datetime]:
        return NOON + timedelta(seconds=begin), NOON + timedelta(seconds=end)

    assert most_concurrent([]) == 0
    assert most_concurrent([span(0, 2), span(2, 4), span(4, 5)]) == 1
    assert most_concurrent([span(0, 9), span(1, 3), span(2, 4), span(3, 5)]) == 3


@pytest.mark.parametrize(
    ("line", "metric"),
    [
        ("airflow.triggers.running.host:3|g", ("airflow.triggers.running.host", 3.0)),
        ("airflow.scheduler.scheduler_loop_duration:12.5|ms", ("airflow.scheduler.scheduler_loop_duration", 12.5)),
        ("airflow.scheduler_heartbeat:1|c|@0.1", ("airflow.scheduler_heartbeat", 1.0)),
        ("airflow.odd:x|g", None),
        ("no metric", None),
        ("", None),
    ],
)
def test_a_metric_is_read_as_statsd_has_it(line: str, metric: tuple[str, float] | None) -> None:
    assert parse_metric(line) == metric


def test_metrics_that_arrive_are_told_by_name_with_their_tags_or_without() -> None:
    began = time.time()
    with Statsd() as statsd, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        lines = "airflow.triggers.running:1|g\nairflow.triggers.running.host:2|g\nairflow.triggers.running_out:7|g"
        sender.sendto(lines.encode(), ("127.0.0.1", statsd.port))
        sender.sendto(b"airflow.last:1|c", ("127.0.0.1", statsd.port))
        while not statsd.metric_values("last", began, began + 60):
            assert time.time() < began + 60
        assert [value for _, value in statsd.metric_values("triggers.running", began, began + 60)] == [1.0, 2.0]
        assert statsd.metric_values("triggers.running", began - 60, began - 1) == []


def measured(pipelines: int, cpu: float, triggers: list[float]) -> Measured:
    parts = {"scheduler": cpu, "tasks": 6.0, "dag-processor": 1.0, "triggerer": 0.5, "api-server": 0.0}
    phase = Phase(30.0, parts, dict.fromkeys(parts, 250.0), [10.0, 30.0], [5.0, 7.5], [0.25, 0.75], triggers)
    return Measured(pipelines, 2, phase, phase, phase, [1.0, 2.0, 6.0], 4, 4)


def test_each_number_of_pipelines_is_a_column_and_the_last_is_held_against_the_first() -> None:
    lines = table([measured(1, 1.5, []), measured(200, 4.5, [199.0, 200.0])]).splitlines()
    assert lines[:3] == [
        "| pipelines | 1 | 200 | 200 : 1 |",
        "| --- | --- | --- | --- |",
        "| nothing due: scheduler, CPU s a minute | 3.0 | 9.0 | 3.0 |",
    ]
    assert "| nothing due: api-server, CPU s a minute | 0.0 | 0.0 |  |" in lines  # no ratio to nothing
    assert "| nothing due: database, CPU s a minute |  |  |  |" in lines  # SQLite is no process
    assert "| nothing due: for all files, one after another, s | 1.00 | 1.00 | 1.0 |" in lines
    assert "| all due: start of a run's first task, median, s after the minute | 2.0 | 2.0 | 1.0 |" in lines
    assert "| all due: CPU s of the start of a task | 3.00 | 0.01 | 0.0 |" in lines
    assert "| all due: longest time between heartbeats, s | 7.5 | 7.5 | 1.0 |" in lines
    assert "| all waiting: triggers |  | 200 |  |" in lines
    assert table([measured(1, 1.5, [1.0])]).splitlines()[0] == "| pipelines | 1 |"


def test_pipelines_are_due_at_one_minute_and_dag_files_share_them(tmp_path: Path) -> None:
    series = scheduler.Series(3, 1.0, 2, tmp_path / "lake")
    series.due = NOON.replace(minute=34)
    (tmp_path / "lake" / "heart_rate" / "bronze").mkdir(parents=True)
    settings = series._prepare(tmp_path / "airflow")
    names = ["heart_rate_000", "heart_rate_001", "heart_rate_002"]
    assert [load(name, settings).schedule for name in names] == ["34 12 * * *"] * 3
    assert all((Path(settings.lake) / name / "bronze").is_dir() for name in names)
    files = sorted((tmp_path / "airflow" / "dags").iterdir())
    shared = [re.findall(r"heart_rate_\d+", next(line for line in file.read_text().splitlines() if "only=" in line))
              for file in files]  # fmt: skip
    assert shared == [["heart_rate_000", "heart_rate_002"], ["heart_rate_001"]]
    assert '"2025-12-31T12:34:00+00:00"' in files[0].read_text().replace("'", '"')


def test_tasks_and_pool_are_named_as_in_the_dag() -> None:
    dag = (ROOT / "sluicegate" / "airflow" / "dags" / "pipeline_dags.py").read_text()
    assert all(f'task_id="{name}"' in dag for name in ("check_request", "wait_for_files"))
    assert 'POOL = "spark"' in (ROOT / "sluicegate" / "airflow" / "dags" / "arguments.py").read_text()


def test_numbers_that_cannot_be_measured_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scheduler.main(["--pipelines", "0"])
    assert "1 or more" in capsys.readouterr().err

"""What the limits of a definition say, by ledgers, offsets and the event log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.lake import tables
from sluicegate.landing import intake
from sluicegate.launch import submit
from sluicegate.monitor import alerts, event_log
from sluicegate.monitor.event_log import BREAK
from tests.conftest import Workspace
from tests.support.by_hand import records, taken_in

pytestmark = pytest.mark.unit

NOW = timedelta(0)


def limited(workspace: Workspace, text: str) -> None:
    workspace.edit("pipeline.yaml", "\nbronze:", f"\nalerts: {text}\nbronze:")


def found(workspace: Workspace, after: timedelta = NOW) -> list[str]:
    """Levels, with what there is."""
    event_log.copy_events(workspace.definition, workspace.lake)
    now = datetime.now(UTC) + after
    return [f"{one.level}: {one.sentence}" for one in alerts.evaluate(workspace.definition, workspace.settings, now)]


def levels(workspace: Workspace, after: timedelta = NOW) -> list[str]:
    return [one.split(":")[0] for one in found(workspace, after)]


def enter(workspace: Workspace, name: str) -> None:
    workspace.land(f"recordings/{name}", "[]")
    intake.enter("recordings_bronze", workspace.definition.bronze["recordings_bronze"], workspace.lake)


def test_without_limits_there_is_nothing_to_say(workspace: Workspace) -> None:
    assert found(workspace) == []


def test_nothing_that_ever_came_is_beyond_any_age(workspace: Workspace) -> None:
    limited(
        workspace, "{freshness: {recordings_bronze: {warn: 1 hour, fail: 2 days}, daily_patient_avg: {warn: 1 day}}}"
    )
    assert found(workspace) == [
        "fail: freshness of recordings_bronze: nothing has arrived yet, and it fails after 2 days",
        "warn: freshness of daily_patient_avg: nothing has arrived yet, and it warns after 1 day",
    ]


@pytest.mark.parametrize(
    ("seconds", "level"), [(3500, "ok"), (3700, "warn"), (2 * 86_400 - 100, "warn"), (2 * 86_400 + 100, "fail")]
)
def test_files_age(workspace: Workspace, seconds: int, level: str) -> None:
    limited(workspace, "{freshness: {recordings_bronze: {warn: 1 hour, fail: 2 days}}}")
    enter(workspace, "a.json")
    assert levels(workspace, timedelta(seconds=seconds)) == [level]


@pytest.mark.parametrize(("seconds", "level"), [(3500, "ok"), (3700, "fail")])
def test_tables_age(workspace: Workspace, seconds: int, level: str) -> None:
    limited(workspace, "{freshness: {daily_patient_avg: {fail: 1 hour}}}")
    records(workspace, "daily_patient_avg", [1])
    assert levels(workspace, timedelta(seconds=seconds)) == [level]


@pytest.mark.parametrize(
    ("rows", "level"), [(0, "fail"), (1, "warn"), (2, "ok"), (3, "ok"), (4, "warn"), (5, "warn"), (6, "fail")]
)
def test_rows_of_a_day(workspace: Workspace, rows: int, level: str) -> None:
    limited(workspace, "{volume: {recordings_enriched: {warn: {min: 2, max: 3}, fail: {min: 1, max: 5}}}}")
    records(workspace, "recordings_enriched", [1], written=rows, layer="silver", table="recordings_enriched")
    assert levels(workspace) == [level]


def commit(workspace: Workspace, **said: Any) -> None:
    layer = "bronze" if said.get("table") == "recordings_bronze" else "silver"
    table = said.pop("table", "recordings_enriched")
    records(workspace, table, [1], layer=layer, table=table, **said)


def test_what_came_before_the_last_day_does_not_count(workspace: Workspace) -> None:
    limited(workspace, "{volume: {recordings_enriched: {fail: {min: 1}}}}")
    commit(workspace, written=5)
    assert levels(workspace, alerts.DAY - timedelta(hours=1)) == ["ok"]
    assert found(workspace, alerts.DAY + timedelta(hours=1)) == [
        "fail: volume of recordings_enriched: 0 rows in the last day, and it fails below 1"
    ]


def test_rows_of_the_last_run(workspace: Workspace) -> None:
    limited(workspace, "{volume: {recordings_enriched: {per: run, fail: {min: 3}}}}")
    assert levels(workspace) == ["ok"]
    commit(workspace, written=5, run_id="one")
    commit(workspace, written=1, run_id="two")
    commit(workspace, written=1, run_id="two")
    assert found(workspace, timedelta(days=9)) == [
        "fail: volume of recordings_enriched: 2 rows by the last run, and it fails below 3"
    ]


def write_events(workspace: Workspace, *runs: tuple[timedelta, dict[str, str]]) -> None:
    """Puts batches of 10 rows into the event log, by the time that has passed since each."""
    rows = [
        {"time": datetime.now(UTC) - ago, "layer": "silver", "table": "recordings_enriched", "table_id": "",
         "version": -number, "mode": "", "written": 10, "details": json.dumps(facts)}
        for number, (ago, facts) in enumerate(runs)
    ]  # fmt: skip
    tables.write(workspace.lake.events, pa.Table.from_pylist(rows, schema=event_log.EVENTS), mode="append")


MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("facts", "ago", "rows"),
    [
        # One id for all runs, as somebody's own scheduler may have it: a longer break is between two.
        ({"run_id": "nightly"}, (MINUTE, 5 * MINUTE, BREAK + 6 * MINUTE), 20),
        ({"run_id": "nightly"}, (MINUTE, BREAK), 20),
        ({}, (MINUTE, BREAK + 2 * MINUTE), 10),
        ({"run_id": "command line"}, (MINUTE, 60 * MINUTE), 10),
        # Ids of one run each.
        ({"run_id": "command line 00c0ffee"}, (MINUTE, 60 * MINUTE), 20),
        ({"run_id": "scheduled__1", "dag_id": "heart_rate"}, (MINUTE, 60 * MINUTE), 20),
        # One that never ends.
        ({"run_id": "continuous 00c0ffee"}, (MINUTE, 2 * MINUTE, 3 * MINUTE), 10),
    ],
)
def test_which_batches_are_of_the_last_run(
    workspace: Workspace, facts: dict[str, str], ago: tuple[timedelta, ...], rows: int
) -> None:
    limited(workspace, "{volume: {recordings_enriched: {per: run, fail: {min: 15}}}}")
    write_events(workspace, *((one, facts) for one in ago))
    (said,) = alerts.evaluate(workspace.definition, workspace.settings, datetime.now(UTC))
    assert said.found == f"{rows} rows by the last run"
    assert said.level == ("fail" if rows < 15 else "ok")


def test_each_command_is_a_run_of_its_own() -> None:
    first, second = submit.run_info()["run_id"], submit.run_info()["run_id"]
    assert first != second
    assert all(one.startswith("command line ") for one in (first, second))


def test_files_of_a_day(workspace: Workspace) -> None:
    limited(workspace, "{volume: {recordings_bronze: {of: files, warn: {min: 3}}}}")
    commit(workspace, table="recordings_bronze", files=2)
    assert found(workspace) == ["warn: volume of recordings_bronze: 2 files in the last day, and it warns below 3"]
    commit(workspace, table="recordings_bronze", files=1)
    assert levels(workspace) == ["ok"]


@pytest.mark.parametrize(("failed", "level"), [(1, "ok"), (2, "warn"), (5, "warn"), (6, "fail")])
def test_the_rate_of_a_rule(workspace: Workspace, failed: int, level: str) -> None:
    limited(workspace, "{rule_rate: {recordings_enriched: {valid_heartrate: {warn: 1, fail: 5%}}}}")
    commit(workspace, expectations={"valid_heartrate": {"passed": 100 - failed, "failed": failed}})
    assert levels(workspace) == [level]


def test_a_rule_that_judged_no_row_is_not_broken(workspace: Workspace) -> None:
    limited(workspace, "{rule_rate: {recordings_enriched: {valid_heartrate: {fail: 0%}}}}")
    assert found(workspace) == [
        "ok: rule rate of recordings_enriched.valid_heartrate: 0 of 0 rows of the last day violate it"
    ]


@pytest.mark.parametrize(("files", "level"), [(1, "ok"), (2, "warn"), (3, "fail")])
def test_files_that_wait(workspace: Workspace, files: int, level: str) -> None:
    limited(workspace, "{backlog: {recordings_bronze: {warn: 1, fail: 2}}}")
    (workspace.folder / "landing" / "patients").mkdir(parents=True, exist_ok=True)
    for number in range(files):
        workspace.land(f"recordings/{number}.json", "[]")
    assert levels(workspace) == [level]


def test_files_that_the_ledger_has_wait_as_well(workspace: Workspace) -> None:
    limited(workspace, "{backlog: {recordings_bronze: {fail: 0}}}")
    (workspace.folder / "landing" / "patients").mkdir(parents=True, exist_ok=True)
    enter(workspace, "a.json")
    assert found(workspace) == ["fail: backlog of recordings_bronze: 1 waits, and it fails above 0"]
    workspace.land("recordings/b.json", "[]")
    assert found(workspace) == ["fail: backlog of recordings_bronze: 2 wait, and it fails above 0"]


def test_rows_that_wait(workspace: Workspace) -> None:
    limited(workspace, "{backlog: {recordings_enriched: {fail: 2}}}")
    records(workspace, "patients_bronze", [1])
    taken_in(workspace, "patients", [1])
    records(workspace, "recordings_bronze", [1, 2, 3])
    assert found(workspace) == ["fail: backlog of recordings_enriched: 3 wait, and it fails above 2"]
    taken_in(workspace, "recordings_enriched", [1, 2, 3])
    assert levels(workspace) == ["ok"]


def shown(workspace: Workspace, *arguments: str) -> tuple[int, str]:
    places = [f"--{name}={workspace.folder / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["alerts", "heart_rate", *arguments, *places])
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


def test_the_command_ends_with_3_if_something_fails(workspace: Workspace) -> None:
    assert shown(workspace) == (0, "heart_rate has no alerts in its definition\n")
    limited(workspace, "{freshness: {recordings_bronze: {warn: 1 hour}}}")
    code, text = shown(workspace)
    assert code == 0
    assert "nothing has arrived yet" in text
    workspace.edit("pipeline.yaml", "{warn: 1 hour}", "{fail: 1 hour}")
    code, text = shown(workspace, "--json")
    assert code == 3
    assert json.loads(text[: text.rindex("}") + 1])["alerts"][0]["level"] == "fail"
    assert "and it fails after 1 hour" in shown(workspace)[1]

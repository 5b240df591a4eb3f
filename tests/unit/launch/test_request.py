"""What a run can be asked to do, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.errors import PipelineMissing, UserError
from sluicegate.jobs import layer_job
from sluicegate.launch.request import Request
from sluicegate.launch.run_mode import MODES
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DAY = {"mode": "interval", "since": "2024-03-01", "until": "2024-03-02T00:00:00+01:00"}
INTERVAL = ["--mode=interval", "--from=2024-03-01T00:00:00+00:00", "--to=2024-03-01T23:00:00+00:00"]
TABLE = "--tables=recordings_enriched"


@pytest.mark.parametrize(
    ("wish", "bronze", "silver", "gold", "run"),
    [
        ({}, [], [], [], []),
        (DAY, [], INTERVAL, [], INTERVAL),
        ({"mode": "full-refresh"}, *[["--mode=full-refresh"]] * 4),
        ({"max_files": 3}, ["--max-files=3"], [], [], ["--max-files=3"]),
        ({"tables": ["patients", "daily_patient_avg"]}, *[["--tables=patients,daily_patient_avg"]] * 4),
        (
            DAY | {"tables": ["recordings_enriched"], "max_files": 3},
            [TABLE, "--max-files=3"],
            [*INTERVAL, TABLE],
            [TABLE],
            [*INTERVAL, TABLE, "--max-files=3"],
        ),
    ],
)
def test_a_request_becomes_the_arguments_of_each_layer(
    workspace: Workspace, wish: dict[str, Any], bronze: list[str], silver: list[str], gold: list[str], run: list[str]
) -> None:
    asked = Request.from_arguments(workspace.definition, **wish)
    jobs = ("bronze", "silver", "gold", "run")
    assert [asked.arguments(job) for job in jobs] == [bronze, silver, gold, run]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"mode": "interval", "since": "2024-03-01"}, "both ends"),
        ({"since": "2024-03-01", "until": "2024-03-02"}, "both ends"),
        ({**DAY, "until": "2024-02-01"}, "the interval is empty"),
        ({**DAY, "since": "last week"}, "--from last week is not a time"),
        ({**DAY, "tables": ["patients"]}, "no silver table of patients has an event_time"),
        ({"mode": "full-refresh", "since": "2024-03-01"}, "a full refresh"),
        ({"mode": "full-refresh", "max_files": 2}, "a full refresh reads all files"),
        ({"max_files": 0}, "0 files"),
        ({"mode": "sideways"}, "mode sideways"),
    ],
)
def test_what_makes_no_sense_is_refused(workspace: Workspace, wish: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told) as raised:
        Request.from_arguments(workspace.definition, **wish)
    assert raised.value.hint


def test_a_pipeline_without_event_times_has_no_intervals(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "    event_time: time\n", "")
    with pytest.raises(UserError, match="no silver table of heart_rate has an event_time"):
        Request.from_arguments(workspace.definition, **DAY)


def test_a_table_that_is_not_there(workspace: Workspace) -> None:
    with pytest.raises(PipelineMissing, match="table patient") as raised:
        Request.from_arguments(workspace.definition, tables=["patient"])
    assert raised.value.hint == "did you mean patients?"


def test_a_request_names_its_tables_by_layer_with_the_de_identified_ones(workspace: Workspace) -> None:
    workspace.edit(
        "pipeline.yaml",
        "pii: [mrn, name]\n\ngold",
        "pii: [mrn, name]\n    deidentified: {name: mask, mrn: mask}\n\ngold",
    )
    asked = Request.from_arguments(workspace.definition, tables=["recordings_enriched", "daily_patient_avg"])
    assert asked.names(workspace.definition, "bronze") == []
    assert asked.names(workspace.definition, "silver") == ["recordings_enriched", "recordings_enriched_deidentified"]
    assert asked.names(workspace.definition, "gold") == ["daily_patient_avg"]
    assert Request().names(workspace.definition, "bronze") == ["recordings_bronze", "patients_bronze"]


@pytest.mark.parametrize(("count", "words"), [(1, "at most 1 file for"), (2000, "at most 2,000 files for")])
def test_a_number_of_files_is_in_words(workspace: Workspace, count: int, words: str) -> None:
    assert words in str(Request.from_arguments(workspace.definition, max_files=count))


def test_at_most_so_many_files_are_entered_the_oldest_first(heartbeats: Workspace) -> None:
    from sluicegate.landing import discovery, intake

    recordings = heartbeats.definition.bronze["recordings_bronze"]
    look = Request.from_arguments(heartbeats.definition, max_files=2).finder
    assert look is not None
    entered = intake.enter("recordings_bronze", recordings, heartbeats.lake, look).new
    assert [path.rpartition("/")[2] for path in entered["path"].to_pylist()] == ["a.json", "b.json"]
    # They wait for bronze still: the second try of a task takes no more than the first.
    assert intake.enter("recordings_bronze", recordings, heartbeats.lake, look).new.num_rows == 0
    assert discovery.discover("recordings_bronze", recordings, heartbeats.lake).new.num_rows == 1


def test_a_job_refuses_another_mode_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        layer_job.layer_parser("bronze").parse_args(["--mode", "again"])
    message = capsys.readouterr().err
    assert all(mode.value in message and mode.name not in message for mode in MODES)

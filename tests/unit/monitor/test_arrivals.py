"""Whether files are late, by what the ledger and the table's own log say of the last that came."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluicegate.errors import DefinitionError
from sluicegate.landing import intake
from sluicegate.monitor import arrivals
from sluicegate.times import format_span
from tests.conftest import Workspace
from tests.support.by_hand import records

pytestmark = pytest.mark.unit


@pytest.fixture
def expecting(workspace: Workspace) -> Workspace:
    """heart_rate, whose recordings are expected each day."""
    workspace.edit("pipeline.yaml", "    format: json\n", "    format: json\n    expect_files_within: 24 hours\n")
    return workspace


def late(workspace: Workspace, after: timedelta, *only: str) -> str:
    error = arrivals.late_files_error(workspace.definition, workspace.settings, datetime.now(UTC) + after, only)
    return error.message if error else ""


def entered(workspace: Workspace, file: str) -> None:
    workspace.land(file, "[]")
    name = "recordings_bronze"
    intake.enter(name, workspace.definition.bronze[name], workspace.lake)


def test_a_table_that_expects_nothing_is_never_late(workspace: Workspace) -> None:
    assert late(workspace, timedelta(days=365)) == ""


def test_files_that_never_came_are_late(expecting: Workspace) -> None:
    assert late(expecting, timedelta(0)) == (
        "recordings_bronze expects new files within 1 day, and none has arrived yet"
    )
    assert late(expecting, timedelta(0), "patients_bronze") == ""


@pytest.mark.parametrize(("after", "is_late"), [(-60, False), (60, True)])
def test_files_are_late_once_the_span_is_over(expecting: Workspace, after: int, is_late: bool) -> None:
    entered(expecting, "recordings/a.json")
    said = late(expecting, timedelta(hours=24, seconds=after))
    assert ("and the last" in said) is is_late


def test_a_file_that_comes_ends_it(expecting: Workspace) -> None:
    entered(expecting, "recordings/a.json")
    assert late(expecting, timedelta(hours=25))
    entered(expecting, "recordings/b.json")
    assert late(expecting, timedelta(hours=23)) == ""


@pytest.mark.parametrize(("after", "is_late"), [(-60, False), (60, True)])
def test_versions_of_a_source_table_may_be_late(workspace: Workspace, after: int, is_late: bool) -> None:
    workspace.define("name: heart_rate\nbronze:\n  copy: {path: /source, format: delta, expect_files_within: 1 hour}\n")
    assert late(workspace, timedelta(0)).endswith("none has arrived yet")
    records(workspace, "copy", [1])
    assert bool(late(workspace, timedelta(hours=1, seconds=after))) is is_late


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "59 seconds"),
        (60, "1 minute"),
        (3600, "1 hour"),
        (129_600, "36 hours"),
        (172_800, "2 days"),
        (61, "61 seconds"),
    ],
)
def test_a_time_span_is_in_its_largest_whole_unit(seconds: int, words: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == words


def test_a_span_of_nothing_is_a_mistake(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "    format: json\n", "    format: json\n    expect_files_within: 0 hours\n")
    with pytest.raises(DefinitionError, match="expect_files_within is"):
        _ = workspace.definition

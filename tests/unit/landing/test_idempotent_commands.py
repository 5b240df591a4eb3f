"""A forced copy enters its files once until it has ended, whatever stops it in between; no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import CommitFailedError
from typer.testing import CliRunner

from sluicegate import _faults
from sluicegate.cli import app
from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs import copy_into
from sluicegate.lake import tables
from sluicegate.landing import idempotent_commands, intake, status_log
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen import copy as landing_copy
from sluicegate.launch import submit as run_submit
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


class Killed(BaseException):
    """Stands for a kill."""


@pytest.fixture
def archive(workspace: Workspace) -> Workspace:
    table = "path: '${landing}/things', format: json, maxFilesPerTrigger: 1"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{{table}}}\n")
    for name in "abc":
        workspace.land(f"archive/{name}.json", '{"a": 1}')
    return workspace


def forced(workspace: Workspace, **which: Any) -> landing_copy.Copy:
    return landing_copy.Copy(str(workspace.folder / "landing/archive"), force=True, **which)


def enter(workspace: Workspace, copy: landing_copy.Copy) -> None:
    intake.enter("things", workspace.definition.bronze["things"], workspace.lake, copy.discover)


def end(workspace: Workspace, copy: landing_copy.Copy) -> None:
    """What a copy does last; before that bronze's files are on record."""
    if tables.delta_table(workspace.lake.file_status("things")) is None:
        tables.write(workspace.lake.file_status("things"), status_log.OUTCOME.empty_table())
    idempotent_commands.record_end(workspace.lake, "things", copy.name)


def entered(workspace: Workspace) -> list[str]:
    ledger = tables.delta_table(workspace.lake.ledger("things"))
    return [] if ledger is None else sorted(Path(p).stem for p in tables.dataset(ledger).to_table()["path"].to_pylist())


def test_a_copy_that_loses_a_race_enters_its_files_once(archive: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = landing_ledger._append, []

    def beaten(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise CommitFailedError("another run has made this version")
        real(*arguments)
        if len(calls) == 2:  # the answer is lost: what was committed looks as if it had not been
            raise CommitFailedError("another run has made this version")

    monkeypatch.setattr(landing_ledger, "_append", beaten)
    enter(archive, forced(archive))
    assert entered(archive) == ["a", "b", "c"]


@pytest.mark.parametrize("point", ["ledger.before_commit", "ledger.after_commit"])
def test_a_killed_copy_that_is_repeated_enters_its_files_once(
    archive: Workspace, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def kill(here: str) -> None:
        if here == point:
            raise Killed

    enter(archive, forced(archive))
    end(archive, forced(archive))
    monkeypatch.setattr(_faults, "point", kill)
    with pytest.raises(Killed):
        enter(archive, forced(archive))
    monkeypatch.undo()
    for _ in range(3):
        enter(archive, forced(archive))
        assert entered(archive) == ["a", "a", "b", "b", "c", "c"]
    assert forced(archive).is_unfinished("things", archive.lake)


def test_a_copy_that_has_ended_is_made_once_more(archive: Workspace) -> None:
    for times in (1, 2):
        enter(archive, forced(archive))
        assert idempotent_commands.unfinished_command(archive.lake, "things", forced(archive).name).chunks == (times,)
        end(archive, forced(archive))
        assert idempotent_commands.unfinished_command(archive.lake, "things", forced(archive).name).chunks == ()
        assert entered(archive) == sorted("abc" * times)


def test_another_copy_is_not_taken_for_the_one_that_did_not_end(archive: Workspace) -> None:
    enter(archive, forced(archive, files=("a.json",)))
    enter(archive, forced(archive, files=("a.json", "b.json")))
    enter(archive, forced(archive, how=copy_into.CopyOptions(merge_schema=True)))
    assert entered(archive) == ["a", "a", "a", "b", "b", "c"]


def test_a_repeated_copy_takes_the_files_that_came_since(archive: Workspace) -> None:
    enter(archive, forced(archive))
    archive.land("archive/d.json", '{"a": 1}')
    enter(archive, forced(archive))
    archive.land("archive/e.json", '{"a": 1}')
    enter(archive, forced(archive))
    assert entered(archive) == ["a", "b", "c", "d", "e"]
    assert idempotent_commands.unfinished_command(archive.lake, "things", forced(archive).name).chunks == (1, 2, 3)


def test_a_file_that_waits_to_be_read_is_not_entered_in_a_newer_form(archive: Workspace) -> None:
    """It would be read in that form twice."""
    enter(archive, forced(archive))
    archive.land("archive/a.json", '{"a": 2, "b": 3}')
    enter(archive, forced(archive))
    assert entered(archive) == ["a", "b", "c"]


def test_what_waits_is_seen_without_spark(archive: Workspace) -> None:
    """So that a copy that was killed behind its entry goes on when it is repeated, forced or not."""
    copy = landing_copy.Copy(str(archive.folder / "landing/archive"))
    assert not copy.is_unfinished("things", archive.lake)
    enter(archive, copy)
    assert copy.is_unfinished("things", archive.lake)


@pytest.mark.parametrize("force", [False, True])
def test_the_command_starts_its_job_for_what_a_killed_one_left(
    archive: Workspace, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """Though no file is new."""
    jobs: list[str] = []

    def submit(job: str, *_: Any) -> RunReport:
        jobs.append(job)
        return RunReport("heart_rate", "bronze", [TableReport("things", "bronze", read=3)])

    monkeypatch.setattr(run_submit, "submit", submit)
    folder = str(archive.folder / "landing/archive")
    enter(archive, forced(archive) if force else landing_copy.Copy(folder))
    assert not (forced(archive) if force else landing_copy.Copy(folder)).discover(
        "things", archive.definition.bronze["things"], archive.lake
    ).new.num_rows  # fmt: skip
    places = archive.settings.arguments
    options = [part for name in ("lake", "landing", "pipelines") for part in (f"--{name}", places[name])]
    command = ["copy-into", "heart_rate", "things", folder, *(["--force"] if force else []), *options]
    assert CliRunner().invoke(app.app, command).exit_code == 0
    assert jobs == ["copy_into"]

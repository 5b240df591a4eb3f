"""What waits for a run, in a sentence: also comments and properties, which are work and no reason to begin one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.cli import app
from sluicegate.definition import load
from sluicegate.flow.model import Flow, Progress
from sluicegate.lake.layout import Lake
from sluicegate.lake.table_description import Change
from sluicegate.landing import intake
from sluicegate.landing.chosen.reread import Reload
from sluicegate.launch import verification
from sluicegate.monitor.plan import Pending, TableWork, pending
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


def test_a_comment_is_work_that_nobody_waits_for() -> None:
    idle = [TableWork(Flow("silver", name, "/source", f"/{name}"), Progress("idle", 1, 1)) for name in ("a", "b")]
    assert Pending(idle).layers == []
    described = TableWork(idle[1].flow, idle[1].progress, described=Change("new", {}, {}, ()))
    waiting = Pending([idle[0], described])
    assert (waiting.layers, waiting.nothing) == (["silver"], True)
    assert waiting.sentence() == "waiting: comments or properties of b"


def test_what_only_brokers_know_is_a_reason_to_begin_a_run() -> None:
    flows = [Flow(layer, name, "/source", f"/{name}") for layer, name in (("bronze", "a"), ("silver", "b"))]
    idle = [TableWork(flow, Progress("idle", 1, 1)) for flow in flows]
    waiting = Pending([replace(idle[0], unknown=True), idle[1]])
    assert (waiting.layers, waiting.late_layers) == (["bronze", "silver"], ["bronze", "silver"])
    assert waiting.sentence() == "waiting: records of a, unknown until a run queries the brokers"


def with_existing_files(folder: Path) -> Settings:
    """A pipeline whose table leaves out the two files that are there before it."""
    (folder / "pipelines/p").mkdir(parents=True)
    (folder / "pipelines/p/pipeline.yaml").write_text(
        "name: p\nbronze:\n"
        "  things: {path: '${landing}/x', format: json, settleSeconds: 0, includeExistingFiles: false}\n"
    )
    (folder / "landing/x").mkdir(parents=True)
    for number in (1, 2):
        (folder / f"landing/x/{number}.json").write_text("{}")
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def test_files_that_were_there_before_the_table_are_counted_and_not_told_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = with_existing_files(tmp_path)
    definition, at = load("p", settings), Lake(settings.lake, "p")
    first = pending(definition, settings)
    assert (first.files, first.bytes, first.layers) == (0, 0, ["bronze"])
    assert first.sentence() == "waiting: 2 files for things to be skipped"
    found = intake.enter("things", definition.bronze["things"], at)
    assert found.remarks == ("2 files skipped that landed before the table was created: includeExistingFiles is false",)
    assert "2 files are skipped and in no table" in pending(definition, settings).sentence()
    unseen = [finding for finding in verification.findings_without_spark(definition) if finding.kind == "unseen"]
    assert [finding.table for finding in unseen] == ["things"]
    assert f"sluicegate reload p things --files {tmp_path}/landing/x/1.json" in unseen[0].what
    (tmp_path / "landing/x/3.json").write_text("{}")
    later = pending(definition, settings)
    assert later.files == 1
    assert "2 files are skipped and in no table" in later.sentence()
    places = ["--lake", settings.lake, "--landing", settings.landing, "--pipelines", str(settings.pipelines)]
    monkeypatch.setattr(sys, "argv", ["sluicegate", "files", "p", "things", *places])
    with pytest.raises(SystemExit):
        app.main()
    assert "3 files, 2 skipped" in capsys.readouterr().out


def test_a_skipped_file_that_is_read_after_all_is_counted_no_more(tmp_path: Path) -> None:
    settings = with_existing_files(tmp_path)
    definition, lake = load("p", settings), Lake(settings.lake, "p")
    intake.enter("things", definition.bronze["things"], lake)
    assert [table.skipped for table in pending(definition, settings).tables] == [2]
    intake.enter("things", definition.bronze["things"], lake, Reload(files=("1.json",)).discover)
    assert [table.skipped for table in pending(definition, settings).tables] == [1]
    assert "1 file is skipped and in no table" in pending(definition, settings).sentence()
    unseen = [finding.what for finding in verification.findings_without_spark(definition) if finding.kind == "unseen"]
    assert [f"{tmp_path}/landing/x/2.json" in text for text in unseen] == [True]

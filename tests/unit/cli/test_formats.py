"""The command line formats what the public functions return, and finds out nothing by itself."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sluicegate import api
from sluicegate.cli import app
from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport
from tests.conftest import ROOT, Workspace

pytestmark = pytest.mark.unit

REPORT = RunReport("heart_rate", "bronze", [TableReport("recordings_bronze", "bronze", "written", read=3)])


@pytest.fixture
def beats(tmp_path: Path) -> Workspace:
    copytree(ROOT / "pipelines" / "heart_rate", tmp_path / "pipelines" / "heart_rate")
    copytree(ROOT / "data" / "heart_rate", tmp_path / "landing")
    return Workspace(tmp_path)


def shown(beats: Workspace, *words: str, exit_code: int = 0) -> Any:
    """What a command prints as JSON."""
    where = beats.settings
    places = ["--lake", where.lake, "--pipelines", str(where.pipelines)]
    places += [] if words[0] == "history" else ["--landing", where.landing]
    done = CliRunner().invoke(app.app, [*words, *places, "--json"])
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout) if done.stdout else None


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("plan", ["plan", "heart_rate"]),
        ("status", ["status", "heart_rate"]),
        ("verify", ["status", "heart_rate", "--verify", "--no-spark"]),
        ("files", ["files", "heart_rate", "recordings_bronze"]),
        ("history", ["history", "heart_rate"]),
    ],
)
def test_a_command_that_shows_calls_the_function_of_its_name(
    beats: Workspace, monkeypatch: pytest.MonkeyPatch, function: str, words: list[str]
) -> None:
    own, calls = getattr(api, function), []

    def called(*given: Any, **more: Any) -> Any:
        calls.append(given[0].settings)
        return own(*given, **more)

    monkeypatch.setattr(api, function, called)
    shown(beats, *words)
    assert [(one.lake, one.pipelines) for one in calls] == [(beats.settings.lake, beats.settings.pipelines)]


def test_the_ledger_is_shown_as_the_function_returns_it(beats: Workspace) -> None:
    ledger = api.files(api.load("heart_rate", beats.settings), "recordings_bronze", newest=2).to_pylist()
    assert len(ledger) == 2
    entries = shown(beats, "files", "heart_rate", "recordings_bronze", "--newest", "2")
    assert entries == json.loads(json.dumps(ledger, default=lambda value: value.isoformat()))


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (
            [
                "copy-into",
                "heart_rate",
                "recordings_bronze",
                "x",
                "--columns",
                "a,b",
                "--option",
                "sep=;",
                "--validate=2",
            ],
            {"columns": ("a", "b"), "options": {"sep": ";"}, "validate": 2, "files": [], "format": None},
        ),
        (
            ["reload", "heart_rate", "recordings_bronze", "--files", "a", "--files", "b"],
            {"files": ["a", "b"], "pattern": None},
        ),
        (["reset", "heart_rate", "recordings_bronze", "--drop-missing", "--yes"], {"drop_missing": True}),
        (
            ["replay", "heart_rate", "recordings_enriched", "--rule", "r", "--dropped"],
            {"rules": ["r"], "dropped": True, "everything": False, "validate": False},
        ),
    ],
)
def test_a_command_that_runs_jobs_hands_its_options_to_the_function_of_its_name(
    beats: Workspace, monkeypatch: pytest.MonkeyPatch, words: list[str], arguments: dict[str, Any]
) -> None:
    calls: list[dict[str, Any]] = []

    def called(_pipeline: Any, table: str, *_more: Any, **given: Any) -> list[RunReport]:
        calls.append({"table": table, **given})
        return [REPORT]

    monkeypatch.setattr(api, words[0].replace("-", "_"), called)
    facts = shown(beats, *words)
    assert calls[0]["table"] == words[2]
    assert {name: calls[0][name] for name in arguments} == arguments
    assert facts == ([REPORT.as_dict()] if words[0] == "replay" else REPORT.tables[0].as_dict())


@pytest.mark.parametrize(
    ("words", "facts", "exit_code"),
    [
        (["copy-into", "heart_rate", "recordings_bronze", "x"], {"num_affected_rows": 0, "num_inserted_rows": 0,
                                                                 "num_skipped_corrupt_files": 0}, 0),
        (["reload", "heart_rate", "recordings_bronze", "--pattern", "x"], {"files": 0}, 0),
        (["reset", "heart_rate", "recordings_bronze"], None, 2),
    ],
)  # fmt: skip
def test_a_command_says_that_no_job_was_started(
    beats: Workspace, monkeypatch: pytest.MonkeyPatch, words: list[str], facts: Any, exit_code: int
) -> None:
    monkeypatch.setattr(api, words[0].replace("-", "_"), lambda *_, **__: [])
    assert shown(beats, *words, exit_code=exit_code) == facts


@pytest.mark.parametrize("many", [False, True])
def test_the_history_shows_the_rows_of_records_where_one_may_give_many(
    beats: Workspace, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    events = [
        {"layer": "silver", "table": "s", "read": 3, "details": json.dumps({"rows": 57, "no_rows": 1} if many else {})},
        {"layer": "gold", "table": "g", "read": 9, "details": json.dumps({"rows": 68})},
    ]
    monkeypatch.setattr(api, "history", lambda *_, **__: pa.Table.from_pylist(events))
    where = ["--lake", beats.settings.lake, "--pipelines", str(beats.settings.pipelines)]
    head, of_silver, of_gold = CliRunner().invoke(app.app, ["history", "heart_rate", *where]).stdout.splitlines()[:3]
    assert ("no rows" in head, "57" in of_silver.split(), "68" in of_gold.split()) == (many, many, False)

"""What ``import sluicegate`` gives to a program: all of it is there, documented, cheap, and does what it says."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest

import sluicegate as sg
from sluicegate import api, errors
from sluicegate.flow.report import ERROR, RunReport, error_of
from sluicegate.flow.table_report import TableReport
from sluicegate.flow.verification.finding import Finding
from sluicegate.landing import intake
from sluicegate.launch import pipeline as run_pipeline
from sluicegate.launch import submit
from sluicegate.monitor import event_log
from sluicegate.monitor.alerts import Alert
from sluicegate.monitor.estimate import Plan, Touched
from sluicegate.monitor.impact import Impact
from sluicegate.monitor.lineage import TableLineage
from sluicegate.monitor.status import Status, TableStatus
from tests.conftest import ROOT, Workspace
from tests.support.by_hand import records, taken_in
from tests.support.pages import follow_in_process, steps

pytestmark = pytest.mark.unit

PAGE = (ROOT / "docs" / "howto" / "from-python.md").read_text()
HEAVY = ("airflow", "deltalake", "duckdb", "py4j", "pyarrow", "pydantic", "pyspark", "sqlglot", "typer", "yaml")


@pytest.fixture
def beats(tmp_path: Path) -> Workspace:
    copytree(ROOT / "pipelines" / "heart_rate", tmp_path / "pipelines" / "heart_rate")
    copytree(ROOT / "data" / "heart_rate", tmp_path / "landing")
    return Workspace(tmp_path)


def kinds() -> dict[str, type[errors.SluicegateError]]:
    """Every type of error there is."""
    found = vars(errors).items()
    return {name: one for name, one in found if isinstance(one, type) and issubclass(one, errors.SluicegateError)}


def fresh(code: str) -> str:
    """What a new Python says."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


# The names


def test_every_name_is_there_and_no_other() -> None:
    functions = {"alerts", "copy_into", "discard", "files", "history", "impact", "lineage", "load", "plan", "reload",
                 "replay", "reset", "run", "skip", "spark_session", "sql", "status", "verify"}  # fmt: skip
    assert set(sg.__all__) == functions | {"Interval", "Pipeline", "Settings", "__version__"} | set(kinds())
    assert sg.__all__ == sorted(sg.__all__)
    assert set(sg.__all__) <= set(dir(sg))
    for name in functions:
        assert getattr(sg, name) is getattr(api, name)
        assert inspect.getdoc(getattr(sg, name))
        assert inspect.signature(getattr(sg, name)).return_annotation not in (inspect.Signature.empty, "Any")
    for name, kind in kinds().items():
        assert getattr(sg, name) is kind
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        _ = sg.rnu  # type: ignore[attr-defined]


def test_types_and_editors_see_the_same_names() -> None:
    text = (ROOT / "sluicegate" / "__init__.py").read_text()
    seen = re.findall(r"^ +(\w+),$", text, re.MULTILINE)
    seen += [name for line in re.findall(r" import (\w.*)$", text, re.MULTILINE) for name in line.split(", ")]
    assert {name for name in sg.__all__ if name != "__version__"} <= set(seen)
    assert (ROOT / "sluicegate" / "py.typed").is_file()  # else type checkers take all of an installed package for Any


def test_every_name_is_documented() -> None:
    listed = PAGE.partition("\n## The API\n")[2]
    told = set(re.findall(r"`(\w+)`", listed))
    assert set(sg.__all__) - told - set(kinds()) == set()
    assert told <= set(sg.__all__)


def test_the_fields_of_results_are_those_that_the_page_names() -> None:
    types: tuple[type, ...] = (RunReport, TableReport, Plan, Touched, Status, TableStatus, Finding,
                               Alert, Impact, TableLineage)  # fmt: skip
    section = PAGE.partition("\n## Return types\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    names = {kind.__name__: kind for kind in types}
    found = {}
    for _, kind, fields in rows:
        if shown := [name for name in re.findall(r"`(\w+)`", kind) if name in names]:
            found[shown[0]] = re.findall(r"`(\w+)(?:\(\))?`", re.sub(r"\([^()]*`[^)]*\)", "", fields))
    assert found.keys() == names.keys()
    assert {kind: [name for name in fields if not has(names[kind], name)] for kind, fields in found.items()} == {
        kind: [] for kind in names
    }


def has(kind: type, name: str) -> bool:
    """Whether objects of a type have an attribute: a field, a property or a method."""
    return hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", {})


def test_the_version_is_that_of_the_project() -> None:
    assert sg.__version__ == importlib.metadata.version("sluicegate")


def test_to_import_it_is_cheap() -> None:
    loaded = f"print([name for name in {HEAVY} if name in sys.modules])"
    assert fresh(f"import sys, sluicegate; sluicegate.Settings.of(); sluicegate.SluicegateError; {loaded}") == "[]"
    some = fresh(f"import sys, sluicegate; sluicegate.plan, sluicegate.sql, sluicegate.run; {loaded}")
    assert some == "[]"  # what they need comes when they are called


def test_functions_keep_their_names_when_the_packages_of_these_names_are_imported() -> None:
    code = "import sluicegate.launch.pipeline, sluicegate as sg; from sluicegate.spark_sql import tokens"
    assert fresh(f"{code}; print(sg.run.__module__, sg.sql.__module__, tokens.__name__)") == (
        "sluicegate.api sluicegate.api sluicegate.spark_sql.tokens"
    )


# What they do


def test_the_page_does_what_it_says_where_it_needs_no_spark(beats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(beats.folder)
    without_spark = PAGE.partition("\n## Run\n")[0]
    assert len([step for step in steps(without_spark) if step.kind == "python"]) >= 4
    follow_in_process(without_spark)
    with pytest.raises(AssertionError, match="the page shows"):
        follow_in_process(without_spark.replace("SG202", "SG203"))


def test_what_is_read_is_of_the_settings_that_it_was_loaded_with(
    beats: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICEGATE_LANDING", str(beats.folder / "elsewhere"))
    monkeypatch.setenv("SLUICEGATE_LAKE", str(beats.folder / "another"))
    pipeline = sg.load("heart_rate", beats.settings)
    assert pipeline.settings == beats.settings
    waiting = sg.plan(pipeline)
    assert (waiting.nothing, waiting.layers) == (False, ["bronze", "silver", "gold"])
    assert {(table.rows, table.version) for table in sg.status(pipeline).tables} == {(0, None)}
    records(beats, "recordings_bronze", [1])
    taken_in(beats, "recordings_enriched", [1])
    ledger = sg.files(pipeline, "recordings_bronze", states=["waiting"], newest=1)
    assert (ledger["state"].to_pylist(), ledger.schema.field("size").type) == (["waiting"], pa.int64())
    assert sg.files(pipeline, "recordings_bronze", states=["failed"]).num_rows == 0
    assert sg.history(pipeline).schema == event_log.EVENTS
    event_log.copy_events(pipeline, beats.lake)
    events = sg.history(pipeline, "recordings_enriched")
    assert json.loads(events["details"][0].as_py())["table"] == "recordings_enriched"
    assert sg.history(pipeline, newest=1).num_rows == 1
    rows = sg.sql("SELECT count(*) AS n FROM heart_rate.recordings_enriched", beats.settings)
    assert rows.to_pylist() == [{"n": 1}]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (lambda p: sg.files(p, "recordings_brnze"), "PipelineMissing", "bronze table"),
        (lambda p: sg.files(p, "recordings_bronze", states=["lost"]), "UserError", "state"),
        (lambda p: sg.files(p, "recordings_bronze", newest=0), "UserError", "newest=0"),
        (lambda p: sg.history(p, "totals"), "UserError", "table totals"),
        (lambda p: sg.history(p, newest=-1), "UserError", "newest=-1"),
        (lambda p: sg.verify(p, percent=0), "UserError", "sample"),
        (lambda p: sg.run(p, layer="silvr"), "PipelineMissing", "layer silvr"),
        (lambda p: sg.copy_into(p, "recordings_brnze", "x"), "PipelineMissing", "bronze table"),
        (lambda p: sg.copy_into(p, "recordings_bronze", "nowhere"), "LandingMissing", "nowhere does not exist"),
        (lambda p: sg.copy_into(p, "recordings_bronze", p.settings.landing, format="docx"), "UserError", "docx"),
        (lambda p: sg.reload(p, "recordings_bronze"), "UserError", "files"),
        (lambda p: sg.reload(p, "recordings_bronze", pattern="*"), "UserError", "has not read any file yet"),
        (lambda p: sg.reset(p, "recordings_bronze"), "UserError", "has not read any file yet"),
        (lambda p: sg.replay(p, "recordings_bronze"), "UserError", "is a bronze table"),
        (lambda p: sg.replay(p, "recordings_enriched", rules=["valid"]), "UserError", "unknown rule valid"),
        (lambda p: sg.run(p, full_refresh=["recordings_bronze"]), "UserError", "files"),
        (lambda _: sg.Interval("2025-03-03", "2025-03-04"), "UserError", "requires two datetimes"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_an_error_of_ours(beats: Workspace, asked: Any, kind: str, said: str) -> None:
    with pytest.raises(getattr(sg, kind), match=said):
        asked(sg.load("heart_rate", beats.settings))


def test_a_pipeline_with_mistakes_is_named_where_a_table_is_not_known(beats: Workspace) -> None:
    broken = beats.folder / "pipelines" / "broken"
    broken.mkdir()
    (broken / "pipeline.yaml").write_text("name: broken\nsilvr: {}\n")
    with pytest.raises(sg.QueryError) as raised:
        sg.sql("SELECT * FROM broken.things", beats.settings)
    assert raised.value.__notes__[0].startswith("the tables of broken ")
    with pytest.raises(sg.DefinitionError) as mistaken:
        sg.load("broken", beats.settings)
    assert [mistake.path for mistake in mistaken.value.mistakes] == ["silvr"]


def test_a_run_is_asked_for_as_the_command_asks(beats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def submitted(
        job: str, _name: str, settings: sg.Settings, _facts: Any, tell: Any, extra: Any = (), *, warm_minutes: float
    ) -> Any:
        assert warm_minutes == 0.0
        asked.append((job, settings, list(extra)))
        tell(f"{job} says something")
        return [RunReport("heart_rate", layer) for layer in extra[0].removeprefix("--layers=").split(",")]

    monkeypatch.setattr(submit, "submit_all", submitted)
    monkeypatch.setattr(run_pipeline, "_demand_up_to_date", lambda *_: None)
    pipeline = sg.load("heart_rate", beats.settings)
    lines: list[str] = []
    reports = sg.run(pipeline, tell=lines.append)
    assert [report.layer for report in reports] == ["bronze", "silver", "gold"]
    assert "run says something" in lines
    assert asked == [("run", beats.settings, ["--layers=bronze,silver,gold"])]
    asked.clear()
    assert [report.layer for report in sg.run(pipeline, layer="bronze")] == ["bronze"]
    assert asked == [("run", beats.settings, ["--layers=bronze"])]
    asked.clear()
    sg.run(pipeline, layer="silver", interval=sg.Interval(datetime(2025, 3, 3), datetime(2025, 3, 4, tzinfo=UTC)))
    day = ["--mode=interval", "--from=2025-03-03T00:00:00+00:00", "--to=2025-03-04T00:00:00+00:00"]
    assert [(job, extra) for job, _, extra in asked] == [("run", ["--layers=silver", *day])]
    asked.clear()
    sg.run(pipeline, full_refresh=["device_counts"])
    assert [(job, extra) for job, _, extra in asked] == [
        ("run", ["--layers=bronze,silver,gold", "--mode=full-refresh", "--tables=device_counts", "--follow"])
    ]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The jobs that are submitted, each with its arguments; none of them is run."""
    submitted: list[tuple[str, list[str]]] = []

    def submit_(job: str, name: str, _settings: sg.Settings, _facts: Any, tell: Any, extra: Any = ()) -> RunReport:
        submitted.append((job, list(extra)))
        tell(f"{job} says something")
        return RunReport(name, job, [TableReport("recordings_bronze", "bronze", read=3)])

    monkeypatch.setattr(submit, "submit", submit_)
    monkeypatch.setattr(submit, "submit_all", lambda *arguments: [submit_(*arguments)])
    return submitted


def entered(beats: Workspace) -> list[str]:
    """The landed recordings, on record as read in the first ledger batch; the last of them is gone."""
    pipeline = sg.load("heart_rate", beats.settings)
    intake.enter("recordings_bronze", pipeline.bronze["recordings_bronze"], beats.lake)
    paths: list[str] = sg.files(pipeline, "recordings_bronze")["path"].to_pylist()
    Path(paths[-1]).unlink()
    return paths


def test_a_copy_is_a_job_where_there_is_something_to_copy(beats: Workspace, jobs: Any, monkeypatch: Any) -> None:
    pipeline, landing = sg.load("heart_rate", beats.settings), f"{beats.settings.landing}/recordings"
    lines: list[str] = []
    monkeypatch.chdir(beats.settings.landing)
    [report] = sg.copy_into(pipeline, "recordings_bronze", "recordings", pattern="*1.json", tell=lines.append)
    assert (report.tables[0].read, lines) == (3, ["copy_into says something"])
    assert jobs == [("copy_into", ["--table=recordings_bronze", f"--source={landing}", "--pattern=*1.json"])]
    jobs.clear()
    assert sg.copy_into(pipeline, "recordings_bronze", landing, modified_before=datetime(2001, 1, 1)) == []
    assert jobs == []
    sg.copy_into(
        pipeline, "recordings_bronze", Path(landing), files=["recordings-000001.json"], force=True, validate=2,
        modified_after=datetime(2001, 1, 1), select="SELECT * FROM source", options={"multiLine": "true"},
        merge_schema=False,
    )  # fmt: skip
    how = {"select": "SELECT * FROM source", "options": {"multiLine": "true"}, "merge_schema": False}
    assert jobs[0][1] == [
        "--table=recordings_bronze", f"--source={landing}", "--force", "--files=recordings-000001.json",
        "--modified-after=2001-01-01T00:00:00+00:00", f"--how={json.dumps(how)}", "--validate=2",
    ]  # fmt: skip


def test_a_reload_says_which_files_it_cannot_read(beats: Workspace, jobs: Any) -> None:
    *there, gone = entered(beats)
    pipeline = sg.load("heart_rate", beats.settings)
    seen: list[Any] = []
    [report] = sg.reload(pipeline, "recordings_bronze", pattern="*.json")
    assert jobs == [("reload", ["--table=recordings_bronze", "--pattern=*.json"])]
    assert report.notes == [f"1 matching files cannot be read again, and their rows stay: {gone}"]
    assert sg.reload(pipeline, "recordings_bronze", pattern="*.json", confirm=lambda one: seen.append(one)) == []
    assert (seen[0].files, seen[0].missing) == (there, [gone])
    assert sg.reload(pipeline, "recordings_bronze", pattern="*3.json", confirm=lambda one: not seen.append(one)) == []
    assert (seen[1].files, seen[1].missing) == ([], [gone])
    assert len(jobs) == 1
    with pytest.raises(sg.LandingMissing, match="cannot be read again"):
        sg.reload(pipeline, "recordings_bronze", files=[gone])


def test_a_reset_does_nothing_unless_it_is_confirmed(beats: Workspace, jobs: Any) -> None:
    *there, gone = entered(beats)
    pipeline = sg.load("heart_rate", beats.settings)
    seen: list[Any] = []
    assert sg.reset(pipeline, "recordings_bronze", drop_missing=True, confirm=lambda one: seen.append(one)) == []
    assert (seen[0].files, seen[0].missing, jobs) == (len(there), [gone], [])
    [report] = sg.reset(pipeline, "recordings_bronze", drop_missing=True, confirm=lambda one: one.files == len(there))
    assert report.layer == "reset"
    sg.reset(pipeline, "recordings_bronze")
    assert jobs == [
        ("reset", ["--table=recordings_bronze", "--drop-missing"]), ("reset", ["--table=recordings_bronze"])
    ]  # fmt: skip


def test_gold_follows_a_replay_that_is_written(beats: Workspace, jobs: Any) -> None:
    pipeline = sg.load("heart_rate", beats.settings)
    more: Any = {"rules": ["valid_heartrate"], "dropped": True}
    assert [one.layer for one in sg.replay(pipeline, "recordings_enriched", **more, validate=True)] == ["replay"]
    assert jobs == [
        ("replay", ["--table=recordings_enriched", "--rule=valid_heartrate", "--dropped", "--validate"])
    ]  # fmt: skip
    jobs.clear()
    sg.replay(pipeline, "recordings_enriched", everything=True)
    assert jobs == [("replay", ["--table=recordings_enriched", "--everything", "--follow"])]


@pytest.mark.parametrize("name", sorted(kinds()))
def test_an_error_of_a_job_can_be_caught_by_its_type(name: str) -> None:
    mistake = errors.Mistake("unknown-field", "silvr", "there is no such field", "pipeline.yaml", 2)
    kind = kinds()[name]
    made: errors.SluicegateError
    if issubclass(kind, errors.DefinitionError):
        made = kind("broken", [mistake, mistake])
    else:
        made = kind("no", where=errors.Where("t", "f", 3), cause="so", hint="do")
    told = error_of(f"{ERROR} {json.dumps(made.as_dict())}")
    assert type(told) is kind
    assert told.as_dict() == made.as_dict()
    assert told.for_people() == made.for_people()


def test_an_error_that_this_version_does_not_know_keeps_its_code() -> None:
    told = error_of(f"{ERROR} {json.dumps(errors.UserError('no').as_dict() | {'code': 'SG999'})}")
    assert (type(told), told.code, told.exit_code) == (errors.SluicegateError, "SG999", 2)

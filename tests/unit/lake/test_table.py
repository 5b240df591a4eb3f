"""Handles on tables: what they are pinned to, when they read again, and how often a run with nothing to do opens."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.errors import DamagedTable, NotADeltaTable, SluicegateError
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Table, Tables
from sluicegate.landing import intake, status_log
from sluicegate.monitor import backlog, plan
from tests.conftest import Workspace, beat
from tests.support.by_hand import taken_in

pytestmark = pytest.mark.unit

APP = "sluicegate.silver.t@source"


def add(uri: str, number: int, app: str = APP) -> None:
    """A commit of ours with one row, its number and the offset that is the same number."""
    said = {"userMetadata": json.dumps({log.METADATA: {"number": number, "seen": number - 1}})}
    properties = CommitProperties(custom_metadata=said, app_transactions=[Transaction(app, number)])
    write_deltalake(uri, pa.table({"n": [number]}), mode="append", commit_properties=properties)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the commits 0, 1 and 2."""
    made = str(tmp_path / "t")
    for number in range(3):
        add(made, number)
    return made


def facts(table: Table) -> dict[str, Any]:
    last = table.last_own_commit
    newest = table.restores.ours if table.restores else None
    return {
        "version": table.version,
        "rows": table.rows,
        "offset": table.offset(APP),
        "last": (last.version, (last.ours or {})["number"]) if last else None,
        "newest": (newest.version, (newest.ours or {})["number"]) if newest else None,
    }


def at(number: int) -> dict[str, Any]:
    return {"version": number, "rows": number + 1, "offset": number, "last": (number, number),
            "newest": (number, number)}  # fmt: skip


def test_a_handle_is_opened_when_it_is_asked_and_stays_at_that_version(uri: str) -> None:
    table = Table(uri)
    add(uri, 3)  # it is not opened yet
    assert table.version == 3
    for number in range(4, 8):  # of all else, too, nothing was read before these commits
        add(uri, number)
    assert facts(table) == at(3)


def test_a_handle_that_is_refreshed_has_what_was_committed(uri: str) -> None:
    table = Table(uri)
    assert facts(table) == at(2)
    add(uri, 3)
    assert facts(table) == at(2)
    table.refresh()
    assert facts(table) == at(3)


def test_a_restore_is_seen_once_the_handle_is_refreshed(uri: str) -> None:
    table = Table(uri)
    table.open()
    DeltaTable(uri).restore(0)
    assert table.restores is not None
    assert not table.restores.restores
    table.refresh()
    assert [(restore.to, restore.at) for restore in table.restores.restores] == [(0, 3)]
    assert (table.version, table.rows) == (3, 1)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "t"))
    assert (table.delta, table.version, table.rows, table.offset(APP)) == (None, -1, 0, None)
    assert (table.restores, table.last_own_commit) == (None, None)
    add(table.uri, 0)
    assert table.delta is None
    table.refresh()
    assert facts(table) == at(0)


def test_a_folder_without_a_log_is_refused_each_time(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/file").write_text("")
    table = Table(str(tmp_path / "t"))
    for _ in range(2):
        with pytest.raises(NotADeltaTable):
            table.open()


def test_a_log_that_is_damaged_is_refused_with_its_entry_and_a_way_out(uri: str) -> None:
    entry = Path(uri) / "_delta_log" / f"{1:020}.json"
    entry.write_text('{"commitInfo":')
    with pytest.raises(DamagedTable) as caught:
        Table(uri).open()
    assert caught.value.where.file == str(entry)
    assert "from a backup" in caught.value.for_people()


def test_a_table_that_was_made_again_is_another_one_once_refreshed(uri: str) -> None:
    table = Table(uri)
    former = table.delta
    assert former is not None
    shutil.rmtree(uri)
    add(uri, 0)
    table.refresh()
    assert table.delta is not None
    assert tables.table_id(table.delta) != tables.table_id(former)
    assert facts(table) == at(0)


def test_an_address_has_one_handle_in_a_step(uri: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    add(other, 0)
    opened = Tables()
    assert opened[uri] is opened[uri]
    assert (opened[uri].version, opened[other].version) == (2, 0)
    add(uri, 3)
    add(other, 1)
    opened.refresh(uri)
    assert (opened[uri].version, opened[other].version) == (3, 0)
    opened.refresh()
    assert (opened[uri].version, opened[other].version) == (3, 1)


# --- how often tables are opened -------------------------------------------------------------------------------------


@pytest.fixture
def idle(heartbeats: Workspace) -> Workspace:
    """All tables of heart_rate, filled: nothing waits."""
    for name, table in heartbeats.definition.bronze.items():
        intake.enter(name, table, heartbeats.lake)
        bronze = {"source_file": pa.array([], pa.string()), "_corrupt_record": pa.array([], pa.string()),
                  "_rescued_data": pa.array([], pa.string())}  # fmt: skip
        taken_in(heartbeats, name, [1, 2])
        write_deltalake(heartbeats.uri(name), pa.table(bronze), mode="append", schema_mode="merge")
        write_deltalake(heartbeats.lake.file_status(name), status_log.OUTCOME.empty_table())
    for layer in ("silver", "gold"):
        for name in flows.flows(heartbeats.definition, heartbeats.lake, layer):
            taken_in(heartbeats, name, [1, 2])
    assert plan.pending(heartbeats.definition, heartbeats.settings).layers == []
    return heartbeats


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each table is opened from here on."""
    counted: Counter[str] = Counter()

    def open_at(uri: str, version: int | None = None, table_at: Any = tables.table_at) -> DeltaTable:
        counted[uri] += 1
        return table_at(uri, version)  # type: ignore[no-any-return]

    monkeypatch.setattr(tables, "table_at", open_at)
    return counted


def of_pipeline(workspace: Workspace) -> set[str]:
    """Its tables, and those that tell of landed files."""
    definition, lake = workspace.definition, workspace.lake
    landed = {uri for name in definition.bronze for uri in (lake.ledger(name), lake.file_status(name))}
    return landed | {lake.table(layer, name) for layer in layout.LAYERS for name in definition.names(layer)}


def test_a_plan_opens_each_table_once(idle: Workspace, opens: Counter[str]) -> None:
    plan.pending(idle.definition, idle.settings)
    assert opens == Counter(of_pipeline(idle))


def test_what_waits_is_told_with_each_table_opened_once(idle: Workspace, opens: Counter[str]) -> None:
    backlog.waiting_tables(idle.definition, idle.settings)
    assert opens == Counter(of_pipeline(idle) - {*map(idle.lake.file_status, idle.definition.bronze)})


@pytest.mark.parametrize("layer", layout.LAYERS)
def test_an_idle_job_opens_no_table_more_often_than_it_has_reason(
    idle: Workspace, opens: Counter[str], layer: Any
) -> None:
    """Once for the event log of the whole job, once for each step that the table is the target or a source of.

    How gold is refreshed is decided from its columns before the first of its tables is filled: once more.
    """
    done = Job(idle.definition, idle.lake, layer, {"run_id": "test"}, tell=lambda _: None).run()
    assert {table.state for table in done.tables} == {"idle"}
    reasons: Counter[str] = Counter([idle.lake.events])
    for of in layout.LAYERS:
        reasons.update(idle.lake.table(of, name) for name in idle.definition.names(of))
    for name, flow in flows.flows(idle.definition, idle.lake, layer).items():
        reasons.update([flow.source, flow.target, *flow.inputs.values(), *flow.side_tables])
        if layer == "bronze":
            reasons.update([idle.lake.file_status(name)])
    if layer == "gold":
        reasons.update({uri for flow in flows.flows(idle.definition, idle.lake, "gold").values()
                        for uri in (flow.source, flow.target, *flow.inputs.values())})  # fmt: skip
    opens.clear()
    Job(idle.definition, idle.lake, layer, {"run_id": "test"}, tell=lambda _: None).run()
    assert {uri: (count, reasons[uri]) for uri, count in opens.items() if count > reasons[uri]} == {}


def test_a_table_is_never_ahead_of_its_source_in_a_look(idle: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that commits to both while a plan opens them does not look like a source that was put back."""
    uri, committed = idle.uri("recordings_bronze"), []

    def open_at(opened: str, version: int | None = None, table_at: Any = tables.table_at) -> DeltaTable:
        found = table_at(opened, version)
        if not committed and opened in (uri, idle.uri("recordings_enriched")):  # behind the first look at either
            committed.append(opened)
            write_deltalake(uri, pa.table({"_chunk": pa.array([2], pa.int64())}), mode="append", schema_mode="merge")
            taken_in(idle, "recordings_enriched", [3])
        return found

    monkeypatch.setattr(tables, "table_at", open_at)
    silver = next(w for w in plan.pending(idle.definition, idle.settings).tables if w.table == "recordings_enriched")
    assert committed
    assert silver.progress.since <= silver.progress.until
    monkeypatch.undo()
    assert progress(flows.flows(idle.definition, idle.lake, "silver")["recordings_enriched"]).kind == "idle"


def test_a_run_that_commits_during_a_look_was_not_stopped_in_the_middle(
    idle: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the quarantine before the table: of this and of that a look has the state of one moment."""
    committed: list[str] = []

    def open_at(opened: str, version: int | None = None, table_at: Any = tables.table_at) -> DeltaTable:
        if not committed and opened == idle.uri("recordings_bronze"):  # behind the look at what is made of it
            committed.append(opened)
            add(idle.lake.quarantine("recordings_enriched"), 1)
            taken_in(idle, "recordings_enriched", [3])
        return table_at(opened, version)  # type: ignore[no-any-return]

    monkeypatch.setattr(tables, "table_at", open_at)
    silver = next(w for w in plan.pending(idle.definition, idle.settings).tables if w.table == "recordings_enriched")
    assert committed
    assert (silver.progress.kind, silver.progress.why) == ("idle", "")


def test_a_discovery_that_lost_goes_by_what_the_other_entered(heartbeats: Workspace) -> None:
    """Handles of a step are read again where another run's commit made the compare-and-set fail."""
    name, table = "recordings_bronze", heartbeats.definition.bronze["recordings_bronze"]
    opened = Tables()
    opened[heartbeats.lake.ledger(name)].open()  # before another run makes it
    intake.enter(name, table, heartbeats.lake)
    heartbeats.land("recordings/d.json", [beat(4, 1, 0, 60.0)], age=60)
    found = intake.enter(name, table, heartbeats.lake, opened=opened)
    assert [path.rsplit("/", 1)[-1] for path in found.new["path"].to_pylist()] == ["d.json"]
    ledger = opened[heartbeats.lake.ledger(name)]
    assert ledger.delta is not None
    assert ledger.version == tables.table_at(ledger.uri).version()
    assert tables.dataset(ledger.delta).count_rows() == 4


def test_a_handle_of_the_ledger_has_what_was_entered_by_it(heartbeats: Workspace) -> None:
    name, table = "recordings_bronze", heartbeats.definition.bronze["recordings_bronze"]
    intake.enter(name, table, heartbeats.lake)
    opened = Tables()
    ledger = opened[heartbeats.lake.ledger(name)]
    before = ledger.last_own_commit
    heartbeats.land("recordings/d.json", [beat(4, 1, 0, 60.0)], age=60)
    intake.enter(name, table, heartbeats.lake, opened=opened)
    assert (before.version if before else None, ledger.version) == (1, 2)
    assert ledger.last_own_commit is not None
    assert ledger.last_own_commit.version == 2


def test_rows_of_a_version_are_counted_by_the_handle_if_it_has_it(uri: str, opens: Counter[str]) -> None:
    opened = Tables()
    assert (opened.rows_at(uri, 2), opens[uri]) == (3, 1)
    assert (opened.rows_at(uri, 0), opens[uri]) == (1, 2)
    add(uri, 3)
    assert (opened.rows_at(uri, 2), opened.rows_at(uri, 3), opens[uri]) == (3, 4, 3)
    assert opened.rows_at(f"{uri}x", 0) == 0


@pytest.mark.parametrize("table", ["_ledger/raw", "_events"])
def test_files_of_a_first_commit_that_was_stopped_before_its_log_are_in_nobodys_way(tmp_path: Path, table: str) -> None:
    """delta-rs writes them first: another run may be there now, or was killed there."""
    rows = pa.table({"n": [1]})
    write_deltalake(str(tmp_path / "other"), rows)
    (file,) = (tmp_path / "other").glob("part-*.parquet")
    folder = tmp_path / table
    folder.mkdir(parents=True)
    shutil.copy(file, folder / file.name)
    assert tables.delta_table(str(folder)) is None
    tables.write(str(folder), rows)
    opened = tables.delta_table(str(folder))
    assert tables.rows(opened) == 1
    (tmp_path / "_ledger" / "mine").mkdir(parents=True)
    for file_of_somebody, place in (("notes.txt", "_ledger/mine"), (file.name, "bronze/raw")):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tmp_path / place / file_of_somebody)
        with pytest.raises(NotADeltaTable):
            tables.delta_table(str(tmp_path / place))


def test_rows_of_a_table_with_deletion_vectors_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """Another program has switched them on: runs ended in an error of delta-rs that named no table and no way out."""
    uri = str(tmp_path / "readings")
    write_deltalake(uri, pa.table({"id": [1]}))
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    entry = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    (tmp_path / "readings" / "_delta_log" / f"{1:020}.json").write_text(json.dumps(entry))
    opened = tables.delta_table(uri)
    assert opened is not None
    with pytest.raises(SluicegateError, match=r"readings cannot be read: .*deletionVectors") as raised:
        tables.dataset(opened)
    assert "DROP FEATURE" in raised.value.hint
    assert raised.value.where.table == "readings"

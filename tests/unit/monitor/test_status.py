"""What is told of tables as they lie there: what is right, what waits, and what a run should have taken in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.errors import AccountingError, DefinitionError, UserError
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.flow.report import RunReport
from sluicegate.flow.selection import Interval
from sluicegate.flow.verification.finding import Finding
from sluicegate.lake import log
from sluicegate.landing import file_status, intake
from sluicegate.landing.chosen import reread
from sluicegate.launch import pipeline as run_pipeline
from sluicegate.launch import submit as run_submit
from sluicegate.launch.request import Request
from sluicegate.monitor import backlog, status, verify, verify_files
from tests.conftest import Workspace
from tests.support.by_hand import records, taken_in

pytestmark = pytest.mark.unit

DEFINITION = """name: heart_rate
bronze:
  things: {path: "${landing}/things", format: json}
silver:
  names: {sql: "SELECT * FROM STREAM(things) AS r WHERE false"}
  s: {sql: "SELECT r.* FROM STREAM(things) AS r LEFT JOIN names ON names.id = r.id"}
gold:
  total: {sql: "SELECT count(*) AS n FROM s"}
"""

LONG_AGO, LATER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def things(tmp_path: Path) -> Workspace:
    """Three records of bronze, of a ledger that nobody knows."""
    made = Workspace(tmp_path)
    (tmp_path / "landing" / "things").mkdir(parents=True)
    made.define(DEFINITION)
    records(made, "things", [1, 2, 3], run_id="first")
    return made


def waits(workspace: Workspace) -> dict[str, str]:
    return {one.table: one.what for one in backlog.waiting_tables(workspace.definition, workspace.settings)}


def overdue(workspace: Workspace, began: datetime, run_id: str = "") -> list[str]:
    found = backlog.waiting_tables(workspace.definition, workspace.settings)
    late = backlog.overdue_tables(found, began, lambda _, commit: (commit.ours or {}).get("run_id") == run_id)
    return [one.table for one in late]


def test_a_table_that_is_not_there_is_told_with_what_waits_for_it(things: Workspace) -> None:
    assert waits(things) == {
        "names": "it does not exist, and 3 rows of things wait",
        "s": "it does not exist, and 3 rows of things wait (it joins names, which has no rows yet)",
    }
    assert status.verify(things.definition, things.settings) == []  # what is there is right
    taken_in(things, "names", [1, 2, 3])
    assert waits(things) == {"s": "it does not exist, and 3 rows of things wait"}
    taken_in(things, "s", [1, 2, 3])
    assert waits(things) == {"total": "it does not exist, and 3 rows of s wait"}
    taken_in(things, "total", [1])
    assert waits(things) == {}
    states = [table.state for table in status.status(things.definition, things.settings).tables]
    assert states == ["nothing has been read yet", *["up to date"] * 3]  # of bronze there is no ledger here


def test_what_came_after_a_mark_is_counted(things: Workspace) -> None:
    for table in ("names", "s", "total"):
        taken_in(things, table, [1, 2, 3])
    records(things, "things", [4], run_id="second")
    records(things, "things", [5, 6], run_id="second")
    assert waits(things) == {table: "3 rows of things wait" for table in ("names", "s")}
    assert {one.kind for one in backlog.findings(things.definition, things.settings)} == {"behind"}
    taken_in(things, "names", [4, 5, 6])
    taken_in(things, "s", [4, 5, 6])
    records(things, "names", [], run_id="third")
    assert waits(things) == {"s": "it is behind things (names changed)", "total": "3 rows of s wait"}
    things.edit("pipeline.yaml", "count(*)", "count(*) + 1")
    assert "its definition changed" in waits(things)["total"]


def test_a_run_answers_for_what_was_there_and_for_its_own_and_not_for_what_others_brought(things: Workspace) -> None:
    taken_in(things, "names", [1, 2, 3])
    assert overdue(things, LATER) == ["s"]  # the records were there when it began
    assert overdue(things, LONG_AGO) == []  # they came meanwhile, by another run
    assert overdue(things, LONG_AGO, "first") == ["s"]  # they came meanwhile, by itself
    taken_in(things, "s", [1, 2, 3])
    taken_in(things, "total", [1], run_id="first")
    records(things, "things", [4], run_id="second")
    assert overdue(things, LONG_AGO, "first") == []
    assert overdue(things, LONG_AGO, "second") == ["names", "s"]
    assert overdue(things, LATER) == ["names", "s"]


def test_a_table_that_waits_for_another_is_not_overdue(things: Workspace) -> None:
    assert "names" in overdue(things, LATER)
    assert "s" not in overdue(things, LATER)


def test_files_of_the_ledger_that_bronze_has_not_read_are_told(workspace: Workspace) -> None:
    for number in range(3):
        workspace.land(f"recordings/{number}.json", "[]")
    intake.enter("recordings_bronze", workspace.definition.bronze["recordings_bronze"], workspace.lake)
    assert waits(workspace) == {"recordings_bronze": "3 files of its ledger wait"}
    assert overdue(workspace, LONG_AGO) == ["recordings_bronze"]


def test_files_that_waited_and_are_in_no_ledger_are_told(workspace: Workspace) -> None:
    def unread(began: datetime) -> dict[str, str]:
        return backlog.unread_files(workspace.definition, workspace.settings, began)

    workspace.land("recordings/a.json", "[]", age=60)
    now = datetime.now(UTC)
    assert unread(now) == {"recordings_bronze": "1 file that landed before it are not read"}
    assert unread(now - timedelta(hours=1)) == {}  # it came while the run went on
    intake.enter("recordings_bronze", workspace.definition.bronze["recordings_bronze"], workspace.lake)
    workspace.land("recordings/b.json", "[]", age=60)
    assert unread(now) == {}  # files were entered while the run went on; what is left came later, however old it looks


@pytest.mark.parametrize(
    ("aside", "what"),
    [
        ([], "1 records are missing, such as 1/3 (chunk/position)"),
        ([3, 1], "1 records are duplicates, such as 1/1 (chunk/position)"),
        ([3, 8, 9], "2 records are not in the source, such as 1/8, 1/9 (chunk/position)"),
    ],
)
def test_records_that_are_wrong_are_told_by_identity_with_what_mends_them(
    things: Workspace, aside: list[int], what: str
) -> None:
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [1, 2])
    records(things, "s_set_aside", aside)
    found = verify.findings(things.definition, things.settings)
    assert found == [Finding("wrong", "s", what, "sluicegate run heart_rate --full-refresh s")]
    assert found[0].lines() == [f"NOT RIGHT: s: {what}", "  run: sluicegate run heart_rate --full-refresh s"]


def committed(workspace: Workspace, name: str, path: str, said: Mapping[str, Any] = MappingProxyType({})) -> None:
    """What bronze commits of the last chunk of its ledger, which has one file, with one record."""
    now = progress(flows.flows(workspace.definition, workspace.lake, "bronze")[name])
    ours = {"chunk": now.until, "files": 1, "failed": {}, "seen": -1, **said}
    rows = {"_chunk": pa.array([now.until], pa.int64()), "_pos": pa.array([0], pa.int64()), "source_file": [path],
            "_corrupt_record": pa.nulls(1, pa.string()), "_rescued_data": pa.nulls(1, pa.string())}  # fmt: skip
    properties = CommitProperties(
        custom_metadata={"userMetadata": json.dumps({log.METADATA: ours})},
        app_transactions=[Transaction(now.app_id, now.until)],
    )
    write_deltalake(workspace.uri(name), pa.table(rows), mode="append", commit_properties=properties)


@pytest.mark.parametrize("records_said", [None, 1, 2])
def test_a_file_is_compared_with_what_it_says_itself_to_have(workspace: Workspace, records_said: int | None) -> None:
    path = str(workspace.land("recordings/a.json", "[]"))
    name = "recordings_bronze"
    intake.enter(name, workspace.definition.bronze[name], workspace.lake)
    committed(workspace, name, path, {} if records_said is None else {"manifest": {path: records_said}})
    file_status.copy(workspace.lake, name)  # it counts what is in the table, and so cannot tell what is not
    found = verify.findings(workspace.definition, workspace.settings)
    mend = f"sluicegate reload heart_rate {name} --files {path}"
    lost = Finding("wrong", name, f"{path} has 2 records, but the table has 1 of them", mend)
    assert found == ([lost] if records_said == 2 else [])


@pytest.mark.parametrize("count", ["corrupt", "rescued"])
def test_counts_on_record_of_a_file_are_those_of_its_rows(workspace: Workspace, count: str) -> None:
    path = str(workspace.land("recordings/a.json", "[]"))
    name = "recordings_bronze"
    intake.enter(name, workspace.definition.bronze[name], workspace.lake)
    committed(workspace, name, path)
    file_status.copy(workspace.lake, name)
    assert verify.findings(workspace.definition, workspace.settings) == []
    outcome = DeltaTable(workspace.lake.file_status(name))
    outcome.update({count: f"{count} + 1"})
    [miscounted] = verify.findings(workspace.definition, workspace.settings)
    assert (miscounted.kind, miscounted.table) == ("wrong", name)
    assert f"{path} has 1 {count} rows on record, but the table has 0" in miscounted.what


def test_a_run_that_ended_right_behind_its_commit_has_lost_nothing(workspace: Workspace) -> None:
    """What became of its files comes on record with the next run: nothing is to be read again for that."""
    name = "recordings_bronze"
    path = str(workspace.land("recordings/a.json", "[]"))
    intake.enter(name, workspace.definition.bronze[name], workspace.lake)
    committed(workspace, name, path, {"manifest": {path: 1}})
    what = "the status of 1 file is not recorded yet, because a run ended right after its commit"
    unsaid = Finding("behind", name, what, "sluicegate run heart_rate")
    for limit in (None, 0):
        assert verify.findings(workspace.definition, workspace.settings, limit) == [unsaid]
    DeltaTable(workspace.uri(name)).delete()
    lost = Finding("wrong", name, f"{path} has 1 rows on record, but the table has 0 of them",
                   f"sluicegate reload heart_rate {name} --files {path}")  # fmt: skip
    assert verify.findings(workspace.definition, workspace.settings) == [unsaid, lost]


def test_reloading_a_file_mends_that_nothing_is_known_of_it(workspace: Workspace) -> None:
    name = "recordings_bronze"
    of_files = workspace.definition.bronze[name]
    for number in range(2):
        path = str(workspace.land(f"recordings/{number}.json", "[]"))
        intake.enter(name, of_files, workspace.lake)
        committed(workspace, name, path)
    file_status.copy(workspace.lake, name)
    first = str(workspace.folder / "landing/recordings/0.json")
    DeltaTable(workspace.lake.file_status(name)).delete(f"path = '{first}'")
    mend = f"sluicegate reload heart_rate {name} --files {first}"
    unknown = Finding("wrong", name, f"no status is recorded for {first}", mend)
    assert verify.findings(workspace.definition, workspace.settings) == [unknown]
    assert intake.enter(name, of_files, workspace.lake, reread.Reload((first,)).discover).new.num_rows == 1
    DeltaTable(workspace.uri(name)).delete(f"source_file = '{first}'")
    committed(workspace, name, first)
    file_status.copy(workspace.lake, name)
    assert verify.findings(workspace.definition, workspace.settings) == []
    states = [(row["path"], row["state"]) for row in file_status.statuses(workspace.lake, name).to_pylist()]
    assert states == [(first, "replaced"), (path, "ingested"), (first, "ingested")]


def test_what_mends_a_file_of_a_former_landing_folder_is_told_by_its_name_now(workspace: Workspace) -> None:
    name = "recordings_bronze"
    of_files = workspace.definition.bronze[name]
    was = workspace.land("recordings/a.json", "[]")
    intake.enter(name, of_files, workspace.lake)
    committed(workspace, name, str(was))
    file_status.copy(workspace.lake, name)
    folder = was.parent.rename(workspace.folder / "elsewhere")
    of_files = of_files.model_copy(update={"path": str(folder)})
    assert intake.enter(name, of_files, workspace.lake).moved.num_rows == 1
    now = progress(flows.flows(workspace.definition, workspace.lake, "bronze")[name])
    nothing = DeltaTable(workspace.uri(name)).to_pyarrow_table().slice(0, 0)
    past = CommitProperties(app_transactions=[Transaction(now.app_id, now.until)])
    write_deltalake(workspace.uri(name), nothing, mode="append", commit_properties=past)
    DeltaTable(workspace.uri(name)).delete()
    found = verify.findings(workspace.definition, workspace.settings)
    assert [one.mend for one in found] == [f"sluicegate reload heart_rate {name} --files {folder}/a.json"]
    again = reread.Reload((f"{folder}/a.json",)).discover(name, of_files, workspace.lake).new
    assert again.select(["path", "action"]).to_pylist() == [{"path": f"{folder}/a.json", "action": "replace"}]


@pytest.mark.parametrize("count", [verify.SHOWN - 1, verify.SHOWN, verify.SHOWN + 1])
def test_so_many_records_are_named_and_all_are_counted(things: Workspace, count: int) -> None:
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [1, 2, 3])
    records(things, "s_quarantine", [100 + number for number in range(count)])
    (found,) = verify.findings(things.definition, things.settings)
    assert found.what.startswith(f"{count} records are not in the source")
    assert found.what.count("1/1") == min(count, verify.SHOWN)
    assert ("…" in found.what) == (count > verify.SHOWN)


@pytest.mark.parametrize(
    ("table", "aside", "what"),
    [
        ([(1, 1), (1, 2), (2, 1)], [(3, 0)], ""),
        ([(1, 2), (2, 1)], [(1, 1), (3, 1)], ""),
        ([(1, 1), (1, 2)], [(3, 0)], "1 records are missing, such as 1/2 (chunk/position)"),
        ([(1, 1), (2, 1), (4, 1)], [(3, 0)], "1 records are not in the source, such as 1/4 (chunk/position)"),
        ([(1, 2), (2, 1)], [(3, 0)], "1 records lack some of their rows, such as 1/1 (chunk/position)"),
        ([(1, 1), (1, 3), (2, 1)], [(3, 0)], "1 records lack some of their rows, such as 1/1 (chunk/position)"),
        ([(1, 1), (2, 1)], [(1, 0), (3, 0)], "1 records lack some of their rows, such as 1/1 (chunk/position)"),
        ([(1, 1), (2, 1)], [(3, 1), (3, -1)], "1 records lack some of their rows, such as 1/3 (chunk/position)"),
    ],
)
def test_each_row_of_a_record_that_gives_many_is_accounted_for(
    things: Workspace, table: list[tuple[int, int]], aside: list[tuple[int, int]], what: str
) -> None:
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [])
    numbered(things.uri("s"), table)
    numbered(things.uri("s_set_aside"), aside)
    assert [one.what for one in verify.findings(things.definition, things.settings)] == ([what] if what else [])


def numbered(uri: str, rows: list[tuple[int, int]]) -> None:
    """Appends rows by their records' positions and their numbers."""
    columns = {"_chunk": [1] * len(rows), "_pos": [at for at, _ in rows], "_record_row": [nth for _, nth in rows]}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    write_deltalake(uri, table, mode="append", schema_mode="merge")


def test_a_row_in_two_places_is_told_by_its_record(things: Workspace) -> None:
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [])
    numbered(things.uri("s"), [(1, 1), (2, 1), (3, 1), (3, 2)])
    numbered(things.uri("s_quarantine"), [(3, 2)])
    found = [one.what for one in verify.findings(things.definition, things.settings)]
    assert "1 rows are duplicates, such as 1/3 (chunk/position)" in found


@pytest.mark.parametrize("there", [2, 3, 4])
def test_records_that_are_many_have_each_a_row_at_least(things: Workspace, there: int) -> None:
    """Where rows are too many to be read, their numbers tell that."""
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [])
    numbered(things.uri("s"), [(1, number) for number in range(there)])
    found = [one.what for one in verify.findings(things.definition, things.settings, limit=2)]
    assert found == (["3 records were read, but its tables have 2"] if there < 3 else [])


def test_rows_of_a_record_that_are_records_are_known_by_their_numbers(things: Workspace) -> None:
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [1, 2, 3])
    things.edit("pipeline.yaml", "gold:", '  of_s: {sql: "SELECT * FROM STREAM(s) AS r"}\ngold:')
    numbered(things.uri("s"), [(5, 1), (5, 2)])
    taken_in(things, "of_s", [])
    for table in ("of_s", "of_s_quarantine"):
        numbered(things.uri(table), [(5, 1)])
    found = [one.what for one in verify.findings(things.definition, things.settings) if one.table == "of_s"]
    assert found[0] == "1 records are duplicates, such as 1/5 (chunk/position)"
    assert "records are missing, such as" in found[1]


def test_rows_that_a_person_took_away_from_silver_are_told(things: Workspace) -> None:
    taken_in(things, "names", [1, 2, 3])
    taken_in(things, "s", [1, 2, 3])
    assert status.verify(things.definition, things.settings) == []
    DeltaTable(things.uri("s")).delete("_pos = 2")
    assert status.verify(things.definition, things.settings) == [
        "s: 1 records are missing, such as 1/2 (chunk/position)"
    ]


def test_a_command_does_not_end_well_that_left_a_table_behind(things: Workspace) -> None:
    told: list[str] = []
    ended = run_pipeline._demand_up_to_date
    with pytest.raises(AccountingError, match="names did not"):
        ended(things.definition, things.settings, [], LATER, told.append)
    taken_in(things, "names", [1, 2, 3])
    ended(things.definition, things.settings, [], LONG_AGO, told.append)  # another run brought it meanwhile
    assert told == ["s: it does not exist, and 3 rows of things wait"]


@pytest.mark.parametrize("field", ["maintenance", "verify"])
def test_a_dag_of_a_pipeline_does_not_take_the_name_of_another_pipeline(things: Workspace, field: str) -> None:
    things.define(DEFINITION + f"{field}: {{}}\n")
    assert things.definition.name == "heart_rate"
    other = things.folder / "pipelines" / f"heart_rate_{field}"
    other.mkdir()
    (other / "pipeline.yaml").write_text(DEFINITION.replace("heart_rate", other.name))
    with pytest.raises(DefinitionError, match="pipeline") as raised:
        _ = things.definition
    assert [mistake.path for mistake in raised.value.mistakes] == [field]


@pytest.mark.parametrize(
    ("text", "percent"), [("10%", 10), (" 0.5 ", 0.5), ("100", 100), ("0", None), ("101%", None), ("x", None)]
)
def test_a_sample_is_a_percentage(things: Workspace, text: str, percent: float | None) -> None:
    things.define(DEFINITION + f'verify: {{sample: "{text}"}}\n')
    if percent is None:
        with pytest.raises(DefinitionError, match="sample"):
            _ = things.definition
    else:
        assert things.definition.verify is not None
        assert things.definition.verify.percent == percent


def test_files_are_told_by_what_became_of_them(workspace: Workspace) -> None:
    def told(*states: str, newest: int | None = None) -> list[tuple[str, str]]:
        found = status.files("recordings_bronze", workspace.definition, workspace.settings, states, newest).to_pylist()
        return [(Path(one["path"]).name, one["state"]) for one in found]

    assert told() == []
    for number in range(3):
        workspace.land(f"recordings/{number}.json", "[]", age=100 - number)
    intake.enter("recordings_bronze", workspace.definition.bronze["recordings_bronze"], workspace.lake)
    workspace.land("recordings/1.json", "[1]", age=50)
    workspace.land("recordings/new.json", "[]", age=40)
    workspace.land("recordings/young.json", "[]", age=0)
    entered = [("0.json", "waiting"), ("1.json", "waiting"), ("2.json", "waiting")]
    # One that changed before it was read is entered again, and only one that was read before counts as changed.
    others = [("1.json", "waiting"), ("new.json", "waiting"), ("young.json", "settling")]
    assert told() == [*entered, *others]
    assert told("settling", "changed") == [others[2]]
    assert [told(newest=count) for count in (1, 6, 7)] == [others[2:], [*entered, *others], [*entered, *others]]
    assert told("failed", newest=1) == []


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The jobs that a command submits, none of which does anything."""
    jobs: list[tuple[str, ...]] = []

    def submit(
        job: str, pipeline: str, _places: Any, _who: Any, _tell: Any, extra: Sequence[str], **_: Any
    ) -> list[RunReport]:
        jobs.append((job, *extra))
        return [RunReport(pipeline, job)]

    monkeypatch.setattr(run_submit, "submit_all", submit)
    return jobs


def refreshed(workspace: Workspace, *tables: str, layer: str | None = None) -> None:
    asked = Request.from_arguments(workspace.definition, "full-refresh", tables=tables)
    run_pipeline.refresh(workspace.definition, workspace.settings, layer, print, asked)


def test_a_full_refresh_is_followed_by_what_is_made_of_the_tables(
    things: Workspace, submitted: list[tuple[str, ...]]
) -> None:
    refreshed(things, "s", "total")
    assert submitted == [("run", "--layers=bronze,silver,gold", "--mode=full-refresh", "--tables=s,total", "--follow")]
    submitted.clear()
    with pytest.raises(UserError, match="things"):
        refreshed(things, "things")
    with pytest.raises(UserError, match="the layers"):
        refreshed(things, "total", layer="gold")
    assert submitted == []


def reprocessed(workspace: Workspace, layer: str | None = None) -> list[str]:
    """What a run says that reprocesses an interval."""
    told: list[str] = []
    day = Interval.parse("2024-03-01", "2024-03-02")
    run_pipeline.run(workspace.definition, workspace.settings, layer, told.append, day)
    return told


def test_an_interval_is_one_job_for_bronze_if_files_wait_then_silver_then_gold(
    things: Workspace, submitted: list[tuple[str, ...]]
) -> None:
    day = ("--mode=interval", "--from=2024-03-01T00:00:00+00:00", "--to=2024-03-02T00:00:00+00:00")
    for table in ("names", "s", "total"):
        taken_in(things, table, [1, 2, 3])
    reprocessed(things)
    assert submitted.pop() == ("run", "--layers=silver,gold", *day)
    assert reprocessed(things, "gold")[-1] == "gold is up to date: no silver row changed"
    reprocessed(things, "bronze")
    assert submitted == []
    things.land("things/a.json", '{"id": 4}')
    reprocessed(things)
    reprocessed(things, "bronze")
    taken_in(things, "s", [4])
    reprocessed(things, "gold")
    layers = ("bronze,silver,gold", "bronze", "gold")
    assert submitted == [("run", f"--layers={names}", *day) for names in layers]


@pytest.mark.parametrize(
    ("state", "rows"),
    [("ingested", 3), ("archived", 3), ("failed", 3), ("replaced", 0), ("skipped", 0), ("moved", 0)],
)
def test_of_a_file_whose_rows_are_not_its_own_none_may_be_in_the_table(state: str, rows: int) -> None:
    assert verify_files._rows_of({"state": state, "rows": 3}) == rows
    assert verify_files._rows_of({"state": state, "rows": None}) == (None if rows else 0)

"""The outcome of several chunks at once, after restores, and of names under which several files landed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.lake import log, offsets, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.landing import file_status, status_log
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


class Marked(Place):
    """A place whose bronze keeps its mark in each commit, as the job has it: restores are told by it."""

    def take(self, failed: dict[str, tuple[str, bool]] | None = None) -> int:
        number = self.ledger().version()
        entries = tables.dataset(self.ledger()).to_table(["path", "chunk"]).to_pylist()
        paths = [row["path"] for row in entries if row["chunk"] == number]
        count = len(paths)
        rows = pa.table(
            {
                "source_file": [f"file://{path}" for path in paths],
                "_chunk": [number] * count,
                "_corrupt_record": pa.nulls(count, pa.string()),
                "_rescued_data": ["{}"] * count,
            }
        )
        about = CommitProperties(
            custom_metadata={"userMetadata": json.dumps({log.METADATA: {"chunk": number, "failed": failed or {}}})},
            app_transactions=[Transaction(offsets.app_id("bronze", NAME, self.ledger()), number)],
        )
        write_deltalake(self.at.table("bronze", NAME), rows, mode="append", commit_properties=about)
        return number


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Marked(tmp_path)


def chunks(place: Place, count: int) -> None:
    """Lands and takes so many chunks, the n-th with n files, and looks at none in between."""
    for number in range(1, count + 1):
        for file in range(number):
            place.land(f"{number}-{file}.json", seconds=10 * number + file)
        place.enter()
        place.take()


def told(place: Place) -> dict[str, tuple[int, int]]:
    """Of each file the chunk and the rows that are on record."""
    rows = status_log.read(place.at, NAME, status_log.OUTCOME.names).sort_by("path").to_pylist()
    assert len({row["path"] for row in rows}) == len(rows)
    return {row["path"].rpartition("/")[2]: (row["chunk"], row["rows"]) for row in rows}


ALL = {f"{number}-{file}.json": number for number in (1, 2, 3) for file in range(number)}


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7])
def test_chunks_that_are_behind_are_counted_each_by_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(file_status, "AT_ONCE", most)
    chunks(place, 3)
    first = place.ledger().version() - 2
    taken = file_status.copy(place.at, NAME)
    assert (taken.rows, taken.rescued, taken.corrupt, taken.failed) == (6, 6, 0, {})
    assert told(place) == {name: (first + number - 1, 1) for name, number in ALL.items()}
    assert not file_status.has_unrecorded_batches(place.at, NAME)


@pytest.mark.parametrize(
    ("most", "parts"),
    [
        (1, [[1], [2], [3], [4], [5]]),
        (3, [[1, 2], [3, 4], [5]]),
        (4, [[1, 2], [3, 4], [5]]),
        (5, [[1, 2, 3], [4, 5]]),
        (9, [[1, 2, 3, 4, 5]]),
    ],
)
def test_parts_end_where_they_have_files_enough(
    monkeypatch: pytest.MonkeyPatch, most: int, parts: list[list[int]]
) -> None:
    monkeypatch.setattr(file_status, "AT_ONCE", most)
    commits = {
        chunk: log.Commit(chunk, 0, "WRITE", CommitInfo({"files": 2}), None, False, False) for chunk in (5, 4, 3, 2, 1)
    }
    if most == 3:
        commits[1] = log.Commit(1, 0, "WRITE", None, None, False, False)  # of an older version, which told none
        parts = [[1, 2, 3], [4, 5]]
    assert list(file_status._split_commits(commits)) == parts


def test_what_a_restore_undid_is_not_on_record(place: Place) -> None:
    chunks(place, 2)
    file_status.copy(place.at, NAME)
    bronze = DeltaTable(place.at.table("bronze", NAME))
    bronze.restore(0)
    assert {name: rows for name, (_, rows) in told(place).items()} == {"1-0.json": 1}
    only = pc.field("path").isin([f"{place.folder}/2-0.json"])
    assert status_log.read(place.at, NAME, ["path"], only).num_rows == 0
    only = pc.field("path").isin([f"{place.folder}/1-0.json"])
    assert status_log.read(place.at, NAME, ["path"], only).to_pylist() == [{"path": f"{place.folder}/1-0.json"}]
    assert not file_status.has_unrecorded_batches(place.at, NAME)
    assert file_status.copy(place.at, NAME) == file_status.Taken(0, 0, 0, {})


def test_a_restore_before_the_outcome_was_copied(place: Place) -> None:
    chunks(place, 3)
    DeltaTable(place.at.table("bronze", NAME)).restore(0)
    assert file_status.copy(place.at, NAME).rows == 1
    assert {name: rows for name, (_, rows) in told(place).items()} == {"1-0.json": 1}


def test_of_a_chunk_that_was_taken_twice_the_commit_that_stands_is_told(place: Place) -> None:
    """A RESTORE undid the first commit of a chunk, and a second one brought it back and undid the second commit."""
    chunks(place, 3)
    bronze = place.at.table("bronze", NAME)
    DeltaTable(bronze).restore(1)
    place.take()
    DeltaTable(bronze).restore(2)
    assert file_status.copy(place.at, NAME).rows == 6
    versions = status_log.read(place.at, NAME, ["chunk", "version"]).to_pylist()
    assert {row["chunk"]: row["version"] for row in versions} == {1: 0, 2: 1, 3: 2}
    assert place.states() == [(name, "ingested") for name in ALL]


def test_chunks_behind_a_mark_are_not_told_where_no_log_says_what_was_undone(place: Place) -> None:
    """A RESTORE by time to a version of which the log is gone: what it undid, only the rows tell."""
    chunks(place, 3)
    bronze = DeltaTable(place.at.table("bronze", NAME))
    bronze.restore(0)
    logs = Path(bronze.table_uri.removeprefix("file://")) / "_delta_log"
    actions = [json.loads(line) for line in (logs / f"{3:020}.json").read_text().splitlines()]
    for action in actions:
        action.get("commitInfo", {}).get("operationParameters", {}).pop("version", None)
    (logs / f"{3:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    DeltaTable(bronze.table_uri).create_checkpoint()
    (logs / f"{0:020}.json").unlink()
    assert [restore.to for restore in offsets.restore_history(DeltaTable(bronze.table_uri)).restores] == [None]
    assert not file_status.has_unrecorded_batches(place.at, NAME)
    assert file_status.copy(place.at, NAME) == file_status.Taken(0, 0, 0, {})
    assert tables.delta_table(place.at.file_status(NAME)) is None
    assert [state for name, state in place.states() if name[0] in "23"] == ["waiting"] * 5


def test_files_that_land_under_one_name_are_counted_apart() -> None:
    entries = pa.table(
        {
            "path": ["a", "b", "a", "a", "b", "a", "c"],
            "action": ["read", "read", "replace", "read", "reset", "drop", "read"],
        }
    )
    for fact in ("size", "modification_time"):
        entries = entries.append_column(fact, pa.array([1] * 7))
    ends = pc.is_in(entries["action"], value_set=pa.array(["replace", "reset", "drop"]))
    assert file_status._arrivals(entries, ends).to_pylist() == [0, 0, 0, 1, 0, 1, 0]

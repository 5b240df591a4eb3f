"""A commit is known wherever its table lies, whoever made it, and when one of ours is made again of the same."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from sluicegate.flow.versions_read import VersionRead
from sluicegate.lake import log
from sluicegate.lake.commits import commit_identity
from sluicegate.lake.proved_state import ProvedState
from sluicegate.lake.table import Table

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3], "_chunk": [1, 1, 1], "_pos": [0, 1, 2]})
FACTS = {
    "layer": "bronze", "table": "b", "mode": "incremental", "since": 0, "until": 1, "chunk": 1, "inputs": {},
    "source_id": "x", "commits": {"sources": {"": "a"}, "inputs": {}}, "definition": "d", "failed": {},
}  # fmt: skip


def committed(folder: Path, rows: pa.Table = ROWS, **facts: Any) -> str | None:
    """Identity of a commit of ours in a table of its own."""
    uri = str(folder / uuid.uuid4().hex)
    said = {log.METADATA: {**FACTS, "run_id": uuid.uuid4().hex, "seen": len(facts), **facts}}
    write_deltalake(uri, rows.slice(0, 0))
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(said)})
    write_deltalake(uri, rows, mode="append", commit_properties=properties)
    assert DeltaTable(uri).version() == 1
    return commit_identity.identity(uri, 1)


def test_a_batch_that_is_repeated_makes_the_same_commit(tmp_path: Path) -> None:
    first = committed(tmp_path)
    assert committed(tmp_path) == first
    assert committed(tmp_path, since=-1) == first  # a ledger batch is read alone, whatever was read before it
    for rows in (ROWS.slice(0, 2), ROWS.slice(1), ROWS.set_column(2, "_pos", [[0, 1, 1 << 33]])):
        assert committed(tmp_path, rows) != first
    other = {"until": 2, "chunk": 2, "source_id": "y", "definition": "e", "failed": {"f": "why"}, "mode": "whole"}
    for fact, value in other.items():
        assert committed(tmp_path, **{fact: value}) != first, fact
    assert committed(tmp_path, commits={"sources": {"": "b"}, "inputs": {}}) != first


def test_what_silver_takes_in_depends_on_where_it_began(tmp_path: Path) -> None:
    silver: dict[str, Any] = {"layer": "silver", "commits": {"sources": {"": "a"}, "inputs": {"l": "c"}}}
    first = committed(tmp_path, **silver)
    assert committed(tmp_path, ROWS.slice(0, 2), **silver) == first  # rows are a function of what is read
    assert committed(tmp_path, **silver, since=-1) != first
    assert committed(tmp_path, **{**silver, "commits": {"sources": {"": "a"}, "inputs": {"l": "d"}}}) != first


@pytest.mark.parametrize("commits", [None, {}, {"sources": {"": None}}, {"sources": {"": "a"}, "inputs": {"l": None}}])
def test_a_commit_that_does_not_tell_what_it_was_made_from_is_like_no_other(tmp_path: Path, commits: Any) -> None:
    """As of a version before, or where the entry of what it has read was gone."""
    assert committed(tmp_path, commits=commits) != committed(tmp_path, commits=commits)


def test_a_commit_that_is_made_again_has_another_log_entry(tmp_path: Path) -> None:
    silver: dict[str, Any] = {"layer": "silver"}
    places = [tmp_path / "former", tmp_path / "again"]
    first, second = (committed(place, ROWS.slice(number), **silver) for number, place in enumerate(places))
    assert first == second
    uris = [str(next(place.iterdir())) for place in places]
    digests = [commit_identity.entry_digest(uri, 1) for uri in uris]
    assert digests[0] != digests[1]
    shutil.copytree(uris[0], tmp_path / "elsewhere")
    assert commit_identity.entry_digest(str(tmp_path / "elsewhere"), 1) == digests[0]
    assert commit_identity.entry_digest(uris[0], 2) is None

    # A proof holds for the log entry that was proved, and for what came after it.
    proved, version_read = ProvedState.from_table(DeltaTable(uris[0])), VersionRead.from_table(Table(uris[0]), 1)
    assert proved is not None
    assert version_read is not None
    assert proved.is_history_of(DeltaTable(uris[0]))
    Path(uris[0], "_delta_log", f"{1:020}.json").write_bytes(Path(uris[1], "_delta_log", f"{1:020}.json").read_bytes())
    write_deltalake(uris[0], ROWS, mode="append")
    assert commit_identity.identity(uris[0], 1) == first
    newest = VersionRead.from_table(Table(uris[0]), 2)
    assert newest is not None
    assert not proved.is_history_of(DeltaTable(uris[0]))
    assert not version_read.continues_to(newest, Table(uris[0]))


def test_a_commit_is_known_wherever_its_table_lies_and_by_any_writer(tmp_path: Path) -> None:
    for _ in range(2):
        write_deltalake(tmp_path / "one", ROWS, mode="append")
    (tmp_path / "one").rename(tmp_path / "two words")
    moved = str(tmp_path / "two words")
    found = [commit_identity.identity(moved, version) for version in range(2)]
    assert None not in found
    assert found[0] != found[1]
    assert commit_identity.identity(f"file://{tmp_path}/two%20words", 1) == found[1]
    assert commit_identity.identity(moved, 2) is None


def test_a_commit_is_known_by_the_HEAD_of_its_entry(tmp_path: Path) -> None:
    """The entry of a large write has megabytes of files, and its first lines have its time and the first files."""
    entry = tmp_path / "_delta_log" / f"{0:020}.json"
    entry.parent.mkdir()
    found = []
    head = commit_identity.HEAD
    for size, end in ((head - 2, b"ab"), (head - 2, b"ac"), (head, b"ab"), (head, b"ac")):
        entry.write_bytes(b"x" * size + end)
        found.append(commit_identity.identity(str(tmp_path), 0))
    assert len({*found}) == 3
    assert found[2] == found[3]

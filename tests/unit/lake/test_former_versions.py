"""Former versions of a table are deleted as a whole; a run that was stopped in between is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from sluicegate import _faults
from sluicegate.lake import former_versions, log
from sluicegate.lake.table import Table

pytestmark = pytest.mark.unit

POINTS = [point for point in _faults.POINTS if point.startswith("copy.") and point != "copy.after_commit"]


class Stopped(Exception):
    """Raised where a test stops a run."""


def commit(uri: Path, rows: pa.Table, mode: str, **facts: object) -> None:
    said = {"userMetadata": json.dumps({log.METADATA: facts})}
    write_deltalake(uri, rows, mode=mode, commit_properties=CommitProperties(custom_metadata=said),  # type: ignore[call-overload]
                    configuration={"delta.enableChangeDataFeed": "true"} if mode == "error" else None)  # fmt: skip


def masked_later(uri: Path) -> None:
    """A table with a clear value in data, changes, log and a checkpoint, which another definition has replaced."""
    clear = pa.table({"id": [1, 2], "city": ["Betelgeuse", "Ursa"]})
    commit(uri, clear, "error", fingerprint="one")
    DeltaTable(uri).update(updates={"city": "'Betelgeuse 2'"}, predicate="id = 2")
    DeltaTable(uri).create_checkpoint()
    (uri / "_delta_log" / "_sidecars").mkdir()
    pq.write_table(clear, uri / "_delta_log" / "_sidecars" / "a.parquet")
    (uri / "_delta_log" / "00000000000000000000.00000000000000000001.compacted.json").write_text("Betelgeuse")
    (uri / "_delta_log" / ".00000000000000000001.json.crc").write_text("Betelgeuse")
    commit(uri, pa.table({"id": [1, 2], "city": ["***", "***"]}), "overwrite", fingerprint="two", new_table=False)
    assert are_left(uri)
    commit(
        uri, pa.table({"id": [1, 2], "city": ["***", "***"]}).slice(0, 0), "append", fingerprint="two", new_table=True
    )


def are_left(uri: Path) -> bool:
    return former_versions.are_left(str(uri), log.last_own_commit(DeltaTable(uri)))


def of_others(uri: Path, fingerprint: str) -> bool:
    return former_versions.has_other_versions(Table(str(uri)), {"fingerprint": fingerprint, "key": ""})


def clear_files(uri: Path) -> set[str]:
    found = set()
    for path in (path for path in uri.rglob("*") if path.is_file()):
        text = path.read_bytes().decode("latin-1")
        text += str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else ""
        if "Betelgeuse" in text:
            found.add(str(path.relative_to(uri)).split("/")[0])
    return found


def test_nothing_of_former_versions_is_left(tmp_path: Path) -> None:
    uri = tmp_path / "a copy"
    masked_later(uri)
    assert clear_files(uri) > {"_delta_log", "_change_data"}
    assert (are_left(uri), of_others(uri, "two")) == (True, True)
    assert former_versions.delete(str(uri)) > 5
    assert (clear_files(uri), are_left(uri), of_others(uri, "two"), of_others(uri, "three")) == (
        set(),
        False,
        False,
        True,
    )
    table = DeltaTable(uri)
    assert (table.version(), table.to_pyarrow_table()["city"].to_pylist()) == (3, ["***", "***"])
    commit(uri, pa.table({"id": [3], "city": ["***"]}), "append", fingerprint="two")
    assert (DeltaTable(uri).to_pyarrow_table().num_rows, are_left(uri)) == (3, False)
    assert [one.version for one in log.commits(DeltaTable(uri))] == [4, 3]
    with pytest.raises(Exception, match="No files in log segment"):
        DeltaTable(uri, version=1).to_pyarrow_table()


@pytest.mark.parametrize("stop", POINTS)
def test_a_run_that_was_stopped_before_the_end_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    masked_later(tmp_path / "t")

    def point(name: str) -> None:
        if name == stop:
            raise Stopped

    monkeypatch.setattr(_faults, "point", point)
    with pytest.raises(Stopped):
        former_versions.delete(str(tmp_path / "t"))
    assert are_left(tmp_path / "t")
    assert DeltaTable(tmp_path / "t").to_pyarrow_table()["city"].to_pylist() == ["***", "***"]

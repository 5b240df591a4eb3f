"""The fence is a commit of a table's own metadata, and of nothing else, beside whatever other programs commit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sluicegate.errors import LakeLocked, SluicegateError
from sluicegate.lake import log, tables
from sluicegate.lake.commits import metadata_commit, small_commits
from sluicegate.lake.exclusion import fence
from sluicegate.lake.layout import Lake
from tests.support.s3_server import BUCKET, s3_server

pytestmark = pytest.mark.unit

ROW = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]})

# As Spark makes a table with a change feed; delta-rs gives it reader version 2 with a property.
PROTOCOL = {
    "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["changeDataFeed", "invariants", "appendOnly"]
}  # fmt: skip


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "SETTLES", 0.01)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "a lake"), "heart_rate")


@pytest.fixture
def uri(lake: Lake) -> str:
    return made(lake.table("silver", "beats"))


def made(uri: str, protocol: dict[str, Any] = PROTOCOL, **properties: str) -> str:
    """A table with a row, and a field of metadata that nobody here knows."""
    tables.write(uri, ROW, configuration={"delta.enableChangeDataFeed": "true"}, description="of beats")
    first = Path(uri) / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol
        if "metaData" in action:
            action["metaData"]["ofAnother"] = {"x": 1}
            action["metaData"]["configuration"] |= properties
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return uri


def fenced(lake: Lake) -> None:
    fence._write_note(lake, "a run whose client was killed")
    with fence.sole_writer(lake, "the next run", remote=False):
        pass


def test_a_fence_leaves_all_as_it_is_but_one_property(lake: Lake, uri: str) -> None:
    before = tables.table_at(uri)
    [was] = [one["metaData"] for one in log.actions(uri, 0) if "metaData" in one]
    assert small_commits.can_write(before)
    fenced(lake)
    after = tables.table_at(uri)
    assert after.version() == 1
    assert after.protocol() == before.protocol()
    assert small_commits.can_write(after)
    commit = list(log.actions(uri, 1))
    assert [list(action) for action in commit] == [["commitInfo"], ["metaData"]]
    now = commit[1]["metaData"]
    assert now.pop("configuration").pop(fence.PROPERTY)
    assert now == {name: value for name, value in was.items() if name != "configuration"}
    assert [one.fence for one in log.commits(after)] == [True, False]
    assert after.metadata().configuration["delta.enableChangeDataFeed"] == "true"
    assert not list((Path(uri) / "_delta_log").glob(".*")), "nothing is left beside the log"
    fenced(lake)
    assert tables.table_at(uri).version() == 2


@pytest.mark.parametrize("rows_after", [0, 2])
def test_the_metadata_of_a_log_that_begins_with_a_checkpoint(lake: Lake, uri: str, rows_after: int) -> None:
    was = tables.table_at(uri).metadata()
    tables.write(uri, ROW, mode="append")
    tables.table_at(uri).create_checkpoint()
    (Path(uri) / "_delta_log" / f"{0:020d}.json").unlink()
    for _ in range(rows_after):
        tables.write(uri, ROW, mode="append")
    fenced(lake)
    now = tables.table_at(uri)
    assert now.version() == 2 + rows_after
    assert now.count() == 2 + rows_after
    assert (now.metadata().id, now.metadata().created_time) == (was.id, was.created_time)
    assert now.metadata().description == "of beats"
    assert {*now.metadata().configuration} == {*was.configuration, fence.PROPERTY}


class Others:
    """Another program, which appends a row each time that the metadata is read, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, uri: str, times: int) -> None:
        self.uri, self.left, self.action = uri, times, metadata_commit.logged_metadata
        monkeypatch.setattr(metadata_commit, "logged_metadata", self)

    def __call__(self, table: DeltaTable) -> dict[str, Any]:
        if self.left:
            self.left -= 1
            tables.write(self.uri, ROW, mode="append")
        return self.action(table)


def test_a_commit_that_comes_first_is_kept(lake: Lake, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Others(monkeypatch, uri, 2)
    fenced(lake)
    now = tables.table_at(uri)
    assert (now.version(), now.count()) == (3, 3)
    assert fence.PROPERTY in now.metadata().configuration


def test_commits_without_end_are_no_lock_that_is_waited_for(
    lake: Lake, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "ATTEMPTS", 2)
    Others(monkeypatch, uri, 2)
    with pytest.raises(SluicegateError, match="cannot protect") as raised:
        fenced(lake)
    assert not isinstance(raised.value, LakeLocked)
    assert fence.OTHERS in raised.value.cause
    assert Path(fence._note(lake)).exists(), "the next run has to try again"


def test_a_fence_that_a_commit_was_renamed_over_is_made_again(
    lake: Lake, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = made(lake.table("silver", "others"))
    tables.write(other, ROW, mode="append")
    its = (Path(other) / "_delta_log" / f"{1:020d}.json").read_text()

    def late(_seconds: float) -> None:
        if tables.table_at(uri).version() == 1:
            (Path(uri) / "_delta_log" / f"{1:020d}.json").write_text(its)

    monkeypatch.setattr(time, "sleep", late)
    fenced(lake)
    assert tables.table_at(uri).version() == 2
    assert fence.PROPERTY in tables.table_at(uri).metadata().configuration
    assert tables.table_at(other).version() == 2, "what stands is not made again"


@pytest.mark.parametrize(
    ("features", "properties", "cause"),
    [
        (["inCommitTimestamp"], {metadata_commit.TIMED: "true"}, "require a timestamp"),
        (["ofTomorrow"], {}, "does not support: ofTomorrow"),
        (["catalogManaged"], {}, "CatalogManaged"),  # delta-rs does not even open it
    ],
)
def test_a_table_with_other_rules_is_refused(
    lake: Lake, features: list[str], properties: dict[str, str], cause: str
) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    uri = made(lake.table("silver", "beats"), protocol, **properties)
    with pytest.raises(SluicegateError, match="cannot protect") as raised:
        fenced(lake)
    assert type(raised.value) is SluicegateError
    assert cause in raised.value.cause
    assert len(list((Path(uri) / "_delta_log").iterdir())) == 1


def test_tables_with_features_that_only_spark_writes_are_fenced(lake: Lake) -> None:
    features = ["clustering", "domainMetadata", "rowTracking", "inCommitTimestamp", "changeDataFeed"]
    uri = made(lake.table("gold", "by_bed"), {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features})
    before = tables.table_at(uri).protocol()
    fenced(lake)
    assert (tables.table_at(uri).version(), tables.table_at(uri).protocol()) == (1, before)


def test_the_note_of_the_next_holder_is_left_to_it(lake: Lake) -> None:
    """Who has lost the lock may end after the next one has begun."""
    note = Path(fence._note(lake))
    with fence.sole_writer(lake, "a run", remote=True):
        mine = note.read_text()
        its = fence._write_note(lake, "a run")
        assert its != mine
    assert note.read_text() == its
    with fence.sole_writer(lake, "a run", remote=True):
        assert note.read_text() not in (mine, its)
    assert not note.exists()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


def test_a_fence_on_s3_is_the_metadata_alone(server: str) -> None:
    lake = Lake(f"s3a://{BUCKET}/fenced", "heart_rate")
    uri = lake.table("silver", "beats")
    tables.write(uri, ROW, configuration={"delta.enableChangeDataFeed": "true"}, description="of beats")
    before = tables.table_at(uri)
    fenced(lake)
    after = tables.table_at(uri)
    assert after.version() == 1
    assert after.protocol() == before.protocol()
    assert {name for action in log.actions(uri, 1) for name in action} == {"commitInfo", "metaData"}
    assert after.metadata().description == "of beats"
    assert [one.fence for one in log.commits(after)] == [True, False]

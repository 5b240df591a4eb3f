"""Where one batch ends and the next begins, on real Delta tables that delta-rs wrote. No Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.definition.tables.silver import BATCH_BYTES, SilverTable
from sluicegate.flow import parts
from sluicegate.flow.model import Fingerprints, Flow, Progress
from sluicegate.flow.policies import RecordPolicy
from sluicegate.flow.progress import progress
from sluicegate.flow.table_report import TableReport
from sluicegate.lake import log
from sluicegate.lake.table import Tables

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})


class Source:
    """A table of some commits of the same size, and one that follows it."""

    def __init__(self, folder: Path, commits: int = 4) -> None:
        self.uri, self.target, self.beside = (str(folder / name) for name in ("source", "target", "beside"))
        for _ in range(commits):
            write_deltalake(self.uri, ROWS, mode="append")
        adds = pa.table(DeltaTable(self.uri).get_add_actions(flatten=True)) if commits else None
        self.size = 0 if adds is None else max(adds["size_bytes"].to_pylist())
        self.flow = Flow("silver", "target", self.uri, self.target, side_tables=(self.beside,), policy=RecordPolicy())

    def ends(self, most: int | None) -> list[int]:
        """Ends of the parts up to the source's newest version, each applied before the next one is made out."""
        found = []
        while True:
            flow, opened = replace(self.flow, policy=RecordPolicy(batch_bytes=most)), Tables()
            now = progress(flow, opened)
            if not now.has_work:
                return found
            part = parts.first_part(flow, now, opened)
            self.commit(self.target, part)
            found.append(part.until)

    def commit(self, uri: str, now: Progress, **facts: Any) -> None:
        ours = {"until": now.until, "inputs": {}, "seen": now.seen, "restores": [], **facts}
        metadata = {"userMetadata": json.dumps({log.METADATA: ours})}
        offset = [Transaction(now.app_id, now.until)]
        properties = CommitProperties(custom_metadata=metadata, app_transactions=offset)
        write_deltalake(uri, ROWS, mode="append", commit_properties=properties)


@pytest.mark.parametrize(
    ("times", "beyond", "ends"),
    [
        (1, -1, [0, 1, 2, 3]),  # a commit that alone has more is a batch
        (1, 0, [0, 1, 2, 3]),
        (2, -1, [0, 1, 2, 3]),
        (2, 0, [1, 3]),
        (3, 0, [2, 3]),
        (4, -1, [2, 3]),
        (4, 0, [3]),
    ],
)
def test_a_batch_has_so_many_bytes_at_most(tmp_path: Path, times: int, beyond: int, ends: list[int]) -> None:
    source = Source(tmp_path)
    assert source.ends(times * source.size + beyond) == ends


def test_without_a_limit_all_is_one_batch(tmp_path: Path) -> None:
    assert Source(tmp_path).ends(None) == [3]


def test_commits_without_rows_count_nothing(tmp_path: Path) -> None:
    source = Source(tmp_path, commits=1)
    for _ in range(3):
        DeltaTable(source.uri).alter.set_table_properties({"delta.appendOnly": "false"})
    write_deltalake(source.uri, ROWS, mode="append")
    assert source.ends(source.size) == [3, 4]


def test_commits_without_rows_are_no_part_before_a_large_one(tmp_path: Path) -> None:
    source = Source(tmp_path, commits=1)
    assert source.ends(source.size) == [0]
    for _ in range(2):
        DeltaTable(source.uri).alter.set_table_properties({"delta.appendOnly": "false"})
    write_deltalake(source.uri, ROWS, mode="append")
    assert source.ends(source.size - 1) == [3]


def test_of_a_commit_with_a_change_feed_the_bytes_of_the_feed_count(tmp_path: Path) -> None:
    """A DELETE of one row writes a whole file again, of which a batch reads nothing."""
    source = Source(tmp_path, commits=0)
    rows = pa.table({"id": range(50_000)})
    write_deltalake(source.uri, rows, configuration={"delta.enableChangeDataFeed": "true"})
    size = sum(pa.table(DeltaTable(source.uri).get_add_actions(flatten=True))["size_bytes"].to_pylist())
    for number in (1, 2):
        DeltaTable(source.uri).delete(f"id = {number}")
    assert source.ends(size + size // 2) == [2]
    assert size > 50_000, "far more than the feed of one row"


def test_a_full_refresh_of_a_table_that_is_there_is_one_batch(tmp_path: Path) -> None:
    source = Source(tmp_path)
    flow = replace(source.flow, policy=RecordPolicy(batch_bytes=1))
    source.commit(source.target, replace(progress(flow), until=1), fingerprint="former")
    now = progress(replace(flow, fingerprints=Fingerprints("other")))
    assert (now.kind, now.until) == ("whole", 3)
    assert parts.first_part(replace(flow, fingerprints=Fingerprints("other")), now, Tables()) is now


def test_no_part_ends_before_what_a_stopped_run_has_written_beside_the_table(tmp_path: Path) -> None:
    """Else Delta would skip the write of a later part, whose number it knows."""
    source = Source(tmp_path)
    flow = replace(source.flow, policy=RecordPolicy(batch_bytes=1))
    assert parts.first_part(flow, progress(flow), Tables()).until == 0
    source.commit(source.beside, replace(progress(flow), until=2))
    assert parts.first_part(flow, progress(flow), Tables()).until == 2
    # By its facts, too: what is reprocessed is written without such a number.
    source.commit(source.beside, replace(progress(flow), app_id="other", until=1), until=3)
    assert parts.first_part(flow, progress(flow), Tables()).until == 3


def test_no_part_ends_before_a_column_is_gone(tmp_path: Path) -> None:
    source = Source(tmp_path, commits=2)
    write_deltalake(source.uri, ROWS.append_column("more", pa.array([1, 2, 3])), mode="append", schema_mode="merge")
    assert source.ends(1) == [0, 1, 2]
    write_deltalake(source.uri, pa.table({"other": [1]}), mode="overwrite", schema_mode="overwrite")
    write_deltalake(source.uri, pa.table({"other": [1]}), mode="append")
    opened = Tables()
    now = replace(progress(source.flow, opened), kind="incremental", since=0)
    assert parts.first_part(replace(source.flow, policy=RecordPolicy(batch_bytes=1)), now, opened).until == 4


def test_versions_that_were_cleaned_away_end_no_part(tmp_path: Path) -> None:
    source = Source(tmp_path)
    DeltaTable(source.uri).create_checkpoint()
    for version in (0, 1):
        (Path(source.uri) / "_delta_log" / f"{version:020d}.json").unlink()
    assert source.ends(1) == [2, 3]


def test_of_several_flows_each_has_its_part(tmp_path: Path) -> None:
    few, many = Source(tmp_path / "few", commits=1), Source(tmp_path / "many", commits=3)
    flow = replace(few.flow, streams={"few": few.uri, "many": many.uri}, policy=RecordPolicy(batch_bytes=1))
    now = progress(flow)
    assert {name: one.until for name, one in now.streams.items()} == {"few": 0, "many": 2}
    part = parts.first_part(flow, now, Tables())
    assert {name: one.until for name, one in part.streams.items()} == {"few": 0, "many": 0}
    said = {"streams": {"many": {"source_id": "", "until": 1}}}
    few.commit(few.beside, replace(part, app_id="flows"), **said)
    assert parts.first_part(flow, now, Tables()).streams["many"].until == 1
    # Records that give way to all that the source has do so in one commit.
    restarts = replace(now, streams={name: replace(one, restarts=True) for name, one in now.streams.items()})
    assert parts.first_part(flow, restarts, Tables()) is restarts


def test_the_definition_says_how_much_a_batch_takes_in() -> None:
    said = {"sql": "SELECT 1 AS one", "maxBytesPerTrigger": "2k"}
    assert SilverTable.model_validate(said).batch_bytes == 2048
    usual = SilverTable.model_validate({"sql": "SELECT 1 AS one"})
    assert usual.batch_bytes == BATCH_BYTES
    # It decides how rows are written, and not which: nothing is made again for another value.
    assert SilverTable.model_validate(said).fingerprint == usual.fingerprint
    whole = {"expect_table": {"some": {"rows": {"min": 1}}}}
    snapshot = {"from": "t", "apply_changes_from_snapshot": {"keys": ["id"], "sequence_by": "n"}}
    for other in ({**said, **whole}, {**snapshot, "maxBytesPerTrigger": 1}):
        assert SilverTable.model_validate(other).batch_bytes is None


def test_batches_of_a_run_are_one_report() -> None:
    rules = {"r": {"passed": 1, "failed": 2}}
    flows = {"eu": {"read": 1, "written": 1}}
    one = TableReport(
        "t", "silver", state="written", read=3, written=2, quarantined=1, expectations=rules, flows=flows, rows=4,
        warnings=["w"], samples=[{"row": {}}], unchanged=False,
    )  # fmt: skip
    two = TableReport(
        "t", "silver", state="again", why="a lookup changed", read=5, written=5, rows=6, no_rows=1, warnings=["w", "x"],
        expectations={"r": {"passed": 3, "failed": 0}}, flows={"us": {"read": 2, "written": 2}}, unchanged=True,
    )  # fmt: skip
    both = one.combine_with(two)
    assert (both.state, both.why, both.read, both.written, both.quarantined) == ("again", "a lookup changed", 8, 7, 1)
    assert (both.rows, both.no_rows, both.unchanged, both.warnings) == (10, 1, False, ["w", "x"])
    assert both.expectations == {"r": {"passed": 4, "failed": 2}}
    assert both.flows == {"eu": {"read": 1, "written": 1}, "us": {"read": 2, "written": 2}}
    assert both.samples == one.samples
    assert two.combine_with(one).state == "again"
    assert one.combine_with(replace(one, state="rebuilt")).state == "rebuilt"

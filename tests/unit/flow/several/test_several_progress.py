"""What a run is to do about a table that several flows fill, decided on histories of real Delta tables. No Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.errors import SluicegateError
from sluicegate.flow import histories
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.policies import CopyPolicy, RecordPolicy
from sluicegate.flow.progress import progress
from sluicegate.flow.several import several_progress
from sluicegate.lake import log, offsets
from sluicegate.lake.commits import metadata_commit
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.exclusion import fence
from sluicegate.lake.table import Tables

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})


class History:
    """Sources of some flows, a lookup, and a target that is filled from all; ``run`` commits as a run would."""

    def __init__(self, folder: Path, *flows: str, **about: Any) -> None:
        self.folder = folder
        self.flow = Flow("silver", "t", self.uri(flows[0]), self.uri("t"), policy=RecordPolicy(), **about)
        self.define(*flows)

    def uri(self, name: str) -> str:
        return str(self.folder / name)

    def define(self, *flows: str) -> None:
        self.flow = replace(self.flow, source=self.uri(flows[0]), streams={name: self.uri(name) for name in flows})

    def add(self, *names: str, mode: Any = "append") -> None:
        for name in names:
            write_deltalake(self.uri(name), ROWS, mode=mode)

    def now(self) -> Progress:
        return progress(self.flow)

    def run(self) -> Progress:
        now = self.now()
        ours = {"until": now.until, "inputs": dict(now.stamps), "seen": now.seen, "restores": now.restores,
                CommitInfo.commits.key: histories.facts(self.flow, now, Tables()), "by_flow": True,
                **({"numbered": True} if now.of_many else {}),
                CommitInfo.streams.key: several_progress.facts(now.streams)}  # fmt: skip
        done = [Transaction(now.app_id, now.until)] if now.until > now.since else []
        said = {"userMetadata": json.dumps({log.METADATA: ours})}
        properties = CommitProperties(custom_metadata=said, app_transactions=done)
        write_deltalake(self.flow.target, ROWS, mode="append", commit_properties=properties)
        return now


def made(folder: Path, *flows: str) -> History:
    history = History(folder, *flows)
    history.add(*flows)
    assert history.run().kind == "whole"
    assert history.now().kind == "idle"
    return history


def work(now: Progress) -> dict[str, tuple[int, int]]:
    return {name: (one.since, one.until) for name, one in now.streams.items() if one.has_work}


def test_each_flow_goes_on_from_its_own_offset(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    history.add("b", "b")
    now = history.now()
    assert (now.kind, work(now), now.reprocesses, now.why) == ("incremental", {"b": (0, 2)}, False, "")
    assert now.unprocessed_versions(history.flow) == {history.uri("b"): (0, 2)}
    assert (now.since, now.until) == (0, 1)  # of batches
    history.run()
    history.add("a")
    assert work(history.now()) == {"a": (0, 1)}
    assert history.run().until == 2


def test_a_new_flow_is_read_whole_and_one_that_is_gone_takes_its_records_along(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    history.add("c")
    history.define("a", "c")
    now = history.now()
    assert (now.kind, work(now), now.removed) == ("incremental", {"c": (-1, 0)}, ("b",))
    assert now.why == "the flow c is new; the flow b is no longer in the definition"
    assert now.reprocesses
    assert now.replaced_flows == ("b",)
    history.run()
    assert (history.now().kind, history.now().removed) == ("idle", ())
    history.define("a")
    now = history.now()
    assert (now.kind, now.removed, work(now)) == ("incremental", ("c",), {})
    assert (now.since, now.until) == (1, 2)  # a batch of its own: Delta would skip one with a number that is there


def test_a_fence_of_a_source_is_no_version_to_be_read(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    assert metadata_commit.put(DeltaTable(history.uri("b")), fence.PROPERTY, "x")
    assert (history.now().kind, work(history.now())) == ("idle", {})
    history.add("b")
    assert work(history.now()) == {"b": (0, 2)}


def test_a_flow_without_its_table_waits_alone(tmp_path: Path) -> None:
    history = History(tmp_path, "a", "b")
    assert history.now().why == "a and b has no rows yet"
    history.add("b")
    assert history.run().kind == "whole"
    assert history.now().kind == "idle"
    history.add("a")
    assert work(history.now()) == {"a": (-1, 0)}


def test_a_table_that_is_gone_stops_all_flows(tmp_path: Path) -> None:
    """Its records could not be evaluated with others of their keys."""
    history = made(tmp_path, "a", "b")
    (tmp_path / "a").rename(tmp_path / "away")
    history.add("b")
    now = history.now()
    assert (now.kind, now.why) == ("blocked", "a, which its flow a reads, no longer exists")


def test_a_source_whose_column_was_renamed_is_read_again_alone(tmp_path: Path) -> None:
    """Over such a commit Delta reads no change feed, though no row was replaced."""
    history = made(tmp_path, "a", "b")
    entries = Path(history.uri("a")) / "_delta_log"
    actions = [json.loads(line) for line in (entries / f"{0:020}.json").read_text().splitlines()]
    [metadata] = [action["metaData"] for action in actions if "metaData" in action]
    renamed = {**metadata, "schemaString": metadata["schemaString"].replace('"id"', '"key"')}
    commit = [{"commitInfo": {"operation": "CHANGE COLUMN"}}, {"metaData": renamed}]
    (entries / f"{1:020}.json").write_text("\n".join(map(json.dumps, commit)))
    now = history.now()
    assert (now.kind, now.replaced_flows, work(now)) == ("incremental", ("a",), {"a": (0, 1)})
    assert now.why == "the columns of a were changed by CHANGE COLUMN in version 1"


def test_a_source_that_is_another_table_is_read_again_alone(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    (tmp_path / "a").rename(tmp_path / "away")
    history.add("a")
    now = history.now()
    assert (now.kind, now.replaced_flows, work(now)) == ("incremental", ("a",), {"a": (-1, 0)})
    assert now.why == "a is not the table that the flow a was filled from"


def test_a_source_that_was_overwritten_is_read_again_and_one_that_changed_is_followed(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    history.add("a", mode="overwrite")
    DeltaTable(history.uri("b")).delete("id = 1")
    now = history.now()
    assert (now.replaced_flows, now.revised) == (("a",), True)
    assert now.why == "a was changed by WRITE in version 1; b was changed by DELETE in version 1"


def test_a_source_that_is_older_than_its_offset_stops_the_run(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    history.add("a")
    history.run()
    (tmp_path / "a" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(SluicegateError, match="t cannot continue: a is older than the version that was read last"):
        history.now()


def test_one_flow_becomes_several_and_one_again(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    several = history.flow
    history.flow = replace(several, streams={})
    now = history.now()
    assert (now.kind, now.why, now.of_flows) == ("whole", "it is filled by one flow now", False)
    app_id = offsets.app_id("silver", "t", DeltaTable(history.uri("a")))
    facts = {"until": 0, "inputs": {}, "seen": now.seen, "restores": []}
    properties = CommitProperties(
        custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})}, app_transactions=[Transaction(app_id, 0)]
    )
    write_deltalake(history.flow.target, ROWS, mode="overwrite", commit_properties=properties)
    assert history.now().kind == "idle"
    history.flow = several
    assert (history.now().kind, history.now().why) == ("whole", "it is filled by several flows now")


def test_what_follows_such_a_table_knows_records_by_their_flow(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    flowing = pa.table({"id": [1], "_record_flow": ["x"]})
    write_deltalake(history.uri("a"), flowing, mode="append", schema_mode="merge")
    assert history.now().kind == "incremental"  # its records are known by flow already
    plain = Flow("silver", "u", history.uri("a"), history.uri("u"), policy=RecordPolicy())
    assert progress(plain).of_flows
    numbered = pa.table({"id": [1], "_record_row": [1]})
    write_deltalake(history.uri("b"), numbered, mode="append", schema_mode="merge")
    assert (history.now().kind, history.now().of_many) == ("whole", True)


def test_a_restore_makes_it_again(tmp_path: Path) -> None:
    history = made(tmp_path, "a", "b")
    history.add("a")
    history.run()
    DeltaTable(history.flow.target).restore(0)
    now = history.now()
    assert (now.kind, now.why) == ("whole", "it was restored in version 2")
    history.run()
    assert history.now().kind == "idle"


def test_batches_are_counted_on_from_the_tables_beside_one_that_was_moved_away(tmp_path: Path) -> None:
    """Delta would skip what a batch writes there, were its number one that they have."""
    history = made(tmp_path, "a", "b")
    history.flow = replace(history.flow, side_tables=(history.uri("q"),))
    done = CommitProperties(app_transactions=[Transaction(history.now().app_id, 4)])
    write_deltalake(history.uri("q"), ROWS, commit_properties=done)
    history.add("a")
    assert (history.now().since, history.now().until) == (0, 5)
    shutil.rmtree(history.flow.target)
    now = history.now()
    assert (now.kind, now.since, now.until) == ("whole", -1, 5)


@pytest.mark.parametrize("followed", [True, False])
def test_a_lookup_that_comes_with_a_flow_makes_nothing_of_the_others_again(tmp_path: Path, followed: bool) -> None:
    history = made(tmp_path, "a", "b")
    history.add("c", "tags")
    history.define("a", "b", "c")
    its = frozenset(["tags"] if followed else [])
    history.flow = replace(history.flow, inputs={"tags": history.uri("tags")}, policy=RecordPolicy(followed=its))
    now = history.now()
    assert (now.kind, work(now), now.reprocesses) == ("incremental", {"c": (-1, 0)}, False)
    assert now.why == "the flow c is new"
    history.run()
    assert history.now().kind == "idle"
    history.add("tags")
    now = history.now()
    assert (now.kind, now.why) == ("incremental" if followed else "whole", "tags changed")
    assert now.changed == ({"tags": 0} if followed else {})


def test_a_column_that_a_flow_is_certain_to_make_is_lacked_by_nobody(tmp_path: Path) -> None:
    history = made(tmp_path, "a")
    source = Tables()[history.flow.target]
    copy = Flow("silver", "copy", history.flow.target, history.uri("copy"))

    def lacking(columns: list[str], **makes: frozenset[str] | None) -> tuple[list[str], list[str]]:
        policy = CopyPolicy(treated=frozenset({"id", "name", "born"}), makes=makes)
        return several_progress.missing_columns(replace(copy, policy=policy), source, columns)

    assert lacking(["ID"]) == (["born", "name"], [])
    certain: dict[str, Any] = {"b": frozenset({"name", "other"})}
    assert lacking(["ID"], **certain) == (["born"], [])
    by_data = certain | {"c": None}
    assert lacking(["ID"], **by_data) == (["born"], ["c"])
    # What a flow makes that the table has taken in is there, or it is not made.
    taken_in: dict[str, Any] = {"a": frozenset({"born"})}
    assert lacking(["id"], **taken_in) == (["born", "name"], [])

"""What a run is to do, decided on histories of real Delta tables that delta-rs wrote. No Spark."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.errors import SluicegateError
from sluicegate.flow import batch as flow_batch
from sluicegate.flow import histories, source_changes
from sluicegate.flow.model import Fingerprints, Flow, Progress
from sluicegate.flow.policies import CopyPolicy, LedgerPolicy, Policy, QueryPolicy, RecordPolicy
from sluicegate.flow.progress import progress
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.table_report import TableReport
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits import metadata_commit
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.exclusion import fence
from sluicegate.lake.table import Tables

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})


class History:
    """A source, a lookup, and a target that is filled from both; ``run`` commits as a run would."""

    def __init__(self, folder: Path, **about: Any) -> None:
        self.source, self.lookup, self.target = (str(folder / name) for name in ("source", "lookup", "target"))
        self.way = Flow("silver", "target", self.source, self.target, **about)

    def add(self, uri: str = "", mode: Any = "append") -> None:
        write_deltalake(uri or self.source, ROWS, mode=mode)

    def now(self, **about: Any) -> Progress:
        return progress(replace(self.way, **about))

    def run(self, uri: str = "", **facts: Any) -> Progress:
        """Commits what a run that does ``now`` would say, in the target or a table beside it."""
        now = self.now()
        ours = {"until": now.until, "inputs": dict(now.stamps), "fingerprint": self.way.fingerprint, "seen": now.seen,
                "restores": now.restores, CommitInfo.commits.key: histories.facts(self.way, now, Tables()),
                **facts}  # fmt: skip
        metadata = {"userMetadata": json.dumps({log.METADATA: ours})}
        mark = [Transaction(now.app_id, now.until)] if not uri else []
        properties = CommitProperties(custom_metadata=metadata, app_transactions=mark)
        write_deltalake(uri or self.target, ROWS, mode="append", commit_properties=properties)
        return now


def made(folder: Path, **about: Any) -> History:
    """One that has been run once."""
    history = History(folder, **about)
    history.add()
    for uri in history.way.inputs.values():
        history.add(uri)
    history.run()
    assert history.now().kind == "idle"
    return history


def test_nothing_to_read_and_the_first_run(tmp_path: Path) -> None:
    history = History(tmp_path, inputs={"l": str(tmp_path / "lookup")})
    assert (history.now().kind, history.now().why) == ("blocked", "source has no rows yet")
    history.add()
    assert history.now().kind == "blocked"
    history.add(history.lookup)
    now = history.run()
    assert (now.kind, now.since, now.until, now.seen) == ("whole", -1, 0, -1)
    assert history.now().kind == "idle"


def test_a_table_waits_for_those_that_its_rules_read(tmp_path: Path) -> None:
    history = History(tmp_path, references={"u": str(tmp_path / "u")})
    history.add()
    assert (history.now().kind, history.now().why) == ("blocked", "one of its rules reads u, which has no rows yet")
    history.add(str(tmp_path / "u"))
    assert history.now().kind == "whole"


def test_a_copy_waits_for_a_column_that_a_flow_may_make_and_for_no_other(tmp_path: Path) -> None:
    """That no flow makes it is an error of its run, and nothing to wait for."""
    for flows, kind in (({"late": None}, "blocked"), ({}, "whole")):
        folder = tmp_path / kind
        history = History(folder, policy=CopyPolicy(treated=frozenset({"name"}), makes=flows))
        facts = {"userMetadata": json.dumps({log.METADATA: {CommitInfo.streams.key: {"early": {}}}})}
        write_deltalake(history.source, ROWS, commit_properties=CommitProperties(custom_metadata=facts))
        assert history.now().kind == kind


def test_the_first_version_of_a_ledger_has_no_files_to_read(tmp_path: Path) -> None:
    history = History(tmp_path, policy=LedgerPolicy())
    history.add()
    assert (history.now().kind, history.now().until) == ("idle", 0)
    history.add()
    assert (history.run().kind, history.now().kind) == ("incremental", "idle")


def test_only_a_lookup_that_is_read_as_of_the_run_lets_rules_be_asked_again(tmp_path: Path) -> None:
    inputs = {name: str(tmp_path / name) for name in ("l", "m")}
    as_of_run: dict[str, Any] = {"followed": frozenset({"m"}), "as_of_run": frozenset({"l"}), "retries": True}
    history = made(tmp_path, inputs=inputs, policy=RecordPolicy(**as_of_run))
    history.add(inputs["m"])
    assert (history.now().retry, history.now().changed, history.now().why) == (False, {"m": 0}, "m changed")
    history.add(inputs["l"])
    assert (history.now().retry, history.now().changed, history.now().why) == (True, {"m": 0}, "l, m changed")


def test_what_came_after_the_mark_is_taken(tmp_path: Path) -> None:
    history = made(tmp_path)
    for _ in range(3):
        history.add()
    now = history.run()
    assert (now.kind, now.since, now.until, now.reprocesses) == ("incremental", 0, 3, False)
    assert history.now().kind == "idle"
    assert history.now().to_full_refresh().kind == "whole"


@pytest.mark.parametrize(
    ("fingerprints", "why"),
    [(Fingerprints("b"), "its definition changed"), (Fingerprints("a", key="b"), "the key of its pseudonyms changed"),
     (Fingerprints(""), ""), (Fingerprints("a"), "")],
)  # fmt: skip
def test_another_definition_or_key_makes_it_again(tmp_path: Path, fingerprints: Fingerprints, why: str) -> None:
    history = made(tmp_path, fingerprints=Fingerprints("a"))
    now = history.now(fingerprints=fingerprints)
    assert (now.kind, now.why) == ("whole" if why else "idle", why)


def test_rows_that_went_or_were_replaced(tmp_path: Path) -> None:
    """Who knows which records its rows were made of applies these again; any other is made again whole."""
    history = made(tmp_path)
    history.add()
    DeltaTable(history.source).delete("id = 1")
    why = "source was changed by DELETE in version 2"
    assert (history.now().kind, history.now().why) == ("whole", why)
    signed = history.now(policy=QueryPolicy(row_deltas=True))
    assert (signed.kind, signed.why) == ("incremental", "")
    known = history.now(policy=RecordPolicy())
    assert (known.kind, known.why, known.revised, known.reprocesses) == ("incremental", why, True, True)
    history.add(mode="overwrite")
    for policy in (Policy(), QueryPolicy(row_deltas=True), RecordPolicy()):
        assert history.now(policy=policy).kind == "whole"


def test_rows_that_were_replaced_by_a_condition_are_those_of_some_records(tmp_path: Path) -> None:
    history = made(tmp_path, policy=RecordPolicy())
    write_deltalake(history.source, pa.table({"id": [1]}), mode="overwrite", predicate="id = 1")
    now = history.now()
    assert (now.kind, now.why, now.revised) == ("incremental", "source was changed by WRITE in version 1", True)
    every = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite", "predicate": "true"}}
    (Path(history.source) / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"commitInfo": every}))
    assert (history.now().kind, history.now().why) == ("whole", "source was changed by WRITE in version 2")


def test_a_lookup_that_lost_rows_has_changed_and_one_that_was_compacted_has_not(tmp_path: Path) -> None:
    """A DELETE of all rows of a file only takes it away."""
    history = made(tmp_path, inputs={"l": str(tmp_path / "lookup")}, policy=RecordPolicy())
    history.add(history.lookup)
    history.run()
    DeltaTable(history.lookup).optimize.compact()
    DeltaTable(history.lookup).alter.set_table_properties({"team": "shop"}, raise_if_not_exists=False)
    assert (history.now().kind, history.now().why) == ("idle", "")
    DeltaTable(history.lookup).delete()
    assert (history.now().kind, history.now().why) == ("whole", "l changed")


def test_a_lookup_that_was_put_back_has_changed_in_a_way_that_nobody_knows(tmp_path: Path) -> None:
    policy = RecordPolicy(followed=frozenset({"l"}))
    history = made(tmp_path, inputs={"l": str(tmp_path / "lookup")}, policy=policy)
    history.add(history.lookup)
    assert (history.now().kind, history.now().changed) == ("incremental", {"l": 0})
    history.run()
    (Path(history.lookup) / "_delta_log" / f"{1:020}.json").unlink()
    assert (history.now().kind, history.now().why) == ("whole", "l changed")


def test_a_column_that_is_another_one_in_the_files_is_another_column(tmp_path: Path) -> None:
    """Where columns are mapped, one that was dropped and made again has its former name, and other values."""
    history = made(tmp_path, policy=QueryPolicy(row_deltas=True))
    log_of_source = Path(history.source) / "_delta_log"
    actions = [json.loads(line) for line in (log_of_source / f"{0:020}.json").read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    columns = json.loads(metadata["schemaString"])
    columns["fields"][0]["metadata"] = {"delta.columnMapping.physicalName": "col-1"}
    later = [{"commitInfo": {"operation": "ADD COLUMNS"}},
             {"metaData": metadata | {"schemaString": json.dumps(columns)}}]  # fmt: skip
    (log_of_source / f"{1:020}.json").write_text("\n".join(map(json.dumps, later)))
    assert (history.now().kind, history.now().why) == (
        "whole", "the columns of source were changed by ADD COLUMNS in version 1",
    )  # fmt: skip


@pytest.mark.parametrize("policy", [RecordPolicy(), QueryPolicy(row_deltas=True)], ids=["records", "row deltas"])
def test_over_a_renamed_column_no_change_feed_is_read(tmp_path: Path, policy: Policy) -> None:
    history = made(tmp_path, policy=policy)
    entries = Path(history.source) / "_delta_log"
    actions = [json.loads(line) for line in (entries / f"{0:020}.json").read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    renamed = metadata | {"schemaString": metadata["schemaString"].replace('"id"', '"key"')}
    commit = [{"commitInfo": {"operation": "CHANGE COLUMN"}}, {"metaData": renamed}]
    (entries / f"{1:020}.json").write_text("\n".join(map(json.dumps, commit)))
    assert (history.now().kind, history.now().why) == (
        "whole", "the columns of source were changed by CHANGE COLUMN in version 1",
    )  # fmt: skip


def test_rows_that_another_rule_refused_are_taken_back_where_nothing_else_is_to_be_done(tmp_path: Path) -> None:
    history = made(tmp_path)
    history.way = replace(history.way, layer="gold")
    history.run()
    assert history.now().kind == "idle"
    history.add(layout.rejected_table(history.target))
    assert (history.now().kind, history.now().why) == ("incremental", "its rejected rows are accepted now")
    assert history.now(fingerprints=Fingerprints(rules="other")).why == "its rules changed"
    history.add()
    assert (history.now().kind, history.now().why) == ("incremental", "")


def test_a_joined_table_with_other_columns(tmp_path: Path) -> None:
    """No change feed is read over other columns, be it that they are what they were by now; over new ones it is."""
    policy = QueryPolicy(row_deltas=True, followed=frozenset({"l"}))
    history = made(tmp_path, inputs={"l": str(tmp_path / "lookup")}, policy=policy)
    write_deltalake(history.lookup, pa.table({"id": [4], "new": [1]}), mode="append", schema_mode="merge")
    assert (history.now().kind, history.now().changed) == ("incremental", {"l": 0})
    history.run()
    write_deltalake(history.lookup, pa.table({"id": ["a"], "new": [1]}), mode="overwrite", schema_mode="overwrite")
    assert (history.now().kind, history.now().why) == ("whole", "l changed")
    write_deltalake(history.lookup, pa.table({"id": [4], "new": [1]}), mode="overwrite", schema_mode="overwrite")
    assert (history.now().kind, history.now().why) == ("whole", "l changed")
    history.run()
    write_deltalake(history.lookup, pa.table({"id": [5], "new": [1]}), mode="overwrite", schema_mode="overwrite")
    DeltaTable(history.lookup).delete()
    assert (history.now().kind, history.now().changed) == ("incremental", {"l": 3})
    DeltaTable(history.lookup).create_checkpoint()
    (Path(history.lookup) / "_delta_log" / f"{4:020}.json").unlink()
    assert (history.now().kind, history.now().why) == ("whole", "l changed")


def test_another_source_in_its_place(tmp_path: Path) -> None:
    history = made(tmp_path)
    Path(history.source).rename(tmp_path / "former")
    history.add()
    assert (history.now().kind, history.now().why) == ("whole", "source is not the table that it was filled from")
    with pytest.raises(SluicegateError, match="cannot continue"):
        history.now(policy=LedgerPolicy())


def test_a_source_that_is_older_than_what_was_taken(tmp_path: Path) -> None:
    history = made(tmp_path)
    history.add()
    history.run()
    (Path(history.source) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(SluicegateError, match="older than the version that was read last"):
        history.now()


def test_what_is_committed_while_tables_are_opened_is_the_next_run_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole run between the two openings: its offset must not come without the version that it names."""
    history = made(tmp_path)
    opened = list[str]()
    delta_table = tables.delta_table

    def between(uri: str, version: int | None = None) -> DeltaTable | None:
        opened.append(uri)
        if len(opened) == 2:
            with monkeypatch.context() as outside:
                outside.setattr(tables, "delta_table", delta_table)
                history.add()
                history.run()
        return delta_table(uri, version)

    monkeypatch.setattr(tables, "delta_table", between)
    now = history.now()
    assert {*opened[:2]} == {history.source, history.target}
    assert (now.kind, now.since, now.until) == ("incremental", 0, 1)
    monkeypatch.undo()
    assert history.now().kind == "idle"


def test_a_log_that_tells_nothing_and_a_restore(tmp_path: Path) -> None:
    history = made(tmp_path)
    history.add()
    history.run()
    DeltaTable(history.target).restore(0)
    assert (history.now().kind, history.now().why) == ("whole", "it was restored in version 2")
    bronze = history.now(policy=LedgerPolicy())
    assert (bronze.kind, bronze.since, bronze.until) == ("incremental", 0, 1)
    DeltaTable(history.target).create_checkpoint()
    for version in range(2):
        (Path(history.target) / "_delta_log" / f"{version:020}.json").unlink()
    assert history.now().kind == "whole"


@pytest.mark.parametrize("followed", [True, False])
def test_a_lookup_that_changed_is_followed_or_read_whole(tmp_path: Path, followed: bool) -> None:
    names = frozenset({"l"} if followed else ())
    lookups = {"l": str(tmp_path / "lookup")}
    history = made(tmp_path, inputs=lookups, policy=RecordPolicy(followed=names))
    history.add(history.lookup)
    now = history.now()
    assert (now.kind, now.why) == ("incremental" if followed else "whole", "l changed")
    assert dict(now.changed) == ({"l": 0} if followed else {})
    as_of_run = history.now(policy=RecordPolicy(as_of_run=frozenset({"l"})))
    assert as_of_run.kind == "idle"
    retried = history.now(policy=RecordPolicy(as_of_run=frozenset({"l"}), retries=True))
    assert (retried.kind, retried.retry, retried.reprocesses) == ("incremental", True, True)


def fence_off(*uris: str) -> None:
    """Commits what keeps out a server that may still write for a run whose client is gone."""
    for uri in uris:
        assert metadata_commit.put(DeltaTable(uri), fence.PROPERTY, uuid.uuid4().hex)


FOLLOWED = frozenset({"l"})


@pytest.mark.parametrize("policy", [RecordPolicy(followed=FOLLOWED), QueryPolicy(row_deltas=True, followed=FOLLOWED)])
def test_a_fence_is_no_version_to_be_read(tmp_path: Path, policy: Policy) -> None:
    history = made(tmp_path, inputs={"l": str(tmp_path / "lookup")}, policy=policy)
    for _ in range(2):
        fence_off(history.source, history.lookup)
        now = history.now()
        assert (now.kind, now.since, now.until, dict(now.changed), now.why) == ("idle", 0, 0, {}, "")
    retried = history.now(policy=RecordPolicy(as_of_run=frozenset({"l"}), retries=True))
    assert (retried.kind, retried.retry) == ("idle", False)
    history.add()
    now = history.now()
    assert (now.kind, now.until, dict(now.changed), now.versions) == ("incremental", 3, {}, {"l": 0})
    history.run()
    history.add(history.lookup)
    assert history.now().changed == {"l": 0}
    history.run()
    assert history.now().kind == "idle"


def test_after_FENCE_SECONDS_a_fence_is_a_version_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry may be cleaned away soon, and an offset before it could not be continued then."""
    history = made(tmp_path, inputs={"l": str(tmp_path / "lookup")}, policy=RecordPolicy(followed=frozenset({"l"})))
    fence_off(history.source, history.lookup)
    monkeypatch.setattr(source_changes, "FENCE_SECONDS", -1)
    assert (history.now().kind, history.now().until, history.now().why) == ("incremental", 1, "l changed")
    history.run()
    assert history.now().kind == "idle"


def test_properties_that_others_set_are_no_fence(tmp_path: Path) -> None:
    history = made(tmp_path, policy=RecordPolicy())
    DeltaTable(history.source).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    assert (history.now().kind, history.now().until) == ("incremental", 1)


def test_rows_that_were_to_leave_a_table_beside_are_looked_for_until_a_run_has_said_that_they_left(
    tmp_path: Path,
) -> None:
    beside = str(tmp_path / "target_quarantine")
    history = made(tmp_path, policy=RecordPolicy(), side_tables=(beside,))
    history.add(beside)  # rows of another program: no run has said anything
    history.run(op="x", leaves=["target_quarantine"])
    assert history.now().repair
    history.run(beside, op="x", step="leave", seen=0)  # it began before the commit of the table
    assert history.now().kind == "idle"


def test_a_run_that_was_stopped_in_the_middle_is_made_up_for(tmp_path: Path) -> None:
    beside = str(tmp_path / "target_quarantine")
    history = made(tmp_path, policy=RecordPolicy(), side_tables=(beside,))
    history.run(beside, op="x", step="enter", mode="incremental")
    stopped = history.now()
    assert (stopped.kind, stopped.repair) == ("incremental", True)
    history.run(op="x")
    assert history.now().kind == "idle"
    history.run(beside, op="y", step="enter", mode="whole")
    assert (history.now().kind, history.now().why) == ("whole", "a run was stopped during its full refresh")
    history.run(op="y", leaves=["target_quarantine"])
    assert history.now().repair  # what it was to take away beside is still there
    history.run(beside, op="y", step="leave", seen=1)  # it began before the commit of the table
    assert not history.now().repair


# --- a table that others wrote meanwhile -----------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_nothing_is_written_to_a_table_that_another_run_changed(tmp_path: Path, commits: int) -> None:
    history = made(tmp_path / "tables", policy=RecordPolicy())
    history.add()
    now, frame = history.now(), Delivery(None, history.way)  # type: ignore[arg-type]  # no row of it is looked at
    report = TableReport("target", "silver")
    batch = flow_batch.Batch(frame, 0, False, True, now, history.way, report, {})
    for _ in range(commits):
        history.add(history.target)
    if not commits:
        batch.demand_not_overtaken()
        return
    with pytest.raises(SluicegateError, match="changed by another run"):
        batch.demand_not_overtaken()
    DeltaTable(history.target).restore(0)
    with pytest.raises(SluicegateError, match="restored while"):
        batch.demand_not_overtaken()


def test_a_mark_is_read_in_the_epoch_of_its_rows(tmp_path: Path) -> None:
    history = made(tmp_path, policy=LedgerPolicy())
    history.add()
    history.run()
    DeltaTable(history.target).restore(0)
    before = history.now().app_id
    history.run()
    assert "#2" in before
    line = offsets.restore_history(DeltaTable(history.target))
    assert (history.now().kind, [restore.at for restore in line.restores]) == ("idle", [2])


@pytest.mark.parametrize(
    ("was", "many", "of_many", "why"),
    [
        (False, False, False, ""),
        (True, True, False, ""),
        (True, False, True, ""),
        (False, True, False, "a record may now give many rows"),
        (True, False, False, "a record now gives one row"),
        (False, False, True, "a record of source may now give many rows"),
    ],
)
def test_rows_that_are_known_by_another_identity_make_it_again(
    tmp_path: Path, was: bool, many: bool, of_many: bool, why: str
) -> None:
    """Without a word in a commit, as those of before have none, a record was one row."""
    history = History(tmp_path, policy=RecordPolicy())
    write_deltalake(history.source, ROWS.append_column("_record_row", ROWS["id"]) if of_many else ROWS)
    history.run(**({"numbered": True} if was else {}))
    now = history.now(policy=RecordPolicy(many=many))
    assert (now.kind, now.why, now.of_many) == ("whole" if why else "idle", why, of_many)
    assert history.now(policy=Policy()).kind == "idle"

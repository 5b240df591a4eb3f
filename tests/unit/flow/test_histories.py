"""A table that was put back and written on is not taken for the one that was read, whatever its version. No Spark."""

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
from sluicegate.flow import histories
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.policies import ForeignTablePolicy, LedgerPolicy, Policy, QueryPolicy, RecordPolicy
from sluicegate.flow.progress import progress
from sluicegate.flow.several import several_progress
from sluicegate.lake import log, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.table import Tables, TablesOfPoll

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})
NOT_READ = "is not the commit that was read"


class Lake:
    """A source, a lookup and a target, of which each batch commits what the engine's own commits have."""

    def __init__(self, folder: Path, **about: Any) -> None:
        self.source, self.lookup, self.target = (str(folder / name) for name in ("source", "lookup", "target"))
        about = {"layer": "silver", "inputs": {"l": self.lookup}, **about}
        self.flow = Flow(table="target", source=self.source, target=self.target, **about)
        self.add(*[] if Path(self.source).exists() else [self.source] * 2, self.lookup)
        self.run()
        assert self.now().kind == "idle"

    def add(self, *uris: str) -> None:
        for uri in uris:
            write_deltalake(uri, ROWS, mode="append")

    def now(self, opened: Tables | None = None, **about: Any) -> Progress:
        return progress(replace(self.flow, **about), opened)

    def run(self, beside: str = "", *, identities: bool = True, **facts: Any) -> None:
        """Commits to the target, or to a table beside it."""
        now, opened = self.now(), Tables()
        source = opened[self.source].delta
        assert source is not None
        ours = {"until": now.until, "inputs": dict(now.stamps), "seen": now.seen, "source_id": tables.table_id(source),
                "source": tables.table_id(source), **facts}  # fmt: skip
        ours |= {CommitInfo.streams.key: several_progress.facts(now.streams), "by_flow": True} if now.streams else {}
        ours |= {CommitInfo.commits.key: histories.facts(self.flow, now, opened)} if identities else {}
        done = [Transaction(now.app_id, now.until)] if now.until > now.since else []
        said = {"userMetadata": json.dumps({log.METADATA: ours})}
        properties = CommitProperties(custom_metadata=said, app_transactions=done)
        write_deltalake(beside or self.target, ROWS, mode="append", commit_properties=properties)


def put_back(uri: str, version: int) -> None:
    """Takes the commits after a version out of a log, as a copy of an earlier time in its place has none of them."""
    for entry in (Path(uri) / "_delta_log").glob("*.json"):
        if int(entry.stem) > version:
            entry.unlink()


@pytest.mark.parametrize("commits", [1, 2])
@pytest.mark.parametrize("about", [{}, {"policy": RecordPolicy()}, {"layer": "bronze", "policy": LedgerPolicy()}])
def test_a_source_that_was_put_back_and_written_on(tmp_path: Path, about: dict[str, Any], commits: int) -> None:
    """With as many commits as it had, and with more. The table may have rows that nothing else has any more."""
    lake = Lake(tmp_path, **about)
    put_back(lake.source, 0)
    lake.add(*[lake.source] * commits)
    with pytest.raises(SluicegateError, match=f"version 1 of source {NOT_READ}") as raised:
        lake.now()
    assert f"move {lake.target} away and keep them" in raised.value.hint


@pytest.mark.parametrize("commits", [1, 2])
@pytest.mark.parametrize(
    "about",
    [
        {"layer": "gold"},
        {"layer": "gold", "policy": QueryPolicy(row_deltas=True)},
        {"layer": "bronze", "policy": ForeignTablePolicy()},
    ],
)
def test_what_is_a_function_of_its_source_is_made_again(tmp_path: Path, about: dict[str, Any], commits: int) -> None:
    lake = Lake(tmp_path, **about)
    put_back(lake.source, 0)
    lake.add(*[lake.source] * commits)
    now = lake.now()
    why = "source was put back and then written: its version 1 is not the commit that was read"
    assert (now.kind, now.why, now.since, now.until) == ("whole", why, 1, commits)
    lake.run()
    assert lake.now().kind == "idle"


def test_a_source_that_was_put_back_no_further_than_it_was_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(lake.source)
    put_back(lake.source, 1)
    lake.add(lake.source, lake.source)
    now = lake.now()
    assert (now.kind, now.since, now.until) == ("incremental", 1, 3)


def test_offsets_without_identities_and_a_log_that_was_cleaned_are_taken_as_they_are(tmp_path: Path) -> None:
    """As a version before wrote them; the next commit has identities."""
    lake = Lake(tmp_path, policy=RecordPolicy())
    lake.add(lake.source)
    lake.run(identities=False)
    put_back(lake.source, 1)
    lake.add(lake.source)
    assert lake.now().kind == "idle"
    lake.run()
    put_back(lake.source, 1)
    lake.add(lake.source)
    with pytest.raises(SluicegateError, match=NOT_READ):
        lake.now()
    DeltaTable(lake.source).create_checkpoint()
    (Path(lake.source) / "_delta_log" / f"{2:020}.json").unlink()
    assert lake.now().kind == "idle"


@pytest.mark.parametrize("commits", [1, 2])
def test_a_lookup_that_was_put_back_and_written_on(tmp_path: Path, commits: int) -> None:
    """It changed in a way that nobody can follow, whatever its version."""
    lake = Lake(tmp_path, policy=RecordPolicy(followed=frozenset({"l"})))
    lake.add(lake.lookup)
    lake.run()
    put_back(lake.lookup, 0)
    lake.add(*[lake.lookup] * commits)
    assert (lake.now().kind, lake.now().why) == ("whole", "l changed")
    as_of_run = RecordPolicy(as_of_run=frozenset({"l"}))
    assert lake.now(policy=as_of_run).kind == "idle"
    assert lake.now(policy=replace(as_of_run, retries=True)).retry
    recomputed = lake.now(policy=Policy(followed=frozenset({"l"})))
    assert (recomputed.kind, recomputed.why) == ("whole", "l changed")


def test_a_source_of_several_flows(tmp_path: Path) -> None:
    a, b = str(tmp_path / "source"), str(tmp_path / "b")
    write_deltalake(b, ROWS)
    lake = Lake(tmp_path, policy=RecordPolicy(), inputs={}, streams={"a": a, "b": b})
    lake.add(b)
    lake.run()
    put_back(b, 0)
    lake.add(b)
    with pytest.raises(SluicegateError, match=f"version 1 of b {NOT_READ}"):
        lake.now()


def test_what_a_stopped_run_has_read_for_the_tables_beside_counts(tmp_path: Path) -> None:
    """Its rows are there under the identities of records that have others now."""
    beside = str(tmp_path / "target_quarantine")
    lake = Lake(tmp_path, policy=RecordPolicy(), side_tables=(beside,))
    lake.add(lake.source)
    lake.run(beside, step="enter")
    assert lake.now().repair
    put_back(lake.source, 1)
    lake.add(lake.source)
    with pytest.raises(SluicegateError, match=f"version 2 of source {NOT_READ}"):
        lake.now()


def test_a_commit_that_was_repeated_is_the_one_that_was_read(tmp_path: Path) -> None:
    """The source is a table of ours, which was put back alone, or lost its newest commit when the power was cut."""
    ledger, bronze = str(tmp_path / "ledger"), str(tmp_path / "source")
    write_deltalake(ledger, ROWS)

    def read(until: int) -> None:
        source, now = Flow("bronze", "source", ledger, bronze), Progress("incremental", until=until)
        ours = {"layer": "bronze", "until": until, "run_id": uuid.uuid4().hex}
        said = json.dumps({log.METADATA: {**ours, CommitInfo.commits.key: histories.facts(source, now, Tables())}})
        properties = CommitProperties(custom_metadata={"userMetadata": said})
        write_deltalake(bronze, ROWS, mode="append", commit_properties=properties)

    write_deltalake(ledger, ROWS, mode="append")
    read(0)
    read(1)
    lake = Lake(tmp_path, policy=RecordPolicy())
    put_back(bronze, 0)
    read(1)
    assert lake.now().kind == "idle"
    put_back(bronze, 0)
    put_back(ledger, 0)
    write_deltalake(ledger, ROWS, mode="append")
    read(1)
    with pytest.raises(SluicegateError, match=f"version 1 of source {NOT_READ}"):
        lake.now()


def test_a_poll_asks_a_disk_and_no_object_store(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert TablesOfPoll()["s3://no.such.bucket/of/anybody"].commit_identity(1) is None
    put_back(lake.source, 0)
    lake.add(lake.source)
    with pytest.raises(SluicegateError, match=NOT_READ):
        lake.now(TablesOfPoll())

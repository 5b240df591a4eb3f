"""Marks and restores, without Spark: random histories of a real Delta table, written by delta-rs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.lake import log, offsets, tables

pytestmark = pytest.mark.unit

APP = "sluicegate.bronze.things@id"


class History:
    """A table of chunks, with what each of its versions holds."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "things")
        self.chunks = 0  # chunks in the ledger
        self.held: list[list[int]] = []  # chunks in the rows, for each version

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.uri)

    def state(self) -> tuple[offsets.RestoreHistory, offsets.CommittedOffset]:
        if not self.held:
            return offsets.RestoreHistory((), None, False), offsets.CommittedOffset(APP, None)
        line = offsets.restore_history(self.table)
        return line, offsets.committed_offset(self.table, APP, line)

    def commit(self, chunk: int, line: offsets.RestoreHistory, app: str, seen: int, rows: bool = True) -> None:
        ours = {"chunk": chunk, "seen": seen, "restores": line.facts()}
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps({log.METADATA: ours})},
            app_transactions=[Transaction(app, chunk)],
        )
        held = self.held[-1] if self.held else []
        data = pa.table({"_chunk": pa.array([chunk] if rows else [], pa.int64())})
        if chunk in held:
            write_deltalake(
                self.uri, data, mode="overwrite", predicate=f"_chunk = {chunk}", commit_properties=properties
            )
            held = [one for one in held if one != chunk]
        else:
            write_deltalake(self.uri, data, mode="append", commit_properties=properties)
        self.held.append([*held, chunk] if rows else held)

    def run(self, upto: int | None = None) -> None:
        line, reached = self.state()
        for chunk in range((reached.offset or 0) + 1, self.chunks + 1 if upto is None else upto + 1):
            self.commit(chunk, line, reached.app_id, len(self.held) - 1)

    def restore(self, version: int) -> None:
        self.table.restore(version)
        self.held.append(self.held[version])

    def forget(self, before: int) -> None:
        self.table.create_checkpoint()
        for version in range(before):
            (Path(self.uri) / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


@pytest.mark.parametrize("seed", range(8))
def test_every_history_ends_whole(tmp_path: Path, seed: int) -> None:
    """After any restores, kills and races the mark speaks of the rows, and no chunk is missing or there twice."""
    luck, history = random.Random(seed), History(tmp_path)
    history.chunks = 2
    history.run()
    for _ in range(20):
        match luck.choice(["land", "run", "part", "restore", "restore", "foreign", "race"]):
            case "land":
                history.chunks += luck.randint(1, 3)
            case "run":
                history.run()
                assert sorted(history.held[-1]) == list(range(1, history.chunks + 1))
            case "part":  # killed in between
                history.run(luck.randint(0, history.chunks))
            case "restore" if len(history.held) > 1:
                history.restore(luck.randrange(len(history.held) - 1))
            case "foreign":
                history.table.alter.set_table_properties({"steward": str(luck.random())}, raise_if_not_exists=False)
                history.held.append(history.held[-1])
            case "race" if len(history.held) > 1:  # a RESTORE between a run's look at the table and its commit
                line, reached = history.state()
                if (reached.offset or 0) < history.chunks:
                    seen = len(history.held) - 1
                    history.restore(luck.randrange(seen) if seen else 0)
                    history.commit((reached.offset or 0) + 1, line, reached.app_id, seen)
        line, reached = history.state()
        stands = [v for v in range(len(history.held)) if line.keeps_commit(v)]
        told = {c.version: (c.ours or {}).get("chunk") for c in log.commits(history.table)}
        by_commits = {told[v] for v in stands if told.get(v) is not None}
        assert by_commits == set(history.held[-1])
        assert reached.offset is None or set(range(1, reached.offset + 1)) <= set(history.held[-1])
    history.run()
    assert sorted(history.held[-1]) == list(range(1, history.chunks + 1))
    rows = tables.dataset(history.table).to_table(["_chunk"])["_chunk"].to_pylist()
    assert sorted(rows) == list(range(1, history.chunks + 1))


def test_a_log_that_tells_of_no_commit_of_ours(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.chunks = 4
    history.run()
    history.restore(1)
    history.run()
    for number in range(2):
        history.table.alter.set_table_properties({"steward": str(number)}, raise_if_not_exists=False)
        history.held.append(history.held[-1])
    history.forget(len(history.held) - 1)
    line, reached = history.state()
    assert (line.ours, reached.offset) == (None, 4)
    history.chunks = 6
    history.run()
    assert sorted(tables.dataset(history.table).to_table()["_chunk"].to_pylist()) == [1, 2, 3, 4, 5, 6]
    assert history.state()[1].offset == 6


def test_a_restored_version_that_is_gone(tmp_path: Path) -> None:
    """Its mark cannot be read any more; the rows tell how far it was."""
    history = History(tmp_path)
    history.chunks = 4
    history.run()
    history.restore(1)
    history.forget(4)
    assert history.state()[1].offset == 2
    history.run()
    assert sorted(tables.dataset(history.table).to_table()["_chunk"].to_pylist()) == [1, 2, 3, 4]


def test_a_restore_of_which_the_log_tells_nothing_any_more_is_made_up_for(tmp_path: Path) -> None:
    """The mark outlived the rows: a new epoch begins, in which only what the rows say counts."""
    history = History(tmp_path)
    history.chunks = 4
    history.run()
    history.restore(1)
    for number in range(2):
        history.table.alter.set_table_properties({"steward": str(number)}, raise_if_not_exists=False)
        history.held.append(history.held[-1])
    history.forget(len(history.held) - 1)
    line, reached = history.state()
    assert [restore.to for restore in line.restores] == [None]
    assert (line.ours, line.news, reached.offset) == (None, True, 2)
    assert reached.app_id != APP
    history.run()
    assert sorted(tables.dataset(history.table).to_table()["_chunk"].to_pylist()) == [1, 2, 3, 4]
    assert history.state()[1].offset == 4

"""What commits beside those of batches say of themselves, to the byte: other versions read it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.lake import discards, layout
from sluicegate.lake.commits import compaction
from sluicegate.landing import idempotent_commands
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.moves import archive
from sluicegate.storage.listings import FILES

pytestmark = pytest.mark.unit

FOLDERS = ("/l/new", "/l/old")
NOW = datetime(2026, 3, 2, tzinfo=UTC)


def metadata(uri: str) -> str | None:
    """Metadata of the newest commit of a table."""
    newest = max(Path(uri, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]
    text: str | None = next(action["commitInfo"] for action in actions if "commitInfo" in action).get("userMetadata")
    return text


def entries(action: Any) -> pa.Table:
    return landing_ledger.add_action(
        action, pa.Table.from_pylist([{"path": "/l/a", "size": 1, "modification_time": 0}], FILES)
    )


@pytest.fixture
def lake(tmp_path: Path) -> layout.Lake:
    """A lake with a ledger, which has no facts but its folders."""
    lake = layout.Lake(str(tmp_path), "p")
    landing_ledger.create(lake.ledger("t"), landing_ledger.stamp_rows(entries("read"), 0), {"folders": FOLDERS})
    return lake


def test_commits_of_a_ledger(lake: layout.Lake) -> None:
    ledger = lake.ledger("t")
    assert metadata(ledger) == '{"sluicegate": {"folders": ["/l/new", "/l/old"]}}'
    command = idempotent_commands.Command("6d1f", (1, 2))
    options = {"options": {"sep": ";"}, "columns": ["a"]}
    landing_ledger._append(DeltaTable(ledger), entries("replace"), options, command, FOLDERS)
    assert metadata(ledger) == (
        '{"sluicegate": {"copy": {"options": {"sep": ";"}, "columns": ["a"]}, '
        '"command": {"name": "6d1f", "chunks": [1, 2]}, "folders": ["/l/new", "/l/old"]}}'
    )
    landing_ledger._append(DeltaTable(ledger), entries("read"), {}, None)
    assert metadata(ledger) is None


def test_a_commit_that_compacts_a_ledger(lake: layout.Lake) -> None:
    for _ in range(compaction.tables.MANY_FILES):
        landing_ledger._append(DeltaTable(lake.ledger("t")), entries("read"), {}, None, FOLDERS)
    assert compaction.compact_newest(DeltaTable(lake.ledger("t")), "chunk", facts={"folders": FOLDERS})
    assert metadata(lake.ledger("t")) == '{"sluicegate": {"folders": ["/l/new", "/l/old"]}}'


def test_a_commit_that_announces_removals(lake: layout.Lake) -> None:
    removal = {"path": "/l/a", "size": 1, "modification_time": NOW, "mode": "MOVE", "place": "/x/a"}
    archive.announce(lake, "t", [removal])
    assert metadata(lake.archive("t")) == (
        '{"sluicegate": {"removals": [{"path": "/l/a", "size": 1, "modification_time": 1772409600000000, '
        '"mode": "MOVE", "place": "/x/a"}]}}'
    )


def test_a_commit_that_discards_records(tmp_path: Path) -> None:
    row = {"_chunk": 1, "_pos": 2, "_failed_expectations": ["r"], "source_file": "a.json", "_quarantined_at": NOW}
    write_deltalake(tmp_path / "t_quarantine", pa.Table.from_pylist([row]))
    quarantined = discards.quarantined_rows(DeltaTable(tmp_path / "t_quarantine"))
    assert discards.add(str(tmp_path / "t_discarded"), quarantined, "one", "Ada", "a test") == 1
    assert metadata(str(tmp_path / "t_discarded")) == (
        '{"sluicegate": {"step": "discard", "rows": 1, "discard": "one", "by": "Ada"}}'
    )

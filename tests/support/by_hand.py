"""Tables as runs of ours leave them, written by delta-rs: rows, marks and facts, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.lake import log
from tests.conftest import Workspace


def records(workspace: Workspace, table: str, positions: list[int], /, chunk: int = 1, **ours: Any) -> None:
    """Commits records of a chunk, with facts of a run of ours, and without a mark."""
    _write(workspace.uri(table), positions, chunk, ours, [])


def taken_in(workspace: Workspace, table: str, positions: list[int], chunk: int = 1, **ours: Any) -> None:
    """Commits records as a run that takes in all there is: with the mark, and the versions of what it read."""
    layer = workspace.definition.table(table)[0]
    flow = flows.flows(workspace.definition, workspace.lake, layer)[table]
    now = progress(flow)
    facts = {"layer": layer, "table": table, "until": now.until, "inputs": dict(now.stamps),
             "fingerprint": flow.fingerprint, "seen": now.seen}  # fmt: skip
    _write(workspace.uri(table), positions, chunk, {**facts, **ours}, [Transaction(now.app_id, now.until)])


def _write(uri: str, positions: list[int], chunk: int, ours: dict[str, Any], marks: list[Transaction]) -> None:
    rows = {"_chunk": pa.array([chunk] * len(positions), pa.int64()), "_pos": pa.array(positions, pa.int64())}
    said = {"userMetadata": json.dumps({log.METADATA: ours})}
    properties = CommitProperties(custom_metadata=said, app_transactions=marks)
    write_deltalake(uri, pa.table(rows), mode="append", commit_properties=properties)

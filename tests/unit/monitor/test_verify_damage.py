"""What a verification says of damaged files, and of a source that has lost what was read of it. No JVM."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.lake import log, offsets
from sluicegate.lake.damage import damages
from sluicegate.monitor import verify, verify_damage
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DEFINITION = """
name: power
bronze:
  b: {path: "${landing}/x", format: json}
silver:
  s: {sql: SELECT id FROM STREAM(b)}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Workspace:
    """A pipeline whose silver table has read version 1 of bronze."""
    made = Workspace(tmp_path, "power")
    made.define(DEFINITION)
    rows = pa.table({"_chunk": pa.array([1], pa.int64()), "_pos": pa.array([0], pa.int64()), "id": [7]})
    for _ in range(2):
        write_deltalake(made.uri("b"), rows, mode="append")
    bronze = DeltaTable(made.uri("b"))
    said = {"userMetadata": json.dumps({log.METADATA: {"until": 1}})}
    transactions = [Transaction(offsets.app_id("silver", "s", bronze), 1)]
    properties = CommitProperties(custom_metadata=said, app_transactions=transactions)
    write_deltalake(made.uri("s"), rows, commit_properties=properties)
    return made


def test_damaged_files_are_findings_with_table_and_path(pipeline: Workspace) -> None:
    assert verify_damage.findings(pipeline.definition, pipeline.settings) == []
    entry = damages.entry_of(Path(pipeline.uri("s")), 0)
    os.truncate(entry, 0)
    older = next(Path(pipeline.uri("b")).glob("*.parquet"))
    [version] = [n for n in (0, 1) for one in log.actions(pipeline.uri("b"), n) if older.name in json.dumps(one)]
    os.truncate(older, older.stat().st_size // 2)
    found = verify_damage.findings(pipeline.definition, pipeline.settings)
    assert [(one.kind, one.table) for one in found] == [("wrong", "b"), ("wrong", "s"), ("unproved", "power")]
    assert str(older) in found[0].what
    assert str(entry) in found[1].what
    # A run repeats a newest commit, and no other.
    assert [one.mend for one in found[:2]] == ["sluicegate run power" if version else "", "sluicegate run power"]


def test_a_source_without_the_version_that_was_read_is_a_finding(pipeline: Workspace) -> None:
    """It was put back, or has lost its newest commits. The verification ended in a trace."""
    damages.entry_of(Path(pipeline.uri("b")), 1).unlink()
    [found] = verify.findings(pipeline.definition, pipeline.settings)
    assert (found.kind, found.table) == ("wrong", "s")


@pytest.mark.parametrize(("table", "name"), [("b", "b"), ("s", "s"), ("s_quarantine", "s")])
def test_a_table_with_deletion_vectors_is_named(pipeline: Workspace, table: str, name: str) -> None:
    """Another program has switched them on. The verification ended in an error of delta-rs, which named no table."""
    if table == "s_quarantine":
        write_deltalake(pipeline.uri(table), DeltaTable(pipeline.uri("s")).to_pyarrow_table())
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    version = DeltaTable(pipeline.uri(table)).version() + 1
    damages.entry_of(Path(pipeline.uri(table)), version).write_text(json.dumps({"protocol": protocol | features}))
    found = verify_damage.findings(pipeline.definition, pipeline.settings)
    assert [(finding.kind, finding.table) for finding in found] == [("wrong", name), ("unproved", "power")]
    assert "deletionVectors" in found[0].what

"""Which commits let a batch trust that all rows of a table were held to its rules. No Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from sluicegate.frames.rules.table_rules import last_checked_facts
from sluicegate.lake import log

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})


def committed(uri: str, **facts: Any) -> None:
    said = {"userMetadata": json.dumps({log.METADATA: facts})}
    write_deltalake(uri, ROWS, mode="append", commit_properties=CommitProperties(custom_metadata=said))


def test_commits_of_comments_and_maintenance_change_no_row(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    committed(uri, rules="f", table_rules={"one": 0})
    DeltaTable(uri).alter.set_table_properties({"team": "shop"}, raise_if_not_exists=False)
    DeltaTable(uri).optimize.compact()
    held = last_checked_facts(uri, "f")
    assert held is not None
    assert held["table_rules"] == {"one": 0}
    assert last_checked_facts(uri, "of other rules") is None


def test_rows_of_others_and_commits_without_rules_are_no_reason_to_trust(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    assert last_checked_facts(uri, "f") is None
    committed(uri, rules="f", table_rules={"one": 0})
    write_deltalake(uri, ROWS, mode="append")
    assert last_checked_facts(uri, "f") is None
    committed(uri, rules="f", until=3)
    assert last_checked_facts(uri, "f") is None

"""Records that bronze could not parse, in silver tables whose columns come as they are: no query sees their text."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sluicegate.flow.selection import Replay
from sluicegate.jobs.layer_job import Job
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.more]

DEFINITION = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: csv, options: {header: true}, schema: "id BIGINT, n BIGINT, op STRING"}
silver:
  latest:
    from: raw
    apply_changes: {keys: [id], sequence_by: n, apply_as_deletes: op IS NULL}
  history:
    from: raw
    apply_changes: {keys: [id], sequence_by: n, apply_as_deletes: op IS NULL, stored_as_scd_type: 2}
  united:
    flows:
      first: {from: raw}
      second: {sql: "SELECT id, n, op FROM STREAM(raw) WHERE _corrupt_record IS NULL"}
"""
GOOD = (1, 1, "new")


def test_a_corrupt_record_is_in_quarantine_and_deletes_nothing(spark: SparkSession, workspace: Workspace) -> None:
    """A line that is too short: what it has is a key and a sequence, and no operation."""
    workspace.define(DEFINITION)
    workspace.land("raw/a.csv", "id,n,op\n1,1,new\n2,1,new\n", age=90)
    workspace.run(spark, "bronze", "silver")
    workspace.land("raw/b.csv", "id,n,op\n1,2\n2,2,\n", age=80)
    reports = workspace.run(spark, "bronze", "silver")
    assert reports["latest"].expectations["record is parsed"]["failed"] == 1
    for table, rows in (("latest", [GOOD]), ("united", 2 * [GOOD, (2, 1, "new"), (2, 2, None)])):
        assert Counter(workspace.rows(table, "id", "n", "op")) == Counter(rows)
        [(broken, text)] = workspace.rows(f"{table}_quarantine", "_failed_expectations", "_record")
        assert broken[0] == "record is parsed"
        assert json.loads(text)["_corrupt_record"] == "1,2"
    assert sorted(workspace.rows("history", "id", "__END_AT")) == [(1, None), (2, 2)]
    again = Job(workspace.definition, workspace.lake, "silver", {}, spark, choice=Replay("latest", (), True)).run()
    assert [one.unchanged for one in again.tables if one.table == "latest"] == [True]

"""What files say of themselves holds for what is read of them, and what is too large for memory is not read."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.bronze import file_headers
from sluicegate.lake import log, tables
from sluicegate.monitor import status
from sluicegate.spark import executors
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def define(workspace: Workspace, table: str) -> None:
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', {table}}}\n")


def names(failed: dict[str, str]) -> dict[str, str]:
    return {path.rsplit("/", 1)[-1]: why for path, why in failed.items()}


def rows_of(number: int) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({"id": pa.array(range(number), pa.int64())}), file)
    return file.getvalue()


def test_a_bomb_fails_alone_and_is_read_when_the_definition_allows_it(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(workspace, "format: json, options: {multiLine: true}, maxRecordBytes: 1m")
    large = json.dumps([{"a": "x" * (3 << 20)}]).encode()
    workspace.land("things/bomb.json.gz", gzip.compress(large), age=90)
    workspace.land("things/plain.json", large, age=80)
    workspace.land("things/fine.json.gz", gzip.compress(json.dumps([{"a": "y" * 999_000}]).encode()), age=70)
    report = workspace.run(spark, "bronze")["things"]
    assert sorted(names(report.failed)) == ["bomb.json.gz", "plain.json"]
    assert all("maxRecordBytes" in why for why in report.failed.values())
    assert [len(a) for (a,) in workspace.rows("things", "a")] == [999_000]
    workspace.edit("pipeline.yaml", "1m", "8m")
    assert workspace.run(spark, "bronze")["things"].failed == {}
    assert sorted(len(a) for (a,) in workspace.rows("things", "a")) == [999_000, 3 << 20, 3 << 20]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_what_footers_say_is_in_the_commit(spark: SparkSession, workspace: Workspace) -> None:
    """More files than are looked at from here: executors tell."""
    define(workspace, "format: parquet")
    for number in range(executors.FEW + 1):
        workspace.land(f"things/{number}.parquet", rows_of(number % 3))
    assert workspace.run(spark, "bronze")["things"].read == sum(n % 3 for n in range(executors.FEW + 1))
    [commit] = [c for c in log.commits(tables.table_at(workspace.uri("things"))) if c.ours and "manifest" in c.ours]
    said = {path.rsplit("/", 1)[-1]: records for path, records in (commit.ours or {})["manifest"].items()}
    assert said == {f"{number}.parquet": number % 3 for number in range(executors.FEW + 1)}


def test_a_file_that_gave_other_records_than_it_says_is_not_in_the_table(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is exchanged between the look at its footer and the reading; the second time it is another file."""
    define(workspace, "format: parquet")
    workspace.land("things/a.parquet", rows_of(3), age=90)
    workspace.land("things/b.parquet", rows_of(2), age=80)
    workspace.land("things/c.parquet", rows_of(1), age=70)
    true, looks = file_headers.footer, Counter[str]()

    def exchanged(path: str, form: str) -> dict[str, Any]:
        told = true(path, form)
        looks[path] += 1
        wrong = path.endswith("b.parquet") or (path.endswith("c.parquet") and looks[path] > 1)
        return {**told, "records": 5} if wrong else told

    monkeypatch.setattr(file_headers, "footer", exchanged)
    report = workspace.run(spark, "bronze")["things"]
    assert names(report.failed) == {
        "b.parquet": "it declares 5 records, but 2 were read: the next run retries it",
        "c.parquet": "it declares 5 records, but 1 were read: the next run retries it",
    }
    assert sorted(workspace.rows("things", "id")) == [(0,), (1,), (2,)]
    assert status.verify(workspace.definition, workspace.settings) == []
    monkeypatch.undo()
    assert workspace.run(spark, "bronze")["things"].failed == {}
    assert sorted(workspace.rows("things", "id")) == [(0,), (0,), (0,), (1,), (1,), (2,)]
    assert status.verify(workspace.definition, workspace.settings) == []

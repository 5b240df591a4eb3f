"""A verification since the last one compares what changes may be about, and says what it has not looked at."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from sluicegate.lake.commits import commit_identity
from tests.conftest import Workspace
from tests.support.since_last import kinds, since_last

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

KEYED = """
name: heart_rate
bronze:
  readings: {path: "${landing}/readings", format: json, schemaHints: "id BIGINT, p BIGINT, n BIGINT"}
  people_landed: {path: "${landing}/people", format: json, schemaHints: "p BIGINT, name STRING, s BIGINT"}
silver:
  people:
    from: people_landed
    apply_changes: {keys: [p], sequence_by: s, stored_as_scd_type: 1}
  keyed:
    sql: "SELECT r.id, r.p, r.n, people.name FROM STREAM(readings) AS r LEFT JOIN people USING (p)"
    keys: [id]
    expectations: {known: {expect_or_quarantine: name IS NOT NULL, retry: true}}
gold:
  per_person: {sql: "SELECT p, name, SUM(n) AS n, COUNT(*) AS readings FROM keyed GROUP BY p, name"}
  joined:
    sql: >-
      SELECT k.p, people.name, AVG(k.n) AS n FROM keyed AS k JOIN people ON k.p = people.p GROUP BY k.p, people.name
  latest: {sql: "SELECT p, id, n, ROW_NUMBER() OVER (PARTITION BY p ORDER BY id DESC) AS place FROM keyed"}
"""
BEFORE, PROVED, WRONG = ("unseen", "proved-before"), ("proved", ""), ("wrong", "")
GOLD = ("per_person", "joined", "latest")


@pytest.fixture
def proved(spark: SparkSession, workspace: Workspace) -> Workspace:
    """A lake of which all is proved: 60 readings of 12 people, of whom the last is not known yet."""
    workspace.define(KEYED)
    workspace.land("people/1.json", [{"p": p, "name": f"n{p}", "s": 1} for p in range(11)])
    workspace.land("readings/1.json", [{"id": number, "p": number % 12, "n": number} for number in range(60)])
    workspace.run(spark)
    findings = kinds(since_last(spark, workspace))
    assert findings == {table: [PROVED] for table in ("people", "keyed", *GOLD)}
    return workspace


def in_place(uri: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes the first data file of a table behind its log."""
    path = Path(sorted(DeltaTable(uri).file_uris())[0])
    parquet.write_table(change(parquet.read_table(path)), path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    changed_at = path.stat().st_mtime + 5
    os.utime(path, (changed_at, changed_at))


def exchange_files(uri: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Puts one file in the place of a table's files, by a commit that says that no data changed."""
    table = DeltaTable(uri)
    rows = change(table.to_pyarrow_table())
    compacted = Path(uri) / f"compacted-{table.version()}.parquet"
    parquet.write_table(rows, compacted)
    former = [{"path": Path(path).name, "deletionTimestamp": 1, "dataChange": False} for path in table.file_uris()]
    added = {"path": compacted.name, "partitionValues": {}, "size": compacted.stat().st_size, "modificationTime": 1,
             "dataChange": False, "stats": json.dumps({"numRecords": rows.num_rows})}  # fmt: skip
    actions = [*({"remove": file} for file in former), {"add": added}]
    entry = Path(uri) / "_delta_log" / f"{table.version() + 1:020}.json"
    entry.write_text("\n".join(map(json.dumps, actions)))


def remake_last_commit(uri: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Makes the newest commit of a table again, which adds other rows; of all else that is in it nothing changes."""
    entry = Path(uri) / "_delta_log" / f"{DeltaTable(uri).version():020}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for file in (action["add"] for action in actions if "add" in action):
        path = Path(uri) / file["path"]
        again = path.with_name(f"again-{path.name}")
        parquet.write_table(change(parquet.read_table(path)), again)
        file |= {"path": again.name, "size": again.stat().st_size}
    entry.write_text("\n".join(map(json.dumps, actions)))
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def without_person(rows: pa.Table) -> pa.Table:
    """Rows but those of one person."""
    return rows.filter(pc.not_equal(rows["p"], 7))


def with_n(rows: pa.Table) -> pa.Table:
    """Rows of which the first has another n."""
    values = rows["n"].to_pylist()
    field = rows.schema.field("n")
    return rows.set_column(rows.column_names.index("n"), field, pa.array([1_000, *values[1:]], field.type))


def test_records_that_share_a_key_with_new_ones_are_compared_with_them(spark: SparkSession, proved: Workspace) -> None:
    proved.land("readings/2.json", [{"id": 100, "p": 1, "n": 1}, {"id": 5, "p": 5, "n": 9}])
    proved.run(spark)
    findings = since_last(spark, proved)
    assert kinds(findings)["people"] == [BEFORE]
    assert kinds(findings)["keyed"] == [BEFORE, PROVED]
    assert findings["keyed"][0][2].startswith("the rows of 59 of 62 records, proved at version ")
    assert "those that share a key with them" in findings["keyed"][1][2]
    # The record that has the key is lost, and the one that lost against it is still set aside.
    DeltaTable(proved.uri("readings")).delete("id = 5 AND n = 5")
    DeltaTable(proved.uri("keyed")).delete("id = 5")
    findings = since_last(spark, proved)
    assert kinds(findings)["keyed"][-1] == WRONG


def test_a_damage_of_silver_is_found_by_its_commit_and_by_its_file(spark: SparkSession, proved: Workspace) -> None:
    proved.land("readings/2.json", [{"id": 100, "p": 1, "n": 1}])
    proved.run(spark)
    DeltaTable(proved.uri("keyed")).update({"n": "77"}, predicate="id = 9")
    findings = since_last(spark, proved)
    assert kinds(findings)["keyed"] == [BEFORE, WRONG]
    assert "1 has other values" in findings["keyed"][1][2]
    DeltaTable(proved.uri("keyed")).update({"n": "9"}, predicate="id = 9")
    assert kinds(since_last(spark, proved))["keyed"] == [PROVED]  # nothing is remembered of a wrong table
    assert kinds(since_last(spark, proved))["keyed"] == [BEFORE]
    in_place(proved.uri("keyed"), with_n)
    assert kinds(since_last(spark, proved))["keyed"] == [WRONG]


def test_of_a_changed_lookup_the_records_that_join_to_it_are_compared(spark: SparkSession, proved: Workspace) -> None:
    proved.land("people/2.json", [{"p": 3, "name": "other", "s": 2}, {"p": 11, "name": "n11", "s": 2}])
    proved.run(spark)
    findings = since_last(spark, proved)
    assert kinds(findings)["keyed"] == [BEFORE, PROVED]
    assert findings["keyed"][0][2].startswith("the rows of 50 of 60 records, proved at version ")
    for table in ("per_person", "joined"):
        assert kinds(findings)[table] == [BEFORE, PROVED]
    assert "3 values of p, name" in findings["per_person"][1][2]

    proved.land("people/3.json", [{"p": 4, "name": "other", "s": 3}])
    proved.run(spark)
    DeltaTable(proved.uri("keyed")).update({"name": "'n4'"}, predicate="id = 4")  # as if it had been left out
    findings = since_last(spark, proved)
    assert kinds(findings)["keyed"] == [BEFORE, WRONG]
    assert "1 has other values" in findings["keyed"][1][2]


def test_of_gold_the_keys_are_compared_that_changes_are_about(spark: SparkSession, proved: Workspace) -> None:
    proved.land("readings/2.json", [{"id": 100, "p": 1, "n": 1}, {"id": 101, "p": 2, "n": 1}])
    proved.run(spark)
    findings = since_last(spark, proved)
    for table in GOLD:
        assert kinds(findings)[table] == [BEFORE, PROVED]
    assert findings["per_person"][0][2].startswith("its rows but those of 2 values of p, name, proved at version ")
    assert "each row of 2 values of p, name, which later changes affect, is what" in findings["per_person"][1][2]
    assert kinds(since_last(spark, proved)) == {table: [BEFORE] for table in ("people", "keyed", *GOLD)}


@pytest.mark.parametrize("table", GOLD)
def test_a_damage_of_gold_is_found_in_changed_and_in_unchanged_keys(
    spark: SparkSession, proved: Workspace, table: str
) -> None:
    uri = proved.uri(table)
    for number, person in enumerate((1, 7)):  # of the reading that came, and of no other
        proved.land(f"readings/{number}.more.json", [{"id": 100 + number, "p": 1, "n": 1}])
        proved.run(spark)
        DeltaTable(uri).update({"n": "n + 5"}, predicate=f"p = {person}")
        assert kinds(since_last(spark, proved))[table] == [BEFORE, WRONG]
        DeltaTable(uri).update({"n": "n - 5"}, predicate=f"p = {person}")
        assert kinds(since_last(spark, proved))[table] == [PROVED]
    in_place(uri, with_n)
    assert kinds(since_last(spark, proved))[table] == [WRONG]


def test_a_row_of_gold_that_a_compaction_loses_is_found(spark: SparkSession, proved: Workspace) -> None:
    exchange_files(proved.uri("per_person"), lambda rows: rows.slice(1))
    findings = since_last(spark, proved)
    assert kinds(findings)["per_person"] == [BEFORE, WRONG]
    assert "is missing" in findings["per_person"][1][2]


def test_all_of_gold_is_compared_once_rows_of_its_source_go_without_the_change_feed(
    spark: SparkSession, proved: Workspace
) -> None:
    exchange_files(proved.uri("keyed"), lambda rows: rows.sort_by("n"))
    proved.land("readings/2.json", [{"id": 100, "p": 1, "n": 1}])
    proved.run(spark)
    assert kinds(since_last(spark, proved))["per_person"] == [BEFORE, PROVED]  # what was only copied is no change

    exchange_files(proved.uri("keyed"), without_person)
    proved.land("readings/3.json", [{"id": 101, "p": 1, "n": 1}])
    proved.run(spark)
    findings = kinds(since_last(spark, proved))
    assert findings["keyed"][-1] == WRONG
    assert BEFORE not in [finding for table in GOLD for finding in findings[table]]


def test_rows_that_a_source_loses_while_it_has_no_change_feed_are_followed(
    spark: SparkSession, proved: Workspace
) -> None:
    table, feed = f"delta.`{proved.uri('keyed')}`", "delta.enableChangeDataFeed"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{feed}' = 'false')")
    spark.sql(f"DELETE FROM {table} WHERE p = 7")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{feed}' = 'true')")
    proved.land("readings/2.json", [{"id": 100, "p": 1, "n": 1}])
    proved.run(spark)
    findings = kinds(since_last(spark, proved))
    assert findings["keyed"][-1] == WRONG
    assert [findings[table] for table in GOLD] == [[PROVED]] * len(GOLD)  # each was made again, without these rows


def test_a_source_whose_last_commit_was_made_again_with_other_rows_voids_the_proof(
    spark: SparkSession, proved: Workspace
) -> None:
    uri = proved.uri("keyed")
    version = DeltaTable(uri).version()
    identity = commit_identity.identity(uri, version)
    remake_last_commit(uri, without_person)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # as in another process
    assert commit_identity.identity(uri, version) == identity
    findings = kinds(since_last(spark, proved))
    assert findings["keyed"][-1] == WRONG
    assert [findings[table] for table in GOLD] == [[WRONG]] * len(GOLD)


def test_a_damage_beside_a_changed_lookup_is_wrong_and_not_a_choice_among_equals(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(KEYED.partition("gold:")[0].replace("    keys: [id]\n", ""))
    workspace.land("people/1.json", [{"p": p, "name": f"n{p}", "s": 1} for p in range(11)])
    workspace.land("readings/1.json", [{"id": number, "p": number % 11, "n": number} for number in range(60)])
    workspace.run(spark)
    assert kinds(since_last(spark, workspace))["keyed"] == [PROVED]
    workspace.land("people/2.json", [{"p": 3, "name": "other", "s": 2}])
    workspace.run(spark)
    DeltaTable(workspace.uri("keyed")).update({"name": "'x'"}, predicate="id = 4")
    assert kinds(since_last(spark, workspace))["keyed"][-1] == WRONG


def test_a_column_that_is_added_to_gold_by_hand_is_found(spark: SparkSession, proved: Workspace) -> None:
    spark.sql(f"ALTER TABLE delta.`{proved.uri('per_person')}` ADD COLUMN more BIGINT")
    assert kinds(since_last(spark, proved))["per_person"] == [WRONG]

"""Every table is compared with what it should be: undamaged ones are verified, and each damage is named."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from sluicegate.flow.verification.finding import Finding
from sluicegate.flow.verification.sample import Sample
from sluicegate.gold import verify_gold
from sluicegate.launch import verification
from sluicegate.silver import verify_silver
from tests.conftest import Workspace
from tests.support.since_last import kinds, since_last

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]


def found_in(spark: SparkSession, workspace: Workspace) -> list[Finding]:
    """All findings of a verification, as the job has them."""
    pipeline, at = workspace.definition, workspace.lake
    found = verification.findings_without_spark(pipeline)
    found += verify_silver.prove(spark, pipeline, at)
    found += verify_gold.prove(spark, pipeline, at)
    return verification.sort_findings(found)


def rewritten(uri: str, rows: pa.Table) -> None:
    write_deltalake(uri, rows, mode="overwrite")


def with_value(rows: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    values = rows[column].to_pylist()
    values[row] = value
    kind = rows.schema.field(column).type
    return rows.set_column(rows.schema.get_field_index(column), column, pa.array(values, kind))


@pytest.mark.ran
def test_values_of_silver_are_compared_with_what_the_definition_gives(
    spark: SparkSession, heartbeats: Workspace
) -> None:
    found = found_in(spark, heartbeats)
    assert [(one.kind, one.what) for one in found if one.kind != "proved"] == [("unseen", verification.ABOUT_TABLES)]
    assert {one.table for one in found if one.kind == "proved"} == {
        "recordings_bronze", "patients_bronze", "patients", "recordings_enriched", "daily_patient_avg"
    }  # fmt: skip
    uri = heartbeats.uri("recordings_enriched")
    rows = DeltaTable(uri).to_pyarrow_table()
    rewritten(uri, with_value(rows, 0, "heartrate", 61.25))
    [wrong] = [one for one in verify_silver.prove(spark, heartbeats.definition, heartbeats.lake) if one.kind == "wrong"]
    assert wrong.table == "recordings_enriched"
    assert wrong.mend == "sluicegate run heart_rate --full-refresh recordings_enriched"
    assert "1 has other values" in wrong.what
    rewritten(uri, rows)
    aside = heartbeats.uri("recordings_enriched_quarantine")
    broken = DeltaTable(aside).to_pyarrow_table()
    rewritten(aside, with_value(broken, 0, "heartrate", 1.0))
    [wrong] = [one for one in verify_silver.prove(spark, heartbeats.definition, heartbeats.lake) if one.kind == "wrong"]
    assert (wrong.table, "recordings_enriched_quarantine" in wrong.what) == ("recordings_enriched", True)


SILVER = """
name: heart_rate
bronze:
  things: {path: "${landing}/things", format: json, schemaHints: "id BIGINT, n BIGINT"}
  others: {path: "${landing}/others", format: json, schemaHints: "id BIGINT, n BIGINT"}
silver:
  plain:
    sql: SELECT id, n * 2 AS n FROM STREAM(things) WHERE id <> 3
    expectations: {small: {expect_or_quarantine: n < 100}}
  both:
    flows:
      a: {sql: "SELECT id, n FROM STREAM(things)"}
      b: {sql: "SELECT id, n FROM STREAM(others)"}
  keyed: {sql: "SELECT id, n FROM STREAM(things)", keys: [id]}
gold:
  total: {sql: "SELECT n % 20 AS k, SUM(n) AS n FROM plain GROUP BY n % 20"}
"""
PLAIN = """
name: heart_rate
bronze:
  things: {path: "${landing}/things", format: json, schemaHints: "id BIGINT, n BIGINT"}
silver:
  plain: {sql: "SELECT id, n * 2 AS n FROM STREAM(things)"}
"""
BEFORE = ("unseen", "proved-before")


def damaged(path: str) -> bytes:
    """Changes a value in a data file in place, with its checksum of Hadoop, by which Spark would not read it at all.

    Returns:
        what it was.
    """
    before, rows = Path(path).read_bytes(), parquet.read_table(path)
    parquet.write_table(with_value(rows, 0, "n", -1), path)
    Path(path).with_name(f".{Path(path).name}.crc").unlink(missing_ok=True)
    return before


def silver_of(spark: SparkSession, workspace: Workspace, sample: Sample) -> dict[str, list[tuple[str, str]]]:
    """Kinds and sentences of what a sample of silver is found to be, by table."""
    told: dict[str, list[tuple[str, str]]] = {}
    for one in verify_silver.prove(spark, workspace.definition, workspace.lake, sample=sample):
        told.setdefault(one.table, []).append((one.kind, one.what))
    return told


@pytest.mark.release
def test_a_sample_of_silver_compares_some_records_and_says_how_many_it_does_not(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(SILVER)
    workspace.land("things/1.json", [{"id": number, "n": number} for number in range(60)])
    workspace.land("others/1.json", [{"id": number, "n": number} for number in range(40)])
    workspace.run(spark)
    left: set[int] = set()
    for day in range(740_000, 740_003):
        told = silver_of(spark, workspace, Sample(40, date.fromordinal(day)))
        (kind, unseen), (proved, what) = told["plain"]
        assert (kind, proved) == ("unseen", "proved")
        assert "of 60 records, as a sample of 40 % is compared" in unseen
        assert what.startswith("each row of the records in a sample of 40 % is what")
        assert "of 100 records" in told["both"][0][1]
        assert [kind for kind, _ in told["keyed"]] == ["proved"]
        left.add(int(unseen.split(" of ")[1]))
    assert len(left) > 1
    uri = workspace.uri("plain")
    rows = DeltaTable(uri).to_pyarrow_table()
    rewritten(uri, with_value(rows, 0, "n", -1))
    days = [Sample(60, date.fromordinal(day)) for day in range(740_000, 740_003)]
    kinds = [silver_of(spark, workspace, sample)["plain"][-1][0] for sample in days]
    assert set(kinds) == {"wrong", "proved"}


@pytest.mark.release
def test_a_verification_since_the_last_one_compares_what_came_and_what_changed(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(SILVER)
    workspace.land("things/1.json", [{"id": number, "n": number} for number in range(60)])
    workspace.land("others/1.json", [{"id": 1, "n": 1}])
    workspace.run(spark)
    every = ("plain", "both", "keyed", "total")
    assert kinds(since_last(spark, workspace)) == {table: [("proved", "")] for table in every}
    assert kinds(since_last(spark, workspace)) == {table: [BEFORE] for table in every}

    workspace.land("things/2.json", [{"id": 100, "n": 1}, {"id": 101, "n": 99}, {"id": 3, "n": 1}])
    workspace.run(spark)
    told = since_last(spark, workspace)
    some = [BEFORE, ("proved", "")]
    assert kinds(told) == {table: some for table in every}
    assert told["keyed"][0][2].startswith("the rows of 59 of 63 records, proved at version ")
    assert told["plain"][0][2].startswith("the rows of 60 of 63 records, proved at version ")
    assert told["plain"][1][2].startswith("each row of the records that were added or changed since version ")
    assert told["both"][0][2].startswith("the rows of 61 of 64 records, proved at version ")

    uri = workspace.uri("plain")
    rows = DeltaTable(uri).to_pyarrow_table()
    workspace.land("things/3.json", [{"id": 200, "n": 7}])
    workspace.run(spark)
    DeltaTable(uri).update({"n": "15"}, predicate="id = 200")
    told = since_last(spark, workspace)
    assert kinds(told)["plain"] == [BEFORE, ("wrong", "")]
    assert "1 has other values" in told["plain"][1][2]
    DeltaTable(uri).update({"n": "14"}, predicate="id = 200")
    assert kinds(since_last(spark, workspace))["plain"] == [("proved", "")]  # nothing is remembered of a wrong table

    aside = workspace.uri("plain_quarantine")
    DeltaTable(aside).delete("id = 59")
    assert kinds(since_last(spark, workspace))["plain"] == [BEFORE, ("wrong", "")]
    rewritten(uri, rows.filter(pc.not_equal(rows["id"], 1)))  # a record that has been proved long ago is lost
    told = since_last(spark, workspace)
    assert kinds(told)["plain"][-1] == ("wrong", "")
    assert "missing" in told["plain"][-1][2]


@pytest.mark.release
def test_silver_that_was_changed_in_place_or_restored_is_compared_as_a_whole(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(SILVER)
    workspace.land("things/1.json", [{"id": number, "n": number} for number in range(20)])
    workspace.land("others/1.json", [{"id": 1, "n": 1}])
    workspace.run(spark)
    since_last(spark, workspace)
    uri = workspace.uri("plain")
    workspace.land("things/2.json", [{"id": 100, "n": 1}])
    workspace.run(spark)
    [old] = DeltaTable(uri, version=0).file_uris()
    whole = damaged(old)
    told = since_last(spark, workspace)
    assert [one[0] for one in told["plain"]] == ["wrong"]
    assert "1 has other values" in told["plain"][0][2]
    Path(old).write_bytes(whole)
    assert kinds(since_last(spark, workspace))["plain"] == [("proved", "")]
    assert kinds(since_last(spark, workspace))["plain"] == [BEFORE]
    DeltaTable(uri).optimize.compact()
    [new] = DeltaTable(uri).file_uris()
    whole = damaged(new)  # a row that was proved, in a file that was not
    assert kinds(since_last(spark, workspace))["plain"] == [BEFORE, ("wrong", "")]
    Path(new).write_bytes(whole)
    assert kinds(since_last(spark, workspace))["plain"] == [("proved", "")]
    DeltaTable(uri).restore(0)
    workspace.run(spark)
    assert kinds(since_last(spark, workspace))["plain"] == [("proved", "")]


def test_silver_is_compared_by_sample_or_since_the_last_time_and_damage_in_new_and_old_files_is_found(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(PLAIN)
    workspace.land("things/1.json", [{"id": number, "n": number} for number in range(60)])
    workspace.run(spark)
    (kind, unseen), (proved, what) = silver_of(spark, workspace, Sample(40, date.fromordinal(740_000)))["plain"]
    assert (kind, proved) == ("unseen", "proved")
    assert unseen.endswith(" of 60 records, as a sample of 40 % is compared")
    assert what.startswith("each row of the records in a sample of 40 % is what")
    assert kinds(since_last(spark, workspace)) == {"plain": [("proved", "")]}
    assert kinds(since_last(spark, workspace)) == {"plain": [BEFORE]}

    workspace.land("things/2.json", [{"id": 100, "n": 1}])
    workspace.run(spark)
    uri = workspace.uri("plain")
    [old] = DeltaTable(uri, version=0).file_uris()
    [new] = {*DeltaTable(uri).file_uris()} - {old}
    whole = damaged(new)
    told = since_last(spark, workspace)["plain"]
    assert [one[:2] for one in told] == [BEFORE, ("wrong", "")]
    assert told[0][2].startswith("the rows of 60 of 61 records, proved at version 0")
    Path(new).write_bytes(whole)
    assert kinds(since_last(spark, workspace)) == {"plain": [("proved", "")]}
    damaged(old)
    assert kinds(since_last(spark, workspace)) == {"plain": [("wrong", "")]}

"""Every table is compared with what it should be: undamaged ones are verified, and each damage is named."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.flow.finding import Finding
from sluicegate.flow.sample import Sample
from sluicegate.gold import verify as gold_verify
from sluicegate.run import verification
from sluicegate.silver import verify as silver_verify
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]


def found_in(spark: SparkSession, workspace: Workspace) -> list[Finding]:
    """All findings of a verification, as the job has them."""
    pipeline, at = workspace.definition, workspace.lake
    found = verification.without_spark(pipeline)
    found += silver_verify.prove(spark, pipeline, at)
    found += gold_verify.prove(spark, pipeline, at)
    return verification.in_order(found)


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
    assert [one for one in found if one.kind != "proved"] == []
    assert {one.table for one in found} == {
        "recordings_bronze", "patients_bronze", "patients", "recordings_enriched", "daily_patient_avg"
    }  # fmt: skip
    uri = heartbeats.uri("recordings_enriched")
    rows = DeltaTable(uri).to_pyarrow_table()
    rewritten(uri, with_value(rows, 0, "heartrate", 61.25))
    [wrong] = [one for one in silver_verify.prove(spark, heartbeats.definition, heartbeats.lake) if one.kind == "wrong"]
    assert wrong.table == "recordings_enriched"
    assert wrong.mend == "sluicegate run heart_rate --full-refresh recordings_enriched"
    assert "1 has other values" in wrong.what
    rewritten(uri, rows)
    aside = heartbeats.uri("recordings_enriched_quarantine")
    broken = DeltaTable(aside).to_pyarrow_table()
    rewritten(aside, with_value(broken, 0, "heartrate", 1.0))
    [wrong] = [one for one in silver_verify.prove(spark, heartbeats.definition, heartbeats.lake) if one.kind == "wrong"]
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
"""


def silver_of(spark: SparkSession, workspace: Workspace, sample: Sample) -> dict[str, list[tuple[str, str]]]:
    """Kinds and sentences of what a sample of silver is found to be, by table."""
    told: dict[str, list[tuple[str, str]]] = {}
    for one in silver_verify.prove(spark, workspace.definition, workspace.lake, sample=sample):
        told.setdefault(one.table, []).append((one.kind, one.what))
    return told


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
    days = [Sample(40, date.fromordinal(day)) for day in range(740_000, 740_006)]
    kinds = [silver_of(spark, workspace, sample)["plain"][-1][0] for sample in days]
    assert set(kinds) == {"wrong", "proved"}

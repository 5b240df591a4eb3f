"""Every table is compared with what it should be: undamaged ones are verified, and each damage is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.flow.finding import Finding
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

"""Fields of normalized columns in Spark, where a reader does not see what files have, and in copies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sluicegate.landing.chosen.reread import Reset
from tests.conftest import Workspace
from tests.spark.jobs.test_copy_into import Copies
from tests.spark.jobs.test_reload import again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.more]


def test_values_come_without_rescued_data_and_by_a_copy(spark: SparkSession, workspace: Workspace) -> None:
    copies = Copies(spark, workspace)
    copies.define(
        "format: json, columnNames: normalized, schemaHints: us_gross BIGINT, rescuedDataColumn: none,"
        " schemaEvolutionMode: none"
    )
    for number, name in enumerate("ab"):
        workspace.land(f"things/{name}.json", json.dumps({"US Gross": number, "id": "x"}), age=90)
        workspace.run(spark)
    copies.land("c.json", json.dumps({"gross": 2}))
    copies.select("SELECT gross AS us_gross FROM source")
    assert copies.rows("us_gross") == [(0,), (1,), (2,)]
    assert copies.rescued() == []


def test_a_column_that_only_rows_of_gone_files_have_stays_with_its_field(
    spark: SparkSession, workspace: Workspace
) -> None:
    copies = Copies(spark, workspace)
    copies.define("format: json, columnNames: normalized")
    workspace.land("things/a.json", json.dumps({"Old One": 1, "id": 1}), age=90)
    workspace.land("things/b.json", json.dumps({"id": 2}), age=90)
    workspace.run(spark)
    (workspace.folder / "landing/things/a.json").unlink()
    again(spark, workspace, Reset())
    workspace.land("things/c.json", json.dumps({"Old One": 3, "id": 3}), age=90)
    workspace.run(spark)
    assert {str(row[0]) for row in copies.rows("old_one")} == {"1", "None", "3"}
    assert copies.rescued() == []

"""What is entered into a catalog, in Spark's own in memory; the metastore itself is in tests/e2e/test_compose.py."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.errors import CatalogConflict
from sluicegate.maintenance import catalog
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DATABASE = """database: {name: shown, comment: "Ada's and \\\\ others'", properties: {contains_pii: "true"}}\n"""


@pytest.fixture
def shown(heartbeats: Workspace, spark: SparkSession) -> Iterator[Workspace]:
    """A pipeline whose tables are there, and whose database no other test knows."""
    text = Path(heartbeats.folder / "pipelines" / "heart_rate" / "pipeline.yaml").read_text()
    (former,) = re.findall(r"^database:.*?(?=^\S)", text, re.MULTILINE | re.DOTALL)
    heartbeats.edit("pipeline.yaml", former, DATABASE)
    heartbeats.run(spark)
    yield heartbeats
    spark.sql("DROP DATABASE IF EXISTS shown CASCADE")


@pytest.mark.more
def test_tables_are_found_by_their_names(shown: Workspace, spark: SparkSession) -> None:
    pipeline, at = shown.definition, shown.lake
    assert catalog.is_due(pipeline, at)
    entered = catalog.register(spark, pipeline, at)
    there = [name for name, uri in catalog.tables(pipeline, at) if Path(uri).exists()]
    assert entered == there
    assert {"recordings_bronze", "patients", "recordings_enriched_quarantine", "daily_patient_avg"} < set(there)
    assert not catalog.is_due(pipeline, at)
    for name in entered:
        assert spark.table(f"shown.{name}").count() == len(shown.rows(name))
    described = {row[0]: row[1] for row in spark.sql("DESCRIBE DATABASE EXTENDED shown").collect()}
    assert described["Comment"] == "Ada's and \\ others'"
    assert "(contains_pii,true)" in described["Properties"]

    # Again: nothing is new, also where it was forgotten what was entered.
    assert catalog.register(spark, pipeline, at) == []
    Path(at.catalog_registry).write_text("half")
    assert catalog.is_due(pipeline, at)
    assert catalog.register(spark, pipeline, at) == []

    # A table that is new is due, and a dropped one loses no row.
    spark.sql("DROP TABLE shown.patients")
    assert len(shown.rows("patients")) > 0
    assert catalog.register(spark, pipeline, at) == ["patients"]
    shown.edit("pipeline.yaml", "contains_pii", "contains_phi")
    assert catalog.is_due(shown.definition, at)


@pytest.mark.more
def test_a_name_that_stands_for_another_table_is_left_alone(
    shown: Workspace, spark: SparkSession, tmp_path: Path
) -> None:
    catalog.register(spark, shown.definition, shown.lake)
    other = tmp_path / "other"
    shutil.copytree(shown.settings.lake, other / "lake")
    with pytest.raises(CatalogConflict, match=r"`shown`\.`recordings_bronze`") as caught:
        catalog.register(spark, shown.definition, type(shown.lake)(str(other / "lake"), "heart_rate"))
    assert caught.value.exit_code == 2
    assert json.loads(Path(shown.lake.catalog_registry).read_text())["tables"]

"""A lake whose version stored values otherwise than today's is continued.

It lies in data/former_values.tar.gz; scripts/former_values.py says how it was made and what is in it.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from scripts.former_values import parquet
from sluicegate.monitor import verify
from tests.conftest import ROOT, Workspace
from tests.support.archives import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ARCHIVE = ROOT / "tests" / "spark" / "data" / "former_values.tar.gz"


def test_values_that_a_former_version_stored_are_continued(spark: SparkSession, tmp_path: Path) -> None:
    unpack(ARCHIVE, tmp_path)
    former = Workspace(tmp_path, "former_values")
    former.land("amounts/c.parquet", parquet({5: 50.0, 6: 0.5}, pa.float64()), age=90)
    former.land("notes/b.csv", 'id,note\n4,"say ""hi"""\n5,"C:\\dir\\"\n', age=80)
    former.land("prices/c.json", '{"id": 4, "price": "7"}\n', age=70)
    former.land("customers/c.json", '{"id": 2, "seq": 2, "name": "Bo", "city": "Ennis"}\n', age=60)
    reports = former.run(spark)
    assert {name: report.failed for name, report in reports.items() if report.failed} == {}
    assert "Spark's CSV dialect" in str(reports["notes_bronze"].warnings)

    amounts = dict(former.rows("amounts_bronze", "id", "amount"))
    assert (amounts[4], amounts[5], amounts[6]) == (30, 50, None)
    notes = dict(former.rows("notes", "id", "note"))
    assert (notes[1], notes[4], notes[5]) == ("plain", 'say "hi"', "C:\\dir\\")
    assert sorted(former.rows("prices", "id", "price")) == [(1, 10), (3, 99), (4, 7)]
    assert sorted(former.rows("current_customers", "id", "city")) == [(1, "Derry"), (2, "Ennis")]
    assert len(former.rows("customers")) == 4
    assert former.rows("current_customers_deidentified", "name") == [("***",), ("***",)]

    former.edit("pipeline.yaml", "CAST(price AS INT)", "CAST(price AS DECIMAL(10, 2))")
    former.run(spark, "silver", "gold")
    prices = {1: Decimal("10.00"), 2: Decimal("12.50"), 3: Decimal("99.00"), 4: Decimal("7.00")}
    assert dict(former.rows("prices", "id", "price")) == prices
    assert [row[0] for row in sorted(former.rows("price_ranks", "id", "place"), key=lambda row: row[1])] == [3, 2, 1, 4]
    assert verify.findings(former.definition, former.settings) == []

"""What `sluicegate import` makes of a source runs, and makes the rows that the source would."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.tools.migrate.create import create
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SQL = """
CREATE OR REFRESH STREAMING TABLE visits_raw
AS SELECT * FROM STREAM read_files('/mnt/clinic/visits', format => 'json', inferColumnTypes => false);

CREATE OR REFRESH STREAMING TABLE wards_raw
AS SELECT *, _metadata.file_path AS file FROM cloud_files('/mnt/clinic/wards', 'csv',
  map('header', 'true', 'cloudFiles.schemaHints', 'seq INT'));

CREATE OR REFRESH STREAMING TABLE visits (
  CONSTRAINT positive EXPECT (minutes > 0) ON VIOLATION DROP ROW
) AS SELECT CAST(v.id AS BIGINT) AS id, w.name AS ward, CAST(v.minutes AS INT) AS minutes, CAST(v.at AS TIMESTAMP) AS at
FROM STREAM(LIVE.visits_raw) v LEFT JOIN LIVE.wards w ON v.ward = w.ward;

CREATE OR REFRESH STREAMING TABLE wards;
APPLY CHANGES INTO LIVE.wards FROM STREAM(LIVE.wards_raw) KEYS (ward)
APPLY AS DELETE WHEN op = 'D' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq, file);

CREATE OR REFRESH MATERIALIZED VIEW daily AS
SELECT date_trunc('DD', at) AS day, ward, count(*) AS n, sum(minutes) AS minutes FROM LIVE.visits GROUP BY ALL;

CREATE OR REFRESH MATERIALIZED VIEW longest AS SELECT ward, max(minutes) AS most FROM LIVE.daily GROUP BY ward;
"""

PYTHON = """
import dlt
from pyspark.sql import functions as F

@dlt.table
def visits_raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("/mnt/clinic/visits")

@dlt.table
@dlt.expect_or_drop("positive", "minutes > 0")
def visits():
    return (dlt.read_stream("visits_raw").withColumn("minutes", F.col("minutes").cast("int"))
        .filter(F.col("ward").isin("a", "b")).drop("at"))

@dlt.table
def by_ward():
    return dlt.read("visits").groupBy("ward").agg(F.sum("minutes").alias("minutes"), F.count("*").alias("n"))
"""

VISITS = [
    {"id": "1", "ward": "a", "minutes": "5", "at": "2024-01-01 08:00:00"},
    {"id": "2", "ward": "b", "minutes": "7", "at": "2024-01-01 09:00:00"},
    {"id": "3", "ward": "a", "minutes": "0", "at": "2024-01-02 09:00:00"},
    {"id": "4", "ward": "c", "minutes": "9", "at": "2024-01-02 10:00:00"},
]


def imported(folder: Path, file: str, text: str) -> Workspace:
    workspace = Workspace(folder, "clinic")
    (folder / file).write_text(text)
    made = create(folder / file, "clinic", workspace.settings)
    assert made.error is None
    workspace.land("visits/1.json", "".join(f"{str(visit).replace(chr(39), chr(34))}\n" for visit in VISITS))
    return workspace


@pytest.mark.more
def test_a_sql_source_runs(spark: SparkSession, tmp_path: Path) -> None:
    workspace = imported(tmp_path, "clinic.sql", SQL)
    workspace.land("wards/1.csv", "ward,name,op,seq\na,North,I,1\nb,South,I,2\nc,East,I,3\na,West,U,4\nc,East,D,5\n")
    reports = workspace.run(spark)
    assert (reports["visits"].written, reports["visits"].dropped) == (3, 1)
    assert sorted(workspace.rows("wards", "ward", "name")) == [("a", "West"), ("b", "South")]
    first, second = (datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2))
    assert sorted(workspace.rows("daily", "day", "ward", "n", "minutes"), key=str) == sorted(
        [(first, "West", 1, 5), (first, "South", 1, 7), (second, None, 1, 9)], key=str
    )
    assert sorted(workspace.rows("longest", "ward", "most"), key=str) == [("South", 7), ("West", 5), (None, 9)]


@pytest.mark.more
def test_a_python_source_runs(spark: SparkSession, tmp_path: Path) -> None:
    workspace = imported(tmp_path, "clinic.py", PYTHON)
    reports = workspace.run(spark)
    # Of four records one is of another ward, and one breaks the rule: both are dropped, each for its own reason.
    assert (reports["visits"].written, reports["visits"].dropped) == (2, 2)
    assert sorted(workspace.rows("by_ward", "ward", "minutes", "n")) == [("a", 5, 1), ("b", 7, 1)]

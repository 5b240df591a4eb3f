"""Which columns of its records a query reads: by Spark's plan, and by names where there is no plan to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluicegate.schema.columns import RECORD_STRUCT
from sluicegate.silver.columns import columns_read
from sluicegate.spark_sql.query import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ALL = {"id", "amount", "day", "at", "a b"}
VIEW = "columns_read_records"
# A query with the columns that it reads by its plan, and by the names in it.
QUERIES = [
    ("SELECT id, amount FROM STREAM(raw)", {"id", "amount"}, {"id", "amount"}),
    ("SELECT * FROM STREAM(raw)", ALL, ALL),
    ("SELECT * EXCEPT (day, amount) FROM STREAM(raw)", ALL - {"day", "amount"}, ALL),
    ("SELECT to_json(struct(r.*)) AS t FROM STREAM(raw) AS r", ALL, ALL),
    ("SELECT ID, at.x FROM STREAM(raw) WHERE Day IS NOT NULL", {"id", "at", "day"}, {"id", "at", "day"}),
    ("SELECT `a b` FROM STREAM(raw)", {"a b"}, {"a b"}),
    ("SELECT r.id, l.amount FROM STREAM(raw) AS r LEFT JOIN names AS l ON l.id = r.id", {"id"}, {"id", "amount"}),
    ("SELECT id, l.day FROM STREAM(raw) JOIN names AS l USING (id)", {"id"}, {"id", "day"}),
    ("SELECT (SELECT max(l.amount) FROM names AS l WHERE l.day = r.day) AS m FROM STREAM(raw) AS r", {"day"}, None),
    ("SELECT r.id, n FROM STREAM(raw) AS r LATERAL VIEW explode(array(r.at.x)) AS n", {"id", "at"}, {"id", "at"}),
    ("WITH l AS (SELECT id, max(day) AS day FROM names GROUP BY id) "
     "SELECT r.amount, l.day FROM STREAM(raw) AS r LEFT JOIN l ON l.id = r.id", {"amount", "id"}, None),
]  # fmt: skip


@pytest.mark.in_the_jvm
def test_columns_that_a_query_reads(spark: SparkSession) -> None:
    columns = "id, CAST(NULL AS INT) AS amount, CAST(NULL AS DATE) AS day, struct(1 AS x) AS at, 'b' AS `a b`"
    hidden = "0 AS _chunk, 1 AS _pos, 'x' AS _rescued_data, CAST(NULL AS STRING) AS _corrupt_record"
    plain = spark.sql(f"SELECT {columns}, {hidden} FROM range(1)")
    names = spark.sql("SELECT id, CAST(1 AS INT) AS amount, DATE '2024-01-01' AS day FROM range(1)")
    names.createOrReplaceTempView("columns_read_names")
    for text, by_plan, by_names in QUERIES:
        query = Query.parse(text)

        def run(records: DataFrame, query: Query = query) -> DataFrame:
            records.selectExpr("*", f"struct(*) AS {RECORD_STRUCT}").createOrReplaceTempView(VIEW)
            views = {"raw": VIEW, "names": "columns_read_names"}
            return spark.sql(query.text_with_identity({name: views[name] for name in query.tables}, many=True))

        assert columns_read.plan_columns(run(plain), VIEW, ALL) == by_plan, text
        assert columns_read.named_columns(run, plain, query, ALL) >= by_plan, text
        if by_names is not None:
            assert columns_read.named_columns(run, plain, query, ALL) == by_names, text


def test_a_query_that_can_do_without_a_column(spark: SparkSession) -> None:
    records = spark.sql("SELECT 1 AS id, 'x' AS _rescued_data")

    def run(text: str, records: DataFrame) -> DataFrame:
        records.createOrReplaceTempView("columns_read_without")
        return spark.sql(f"SELECT {text} FROM columns_read_without")

    assert columns_read.can_do_without(lambda r: run("*", r), records, ["_rescued_data"])
    assert not columns_read.can_do_without(lambda r: run("*, _rescued_data AS r", r), records, ["_rescued_data"])

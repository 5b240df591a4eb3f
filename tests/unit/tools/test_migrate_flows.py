"""Flows of a source: several into one table, and UNION ALL over streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create

pytestmark = pytest.mark.unit

RAW = """\
CREATE STREAMING TABLE eu AS SELECT * FROM STREAM read_files('/x/eu', format => 'json');
CREATE STREAMING TABLE us AS SELECT * FROM STREAM read_files('/x/us', format => 'json');
"""
PYTHON = """\
import dlt
from pyspark.sql.functions import col

@dlt.table
def eu():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("/x/eu")

"""


def imported(folder: Path, text: str, file: str = "x.sql") -> Imported:
    (folder / file).write_text(text)
    made = create(folder / file, "p", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))
    assert made.error is None
    return made


def left(made: Imported) -> list[tuple[int, str]]:
    """What was not converted, but for the paths of files, which always change."""
    return [(one.line, one.subject) for one in made.remarks if not one.subject.startswith("path ")]


def several(folder: Path, table: str) -> dict[str, str]:
    """Flows of a table of the definition, each with its stream."""
    made = definition.load("p", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))
    return {name: maker.stream for name, maker in made.silver[table].flows_or_branches.items()}


def test_flows_of_sql_are_flows_of_their_table(tmp_path: Path) -> None:
    text = """\
CREATE OR REFRESH STREAMING TABLE sales (CONSTRAINT paid EXPECT (price > 0) ON VIOLATION DROP ROW) COMMENT 'All of it';
CREATE FLOW eu_sales AS INSERT INTO sales BY NAME SELECT id, price FROM STREAM(eu);
CREATE FLOW us_sales AS INSERT INTO ONCE LIVE.sales BY NAME SELECT id, price, state FROM STREAM us;
CREATE FLOW files AS INSERT INTO sales BY NAME SELECT * FROM STREAM read_files('/x/old', format => 'csv');
"""
    made = imported(tmp_path, RAW + text)
    assert several(tmp_path, "sales") == {"eu_sales": "eu", "us_sales": "us", "files": "sales__files"}
    assert made.draft.silver["sales"]["expectations"] == {"paid": {"expect_or_drop": "price > 0"}}
    assert made.draft.comments["sales"] == ["All of it"]
    assert not made.draft.missing
    assert left(made) == [(5, "ONCE of the flow us_sales")]


def test_a_flow_into_a_table_with_a_query_stands_beside_that(tmp_path: Path) -> None:
    text = """\
CREATE STREAMING TABLE sales AS SELECT id, price FROM STREAM(eu);
CREATE FLOW more AS INSERT INTO sales BY NAME SELECT id, explode(prices) AS price FROM STREAM(us);
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM sales;
"""
    made = imported(tmp_path, RAW + text)
    assert several(tmp_path, "sales") == {"sales": "eu", "more": "us"}
    assert made.draft.silver["sales"]["rows"] == "many"
    assert not made.draft.missing


def test_flows_of_python(tmp_path: Path) -> None:
    text = (
        PYTHON
        + """\
dlt.create_streaming_table("sales", comment="All of it")

@dlt.append_flow(target="sales")
def eu_sales():
    return spark.readStream.table("eu").select("id", "price")

@dlt.append_flow(target="sales", name="Back", once=True)
def backfill():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "csv").load("/x/old")
"""
    )
    made = imported(tmp_path, text, "x.py")
    assert several(tmp_path, "sales") == {"eu_sales": "eu", "back": "sales__back"}
    assert not made.draft.missing
    assert [what for _, what in left(made)] == ["once of the flow backfill"]


@pytest.mark.parametrize(
    ("query", "flows", "remark"),
    [
        ("SELECT id, a FROM STREAM(eu) UNION ALL SELECT n, b FROM STREAM(us)", {"eu": "eu", "us": "us"}, []),
        ("SELECT * FROM STREAM eu UNION ALL SELECT * FROM STREAM eu", {"eu": "eu", "eu_2": "eu"}, ["UNION ALL in t"]),
    ],
)
def test_union_all_of_streams(tmp_path: Path, query: str, flows: dict[str, str], remark: list[str]) -> None:
    made = imported(tmp_path, f"{RAW}CREATE STREAMING TABLE t AS {query};")
    assert several(tmp_path, "t") == flows
    assert [what for _, what in left(made)] == remark
    assert not made.draft.missing


def test_flows_of_the_same_changes_are_flows_of_one_table(tmp_path: Path) -> None:
    text = """\
CREATE STREAMING TABLE t;
CREATE FLOW a AS AUTO CDC INTO t FROM STREAM(eu) KEYS (id) SEQUENCE BY at STORED AS SCD TYPE 2;
CREATE FLOW b AS AUTO CDC INTO t FROM STREAM(us) KEYS (id) SEQUENCE BY at STORED AS SCD TYPE 2;
CREATE FLOW c AS AUTO CDC INTO t FROM STREAM(us) KEYS (id) SEQUENCE BY other;
"""
    made = imported(tmp_path, RAW + text)
    assert several(tmp_path, "t") == {"eu": "eu", "us": "us"}
    assert made.draft.missing == {"the second flow into t": 6}


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        ("SELECT id, count(*) AS n FROM STREAM(us) GROUP BY id", "gold"),
        ("SELECT id FROM STREAM(us) LIMIT 3", "gold"),
        ("SELECT id FROM STREAM(us), STREAM(eu)", "duplicate STREAM(…)"),
    ],
)
def test_what_is_no_flow_is_told_with_its_line(tmp_path: Path, flow: str, said: str) -> None:
    text = "CREATE STREAMING TABLE t AS SELECT id FROM STREAM(eu);\nCREATE FLOW f AS INSERT INTO t BY NAME "
    made = imported(tmp_path, RAW + text + flow)
    assert left(made) == [(4, "the flow f into t")]
    assert said in made.remarks[-1].reason
    assert made.draft.missing == {"the flow f into t": 4}
    assert several(tmp_path, "t") == {}

"""`sluicegate import`: names of a source that hide others, or that become the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create

pytestmark = pytest.mark.unit

RAW = "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('s3://b/raw', format => 'json');\n"


def imported(folder: Path, text: str, file: str = "source.sql") -> Imported:
    (folder / file).write_text(text)
    return create(folder / file, "mine", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))


@pytest.mark.parametrize("name", ["orders", "x"])
def test_a_with_is_not_a_table_to_stream(tmp_path: Path, name: str) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE orders AS SELECT id, ts FROM STREAM(raw);
    CREATE MATERIALIZED VIEW big AS WITH {name} AS (SELECT id * 10 AS id FROM raw WHERE id > 3) SELECT id FROM {name};
    CREATE MATERIALIZED VIEW reader AS SELECT id FROM big;"""
    pipeline = imported(tmp_path, text)
    assert pipeline.error is None
    assert list(pipeline.draft.silver) == ["orders"]
    assert list(pipeline.draft.gold) == ["big", "reader"]
    assert "STREAM" not in pipeline.draft.queries["big"]
    assert pipeline.is_complete


def test_a_table_beside_a_with_is_the_stream(tmp_path: Path) -> None:
    text = f"""{RAW}{RAW.replace("raw", "codes")}CREATE MATERIALIZED VIEW t
    (CONSTRAINT ok EXPECT (n > 0) ON VIOLATION DROP ROW)
    AS WITH x AS (SELECT id, n FROM codes) SELECT raw.id, n FROM raw JOIN x USING (id)"""
    assert "FROM STREAM(raw)" in imported(tmp_path, text).draft.queries["t"]


def test_rules_whose_names_differ_only_in_signs_stay_apart(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE t (
    CONSTRAINT amount_0_2 EXPECT (amount <> 5),
    CONSTRAINT `amount > 0` EXPECT (amount > 0),
    CONSTRAINT `amount < 0` EXPECT (amount < 0) ON VIOLATION DROP ROW) AS SELECT amount FROM STREAM(raw)"""
    pipeline = imported(tmp_path, text)
    rules = pipeline.draft.silver["t"]["expectations"]
    assert rules == {
        "amount_0_2": {"expect": "amount <> 5"},
        "amount_0": {"expect": "amount > 0"},
        "amount_0_3": {"expect_or_drop": "amount < 0"},
    }
    told = {remark.line: remark.reason for remark in pipeline.remarks}
    assert ["amount_0 " in told[4], "amount_0_3 " in told[5]] == [True, True]
    assert pipeline.is_complete


FLOWS = """import dlt

@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://b/raw")

dlt.create_streaming_table("t")

@dlt.append_flow(target="t", name="f-1")
def one():
    return spark.readStream.table("raw").select("id")

@dlt.append_flow(target="t", name="{second}")
def two():
    return spark.readStream.table("raw").select("name")
"""


def test_flows_whose_names_become_one_stay_apart(tmp_path: Path) -> None:
    pipeline = imported(tmp_path, FLOWS.format(second="f_1"), "source.py")
    flows = pipeline.draft.silver["t"]["flows"]
    queries = [pipeline.draft.queries[flow["sql"].removesuffix(".sql")] for flow in flows.values()]
    assert [query.split()[1] for query in queries] == ["id", "name"]
    assert [remark.line for remark in pipeline.remarks] == [10, 14]
    assert pipeline.is_complete


def test_flows_of_one_name_are_left(tmp_path: Path) -> None:
    pipeline = imported(tmp_path, FLOWS.format(second="f-1"), "source.py")
    assert pipeline.draft.missing == {"t": 7, "the flow one": 10, "the flow two": 14}


PYTHON = """import dlt
{names}
@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://b/raw")

@dlt.table
def t():
    return dlt.read_stream("raw").select({column}.alias("x"))
"""
ALL = "from pyspark.sql.functions import *"
MODULE = "from pyspark.sql import functions as F"


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (f"{ALL}\ndef upper(c):\n    return c", 'upper("id")'),
        (f"{ALL}\nfrom mylib import upper", 'upper("id")'),
        (f"{ALL}\nupper = udf(lambda c: c)", 'upper("id")'),
        ("from pyspark.sql.functions import upper\nfrom mylib import upper", 'upper("id")'),
        ("from mycompany import functions as F", 'F.upper("id")'),
        (f"{MODULE}\nfrom mycompany import functions as F", 'F.upper("id")'),
        (f"{MODULE}\nclass F:\n    pass", 'F.upper("id")'),
        (f"{MODULE}\nTHRESH = 5\nfrom config import THRESH", "F.lit(THRESH)"),
        (f"{MODULE}\nTHRESH = 5\ndef THRESH(): pass", "F.lit(THRESH)"),
    ],
)
def test_a_name_that_the_source_binds_itself_is_not_that_of_spark(tmp_path: Path, names: str, column: str) -> None:
    pipeline = imported(tmp_path, PYTHON.format(names=names, column=column), "source.py")
    assert "t" in pipeline.draft.missing
    assert not pipeline.is_complete


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (f"{ALL}\nfrom pyspark.sql.functions import upper", 'upper("id")'),
        (f"{MODULE}\nLENGTHS = [len(F) for F in ('a', 'b')]", 'F.upper("id")'),
        (f"{ALL}\ndef helper(upper):\n    return upper", 'upper("id")'),
        (f"try:\n    import dlt\nexcept ImportError:\n    from stubs import dlt\n{MODULE}", 'F.upper("id")'),
    ],
)
def test_a_name_of_spark_stays_one_beside_others_of_other_scopes(tmp_path: Path, names: str, column: str) -> None:
    pipeline = imported(tmp_path, PYTHON.format(names=names, column=column), "source.py")
    assert pipeline.draft.queries["t"].split("\n")[0] == "SELECT upper(id) AS x"

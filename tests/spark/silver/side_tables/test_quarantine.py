"""Rows of the quarantine and of the set-aside, made of evaluated rows without a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.flow.model import Progress
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.schema.columns import FLOW, IDENTITY, RECORD, ROW
from sluicegate.silver import many_rows
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.keys.deduplicate import replaced_identity
from sluicegate.silver.provenance import SOURCE
from sluicegate.silver.side_tables.quarantine import quarantine, set_aside
from tests.support.evaluators import evaluator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DISPOSITIONS = ("good", "quarantine", "drop", "duplicate", "deleted")


def settled(spark: SparkSession, of_table: RowEvaluator) -> DataFrame:
    """Rows of each disposition, and winners over the stored record (1, 1) and over none.

    Each is a record of its own in ledger batch 7; all were brought by the flow ``us``, the stored record by ``eu``.
    """
    rows = [(number, disposition, 1) for number, disposition in enumerate(DISPOSITIONS)]
    rows.append((len(rows), "good", None))
    columns = {"_chunk": "7L", "_pos": "CAST(n AS BIGINT)", FLOW: "'us'"}
    former = {"_chunk": "CAST(former AS BIGINT)", "_pos": "CAST(former AS BIGINT)", FLOW: "IF(former = 1, 'eu', NULL)"}
    names = of_table.row_id
    return spark.createDataFrame(rows, f"n INT, {DISPOSITION} STRING, former INT").selectExpr(
        "n AS k", "n AS v", DISPOSITION, f"array('rule') AS {BROKEN}",
        *[f"{columns[name]} AS {name}" for name in names],
        *[f"{former[name]} AS {column}" for name, column in zip(names, replaced_identity(names), strict=True)],
    )  # fmt: skip


def reasons(rows: DataFrame, *columns: str) -> dict[Any, str]:
    """Reason of each row of the set-aside, by its identity."""
    collected = rows.collect()
    by_identity = {tuple(row[column] for column in columns or IDENTITY): row["reason"] for row in collected}
    assert len(by_identity) == len(collected)
    return by_identity


def test_a_record_without_a_row_is_set_aside_with_its_reason(spark: SparkSession) -> None:
    keyed = evaluator(keys=["k"])
    rows = set_aside(keyed, settled(spark, keyed), None)
    assert rows.columns == ["_chunk", "_pos", "reason", "rules", "_key"]
    assert reasons(rows) == {(7, 2): "dropped", (7, 3): "duplicate", (7, 4): "deleted"}
    assert {tuple(row.rules) for row in rows.collect()} == {("rule",)}
    assert len({row["_key"] for row in rows.collect()}) == 3


def test_a_stored_row_that_a_greater_sequence_replaced_is_superseded(spark: SparkSession) -> None:
    sequenced = evaluator(keys=["k"], sequence_by="at")
    assert reasons(set_aside(sequenced, settled(spark, sequenced), None)) == {
        (7, 2): "dropped", (7, 3): "superseded", (7, 4): "deleted", (1, 1): "superseded",
    }  # fmt: skip


def test_a_stored_row_that_gave_way_to_an_earlier_flow_is_a_duplicate(spark: SparkSession) -> None:
    """It has its own identity there, with its own flow, and not that of the row in its place."""
    of_flows = evaluator(Progress("incremental", of_flows=True), keys=["k"])
    assert reasons(set_aside(of_flows, settled(spark, of_flows), None), *IDENTITY, FLOW) == {
        (7, 2, "us"): "dropped", (7, 3, "us"): "duplicate", (7, 4, "us"): "deleted", (1, 1, "eu"): "duplicate",
    }  # fmt: skip


def test_a_record_of_which_the_query_made_no_row_is_filtered_and_breaks_no_rule(spark: SparkSession) -> None:
    keyed = evaluator(keys=["k"])
    rows = settled(spark, keyed)
    left_out = spark.createDataFrame([(9, 9, "a text")], "_chunk BIGINT, _pos BIGINT, more STRING")
    [filtered] = set_aside(keyed, rows, left_out).where("_chunk = 9").collect()
    assert (filtered.reason, filtered.rules) == ("filtered", [])


def test_a_record_that_gives_many_rows_and_gave_none_has_a_number_that_is_no_rows(spark: SparkSession) -> None:
    many = evaluator(rows="many")
    columns = f"k INT, {DISPOSITION} STRING, {BROKEN} ARRAY<STRING>, _chunk BIGINT, _pos BIGINT, {ROW} BIGINT"
    rows = spark.createDataFrame([(1, "drop", ["rule"], 7, 1, 2), (1, "good", [], 7, 1, 1)], columns)
    left_out = spark.createDataFrame([(7, 2)], "_chunk BIGINT, _pos BIGINT")
    assert reasons(set_aside(many, rows, left_out), *IDENTITY, ROW) == {
        (7, 1, 2): "dropped", (7, 2, many_rows.NONE): many_rows.NO_ROWS,
    }  # fmt: skip


@pytest.mark.parametrize("count", [3, 10**9], ids=["few", "many"])
def test_the_first_quarantined_row_of_a_record_has_its_text(spark: SparkSession, count: int) -> None:
    """Of the record 1 the first row is good, and its text is with the second; of the record 2 it is with the first."""
    many = evaluator(rows="many")
    columns = (
        f"k INT, v INT, {DISPOSITION} STRING, {BROKEN} ARRAY<STRING>, {SOURCE} STRING, "
        f"_chunk BIGINT, _pos BIGINT, {ROW} BIGINT"
    )
    rows = [(1, 1, "good", [], 1, 1), (1, 2, "quarantine", ["low"], 1, 2), (1, 3, "quarantine", ["high"], 1, 3),
            (2, 1, "quarantine", ["low"], 2, 1), (3, 1, "drop", ["low"], 3, 1)]  # fmt: skip
    evaluated = [(k, v, disposition, broken, "f.json", 7, pos, nth) for k, v, disposition, broken, pos, nth in rows]
    records = spark.createDataFrame(
        [(7, pos, f"text {pos}") for pos in (1, 2, 3)], "_chunk BIGINT, _pos BIGINT, t STRING"
    )
    quarantined = quarantine(many, spark.createDataFrame(evaluated, columns), records, count).collect()
    texts = {(row["_pos"], row[ROW]): row[RECORD] and json.loads(row[RECORD]) for row in quarantined}
    assert texts == {(1, 2): {"t": "text 1"}, (1, 3): None, (2, 1): {"t": "text 2"}}
    assert {(row["_pos"], row[ROW]): row["_failed_expectations"] for row in quarantined} == {
        (1, 2): ["low"], (1, 3): ["high"], (2, 1): ["low"],
    }  # fmt: skip
    assert {row["source_file"] for row in quarantined} == {"f.json"}

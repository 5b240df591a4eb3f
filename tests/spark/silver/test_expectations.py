"""What becomes of a row by the expectations that it breaks, and of rows that share what should be unique."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.definition import SilverTable
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.schema.columns import DELETES
from sluicegate.silver.expectations import DISPOSITION, Rules
from sluicegate.silver.keys import deletes
from sluicegate.silver.side_tables.rescued import PARSED, UNFIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def table(**fields: Any) -> SilverTable:
    return SilverTable.model_validate(fields)


def of_query(**fields: Any) -> SilverTable:
    return table(sql="SELECT k, v FROM STREAM(raw)", **fields)


def fates(rows: DataFrame) -> dict[str, tuple[str, set[str]]]:
    return {row.id: (row[DISPOSITION], {*row[BROKEN]}) for row in rows.collect()}


def test_of_what_a_row_breaks_the_fate_that_keeps_most_of_it_is_its_own(spark: SparkSession) -> None:
    its = {
        "noted": {"expect": "v <> 1"},
        "out": {"expect_or_drop": "v < 10"},
        "apart": {"expect_or_quarantine": "v < 20"},
    }
    rules = Rules(
        of_query(keys=["k"], expectations=its), {"c1": "CAST(r.v AS INT)", "c2": "CAST(r.v AS INT)"}, {"k": "k"}
    )
    rows = [("good", 1, 2, False, False), ("noted", 1, 1, False, False), ("out", 1, 10, False, False),
            ("both", 1, 20, False, False), ("unknown", 1, None, False, False), ("no key", None, 2, False, False),
            ("unfit", 1, 2, False, True)]  # fmt: skip
    evaluated = rules.evaluate(spark.createDataFrame(rows, "id STRING, k INT, v INT, c1 BOOLEAN, c2 BOOLEAN"))
    assert fates(evaluated) == {
        "good": ("good", set()), "noted": ("good", {"noted"}), "out": ("drop", {"out"}),
        "both": ("quarantine", {"out", "apart"}), "unknown": ("quarantine", {"noted", "out", "apart"}),
        "no key": ("quarantine", {"k is not null"}), "unfit": ("quarantine", {"CAST(r.v AS INT) fits"}),
    }  # fmt: skip
    counts = evaluated.selectExpr(*rules.counts().values()).collect()[0]
    failed = dict(zip(rules.counts(), counts, strict=True))
    assert failed == {"CAST(r.v AS INT) fits": 1, "k is not null": 1, "noted": 2, "out": 3, "apart": 2}
    tally = rules.tally(failed | {"k is not null": 0}, 7)
    assert (tally["noted"], "k is not null" in tally) == ({"passed": 5, "failed": 2}, False)


def test_a_delete_is_held_to_its_key_and_sequence_alone_and_what_was_not_parsed_is_none(spark: SparkSession) -> None:
    changes = {"keys": ["k"], "sequence_by": "seq", "apply_as_deletes": "op = 'd'"}
    its = {"known": {"expect_or_quarantine": "v IS NOT NULL"}, "positive": {"expect_or_quarantine": "k > 0"}}
    silver = table(**{"from": "raw"}, apply_changes=changes, expectations=its)
    assert deletes.identity_columns(silver) == {"_sequence", "k", "seq"}
    assert deletes.deciding_columns(silver) == {"_sequence", "k", "seq", "op"}
    rules = Rules(silver, {}, {"k": "k"}, (), deletes.identity_columns(silver), {PARSED: False})
    rows = [("value", 1, None, "u", None), ("delete", 1, None, "d", None), ("no key", None, None, "d", None),
            ("negative", -1, None, "d", None), ("unparsed", 1, 1, "d", [PARSED]),
            ("null", 1, 1, None, None)]  # fmt: skip
    landed = spark.createDataFrame(rows, f"id STRING, k INT, v INT, op STRING, {UNFIT} ARRAY<STRING>")
    told = deletes.add_deletes(landed, silver.apply_changes)
    assert {row.id: row[DELETES] for row in told.collect()} == {
        "value": False, "delete": True, "no key": True, "negative": True, "unparsed": False, "null": None,
    }  # fmt: skip
    assert fates(rules.evaluate(told)) == {
        "value": ("quarantine", {"known"}), "delete": ("good", set()),
        "no key": ("quarantine", {"k is not null", "positive"}), "negative": ("quarantine", {"positive"}),
        "unparsed": ("quarantine", {PARSED}), "null": ("good", set()),
    }  # fmt: skip
    without = table(**{"from": "raw"}, apply_changes={"keys": ["k"], "sequence_by": "seq"})
    for none in (None, without.apply_changes):
        assert DELETES not in deletes.add_deletes(landed, none).columns


def test_of_rows_that_share_what_should_be_unique_the_first_stays_and_a_NULL_does_not(spark: SparkSession) -> None:
    """Each expectation considers all rows that are good so far, also those that another one turns away."""
    its = {"one_mail": {"expect_or_quarantine": "unique(mail)"}, "one_name": {"expect": "unique(first, last)"}}
    rules = Rules(of_query(expectations=its), {}, {})
    rows = [("a", "x@", "A", "B", "good", 1), ("b", "x@", "A", "C", "good", 2), ("c", None, "A", "C", "good", 3),
            ("d", None, "D", "D", "good", 4), ("e", "e@", None, "D", "good", 5), ("f", "f@", "A", "B", "drop", 0),
            ("g", "x@", "G", "G", "quarantine", 0)]  # fmt: skip
    columns = f"id STRING, mail STRING, first STRING, last STRING, {DISPOSITION} STRING, at INT"
    evaluated = spark.createDataFrame(rows, columns).selectExpr("*", f"CAST(array() AS ARRAY<STRING>) AS {BROKEN}")
    judged = rules.evaluate_unique(evaluated, ["at"])
    assert judged.columns == evaluated.columns
    assert fates(judged) == {
        "a": ("good", set()), "b": ("quarantine", {"one_mail"}), "c": ("quarantine", {"one_mail", "one_name"}),
        "d": ("quarantine", {"one_mail"}), "e": ("good", {"one_name"}), "f": ("drop", set()),
        "g": ("quarantine", set()),
    }  # fmt: skip

"""Expectations of rows: what each row breaks, how many do, and what is said and refused of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluicegate.definition import Expectation
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.frames.rules.row_rules import RowRules, Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rules(**conditions: dict[str, str | int]) -> RowRules:
    return RowRules({name: Expectation.model_validate(one) for name, one in conditions.items()})


def test_each_row_has_the_rules_that_it_breaks_in_their_order(spark: SparkSession) -> None:
    """NULL breaks a rule, and so does a value that does not fit; a column in another case is the same."""
    asked = rules(
        few={"expect": "N < 3"}, known={"expect_or_drop": "name IS NOT NULL"},
        whole={"expect": "CAST(text AS INT) > 0"}, none={"expect": "absent = 1"},
    )  # fmt: skip
    rows = [(1, "a", "7"), (3, "a", "7"), (None, None, "seven"), (2, "b", "-1")]
    evaluated = asked.evaluate(spark.createDataFrame(rows, "n INT, name STRING, text STRING"))
    assert evaluated.columns == ["n", "name", "text", BROKEN]
    assert [row[BROKEN] for row in evaluated.collect()] == [
        ["none"], ["few", "none"], ["few", "known", "whole", "none"], ["whole", "none"],
    ]  # fmt: skip
    tally = asked.tally(evaluated)
    assert tally == Tally(4, {"few": 2, "known": 1, "whole": 2, "none": 4})
    assert tally.facts()["few"] == {"passed": 2, "failed": 2}


def test_a_rule_is_found_by_its_whole_name_whatever_is_in_it(spark: SparkSession) -> None:
    named = RowRules({name: Expectation(expect=text) for name, text in (("it's", "n > 1"), ("it", "n > 2"))})
    evaluated = named.evaluate(spark.createDataFrame([(1,), (2,)], "n INT"))
    assert named.tally(evaluated).failed == {"it's": 1, "it": 2}


def test_what_is_refused_are_the_rows_of_rules_that_fail_the_run_and_of_those_above_their_bound(
    spark: SparkSession,
) -> None:
    asked = rules(
        never={"expect_or_fail": "n <> 9"}, some={"expect": "n < 2", "fail_above": 2},
        many={"expect": "n < 1", "fail_above": 4},
        share={"expect": "n < 3", "fail_above": "40%", "warn_above": "20%"}, seen={"expect": "n < 2", "warn_above": 2},
        kept={"expect_or_fail": "n > 0"},
    )  # fmt: skip
    evaluated = asked.evaluate(spark.createDataFrame([(1,), (2,), (3,), (9,)], "n INT"))
    tally = asked.tally(evaluated)
    refusal = asked.refusal(tally, lambda: evaluated)
    assert refusal is not None
    assert refusal.words == {
        "never": "never (1 rows)", "some": "some (3 of 4 rows, above 2)", "share": "share (2 of 4 rows, above 40%)",
    }  # fmt: skip
    assert sorted(row.n for row in refusal.rows.collect()) == [2, 3, 9]
    assert asked.warnings(tally) == [
        "share: 2 of 4 rows failed, above 20%", "seen: 3 of 4 rows failed, above 2",
    ]  # fmt: skip
    good = asked.evaluate(spark.createDataFrame([(1,)], "n INT"))
    assert asked.refusal(asked.tally(good), lambda: good) is None

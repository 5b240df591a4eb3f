"""Which rules of a gold table drop rows, and which are counted of those that stay. No Spark."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluicegate.definition import GoldTable
from sluicegate.gold.rules import dropping_rules, remaining_rows

pytestmark = pytest.mark.unit

RULES = {"noted": {"expect": "n > 1"}, "out": {"expect_or_drop": "n > 2"}, "never": {"expect_or_fail": "n > 3"}}


def table(**rules: Any) -> GoldTable:
    return GoldTable.model_validate({"sql": "SELECT count(*) AS n FROM t", "expectations": rules})


def test_rules_that_note_or_fail_drop_no_row() -> None:
    assert [*dropping_rules(table(**RULES)).expectations] == ["out"]
    rows = cast("Any", object())
    without = table(noted=RULES["noted"], never=RULES["never"])
    assert remaining_rows(without, rows) is rows, "it is evaluated by no plan of its own"

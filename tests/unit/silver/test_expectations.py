"""Which rules a silver table has, and what becomes of a row that breaks one. No Spark."""

from __future__ import annotations

import pytest

from sluicegate.definition.tables.silver import SilverTable
from sluicegate.silver.expectations import WHOLE, Rules

pytestmark = pytest.mark.unit

SELECT = {"sql": "SELECT * FROM raw"}


def table(**fields: object) -> SilverTable:
    return SilverTable.model_validate({**SELECT, **fields})


def test_a_text_that_is_cast_at_several_places_is_one_rule() -> None:
    rules = Rules(table(), {"_cast_0": "price as INT", "_cast_1": "price as INT", "_cast_2": "n as INT"}, {})
    assert rules.conditions == {
        "price as INT fits": "NOT (`_cast_0` OR `_cast_1`)",
        "n as INT fits": "NOT (`_cast_2`)",
    }
    assert set(rules.actions.values()) == {"quarantine"}


def test_columns_under_one_name_of_the_definition_are_one_rule() -> None:
    rules = Rules(table(keys=["at"]), {}, {"at": "at", "_sequence": "at", "id": "id"})
    assert rules.conditions == {
        "at is not null": "`at` IS NOT NULL AND `_sequence` IS NOT NULL",
        "id is not null": "`id` IS NOT NULL",
    }


def test_rules_of_the_definition_come_last_and_keep_their_actions() -> None:
    expectations = {"cheap": {"expect_or_drop": "price < 9"}, "shown": {"expect": "price > 0"}}
    rules = Rules(table(expectations=expectations), {"_cast_0": "n as INT"}, {"id": "id"})
    assert [*rules.conditions] == ["n as INT fits", "id is not null", "cheap", "shown"]
    assert rules.actions["cheap"] == "drop"
    assert rules.actions["shown"] == "keep"


@pytest.mark.parametrize(("rescued", "action"), [("fail", "fail"), ("quarantine", "quarantine")])
def test_rescued_values_fail_a_batch_only_where_the_table_says_so(rescued: str, action: str) -> None:
    rules = Rules(table(rescued=rescued), {}, {}, unfit={"price fits its type": False})
    assert rules.actions == {"price fits its type": action}
    assert rules.conditions == {}


def test_whole_records_in_quarantine_are_a_rule_without_a_condition() -> None:
    rules = Rules(table(rows="many", quarantine="record"), {}, {"id": "id"})
    assert rules.conditions[WHOLE] == ""
    assert rules.actions[WHOLE] == "quarantine"
    assert WHOLE not in Rules(table(rows="many"), {}, {}).conditions


def test_a_tally_leaves_out_rules_of_every_table_that_no_row_broke() -> None:
    rules = Rules(table(), {}, {"id": "id"})
    assert rules.tally({"id is not null": 0, "cheap": 0}, 4) == {"cheap": {"passed": 4, "failed": 0}}
    assert rules.tally({"id is not null": 3, "cheap": 1}, 4) == {
        "id is not null": {"passed": 1, "failed": 3},
        "cheap": {"passed": 3, "failed": 1},
    }

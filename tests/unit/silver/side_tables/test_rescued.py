"""Landed values that a row lacks, and the SQL that counts rows with rescued ones. No Spark."""

from __future__ import annotations

import json

import pytest

from sluicegate.silver.side_tables import rescued

pytestmark = pytest.mark.unit


def test_landed_values_are_those_that_broken_rules_name() -> None:
    record = json.dumps({"id": 1, "price": None, "_rescued_data": json.dumps({"price": "12 EUR", "note": "x"})})
    assert rescued.landed_values(record, ["price fits its type"]) == {"price": "12 EUR"}
    assert rescued.landed_values(record, ["CAST(id AS DATE) fits", "cheap"]) == {"id": 1}


def test_an_unparsed_record_is_shown_by_its_text() -> None:
    record = json.dumps({"_corrupt_record": "{", "id": None})
    assert rescued.landed_values(record, [rescued.PARSED]) == {"_corrupt_record": "{"}


def test_a_row_without_a_text_of_its_record_has_no_landed_values() -> None:
    assert rescued.landed_values(None, ["price fits its type", rescued.PARSED]) == {}


def test_rows_are_counted_that_broke_another_rule_than_the_static_ones() -> None:
    counted = rescued.unfit_count_sql(["it's cheap"])
    assert "array_except(" in counted
    assert "it\\'s cheap" in counted or "it''s cheap" in counted
    assert "cast(array() as array<string>)" in rescued.unfit_count_sql([])

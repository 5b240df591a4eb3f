"""Which columns bind records of a silver table to each other. No Spark."""

from __future__ import annotations

import pytest

from sluicegate.silver.uniqueness import Uniqueness

pytestmark = pytest.mark.unit


def test_columns_are_those_of_the_key_and_of_every_rule() -> None:
    assert Uniqueness(("id",), {"one_mail": ("mail", "day")}).columns == {"id", "mail", "day"}
    assert Uniqueness((), {}).columns == set()


def test_rows_of_one_hash_share_a_column_only_if_every_hash_is_made_of_it() -> None:
    assert Uniqueness(("id", "day"), {"one_mail": ("mail", "day")}).is_in_each_hash("day")
    assert not Uniqueness(("id",), {"one_mail": ("mail", "day")}).is_in_each_hash("day")
    assert not Uniqueness(("id", "day"), {"one_mail": ("mail",)}).is_in_each_hash("day")


def test_without_a_hash_no_column_is_shared() -> None:
    assert not Uniqueness((), {}).is_in_each_hash("day")

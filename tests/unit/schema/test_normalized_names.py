"""Whose column a normalized name is: the field's that had it first, whatever comes later and in whichever order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField

from sluicegate.definition import BronzeTable
from sluicegate.errors import SchemaMismatch
from sluicegate.schema.evolution import Schema

pytestmark = pytest.mark.unit


def schema(
    known: Sequence[str] = (), landed: dict[str, str] | None = None, first: bool | None = None, **fields: Any
) -> Schema:
    table = BronzeTable.model_validate({"path": "/in", "format": "json", "columnNames": "normalized", **fields})
    kinds = dict.fromkeys(known, StringType())
    return Schema("things", table, kinds, not known if first is None else first, dict(landed or {}))


def columns(of: Schema, *fields: str) -> dict[str, str | None]:
    return {one.field: one.name for one in of.columns([StructField(name, StringType()) for name in fields])}


def test_fields_have_normalized_columns_and_these_their_landed_names() -> None:
    made = schema()
    assert columns(made, "US Gross", "id", "") == {"US Gross": "us_gross", "id": "id", "": None}
    assert made.landed == {"us_gross": "US Gross", "id": "id"}


@pytest.mark.parametrize("order", permutations(["US Gross", "us_gross", "usGross"]))
def test_of_several_fields_that_with_the_name_itself_has_the_column(order: tuple[str, ...]) -> None:
    made = schema()
    assert columns(made, *order) == {"us_gross": "us_gross", "US Gross": None, "usGross": None}
    assert made.collisions == {"US Gross": "us_gross", "usGross": "us_gross"}


@pytest.mark.parametrize("order", permutations(["US Gross", "usGross"]))
def test_else_the_first_by_its_name_has_it(order: tuple[str, ...]) -> None:
    assert columns(schema(), *order) == {"US Gross": "us_gross", "usGross": None}


def test_a_column_stays_with_its_field() -> None:
    made = schema(["us_gross"], {"us_gross": "US Gross"})
    assert columns(made, "us_gross", "more") == {"us_gross": None, "more": "more"}
    assert columns(made, "US Gross") == {"US Gross": "us_gross"}
    assert made.has_field("US Gross")
    assert not made.has_field("other")


def test_case_makes_another_field_unless_the_definition_says_otherwise() -> None:
    held = {"us_gross": "US Gross"}
    assert columns(schema(["us_gross"], held), "US GROSS") == {"US GROSS": None}
    either = schema(["us_gross"], held, readerCaseSensitive=False)
    assert columns(either, "US GROSS") == {"US GROSS": "us_gross"}
    assert columns(either, "US Gross", "us gross")["us gross"] is None  # in one record


def test_a_column_of_before_keeps_its_name() -> None:
    assert columns(schema(["usGross"]), "usGross", "more Of") == {"usGross": "usGross", "more Of": "more_of"}


def test_no_new_columns_are_no_new_columns() -> None:
    rescuing = schema(["id"], {"id": "id"}, schemaEvolutionMode="rescue")
    assert columns(rescuing, "id", "US Gross") == {"id": "id", "US Gross": None}
    assert rescuing.collisions == {}
    with pytest.raises(SchemaMismatch):
        columns(schema(["id"], {"id": "id"}, schemaEvolutionMode="failOnNewColumns"), "US Gross")


def test_names_of_the_engine_are_no_columns_of_files() -> None:
    assert columns(schema(), "source file", "_rescued_data") == {
        "source file": "source_file_", "_rescued_data": "rescued_data",
    }  # fmt: skip


@pytest.mark.parametrize("known", ["us_gross", "US_GROSS"])
@pytest.mark.parametrize("order", permutations(["us_gross", "US_GROSS", "US Gross"]))
def test_a_column_of_before_stays_with_its_field_whichever_comes_first(known: str, order: tuple[str, ...]) -> None:
    made = schema([known])
    assert columns(made, *(field for field in order if field != known)) == {
        field: None for field in order if field != known
    }
    assert columns(made, *order) == {field: known if field == known else None for field in order}
    assert made.landed == {}
    assert set(made.collisions.values()) == {known}


def test_a_column_of_before_is_of_each_case_where_case_does_not_count() -> None:
    assert columns(schema(["ID"], readerCaseSensitive=False), "Id") == {"Id": "ID"}

"""Fields that a reader takes for normalized columns, where it does not see what files have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate.bronze.copy_reader import _landed_names
from sluicegate.bronze.reader import Reader
from sluicegate.landing.chosen.copy_options import CopyOptions
from tests.unit.schema.test_normalized_names import schema

pytestmark = pytest.mark.unit

LANDED = {"us_gross": "US Gross", "id": "id"}


def reader(known: Sequence[str] = tuple(LANDED), **fields: Any) -> Reader:
    session: Any = None  # which is used as soon as something is read
    return Reader(session, schema(known, LANDED, **fields))


def test_where_unknown_fields_are_left_out_those_of_normalized_columns_are_not() -> None:
    fields = {"rescuedDataColumn": "none", "schemaEvolutionMode": "none"}
    assert not reader(**fields)._ignores_other_fields
    assert reader(**fields, columnNames="landed")._ignores_other_fields


def test_a_declared_column_of_the_path_is_no_place_of_a_csv_file() -> None:
    made = reader(
        ["id", "year"], format="csv", schema="id STRING, year STRING", partitionColumns=["Year"], inferColumnTypes=False
    )
    [group] = made._groups(["/in/Year=2024/a.csv"])
    assert [field.name for field in group.fields] == ["id"]


@pytest.mark.parametrize(
    ("copy", "names"),
    [
        (CopyOptions(select="SELECT a AS us_gross, * FROM source"), ["US Gross", "a", "id_"]),
        (CopyOptions(columns=("us_gross", "b")), ["US Gross", "b"]),
        (CopyOptions(select="SELECT a AS US_GROSS, id_ AS other FROM source"), ["US Gross", "other"]),
    ],
)
def test_what_a_copy_calls_as_a_column_is_of_its_field(copy: CopyOptions, names: list[str]) -> None:
    own = ["a", "id_"]
    assert _landed_names(copy, own, copy.query.names(copy.columns, own), LANDED) == names


def test_what_a_copy_takes_as_it_lies_is_of_the_field_of_that_name() -> None:
    copy = CopyOptions(select="SELECT * FROM source")
    assert _landed_names(copy, ["us_gross"], ["us_gross"], LANDED) == ["us_gross"]

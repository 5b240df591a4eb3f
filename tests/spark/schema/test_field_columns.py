"""The column of each field of some files: its type by definition, table and files, and how its values are converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.types import DataType, StructField

from sluicegate.definition import BronzeTable
from sluicegate.errors import SchemaMismatch
from sluicegate.schema.evolution import Schema

# A type is read from DDL by Spark.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

WIDENS = "addNewColumnsWithTypeWidening"


def schema(known: Mapping[str, str] | None = None, *, first: bool = False, **fields: Any) -> Schema:
    table = BronzeTable.model_validate({"path": "/in", "format": "json", "inferColumnTypes": True, **fields})
    return Schema("things", table, {name: DataType.fromDDL(kind) for name, kind in (known or {}).items()}, first)


def columns(of: Schema, **fields: str) -> dict[str, tuple[str | None, str, str]]:
    """Name, type and conversion of the column of each field."""
    landed = [StructField(name, DataType.fromDDL(kind)) for name, kind in fields.items()]
    return {one.field: (one.name, one.type.simpleString(), one.conversion) for one in of.columns(landed)}


@pytest.mark.parametrize("hint", ["price INT", "PRICE INT", "Price INT"])
def test_a_hint_of_another_type_is_refused_in_any_case_of_the_name(hint: str) -> None:
    with pytest.raises(SchemaMismatch, match=r"things\.price is string") as raised:
        columns(schema({"id": "BIGINT", "price": "STRING"}, schemaHints=hint), id="BIGINT")
    assert raised.value.where is not None
    assert raised.value.where.table == "things"


@pytest.mark.parametrize("hint", ["price STRING", "PRICE VARCHAR(9)"])
def test_a_hint_of_the_type_that_is_there_is_none(hint: str) -> None:
    made = schema({"price": "STRING"}, schemaHints=hint)
    assert columns(made, price="BIGINT")["price"][1:] == ("string", "native")


def test_all_columns_of_other_types_are_named_at_once() -> None:
    made = schema({"a": "STRING", "b": "STRING", "c": "INT"}, schemaHints="A INT, b DATE, c INT")
    with pytest.raises(SchemaMismatch, match=r"things\.a is .*; things\.b is ") as raised:
        columns(made)
    assert "things.c" not in raised.value.message


@pytest.mark.parametrize(
    ("hints", "mode", "kind"),
    [("", WIDENS, "bigint"), ("", "addNewColumns", "int"), ("n INT", WIDENS, "int"), ("n INT", "addNewColumns", "int"),
     ("", "rescue", "int")],
)  # fmt: skip
def test_only_a_column_that_nobody_named_gets_a_wider_type(hints: str, mode: str, kind: str) -> None:
    hinted = {"schemaHints": hints} if hints else {}
    made = schema({"n": "INT"}, schemaEvolutionMode=mode, **hinted)
    assert columns(made, n="BIGINT")["n"][:2] == ("n", kind)


def test_a_text_of_a_named_type_is_cast_and_one_of_an_inferred_type_is_a_token() -> None:
    """Whoever names a number knows of zeros before it; where it was inferred, 007 is none."""
    made = schema(first=True, format="csv", schemaHints="named INT")
    assert columns(made, named="INT", inferred="INT", text="STRING") == {
        "named": ("named", "int", "cast"),
        "inferred": ("inferred", "int", "token"),
        "text": ("text", "string", "native"),
    }


def test_a_type_that_was_chosen_for_a_new_column_stays_for_later_files() -> None:
    made = schema(first=True)
    assert columns(made, a="BIGINT")["a"][1] == "bigint"
    assert columns(made, a="STRING")["a"][1] == "bigint"


@pytest.mark.parametrize(
    ("first", "declared", "name"), [(True, None, "b"), (False, None, None), (True, "a BIGINT", None)]
)
def test_the_first_files_make_columns_in_every_mode_unless_the_schema_is_declared(
    first: bool, declared: str | None, name: str | None
) -> None:
    fields = {"schemaEvolutionMode": "rescue"} | ({"schema": declared} if declared else {})
    assert columns(schema({"a": "BIGINT"}, first=first, **fields), b="BIGINT")["b"][0] == name


@pytest.mark.parametrize("sensitive", [True, False])
def test_a_name_in_another_case_is_rescued_beside_the_column_s_own_or_where_case_counts(sensitive: bool) -> None:
    made = schema({"a": "BIGINT"}, readerCaseSensitive=sensitive)
    assert columns(made, A="BIGINT")["A"][0] == (None if sensitive else "a")
    made = schema({"a": "BIGINT"}, readerCaseSensitive=sensitive)
    assert {field: one[0] for field, one in columns(made, A="BIGINT", a="BIGINT").items()} == {"A": None, "a": "a"}

"""The schema in a footer is read as it was written, with the groups' annotations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.bronze.parquet import footer_schema
from sluicegate.bronze.parquet.footer_schema import OPTIONAL, REPEATED, REQUIRED, SchemaNode

pytestmark = pytest.mark.unit


def schema_of(tmp_path: Path, table: pa.Table, **options: Any) -> SchemaNode:
    parquet.write_table(table, tmp_path / "a.parquet", **options)
    return footer_schema.read(str(tmp_path / "a.parquet"))


def test_a_schema_is_a_tree(tmp_path: Path) -> None:
    fields = [
        pa.field("a.b", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("ns", "UTC")),
        pa.field("price", pa.decimal256(50, 5)),
        pa.field("ü", pa.list_(pa.struct([("x", pa.uint8()), ("y", pa.map_(pa.string(), pa.time32("ms")))]))),
    ]
    root = schema_of(tmp_path, pa.schema(fields).empty_table())
    first, time, price, of_list = root.children
    assert (first.name, first.repetition, first.physical, first.logical) == ("a.b", REQUIRED, "INT64", "")
    assert (time.physical, time.logical, time.details) == ("INT64", "TIMESTAMP", {"unit": "NANOS", "utc": True})
    assert (price.physical, price.length, price.details) == ("FIXED_LEN_BYTE_ARRAY", 21, {"precision": 50, "scale": 5})
    [repeated] = of_list.children
    assert (of_list.name, of_list.logical, repeated.repetition) == ("ü", "LIST", REPEATED)
    [element] = repeated.children
    x, y = element.children
    assert (x.details, y.logical, element.repetition) == ({"bits": 8, "signed": False}, "MAP", OPTIONAL)
    assert [leaf.details for leaf in y.children[0].children] == [{}, {"unit": "MILLIS", "utc": False}]


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
def test_the_leaves_are_those_of_pyarrow(tmp_path: Path, version: str) -> None:
    kinds = [pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.date32(), pa.time64("us"), pa.string(),
             pa.binary(), pa.binary(7), pa.timestamp("ms"), pa.decimal128(9, 2), pa.null(), pa.uuid(), pa.json_(),
             pa.large_string()]  # fmt: skip
    many = [pa.field(f"c{number}", kinds[number % len(kinds)]) for number in range(500)]
    root = schema_of(tmp_path, pa.schema(many).empty_table(), version=version)
    schema = parquet.read_metadata(tmp_path / "a.parquet").schema
    assert [(leaf.name, leaf.physical) for leaf in root.children] == [
        (schema.column(n).name, schema.column(n).physical_type) for n in range(len(many))
    ]
    names = {"NONE": "", "INT": "INTEGER"}
    logical = [schema.column(n).logical_type.type for n in range(len(many))]
    assert [leaf.logical for leaf in root.children] == [names.get(name, name) for name in logical]


def test_what_is_no_footer_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    whole = schema_of(tmp_path, pa.table({"id": [1], "name": ["x"]})) and (tmp_path / "a.parquet").read_bytes()
    footer = footer_schema.footer((tmp_path / "a.parquet").open("rb"))
    for data in (b"", b"PAR1", whole[:-1], whole[:-4] + b"PARE"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="it does not end"):
            footer_schema.read(str(path))
    random_of = random.Random(1)
    for _ in range(300):
        data = bytearray(footer[: random_of.randrange(1, len(footer))])
        for _ in range(3):
            data[random_of.randrange(len(data))] = random_of.randrange(256)
        try:
            footer_schema.parse_footer(bytes(data))
        except ValueError:
            continue

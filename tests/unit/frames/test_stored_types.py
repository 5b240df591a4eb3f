"""Which rows a table takes as they are, by the types of both: nothing is left to Delta's conversion. No JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from sluicegate.errors import SchemaMismatch
from sluicegate.frames.stored_types import WIDENS, demand_same

pytestmark = pytest.mark.unit

HELD = pa.struct([("a", pa.int32()), ("b", pa.string())])


def struct(**fields: DataType) -> StructType:
    found = StructType()
    for name, kind in fields.items():
        found = found.add(name, kind)
    return found


def table(folder: Path, kind: Any, **configuration: str) -> str:
    uri = str(folder / "p" / "silver" / "t")
    empty = pa.table({"v": pa.array([], kind), "id": pa.array([], pa.int32())})
    write_deltalake(uri, empty, configuration=configuration or None)  # type: ignore[arg-type]
    return uri


OTHERS = [
    (pa.int32(), LongType(), "INT", "BIGINT"), (pa.int64(), IntegerType(), "BIGINT", "INT"),
    (pa.int32(), DecimalType(10, 2), "INT", "DECIMAL(10,2)"), (pa.int32(), DoubleType(), "INT", "DOUBLE"),
    (pa.decimal128(10, 1), DecimalType(10, 3), "DECIMAL(10,1)", "DECIMAL(10,3)"),
    (pa.decimal128(10, 3), DecimalType(10, 1), "DECIMAL(10,3)", "DECIMAL(10,1)"),
    (pa.float32(), DoubleType(), "FLOAT", "DOUBLE"), (pa.float64(), FloatType(), "DOUBLE", "FLOAT"),
    (pa.date32(), TimestampType(), "DATE", "TIMESTAMP"), (pa.timestamp("us", "UTC"), DateType(), "TIMESTAMP", "DATE"),
    (pa.timestamp("us", "UTC"), TimestampNTZType(), "TIMESTAMP", "TIMESTAMP_NTZ"),
    (pa.int64(), StringType(), "BIGINT", "STRING"), (pa.string(), LongType(), "STRING", "BIGINT"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "made", "was", "now"), OTHERS, ids=[f"{was} {now}" for _, _, was, now in OTHERS])
def test_values_of_another_type_are_refused(tmp_path: Path, held: Any, made: DataType, was: str, now: str) -> None:
    with pytest.raises(SchemaMismatch, match="the new rows have") as refused:
        demand_same(struct(V=made), table(tmp_path, held))
    assert f"V of t is {was}, but the new rows have {now}" in refused.value.message
    assert "`sluicegate run p --full-refresh t`" in refused.value.hint


@pytest.mark.parametrize(
    ("held", "made", "path"),
    [(HELD, struct(b=StringType(), A=LongType()), "v.A"), (pa.list_(pa.int32()), ArrayType(LongType()), "v.element"),
     (pa.map_(pa.string(), pa.int32()), MapType(StringType(), DoubleType()), "v.value"),
     (pa.map_(pa.string(), HELD), MapType(StringType(), struct(a=DoubleType())), "v.value.a"),
     (pa.list_(HELD), ArrayType(struct(b=IntegerType())), "v.element.b"),
     (HELD, ArrayType(StringType()), "v "), (pa.string(), struct(a=StringType()), "v ")],
)  # fmt: skip
def test_parts_are_compared_by_name(tmp_path: Path, held: Any, made: DataType, path: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        demand_same(struct(v=made), table(tmp_path, held))
    assert f"column {path.strip()} of t is " in refused.value.message


@pytest.mark.parametrize(
    ("held", "made"),
    [(pa.int32(), IntegerType()), (pa.int32(), NullType()), (pa.string(), VarcharType(9)),
     (pa.string(), StringType("UTF8_LCASE")), (pa.decimal128(10, 1), DecimalType(10, 1)),
     (HELD, struct(b=StringType(), a=IntegerType())), (HELD, struct(a=IntegerType(), c=DoubleType())),
     (HELD, struct(B=StringType())),
     (pa.list_(HELD), ArrayType(struct(a=IntegerType(), c=DateType()), containsNull=False))],
)  # fmt: skip
def test_what_is_stored_as_it_is(tmp_path: Path, held: Any, made: DataType) -> None:
    """The same type whatever may be NULL; fields in another order; new ones, and a new column; a NULL of no type."""
    demand_same(StructType().add("v", made, nullable=False).add("new", DoubleType()), table(tmp_path, held))


def test_a_table_that_is_not_there_takes_any_and_one_that_widens_wider_ones(tmp_path: Path) -> None:
    demand_same(struct(v=LongType()), str(tmp_path / "p" / "silver" / "none"))
    widening = table(tmp_path, HELD)
    log = Path(widening) / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text().replace('"configuration":{}', f'"configuration":{{"{WIDENS}":"true"}}'))
    demand_same(struct(v=struct(a=LongType())), widening)
    with pytest.raises(SchemaMismatch):
        demand_same(struct(v=struct(a=LongType(), b=LongType())), widening)

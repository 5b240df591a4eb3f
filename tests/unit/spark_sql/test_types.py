"""Types that hold the values of two others."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from sluicegate.spark_sql.types import as_ddl, common_type, has_valid_names, merge
from sluicegate.spark_sql.wider_types import widen_type

pytestmark = pytest.mark.unit

INT, LONG, SHORT, TEXT = T.IntegerType(), T.LongType(), T.ShortType(), T.StringType()
FLOAT, DOUBLE, DATE, NTZ = T.FloatType(), T.DoubleType(), T.DateType(), T.TimestampNTZType()


def decimal(precision: int, scale: int) -> T.DataType:
    return T.DecimalType(precision, scale)


def struct(**fields: T.DataType) -> T.DataType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (INT, INT, INT),
        (INT, LONG, LONG),
        (T.ByteType(), SHORT, SHORT),
        (FLOAT, DOUBLE, DOUBLE),
        (INT, DOUBLE, DOUBLE),
        (SHORT, FLOAT, FLOAT),
        (LONG, DOUBLE, None),
        (INT, FLOAT, None),
        (DATE, NTZ, NTZ),
        (DATE, T.TimestampType(), None),
        (TEXT, INT, None),
        (T.BooleanType(), INT, None),
        (T.NullType(), TEXT, TEXT),
        (decimal(10, 2), decimal(8, 4), decimal(12, 4)),
        (INT, decimal(4, 2), decimal(12, 2)),
        (DOUBLE, decimal(4, 2), None),
        (T.ArrayType(INT), T.ArrayType(LONG), T.ArrayType(LONG)),
        (T.ArrayType(INT), T.ArrayType(TEXT), None),
        (T.MapType(TEXT, INT), T.MapType(TEXT, LONG), T.MapType(TEXT, LONG)),
        (T.MapType(INT, INT), T.MapType(LONG, INT), None),
        (struct(a=INT), struct(a=TEXT), None),
        (struct(a=INT), INT, None),
    ],
)
def test_the_type_that_holds_both_without_a_loss(one: T.DataType, other: T.DataType, both: T.DataType | None) -> None:
    assert common_type(one, other) == both == common_type(other, one)


def test_structs_have_the_fields_of_both_by_name_whatever_its_case() -> None:
    assert common_type(struct(a=INT), struct(b=TEXT, A=LONG)) == struct(a=LONG, b=TEXT)
    assert common_type(struct(b=TEXT, A=LONG), struct(a=INT)) == struct(b=TEXT, A=LONG)


@pytest.mark.parametrize(("scale", "both"), [(18, decimal(37, 18)), (19, decimal(38, 19)), (20, None)])
def test_a_decimal_has_MOST_DIGITS(scale: int, both: T.DataType | None) -> None:
    """A whole number of 64 bits has 19 before the point."""
    assert common_type(LONG, decimal(20, scale)) == both


def test_a_type_is_written_as_spark_reads_it() -> None:
    kind = struct(**{"a b": T.ArrayType(struct(c=TEXT)), "d": T.MapType(TEXT, decimal(9, 2))})
    assert as_ddl(kind) == "struct<`a b`: array<struct<`c`: string>>, `d`: map<string, decimal(9,2)>>"


@pytest.mark.parametrize(
    ("known", "found", "both"),
    [
        (T.ByteType(), SHORT, SHORT),
        (LONG, INT, LONG),
        (INT, DOUBLE, DOUBLE),
        (SHORT, FLOAT, DOUBLE),
        (FLOAT, INT, DOUBLE),
        (FLOAT, LONG, FLOAT),
        (LONG, DOUBLE, LONG),
        (FLOAT, DOUBLE, DOUBLE),
        (DOUBLE, FLOAT, DOUBLE),
        (INT, decimal(12, 2), decimal(12, 2)),
        (INT, decimal(4, 2), decimal(12, 2)),
        (LONG, decimal(20, 5), decimal(24, 5)),
        (LONG, decimal(38, 20), LONG),
        (decimal(10, 2), decimal(12, 4), decimal(12, 4)),
        (decimal(10, 2), decimal(8, 4), decimal(12, 4)),
        (decimal(10, 2), LONG, decimal(21, 2)),
        (decimal(38, 0), decimal(38, 2), decimal(38, 0)),
        (decimal(10, 2), DOUBLE, decimal(10, 2)),
        (DATE, NTZ, NTZ),
        (DATE, T.TimestampType(), DATE),
        (INT, TEXT, INT),
        (TEXT, INT, TEXT),
        (T.BooleanType(), INT, T.BooleanType()),
        (struct(a=INT, b=TEXT), struct(b=INT, a=LONG), struct(a=LONG, b=TEXT)),
        (T.ArrayType(INT), T.ArrayType(DOUBLE), T.ArrayType(DOUBLE)),
        (T.MapType(TEXT, FLOAT), T.MapType(TEXT, DOUBLE), T.MapType(TEXT, DOUBLE)),
        (struct(a=INT), INT, struct(a=INT)),
    ],
)
def test_a_column_is_widened_as_delta_does_it(known: T.DataType, found: T.DataType, both: T.DataType) -> None:
    assert widen_type(known, found) == both


def test_new_fields_come_at_any_depth() -> None:
    items = T.MapType(TEXT, T.ArrayType(struct(a=INT)))
    assert merge(items, T.MapType(TEXT, T.ArrayType(struct(b=TEXT)))) == T.MapType(
        TEXT, T.ArrayType(struct(a=INT, b=TEXT))
    )


@pytest.mark.parametrize("name", ["", "a b", "a\0b", "a\tb", "`"])
def test_names_that_a_table_cannot_have_are_refused_wherever_they_are(name: str) -> None:
    """With NUL in a name of a column, Arrow reads no column of a table."""
    odd, plain = struct(**{name: INT}), struct(**{"a.b": INT})
    for kind in (odd, T.ArrayType(odd), T.MapType(TEXT, odd), T.MapType(odd, TEXT), struct(a=T.MapType(TEXT, odd))):
        assert not has_valid_names(kind)
    for kind in (plain, T.ArrayType(plain), T.MapType(TEXT, plain)):
        assert has_valid_names(kind)

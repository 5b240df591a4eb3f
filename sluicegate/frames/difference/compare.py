"""Compare two frames as multisets of rows, by typed values and never by a text form.

Equality is that of ``frames.value_equality.exact``. Only floating-point numbers may differ a little, as Spark adds
them in any order; there NaN is NaN and 0.0 is -0.0, as in Spark's own GROUP BY.

It is for whole tables, in Spark, and names the rows that differ; gold, which writes them, counts whole rows of a key
(``same_rows.py``). A test case compares a few rows with values of YAML without it
(``tools/testing/row_diff.py``), and the witness shares no code with what it proves (``witness/comparison.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from sluicegate.frames.difference.value_equality import exact_form
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.type_parts import walk

_Form = Callable[[Column, DataType], Column]

# Differing rows that are reported; all are counted.
SHOWN = 10

# A sample's size is exact to this fraction of a percent.
PARTS = 10_000


@dataclass(frozen=True)
class Other:
    """Row that differs: as stored, and as expected.

    Attributes:
        key: values of the key columns.
        stored: other values in the table; None if the table lacks the row.
        due: the expected values; None if no such row is expected.
    """

    key: dict[str, Any]
    stored: dict[str, Any] | None
    due: dict[str, Any] | None

    def __str__(self) -> str:
        if self.due is None:
            return f"{_format_values(self.key | (self.stored or {}))} should not exist"
        if self.stored is None:
            return f"{_format_values(self.key | self.due)} is missing"
        stored, due = self.stored, self.due
        differing = [column for column in stored if stored[column] != due[column]] or list(stored)
        wrong, right = ({column: values[column] for column in differing} for values in (stored, due))
        return f"{_format_values(self.key)} has {_format_values(wrong)} in place of {_format_values(right)}"


@dataclass(frozen=True)
class Compared:
    """Difference between a table and its expected rows.

    Attributes:
        count: rows that differ.
        others: the first of these.
    """

    count: int = 0
    others: tuple[Other, ...] = ()


def compare(
    stored: DataFrame, due: DataFrame, keys: Sequence[str], slack: float | None, *, values: bool = True
) -> Compared:
    """Compare stored rows with expected rows.

    Args:
        stored: the table, with the columns of ``due``.
        due: the expected rows.
        keys: key columns, if known; without any, rows are paired by all columns that are not rounded.
        slack: relative tolerance of floating-point numbers; None if not even the sign of zero may differ.
        values: whether values may be reported, or rows only counted.
    """
    kinds = {field.name: field.dataType for field in stored.schema if field.name in due.columns}
    names = {column: f"c{number}" for number, column in enumerate(kinds)}
    form = canonical_form
    if slack is None:
        form = exact_form
    both = _row_deltas(stored, kinds, names, 1, form).unionByName(_row_deltas(due, kinds, names, -1, form))
    differ = both.groupBy(*names.values()).agg(F.sum("sign").alias("more")).where("more <> 0").persist()
    try:
        if differ.isEmpty():
            return Compared()
        fixed = [column for column, kind in kinds.items() if not is_rounded(kind)]
        known_by = [column for column in keys if column in fixed] or fixed
        pairs = _pairs(differ, kinds, names, known_by, slack).persist()
        try:
            count, shown = pairs.count(), []
            if values:
                shown = pairs.orderBy("key").limit(SHOWN).collect()
        finally:
            pairs.unpersist()
        return Compared(count, tuple(_to_other(row, list(kinds), names, known_by) for row in shown))
    finally:
        differ.unpersist()


def sample_rows(frame: DataFrame, kinds: dict[str, DataType], keys: Sequence[str], percent: float) -> DataFrame:
    """Sample rows by a hash of their keys, so that two frames give the same sample.

    Args:
        frame: the rows.
        kinds: types to which the columns are cast for the hash.
        keys: columns to hash; without any, all that are not rounded. A frame without such columns is not sampled.
        percent: size of the sample.
    """
    fixed = [column for column in (keys or kinds) if not is_rounded(kinds[column])]
    if not fixed or percent >= 100:
        return frame
    key = F.xxhash64(*[canonical_form(_stored_form(frame, column, kinds[column]), kinds[column]) for column in fixed])
    return frame.where(F.pmod(key, F.lit(100 * PARTS)) < int(percent * PARTS))


def is_rounded(kind: DataType) -> bool:
    """Return whether a type is, or contains, a floating-point number."""
    from pyspark.sql.types import DoubleType, FloatType

    return any(isinstance(part, (DoubleType, FloatType)) for part in walk(kind))


def canonical_form(value: Column, kind: DataType) -> Column:
    """Return the form of a value that Spark can group and join by; floating-point values keep their shape.

    There a map becomes its entries in key order.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not is_rounded(kind):
        return exact_form(value, kind)
    if isinstance(kind, MapType):
        return F.array_sort(F.transform(F.map_entries(value), lambda pair: _entry(pair, kind)))
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda item: canonical_form(item, kind.elementType))
    if isinstance(kind, StructType):
        parts = [canonical_form(value.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
        return F.when(value.isNotNull(), F.struct(*parts))
    return value


def _entry(pair: Column, kind: Any) -> Column:
    parts = (("key", kind.keyType), ("value", kind.valueType))
    return F.struct(*[canonical_form(pair.getField(name), part).alias(name) for name, part in parts])


def _row_deltas(
    frame: DataFrame, kinds: dict[str, DataType], names: dict[str, str], sign: int, form: _Form
) -> DataFrame:
    values = [form(_stored_form(frame, column, kind), kind).alias(names[column]) for column, kind in kinds.items()]
    return frame.select(*values, F.lit(sign).alias("sign"))


def _stored_form(frame: DataFrame, column: str, kind: DataType) -> Column:
    """Convert a column to the form in which a table with this type stores it."""
    if frame.schema[column].dataType.simpleString() == kind.simpleString():
        return F.col(quote_name(column))
    return F.col(quote_name(column)).try_cast(kind)


def _pairs(
    differ: DataFrame, kinds: dict[str, DataType], names: dict[str, str], known_by: Sequence[str], slack: float | None
) -> DataFrame:
    """Pair the differing rows of both sides by key: ``key``, ``stored`` and ``due``."""
    compared = [column for column in kinds if column not in known_by]
    keys = [F.col(names[column]) for column in known_by]
    value = F.struct(F.lit(1).alias("there"), *[F.col(names[column]) for column in compared])
    nth = F.row_number().over(Window.partitionBy(*keys or [F.lit(1)]).orderBy(value))
    key = F.struct(F.lit(1).alias("there"), *keys)

    def side(of: str, name: str) -> DataFrame:
        rows = differ.where(of).withColumn("_", F.explode(F.sequence(F.lit(1), F.abs("more").cast("int"))))
        return rows.select(key.alias(f"key_{name}"), nth.alias(f"nth_{name}"), value.alias(name))

    stored_rows, should = side("more > 0", "stored"), side("more < 0", "due")
    same = F.col("key_stored").eqNullSafe(F.col("key_due")) & (F.col("nth_stored") == F.col("nth_due"))
    sides = [(F.col(f"stored.{names[c]}"), F.col(f"due.{names[c]}"), kinds[c]) for c in compared]
    alike = [_are_equal(stored, due, kind, slack) for stored, due, kind in sides]
    both = F.col("stored").isNotNull() & F.col("due").isNotNull()
    other = stored_rows.join(should, same, "full_outer").where(~reduce(and_, alike, both))
    return other.select(F.coalesce("key_stored", "key_due").alias("key"), "stored", "due")


def _are_equal(value: Column, other: Column, kind: DataType, slack: float | None) -> Column:
    """Return whether two values are equal, within ``slack`` if there is one. Never NULL."""
    if slack is None:
        return value.eqNullSafe(other)
    return _are_close(value, other, kind, slack)


def _are_close(value: Column, other: Column, kind: DataType, slack: float) -> Column:
    """Return whether two values are equal: floating-point ones within ``slack``, others exactly. Never NULL."""
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    same = value.eqNullSafe(other)
    if not is_rounded(kind):
        return same
    if isinstance(kind, (DoubleType, FloatType)):
        finite = reduce(and_, [~F.isnan(v) & (F.abs(v) < float("inf")) for v in (value, other)])
        # A FLOAT has 24 bits: two neighbours differ by more than what adding doubles in another order does.
        share = slack
        if slack and isinstance(kind, FloatType):
            share = max(slack, 2.0**-22)
        near = finite & (F.abs(value - other) <= share * F.greatest(F.abs(value), F.abs(other)))
        return same | F.coalesce(near, F.lit(False))
    if isinstance(kind, MapType):  # by now its entries
        entries = ArrayType(StructType().add("key", kind.keyType).add("value", kind.valueType))
        return _are_close(value, other, entries, slack)
    if isinstance(kind, ArrayType):
        element = kind.elementType
        each = F.forall(F.zip_with(value, other, lambda a, b: _are_close(a, b, element, slack)), lambda near: near)
        return same | F.coalesce((F.size(value) == F.size(other)) & each, F.lit(False))
    if not isinstance(kind, StructType):
        raise TypeError(f"{kind.simpleString()} has no parts")
    parts = [_are_close(value.getField(f.name), other.getField(f.name), f.dataType, slack) for f in kind.fields]
    return reduce(and_, parts, value.isNotNull() == other.isNotNull())


def _to_other(row: Row, columns: Sequence[str], names: dict[str, str], known_by: Sequence[str]) -> Other:
    def values(of: Row | None, columns: Sequence[str]) -> dict[str, Any] | None:
        if of is None:
            return None
        return {column: of[names[column]] for column in columns}

    compared = [column for column in columns if column not in known_by]
    return Other(values(row["key"], known_by) or {}, values(row["stored"], compared), values(row["due"], compared))


def _format_values(values: dict[str, Any]) -> str:
    return ", ".join(f"{column} = {_text(value)}" for column, value in values.items()) or "the row"


def _text(value: Any) -> str:
    if isinstance(value, Row) and value.__fields__ == ["value", "more"]:  # a double as ``exact_form`` has it
        is_negative_zero, value = value["more"] is True, value["value"]
        if is_negative_zero:
            value = -0.0
    text = str(value)
    if value is None:
        text = "NULL"
    elif isinstance(value, (str, float)):
        text = repr(value)
    if len(text) <= 80:
        return text
    return f"{text[:80]}…"

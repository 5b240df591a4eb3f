"""Nested values by their JSON text: each leaf that its type holds is in its place, whatever is beside it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from sluicegate.schema import json_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INNER = StructType([StructField("x", IntegerType()), StructField("y", StringType())])
TARGET = StructType(
    [
        StructField("a", IntegerType()),
        StructField("b", ArrayType(LongType())),
        StructField("c", INNER),
        StructField("d", DecimalType(5, 2)),
        StructField("e", MapType(StringType(), IntegerType())),
        StructField("f", BooleanType()),
        StructField("g", DoubleType()),
        StructField("h", ArrayType(INNER)),
        StructField("i", StringType()),
    ]
)
LEAVES: dict[type[DataType], list[Any]] = {
    IntegerType: [0, 7, -3, 2**31 - 1, 2**31, "no number", True, Decimal("1.5")],
    LongType: [0, 2**63 - 1, 2**63, "no number", None],
    DecimalType: [Decimal("12.50"), Decimal("12.5"), Decimal("1.005"), 1000, 999, "no number"],
    BooleanType: [True, False, "no", "maybe"],
    DoubleType: [Decimal("0.1"), 5, Decimal("-2.5"), "no number"],
    StringType: ["two  blanks\t", "", "é\n\"'\\", "null", "5"],
}
HELD: dict[type[DataType], Callable[[Any], bool]] = {
    IntegerType: lambda leaf: type(leaf) is int and -(2**31) <= leaf < 2**31,
    LongType: lambda leaf: type(leaf) is int and -(2**63) <= leaf < 2**63,
    DecimalType: lambda leaf: type(leaf) in (int, Decimal) and abs(leaf) < 1000 and leaf * 100 == int(leaf * 100),
    BooleanType: lambda leaf: isinstance(leaf, bool) or leaf == "no",
    DoubleType: lambda leaf: type(leaf) in (int, Decimal),
    StringType: lambda leaf: isinstance(leaf, str),
}


def value_of(kind: DataType, draw: random.Random, good: bool) -> Any:
    """A value as it may land; one that fits if it has to be good."""
    match kind:
        case StructType():
            fields = [field for field in kind if draw.random() < 0.8]
            if draw.random() < 0.5:
                draw.shuffle(fields)
            return {field.name: value_of(field.dataType, draw, good) for field in fields}
        case ArrayType():
            return [value_of(kind.elementType, draw, good) for _ in range(draw.randrange(3))]
        case MapType():
            return {key: value_of(kind.valueType, draw, good) for key in draw.sample(["k", "é", ""], draw.randrange(3))}
    leaves = [leaf for leaf in LEAVES[type(kind)] if not good or held(kind, leaf)]
    return draw.choice(leaves)


def held(kind: DataType, leaf: Any) -> bool:
    return leaf is None or HELD[type(kind)](leaf)


def stored(kind: DataType, value: Any) -> tuple[Any, bool]:
    """What the type has of a value, by plain Python, and whether a part of it is lost."""
    if value is None:
        return None, False
    match kind:
        case StructType():
            parts = {field.name: stored(field.dataType, value.get(field.name)) for field in kind}
            return {name: part for name, (part, _) in parts.items()}, any(lost for _, lost in parts.values())
        case ArrayType():
            items = [stored(kind.elementType, item) for item in value]
            return [item for item, _ in items], any(lost for _, lost in items)
        case MapType():
            entries = {key: stored(kind.valueType, item) for key, item in value.items()}
            return {key: item for key, (item, _) in entries.items()}, any(lost for _, lost in entries.values())
    if not held(kind, value):
        return None, True
    if isinstance(kind, BooleanType):
        return value is True, False
    return (float(value) if isinstance(kind, DoubleType) else value), False


def text_of(value: Any, blank: str) -> str:
    """JSON text as Spark's reader hands it on, with a blank where its writer leaves one."""
    match value:
        case dict():
            fields = (f"{json.dumps(k, ensure_ascii=False)}:{blank}{text_of(v, blank)}" for k, v in value.items())
            return "{" + f",{blank}".join(fields) + "}"
        case list():
            return "[" + f",{blank}".join(text_of(item, blank) for item in value) + "]"
        case Decimal():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


def texts() -> Iterator[tuple[str, Any, bool]]:
    draw = random.Random(7)
    for number in range(600):
        value = value_of(TARGET, draw, good=number % 3 > 0)
        yield (text_of(value, draw.choice(["", " ", "\n\t"])), *stored(TARGET, value))


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def test_each_leaf_that_its_type_holds_is_in_its_place(spark: SparkSession) -> None:
    landed = list(texts())
    frame = spark.createDataFrame([(n, text) for n, (text, _, _) in enumerate(landed)], "n INT, raw STRING")
    nested = json_values.LandedJson(F.col("raw"), TARGET, json_values.shape(TARGET, TARGET))
    by_leaf = frame.withColumn("by_leaf", json_values.fit(nested))
    rows = json_values.add_fits(by_leaf, {"fit": nested}).select("n", "fit", "by_leaf", "fit_is_whole").collect()
    assert len(rows) == len(landed)
    assert {row["fit_is_whole"] for row in rows} == {True, False}
    for row in rows:
        text, value, lost = landed[row["n"]]
        assert (plain(row["fit"]["value"]), row["fit"]["lost"]) == (value, lost), text
        assert (plain(row["by_leaf"]["value"]), row["by_leaf"]["lost"]) == (value, lost), text


def test_a_text_that_goes_on_behind_a_value_is_none(spark: SparkSession) -> None:
    """A text that lands for a struct may look like one; what follows must not be left out in silence."""
    behind = ("}} tail", '},"y":2', '},"v":{"x":2}', "}}}", "},", "} {}")
    sound = ['{"x":1}', '{"x":1} ', "{'x':1}"]
    texts = [*sound, *(f'{{"x":1{end}' for end in behind)]
    frame = spark.createDataFrame([(text,) for text in texts], "raw STRING")
    fits = {}
    for name, shown in (("strings", StringType()), ("structs", INNER)):
        fits[name] = json_values.LandedJson(F.col("raw"), INNER, json_values.shape(INNER, shown))
    rows = {row["raw"]: row for row in json_values.add_fits(frame, fits).collect()}
    for text in texts:
        for name in fits:
            fit = rows[text][name]
            value = fit["value"] and fit["value"]["x"]
            assert (fit["lost"], value) == ((False, 1) if text in sound else (True, None)), (name, text)

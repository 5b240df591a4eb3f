"""Whether a DOUBLE or FLOAT is exactly the decimal that was cast to it: held against Python's exact numbers."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import pytest

from sluicegate.schema import same_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = [(38, 0), (38, 18), (38, 38), (10, 2), (25, 4), (38, 30)]


def numbers(precision: int, scale: int) -> Iterator[Decimal]:
    drawn, step, top = random.Random(precision + scale), Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)
    ends = [top - step, step - top, step]
    ordinary = [Decimal(text) for text in ("0", "1", "0.5", "-2.75", "12.34", "99.99")]
    powers = [Decimal(2) ** n + part for n in (40, 53, 60, 70, 120) for part in (0, 1, Decimal("0.125"))]
    places = [Decimal(2) ** -n for n in (18, same_numbers._PLACES)]
    any_of = [Decimal(drawn.randrange(-(10**precision), 10**precision)).scaleb(-scale) for _ in range(20)]
    binary = [Decimal(drawn.randrange(-(2**52), 2**52) * 2 ** drawn.randrange(70)) for _ in range(20)]
    for number in [*ends, *ordinary, *powers, *places, *any_of, *binary]:
        if abs(number) < top and number == number.quantize(step):
            yield number


def test_a_number_is_the_same_if_it_is_so_exactly(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    with localcontext() as context:
        context.prec = 80
        for precision, scale in KINDS:
            frame = spark.createDataFrame(
                [(one,) for one in numbers(precision, scale)], f"v DECIMAL({precision},{scale})"
            )
            for kind in ("double", "float"):
                binary = F.col("v").try_cast(kind)
                rows = frame.select("v", binary, same_numbers.same_number(binary, F.col("v"))).collect()
                assert [(v, same) for v, _, same in rows] == [(v, Decimal(number) == v) for v, number, _ in rows]


def test_more_than_PLACES_binary_places_count_as_different(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    beyond = 2.0 ** -(same_numbers._PLACES + 1)
    number = F.lit(Decimal(beyond)).cast("decimal(38,38)")
    [row] = spark.range(1).select(number, same_numbers.same_number(F.lit(beyond), number)).collect()
    assert tuple(row) == (Decimal(beyond), False)

"""What becomes of each text: a column's value, with all that it says, or rescued data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Workspace

pytestmark = pytest.mark.spark

# A type, a text, what the column has of it, and whether the text is rescued.
TEXTS: list[tuple[str, str, str | None, bool]] = [
    ("TIMESTAMP", "2024-01-01 10:30:00", "2024-01-01 10:30:00", False),
    ("TIMESTAMP", "2024-01-01", "2024-01-01 00:00:00", False),
    ("TIMESTAMP", "2024-01-01T10:30:00+05:00", "2024-01-01 05:30:00", False),
    ("TIMESTAMP", "10:30", None, True),
    ("TIMESTAMP", "2024", None, True),
    ("TIMESTAMP", "2024-05", None, True),
    ("TIMESTAMP", "T10:30:00Z", None, True),
    ("TIMESTAMP", "2024-01-01T00:00:00.123456Z", "2024-01-01 00:00:00.123456", False),
    ("TIMESTAMP", "2024-01-01T00:00:00.123456000Z", "2024-01-01 00:00:00.123456", False),
    ("TIMESTAMP", "2024-01-01T00:00:00.1234567Z", None, True),
    ("TIMESTAMP", "2024-1-1 0:0:0.0000001", None, True),
    ("TIMESTAMP_NTZ", "2024-01-01T00:00:00.123456789", None, True),
    ("TIMESTAMP_NTZ", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00", False),
    ("TIMESTAMP_NTZ", "2024-01-01 00:00:00+00:00", "2024-01-01 00:00:00", False),
    ("TIMESTAMP_NTZ", "2024-01-01 00:00:00+05:00", None, True),
    ("TIMESTAMP_NTZ", "10:30", None, True),
    ("DATE", "2024-01-01", "2024-01-01", False),
    ("DATE", "2024-01-01 12:30:00", None, True),
    ("DATE", "2024-01-01 00:00:00", "2024-01-01", False),
    ("DATE", "2024-01-01T00:00:00Z", "2024-01-01", False),
    ("DATE", "2024-01-01T00:00:00+05:00", None, True),
    ("DATE", "2024-01-01 or so", None, True),
    ("DATE", "2024-01", None, True),
    ("DATE", "2024", None, True),
    ("BOOLEAN", "true", "true", False),
    ("BOOLEAN", "no", "false", False),
    ("BOOLEAN", "1", None, True),
    ("BOOLEAN", " 0 ", None, True),
    ("DOUBLE", "0.1", "0.1", False),
    ("DOUBLE", "12D", None, True),
    ("DOUBLE", "7.5f ", None, True),
    ("DOUBLE", "0x1p3", None, True),
    ("DOUBLE", "-inf", "-Infinity", False),
    ("FLOAT", "45F", None, True),
    ("DECIMAL(5,2)", "\u0663.\u0664\u0665\u0666", None, True),
    ("DOUBLE", "72.12345678901234567", None, True),
    ("DOUBLE", "72.123456789012345", "72.12345678901235", False),
    ("DOUBLE", "0.00012345678901234567", "1.2345678901234567E-4", False),
    ("DOUBLE", "0.000123456789012345670", "1.2345678901234567E-4", False),
    ("DOUBLE", "0.000123456789012345678", None, True),
    ("DOUBLE", "1.152921504606847e+18", "1.15292150460684698E18", False),
    ("DOUBLE", "1180591620717411303424", "1.1805916207174113E21", False),
    ("DOUBLE", "007", "7.0", False),
    ("DOUBLE", "9007199254740991", "9.007199254740991E15", False),
    ("DOUBLE", "9007199254740992", "9.007199254740992E15", False),
    ("DOUBLE", "9007199254740993", None, True),
    ("DOUBLE", "-9007199254740993.0", None, True),
    ("DOUBLE", "12345678901234567890", None, True),
    ("DOUBLE", "100000000000000000000", "1.0E20", False),
    ("DOUBLE", "123456789012345678901234567890123456789012", None, True),
    ("DOUBLE", "9007199254740992.00", "9.007199254740992E15", False),
    ("DOUBLE", "9007199254740992.004", None, True),
    ("DOUBLE", "9007199254740992.500", None, True),
    ("DOUBLE", f"1{'0' * 302}", None, True),
    ("DOUBLE", "7d", None, True),
    ("DOUBLE", "2.5F ", None, True),
    ("DOUBLE", "0x1p3", None, True),
    ("DOUBLE", "1e308", "1.0E308", False),
    ("DOUBLE", "1e400", None, True),
    ("DOUBLE", "-1e400", None, True),
    ("DOUBLE", "Infinity", "Infinity", False),
    ("DOUBLE", "-inf", "-Infinity", False),
    ("DOUBLE", "NaN", "NaN", False),
    ("DOUBLE", "1e-400", None, True),
    ("DOUBLE", "0.000e5", "0.0", False),
    ("DOUBLE", "-0", "-0.0", False),
    ("FLOAT", "0.1", "0.1", False),
    ("FLOAT", "0.12345678", "0.12345678", False),
    ("FLOAT", "0.1234567891", None, True),
    ("FLOAT", "16777215", "1.6777215E7", False),
    ("FLOAT", "16777216", "1.6777216E7", False),
    ("FLOAT", "16777217", None, True),
    ("FLOAT", "16777218", "1.6777218E7", False),
    ("FLOAT", "12f", None, True),
    ("FLOAT", "inf", "Infinity", False),
    ("FLOAT", "3e39", None, True),
    ("FLOAT", "1e-60", None, True),
    ("DECIMAL(10, 2)", "1.50", "1.50", False),
    ("DECIMAL(10, 2)", "1.5000", "1.50", False),
    ("DECIMAL(10, 2)", "1.505", None, True),
    ("DECIMAL(10, 2)", "1.\u0662\u0663\u0664", None, True),
    ("DECIMAL(10, 2)", "1.2345e2", "123.45", False),
    ("DECIMAL(10, 2)", "1.2345e1", None, True),
    ("DECIMAL(10, 2)", "1e-2", "0.01", False),
    ("DECIMAL(10, 2)", "1e-3", None, True),
    ("DECIMAL(10, 2)", "1e-40", None, True),
    ("DECIMAL(10, 2)", "120e-3", "0.12", False),
    ("DECIMAL(10, 2)", "120.0500e-1", None, True),
    ("DECIMAL(10, 2)", "0.00e-400", "0.00", False),
    ("DECIMAL(38, 18)", "1e-18", "0.000000000000000001", False),
    ("DECIMAL(38, 18)", "1e-400", None, True),
    ("DECIMAL(38, 18)", "1e-99999999999", None, True),
    ("DECIMAL(38, 10)", "12345678901234567890.10", "12345678901234567890.1000000000", False),
    ("DECIMAL(38, 10)", "12345678901234567890.12345678901", None, True),
    ("BIGINT", "9223372036854775807", "9223372036854775807", False),
    ("BIGINT", "9223372036854775808", None, True),
    ("BIGINT", "1.5", None, True),
    ("BIGINT", "007", "7", False),
]

# Texts of a format that has numbers of its own, as JSON.
TOKENS: list[tuple[str, str, str | None, bool]] = [
    ("BIGINT", "7", "7", False),
    ("BIGINT", "-7", "-7", False),
    ("BIGINT", "0", "0", False),
    ("BIGINT", "007", None, True),
    ("INT", " -07", None, True),
    ("DOUBLE", "0.5", "0.5", False),
    ("DOUBLE", "00.5", None, True),
    ("DECIMAL(10, 2)", "007", None, True),
    ("STRING", "007", "007", False),
    ("DATE", "0024-01-01", "0024-01-01", False),
]


# Times in a format of the definition, with digits of a second behind a comma, and without a separator, which Spark does
# not tell apart from the seconds.
BEHIND_A_COMMA = [
    ("TIMESTAMP", "2024-01-01 10:00:00,123456789", None, True),
    ("TIMESTAMP", "2024-01-01 10:00:00,123456000", "2024-01-01 10:00:00.123456", False),
]
WITHOUT_SEPARATOR = [
    ("TIMESTAMP", "20240101100000123456789", None, True),
    ("TIMESTAMP", "20240101100000123456000", None, True),
]
# Times for a definition with a time zone.
IN_BERLIN = [
    ("TIMESTAMP", "2024-07-01 10:00:00", "2024-07-01 08:00:00", False),
    ("TIMESTAMP", "2024-01-01 10:00:00.5", "2024-01-01 09:00:00.5", False),
    ("TIMESTAMP", "2024-07-01", "2024-06-30 22:00:00", False),
    ("TIMESTAMP", "2024-07-01T10:00:00Z", "2024-07-01 10:00:00", False),
    ("TIMESTAMP", "2024-07-01T10:00:00.5 UTC", "2024-07-01 10:00:00.5", False),
    ("TIMESTAMP", "2024-07-01 10:00:00+05:00", "2024-07-01 05:00:00", False),
    ("TIMESTAMP", "2024-07-01 10:00+05:00", None, True),
    ("TIMESTAMP", "2024-07-01 10:00:00 Asia/Tokyo", "2024-07-01 01:00:00", False),
    ("TIMESTAMP_NTZ", "2024-07-01 10:00:00", "2024-07-01 10:00:00", False),
    ("DATE", "2024-07-01", "2024-07-01", False),
]


def test_a_text_is_rescued_where_its_column_does_not_have_all_of_it(spark: SparkSession) -> None:
    assert converted(spark, "cast", TEXTS) == TEXTS
    assert converted(spark, "token", TOKENS) == TOKENS


def test_times_are_read_in_the_format_and_the_zone_of_the_definition(spark: SparkSession) -> None:
    """A time below a microsecond is rescued wherever its digits are, and one without a zone is of that zone."""
    comma = {"timestampformat": "yyyy-MM-dd HH:mm:ss,SSSSSSSSS"}
    assert converted(spark, "cast", BEHIND_A_COMMA, comma) == BEHIND_A_COMMA
    tight = {"timestampformat": "yyyyMMddHHmmssSSSSSSSSS"}
    assert converted(spark, "cast", WITHOUT_SEPARATOR, tight) == WITHOUT_SEPARATOR
    berlin = {"timezone": "Europe/Berlin"}
    assert converted(spark, "cast", IN_BERLIN, berlin) == IN_BERLIN
    for pattern, text, instant in (
        ("dd.MM.yyyy HH:mm", "01.07.2024 10:00", "2024-07-01 08:00:00"),
        ("dd.MM.yyyy HH:mm'Z'", "01.07.2024 10:00Z", "2024-07-01 08:00:00"),
        ("dd.MM.yyyy HH:mmX", "01.07.2024 10:00Z", "2024-07-01 10:00:00"),
    ):
        wanted = [("TIMESTAMP", text, instant, False)]
        assert converted(spark, "cast", wanted, {"timestampformat": pattern, **berlin}) == wanted


def converted(
    spark: SparkSession,
    conversion: Literal["cast", "token"],
    texts: Sequence[tuple[str, str, str | None, bool]],
    options: Mapping[str, str] = {},
) -> list[tuple[str, str, str | None, bool]]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import DataType, StringType

    from sluicegate.schema.evolution import Column
    from sluicegate.schema.values import Value

    frame = spark.createDataFrame([[text for _, text, _, _ in texts]], [f"c{n}" for n in range(len(texts))])
    values = [
        Value(Column(f"c{n}", StringType(), f"c{n}", DataType.fromDDL(kind), conversion), F.col(f"c{n}"), options)
        for n, (kind, *_) in enumerate(texts)
    ]
    made: Any = frame.select(*[one.typed_value.cast("string") for one in values]).collect()[0]
    lost: Any = frame.select(*[F.lit(False) if one.loss is None else one.loss for one in values]).collect()[0]
    return [(kind, text, made[n], lost[n]) for n, (kind, text, _, _) in enumerate(texts)]


def test_a_damaged_neighbour_takes_no_digits_from_a_number(spark: SparkSession, workspace: Workspace) -> None:
    table = "path: '${landing}/things', format: json, options: {multiLine: true}, schemaHints: 'n DOUBLE'"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{{table}}}\n")
    workspace.land("things/a.json", '[{"n": 1, "t": 1.10}, {"n": 2, "t": 12345678901234567890.10}]')
    workspace.land("things/b.json", '[{"n": 3}, {"n": 4}, {"n":')
    workspace.run(spark, "bronze")
    assert {(n, t) for n, t in workspace.rows("things", "n", "t") if t} == {(1, "1.10"), (2, "12345678901234567890.10")}

"""What becomes of each text: a column's value, with all that it says, or rescued data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    ("TIMESTAMP", "T10:30:00Z", None, True),
    ("TIMESTAMP", "2024-01-01T00:00:00.123456Z", "2024-01-01 00:00:00.123456", False),
    ("TIMESTAMP", "2024-01-01T00:00:00.123456000Z", "2024-01-01 00:00:00.123456", False),
    ("TIMESTAMP", "2024-01-01T00:00:00.1234567Z", "2024-01-01 00:00:00.123456", True),
    ("TIMESTAMP", "2024-1-1 0:0:0.0000001", "2024-01-01 00:00:00", True),
    ("TIMESTAMP_NTZ", "2024-01-01T00:00:00.123456789", "2024-01-01 00:00:00.123456", True),
    ("TIMESTAMP_NTZ", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00", False),
    ("TIMESTAMP_NTZ", "2024-01-01 00:00:00+00:00", "2024-01-01 00:00:00", False),
    ("TIMESTAMP_NTZ", "2024-01-01 00:00:00+05:00", None, True),
    ("TIMESTAMP_NTZ", "10:30", None, True),
    ("DATE", "2024-01-01", "2024-01-01", False),
    ("DATE", "2024-01-01 12:30:00", "2024-01-01", True),
    ("DOUBLE", "0.1", "0.1", False),
    ("DOUBLE", "72.12345678901234567", "72.12345678901235", False),
    ("DOUBLE", "9007199254740991", "9.007199254740991E15", False),
    ("DOUBLE", "9007199254740992", "9.007199254740992E15", False),
    ("DOUBLE", "9007199254740993", "9.007199254740992E15", True),
    ("DOUBLE", "-9007199254740993.0", "-9.007199254740992E15", True),
    ("DOUBLE", "12345678901234567890", "1.2345678901234567E19", True),
    ("DOUBLE", "100000000000000000000", "1.0E20", False),
    ("DOUBLE", "123456789012345678901234567890123456789012", "1.2345678901234568E41", True),
    ("DOUBLE", "1e308", "1.0E308", False),
    ("DOUBLE", "1e400", None, True),
    ("DOUBLE", "-1e400", None, True),
    ("DOUBLE", "Infinity", "Infinity", False),
    ("DOUBLE", "-inf", "-Infinity", False),
    ("DOUBLE", "NaN", "NaN", False),
    ("DOUBLE", "1e-400", "0.0", True),
    ("DOUBLE", "0.000e5", "0.0", False),
    ("DOUBLE", "-0", "-0.0", False),
    ("FLOAT", "0.1", "0.1", False),
    ("FLOAT", "16777215", "1.6777215E7", False),
    ("FLOAT", "16777216", "1.6777216E7", False),
    ("FLOAT", "16777217", "1.6777216E7", True),
    ("FLOAT", "16777218", "1.6777218E7", False),
    ("FLOAT", "3e39", None, True),
    ("FLOAT", "1e-60", "0.0", True),
    ("DECIMAL(10, 2)", "1.50", "1.50", False),
    ("DECIMAL(10, 2)", "1.5000", "1.50", False),
    ("DECIMAL(10, 2)", "1.505", "1.51", True),
    ("DECIMAL(10, 2)", "1.2345e2", "123.45", False),
    ("DECIMAL(10, 2)", "1.2345e1", "12.35", True),
    ("DECIMAL(38, 10)", "12345678901234567890.10", "12345678901234567890.1000000000", False),
    ("DECIMAL(38, 10)", "12345678901234567890.12345678901", "12345678901234567890.1234567890", True),
    ("BIGINT", "9223372036854775807", "9223372036854775807", False),
    ("BIGINT", "9223372036854775808", None, True),
    ("BIGINT", "1.5", None, True),
]


def test_a_text_is_rescued_where_its_column_does_not_have_all_of_it(spark: SparkSession) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import DataType, StringType

    from sluicegate.schema.evolution import Column
    from sluicegate.schema.values import Value

    frame = spark.createDataFrame([[text for _, text, _, _ in TEXTS]], [f"c{n}" for n in range(len(TEXTS))])
    values = [
        Value(Column(f"c{n}", StringType(), f"c{n}", DataType.fromDDL(kind), "cast"), F.col(f"c{n}"), {})
        for n, (kind, *_) in enumerate(TEXTS)
    ]
    made: Any = frame.select(*[one.typed.cast("string") for one in values]).collect()[0]
    lost: Any = frame.select(*[one.lost for one in values if one.lost is not None]).collect()[0]
    found = [(kind, text, made[n], lost[n]) for n, (kind, text, _, _) in enumerate(TEXTS)]
    assert found == TEXTS


def test_a_damaged_neighbour_takes_no_digits_from_a_number(spark: SparkSession, workspace: Workspace) -> None:
    table = "path: '${landing}/things', format: json, options: {multiLine: true}, schemaHints: 'n DOUBLE'"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{{table}}}\n")
    workspace.land("things/a.json", '[{"n": 1, "t": 1.10}, {"n": 2, "t": 12345678901234567890.10}]')
    workspace.land("things/b.json", '[{"n": 3}, {"n": 4}, {"n":')
    workspace.run(spark, "bronze")
    assert {(n, t) for n, t in workspace.rows("things", "n", "t") if t} == {(1, "1.10"), (2, "12345678901234567890.10")}

"""Keys and rules over columns that Spark does not compare: with a schema, the definition tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.spark_sql import ddl
from tests.unit.definition.test_rules import line_of, load, mistakes

pytestmark = pytest.mark.unit

HEAD = """name: p
bronze:
  raw:
    path: /x
    format: json
    schema: "id INT, m MAP<STRING, INT>, v VARIANT, s STRUCT<a: ARRAY<VARIANT>>"
"""
SILVER = (
    'silver:\n  t:\n    sql: SELECT id, m, v FROM STREAM(raw)\n    schema: "id INT, m MAP<STRING, INT>, v VARIANT"\n'
)
CHANGES = "silver:\n  t:\n    from: raw\n    apply_changes:\n"


@pytest.mark.parametrize(
    ("text", "at", "column", "kind"),
    [
        (f"{HEAD}    expect_table:\n      odd: {{unique: [id, s]}}\n", "odd", "s", "STRUCT<a: ARRAY<VARIANT>>"),
        (f"{HEAD}{SILVER}    keys:\n      [id, m]\n", "keys:", "m", "MAP<STRING, INT>"),
        (f"{HEAD}{SILVER}    keys: [id]\n    sequence_by: v\n", "sequence_by", "v", "VARIANT"),
        (f"{HEAD}{SILVER}    expect_all_or_quarantine:\n      odd: unique(m)\n", "odd", "m", "MAP<STRING, INT>"),
        (
            f"{HEAD}{SILVER}    expect_table:\n      odd: {{foreign_key: [v], references: raw (v)}}\n",
            "odd",
            "v",
            "VARIANT",
        ),
        (f"{HEAD}{CHANGES}      keys: [m]\n      sequence_by: id\n", "keys:", "m", "MAP<STRING, INT>"),
        (f"{HEAD}{CHANGES}      keys: [id]\n      sequence_by: v\n", "sequence_by", "v", "VARIANT"),
    ],
)
def test_a_column_that_spark_does_not_compare_is_a_mistake(
    tmp_path: Path, text: str, at: str, column: str, kind: str
) -> None:
    [found] = mistakes(tmp_path, text)
    assert (found.code, found.line) == ("not-comparable", line_of(text, at))
    assert found.message.startswith(f"{column} has type {kind},")
    assert "to_json" in found.hint


def test_other_columns_are_compared(tmp_path: Path) -> None:
    load(tmp_path, f"{HEAD}{SILVER}    keys: [id]\n    expectations:\n      r: {{expect: unique(id)}}\n")


@pytest.mark.parametrize(
    ("kind", "compared"),
    [
        ("INT", True), ("STRUCT<map: INT, variant: STRING>", True), ("STRUCT<map INT, variant STRING>", True),
        ("array<struct<a: string>>", True), ("map<string, int>", False), ("ARRAY<MAP<INT, INT>>", False),
        ("variant", False), ("STRUCT<a: VARIANT COMMENT 'x', b: INT>", False), ("STRUCT<b: INT, a: VARIANT>", False),
    ],
)  # fmt: skip
def test_maps_and_variants_are_not_compared(kind: str, compared: bool) -> None:
    assert ddl.is_compared(kind) is compared

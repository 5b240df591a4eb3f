"""Conditions of a WHERE that are about the records of the stream alone. No Spark."""

from __future__ import annotations

import pytest

from sluicegate.spark_sql.conversion import where_casts

pytestmark = pytest.mark.unit

JOINED = "SELECT r.id FROM STREAM(raw) AS r JOIN names AS n ON n.id = r.id WHERE "
CASES = [
    ("SELECT id FROM STREAM(raw)", "raw", []),
    ("SELECT id FROM STREAM(raw) WHERE kind = 'a' OR amount > 0", "raw", ["kind = 'a' OR amount > 0"]),
    (
        "SELECT id FROM STREAM(raw) WHERE (kind <> 'b' AND raw.at.x BETWEEN 1 AND 2) AND (a OR b)",
        "raw",
        ["kind <> 'b'", "raw.at.x BETWEEN 1 AND 2", "a OR b"],
    ),
    (f"{JOINED}n.name > '' AND r.kind = 'a' AND r.a > N.a", "r", ["r.kind = 'a'"]),
    (f"{JOINED}r.id IN (SELECT id FROM names) AND CAST(r.x AS INT) > 3", "r", ["TRY_CAST(r.x AS INT) > 3"]),
    ("WITH l AS (SELECT 1 AS id WHERE true) SELECT id FROM STREAM(raw) JOIN l USING (id) WHERE at.x = 1", "raw",
     ["at.x = 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "stream", "conditions"), CASES)
def test_conditions_over_the_records_of_a_stream(text: str, stream: str, conditions: list[str]) -> None:
    assert where_casts.conditions(text, stream) == conditions

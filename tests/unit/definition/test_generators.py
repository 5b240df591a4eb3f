"""Functions that make several rows of one record are for tables that say so, which is told before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.errors import DefinitionError
from sluicegate.settings import Settings
from sluicegate.spark_sql.query import Query

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT id, explode(xs) AS x FROM STREAM(t)", "EXPLODE"),
        ("SELECT id, 1 + explode_outer(xs) AS x FROM STREAM(t)", "EXPLODE_OUTER"),
        ("SELECT id, posexplode(xs) AS (n, x) FROM STREAM(t)", "POSEXPLODE"),
        ("SELECT id, inline(xs) AS (a, b) FROM STREAM(t)", "INLINE"),
        ("SELECT id, inline_outer(xs) AS (a, b) FROM STREAM(t)", "INLINE_OUTER"),
        ("SELECT id, stack(2, a, b) AS x FROM STREAM(t)", "STACK"),
        ("SELECT id, x FROM STREAM(t) LATERAL VIEW explode(xs) e AS x", "EXPLODE"),
        ("SELECT id, x FROM STREAM(t) LATERAL VIEW OUTER explode(xs) e AS x", "EXPLODE"),
        ("SELECT o.id, b.x FROM STREAM(t) AS o, LATERAL EXPLODE(o.xs) AS b(x)", "EXPLODE"),
        ("SELECT o.id, b.x FROM STREAM(t) AS o CROSS JOIN LATERAL variant_explode(o.v) AS b(x)", "VARIANT_EXPLODE"),
    ],
)
def test_a_generator_over_the_records_is_refused(text: str, name: str) -> None:
    told = [objection.message for objection in Query.parse(text).stream_objections()]
    assert any(one.startswith(f"{name} returns several rows") for one in told), told


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, xs[0] AS x, transform(xs, x -> x + 1) AS ys FROM STREAM(t)",
        "SELECT t.id, l.x FROM STREAM(t) LEFT JOIN (SELECT id, explode(xs) AS x FROM l) l ON t.id = l.id",
        "SELECT id, explode AS x, 'explode(xs)' AS y FROM STREAM(t)",
    ],
)
def test_a_generator_over_other_rows_is_none_of_the_records(text: str) -> None:
    assert Query.parse(text).stream_objections() == []


def test_a_definition_with_a_generator_in_silver_is_told_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(
        "name: p\nbronze:\n  raw: {path: /x, format: json}\nsilver:\n  s: {sql: s.sql}\n"
    )
    (folder / "s.sql").write_text("SELECT id,\n  explode(xs) AS x\nFROM STREAM(raw)\n")
    with pytest.raises(DefinitionError) as raised:
        definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))
    [mistake] = raised.value.mistakes
    assert "several rows" in str(mistake)
    assert mistake.line == 2

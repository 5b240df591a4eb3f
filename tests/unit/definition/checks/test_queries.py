"""Queries and conditions of a definition, checked by the columns that its tables have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.definition import Pipeline, load
from sluicegate.errors import DefinitionError
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

DEFINITION = """\
name: p
views:
  large: |
    SELECT id, amount
    FROM orders WHERE amount > 10
bronze:
  raw: {path: /x, format: json, schema: "id INT, amount DOUBLE, day DATE, note STRING, at TIMESTAMP"}
  shops: {path: /y, format: json}
  events: {path: /z, format: json, schema: "id INT, at TIMESTAMP, name STRING"}
silver:
  orders:
    sql: |
      SELECT id, amount, day,
        upper(note) AS note
      FROM STREAM(raw)
    expectations:
      paid: {expect: amount > 0}
    expect_table:
      few:
        sql: |
          SELECT day FROM orders
          GROUP BY day HAVING count(*) > 100
  latest: {from: events, apply_changes: {keys: [id], sequence_by: at, apply_as_deletes: name = 'x'}}
  open: {sql: "SELECT id, city, id + 1 AS next FROM STREAM(shops)"}
gold:
  daily:
    sql: |
      SELECT o.day, sum(l.amount) AS total, max(e.name) AS name
      FROM orders AS o JOIN large AS l ON o.id = l.id JOIN latest AS e ON e.id = o.id
      GROUP BY o.day
    expect_all: {some: total >= 0}
  best: {sql: "SELECT day FROM daily WHERE total > 5 AND name LIKE 'a%'"}
  cities: {sql: "SELECT city, count(*) AS n FROM open GROUP BY city"}
  joined: {sql: "SELECT o.id, s.whatever FROM orders AS o JOIN shops AS s ON s.id = o.id"}
"""


def loaded(tmp_path: Path, text: str = DEFINITION, master: str = "local") -> Pipeline:
    folder = tmp_path / "p"
    folder.mkdir(exist_ok=True)
    (folder / "pipeline.yaml").write_text(text)
    return load("p", Settings(lake="/lake", landing="/landing", pipelines=tmp_path, master=master))


def mistakes(tmp_path: Path, text: str) -> list[tuple[str, str, int | None, str]]:
    with pytest.raises(DefinitionError) as raised:
        loaded(tmp_path, text)
    return [(mistake.code, mistake.path, mistake.line, mistake.hint) for mistake in raised.value.mistakes]


def line_of(text: str) -> int:
    return DEFINITION[: DEFINITION.index(text)].count("\n") + 1


@pytest.fixture(autouse=True)
def plain_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SLUICEGATE_METASTORE", raising=False)


def test_what_the_definition_does_not_tell_is_left_to_Spark_and_named(tmp_path: Path) -> None:
    unchecked = loaded(tmp_path).unchecked
    assert [*unchecked] == ["open", "joined"]
    assert all("shops" in reason for reason in unchecked.values())


@pytest.mark.parametrize(
    ("right", "wrong", "code", "path", "hint"),
    [
        ("FROM orders WHERE amount > 10", "FROM orders WHERE amonut > 10", "unknown-column", "views.large", "amount"),
        ("SELECT id, amount, day,", "SELECT id, amount, day, r,", "unknown-column", "silver.orders.sql", ""),
        ("  upper(note) AS note", "  uper(note) AS note", "unknown-function", "silver.orders.sql", "upper"),
        ("  upper(note) AS note", "  concat_ws() AS note", "wrong-arguments", "silver.orders.sql", ""),
        ("  upper(note) AS note", "  day + note AS note", "type-mismatch", "silver.orders.sql", ""),
        ("      paid: {expect: amount", "      paid: {expect: day", "type-mismatch", "silver.orders.expectations.paid",
         ""),
        ("GROUP BY day HAVING", "GROUP BY dya HAVING", "unknown-column", "silver.orders.expect_table.few.sql", "day"),
        ("FROM orders AS o JOIN", "FROM orders AS o JOIN latest AS x ON x.nane = o.note JOIN", "unknown-column",
         "gold.daily.sql", "name"),
        ("      GROUP BY o.day", "      WHERE o.day GROUP BY o.day", "type-mismatch", "gold.daily.sql", ""),
        ("best: {sql: \"SELECT day", "best: {sql: \"SELECT dya", "unknown-column", "gold.best.sql", "day"),
        ("best: {sql: \"SELECT day", "best: {sql: \"SELECT day - true AS day", "type-mismatch", "gold.best.sql", ""),
        ("cities: {sql: \"SELECT city", "cities: {sql: \"SELECT ctiy", "unknown-column", "gold.cities.sql", "city"),
        ("joined: {sql: \"SELECT o.id", "joined: {sql: \"SELECT nosuch(o.id) AS i", "unknown-function",
         "gold.joined.sql", ""),
    ],
)  # fmt: skip
def test_what_Spark_would_refuse_is_told_with_its_place(
    tmp_path: Path, right: str, wrong: str, code: str, path: str, hint: str
) -> None:
    found = mistakes(tmp_path, DEFINITION.replace(right, wrong))
    assert found[0][:3] == (code, path, line_of(right))
    assert hint in found[0][3]


def test_a_column_that_silver_no_longer_selects_is_unknown_to_gold(tmp_path: Path) -> None:
    found = mistakes(tmp_path, DEFINITION.replace("SELECT id, city, id + 1", "SELECT id, id + 1"))
    assert [mistake[:2] for mistake in found] == [("unknown-column", "gold.cities.sql")]


def test_functions_and_types_of_another_Spark_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [DEFINITION.replace("upper(note)", other) for other in ("uper(note)", "luhn_check(note, 1)", "day + note")]
    for text in texts:
        assert loaded(tmp_path, text, master="sc://spark:15002")
    monkeypatch.setenv("SLUICEGATE_METASTORE", "jdbc:postgresql://meta/store")
    for text in texts:
        assert loaded(tmp_path, text)


def test_a_table_with_a_mistake_of_its_own_is_no_mistake_of_those_that_read_it(tmp_path: Path) -> None:
    found = mistakes(tmp_path, DEFINITION.replace("  large: |\n    SELECT id", "  large: |\n    SELECT nothing, , id"))
    assert {path for _, path, _, _ in found} == {"views.large"}

"""Rules with what else a definition may have: views, parameters, flows, comments and normalized names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import DefinitionError
from sluicegate.flow.flows import dependencies, flows
from sluicegate.lake.layout import Lake
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

HEAD = """\
name: p
params:
  least: {type: int, default: 5}
views:
  named: SELECT id, name FROM known WHERE id > ${param:least}
  sums: SELECT count(*) AS n FROM g
bronze:
  eu: {path: /x/eu, format: json, columnNames: normalized}
  us: {path: /x/us, format: csv, schema: "id INT, day DATE", partitionColumns: [shop]}
silver:
  known: {sql: "SELECT id, name FROM STREAM(eu)"}
  t:
    flows:
      eu: {from: eu}
      us: {from: us}
"""
GOLD = 'gold:\n  g: {sql: "SELECT count(*) AS n FROM t"}\n'
RULES = """\
    expect_table:
      all_named: {sql: all_named.sql}
      few: {sql: "SELECT id FROM t WHERE id > ${param:least}"}
"""
ALL_NAMED = "SELECT t.id\nFROM t LEFT JOIN named AS n ON n.id = t.id\nWHERE n.id IS NULL"


def load(tmp_path: Path, text: str, **files: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(text)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_the_query_of_a_rule_reads_views_and_has_values(tmp_path: Path) -> None:
    pipeline = load(tmp_path, HEAD + RULES + GOLD, all_named__sql=ALL_NAMED)
    table = pipeline.silver["t"]
    all_named, few = table.expect_table.values()
    assert (all_named.reads("t"), all_named.referenced_names("t")) == (["known"], ["named"])
    assert few.query.text.endswith("id > 5")
    assert pipeline.in_order("silver") == ["known", "t"]
    found = flows(pipeline, Lake(str(tmp_path / "lake"), "p"), "silver")
    assert [*found["t"].references] == ["known"]
    assert dependencies(found) == {"known": [], "t": ["known"]}
    other = load(tmp_path, (HEAD + RULES + GOLD).replace("default: 5", "default: 6"), all_named__sql=ALL_NAMED)
    assert other.silver["t"].rules_fingerprint != table.rules_fingerprint
    assert other.silver["t"].fingerprint == table.fingerprint  # of rows, which rules do not decide


def test_each_layer_takes_rules_with_values_and_comments(tmp_path: Path) -> None:
    of_table = "expect_table: {few: {sql: 'SELECT * FROM eu WHERE us_gross > ${param:least}'}}"
    rules = f'expect_all: {{big: "us_gross > ${{param:least}}"}}, {of_table}'
    text = HEAD.replace("columnNames: normalized}", f"columnNames: normalized, {rules}}}")
    gold = GOLD.replace('FROM t"}', 'FROM t", expect_all_or_drop: {big: "n > ${param:least}"}, comment: counts}')
    pipeline = load(tmp_path, text + gold)
    at = Lake(str(tmp_path / "lake"), "p")
    assert pipeline.bronze["eu"].expectations["big"].text == "us_gross > 5"
    assert pipeline.bronze["eu"].expect_table["few"].query.text.endswith("us_gross > 5")
    assert pipeline.gold["g"].drop_conditions == ["n > 5"]
    assert flows(pipeline, at, "gold")["g"].description.comment == "counts"
    assert pipeline.ruled == ["eu", "g"]


def test_a_delta_table_in_bronze_has_rules_and_comments(tmp_path: Path) -> None:
    bronze = (
        "name: p\nbronze:\n  d: {path: /x/d, format: delta, comment: theirs, expect_table: {some: {rows: {min: 1}}}}\n"
    )
    table = load(tmp_path, bronze).bronze["d"]
    assert (
        table.fingerprint
        == load(tmp_path, "name: p\nbronze:\n  d: {path: /x/d, format: delta}\n").bronze["d"].fingerprint
    )
    assert (table.comment, [*table.expect_table]) == ("theirs", ["some"])


def test_rules_know_columns_of_folders_and_of_all_flows(tmp_path: Path) -> None:
    text = HEAD.replace("partitionColumns: [shop]}", "partitionColumns: [shop], expect_all: {there: shop IS NOT NULL}}")
    text = text.replace("eu: {from: eu}", "eu: {sql: 'SELECT id, price FROM STREAM(eu)'}") + (
        "    keys: [id]\n    expectations: {there: {expect: shop IS NOT NULL AND price > 0 AND day > '2020-01-01'}}\n"
        "    expect_table: {once: {unique: [shop, price]}}\n"
    )
    pipeline = load(tmp_path, text + GOLD)
    assert [*pipeline.silver["t"].expectations] == ["there"]


@pytest.mark.parametrize(
    ("rules", "code", "part", "said", "hint"),
    [
        ("    expect_table: {no: {sql: 'SELECT n FROM sums'}}\n", "wrong-layer", "no: {sql",
         "sums is a view of g, a gold table, which is", "a gold table"),
        ("    expect_table: {no: {foreign_key: [id], references: named}}\n", "not-a-table", "no: {foreign_key",
         "named is a view", ""),
        ("    expect_table: {no: {sql: 'SELECT id FROM nammed'}}\n", "unknown-table", "no: {sql",
         "table nammed in this pipeline", "did you mean named?"),
        ("    expect_table: {no: {sql: 'SELECT id FROM t WHERE id > ${param:lost}'}}\n", "unknown-param", "no: {sql",
         "parameter lost", ""),
        ("    expect_table: {no: {rows: {min: 1}, references: '${param:least}'}}\n", "param-place", "no: {rows",
         "in paths, options and SQL", ""),
        ("    expect_table:\n      no:\n        sql: |\n          SELECT id\n          FROM named AS n,\n"
         "            sums AS s\n", "wrong-layer", "sums AS s", "sums is a view of g", ""),
        ("    expect_table: {no: {unique: [ids]}}\n", "unknown-column", "no: {unique", "column ids", ""),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, rules: str, code: str, part: str, said: str, hint: str) -> None:
    text = HEAD.replace("eu: {from: eu}\n", "eu: {sql: 'SELECT id, day FROM STREAM(eu)'}\n") + rules + GOLD
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    found = next(one for one in raised.value.mistakes if one.code == code)
    assert found.line == line_of(text, part)
    assert said in found.message
    assert hint in found.hint


@pytest.mark.parametrize(
    ("old", "new", "code", "said", "hint"),
    [
        ("  sums:", "  a_rejected: SELECT id FROM us\n  sums:", "name", "end in _rejected", ""),
        ("columnNames: normalized}", "columnNames: normalized, expect_all: {no: '`US Gross` > 0'}}", "name",
         "no column is", "write us_gross"),
        ("columnNames: normalized}", "columnNames: normalized, expect_table: {no: {unique: [orderId]}}}", "name",
         "no column is", "write order_id"),
        ("eu: {from: eu}", "eu: {from: eu, expect_all: {no: id > 0}}", "unknown-field", "field expect_all", ""),
    ],
)  # fmt: skip
def test_mistakes_elsewhere(tmp_path: Path, old: str, new: str, code: str, said: str, hint: str) -> None:
    text = HEAD.replace(old, new) + GOLD
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    [found] = raised.value.mistakes
    assert (found.code, found.line) == (code, line_of(text, new.strip()))
    assert said in found.message
    assert hint in found.hint

"""Silver tables that several flows fill: what their definition may say, and each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

HEAD = """\
name: p
bronze:
  eu: {path: /x/eu, format: json, schemaHints: u INT}
  us: {path: /x/us, format: json, schemaHints: u INT}
  tags: {path: /x/tags, format: json}
silver:
"""
FIRST = HEAD.count("\n") + 1


def load(tmp_path: Path, silver: str, **files: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(HEAD + silver)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def mistake(tmp_path: Path, silver: str, **files: str) -> Mistake:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, silver, **files)
    [found] = raised.value.mistakes
    return found


FLOWS = """\
  t:
    flows:
      eu: {sql: eu.sql}
      us: {from: us}
"""


def test_each_flow_has_a_query_or_takes_its_table_as_it_is(tmp_path: Path) -> None:
    made = load(tmp_path, FLOWS, eu__sql="SELECT e.id, g.tag FROM STREAM(eu) AS e LEFT JOIN tags AS g ON e.n = g.n")
    table = made.silver["t"]
    assert list(table.flows_or_branches) == ["eu", "us"]
    assert (table.streams, table.lookup_tables, table.reads) == (["eu", "us"], ["tags"], ["eu", "us", "tags"])
    assert table.can_follow("tags")
    assert made.reads("t") == ["eu", "us", "tags"]


def test_a_union_all_of_streams_has_a_flow_for_each_branch(tmp_path: Path) -> None:
    text = (
        "SELECT id, a FROM STREAM(eu)\nUNION ALL\nSELECT n, b FROM STREAM(us)\nUNION ALL SELECT id, c FROM STREAM(eu)"
    )
    table = load(tmp_path, "  t: {sql: t.sql}\n", t__sql=text).silver["t"]
    assert list(table.flows_or_branches) == ["eu", "us", "eu_2"]
    assert [maker.first_branch is not None for maker in table.flows_or_branches.values()] == [False, True, True]
    assert table.query is None


def test_a_lookup_is_followed_if_it_is_in_every_flow_that_reads_it(tmp_path: Path) -> None:
    flows = "  t:\n    flows:\n      eu: {sql: a.sql}\n      us: {sql: b.sql}\n"
    a = "SELECT e.id, g.tag FROM STREAM(eu) AS e JOIN tags AS g ON e.n = g.n"
    b = "SELECT u.id, g.tag FROM STREAM(us) AS u JOIN tags AS g ON u.n > g.n"
    assert load(tmp_path, flows, a__sql=a, b__sql="SELECT id FROM STREAM(us)").silver["t"].can_follow("tags")
    assert not load(tmp_path, flows, a__sql=a, b__sql=b).silver["t"].can_follow("tags")


def test_another_flow_is_no_other_definition_of_those_that_are_there(tmp_path: Path) -> None:
    one = load(tmp_path, "  t:\n    flows:\n      us: {from: us}\n").silver["t"]
    two = load(tmp_path, "  t:\n    flows:\n      us: {from: us}\n      eu: {from: eu}\n").silver["t"]
    assert one.fingerprint == two.fingerprint
    assert (
        one.flows_or_branches["us"].fingerprint
        == two.flows_or_branches["us"].fingerprint
        != two.flows_or_branches["eu"].fingerprint
    )


UNION = "SELECT id, a FROM STREAM(eu)\nUNION ALL\n"


@pytest.mark.parametrize(
    ("silver", "code", "line", "said"),
    [
        ("  t: {sql: SELECT id FROM STREAM(eu), flows: {us: {from: us}}}\n", "one-of", 0, "sql belongs"),
        ("  t:\n    from: eu\n    flows: {us: {from: us}}\n", "one-of", 0, "flows"),
        ("  t:\n    flows: {}\n", "empty", 1, "flows needs at least one name"),
        ("  t:\n    flows:\n      us: {}\n", "missing-field", 2, "either sql, or from"),
        ("  t:\n    flows:\n      us: {sql: SELECT 1, from: us}\n", "one-of", 2, "sql and from"),
        ("  t:\n    flows:\n      us: {python: a.py:f}\n", "missing-field", 2, "python"),
        ("  t:\n    flows:\n      us:\n        form: us\n", "unknown-field", 3, "field form"),
        ("  t:\n    flows:\n      US: {from: us}\n", "name", 0, "name"),
        ("  t:\n    flows:\n      us: {from: uss}\n", "unknown-table", 2, "table uss"),
        ("  t:\n    flows:\n      us: {sql: SELECT id FROM us}\n", "sql", 2, "STREAM(…)"),
        ("  t:\n    flows:\n      us:\n        sql: |\n          SELECT id,\n            max(x) AS x\n"
         "          FROM STREAM(us)\n", "sql", 5, "several records"),
        ("  t:\n    flows:\n      us: {from: us}\n      eu: {sql: SELECT id FROM STREAM(eu)}\n    keys: [n]\n",
         "unknown-column", 4, "eu does not return n"),
        ("  t:\n    flows:\n      us: {from: us}\n      eu: {sql: SELECT n FROM STREAM(eu)}\n"
         "    apply_changes: {keys: [n], sequence_by: u}\n", "unknown-column", 4, "the flow eu"),
        ("  t:\n    flows: {us: {from: us}}\n    apply_changes: {keys: [n], sequence_by: u}\n    keys: [n]\n",
         "one-of", 0, "keys and sequence_by"),
        ("  t:\n    flows: {us: {from: us}}\n    apply_changes_from_snapshot: {keys: [n], sequence_by: u}\n",
         "one-of", 0, "apply_changes_from_snapshot"),
        ("  t:\n    flows: {us: {from: us}}\n    sequence_by: u\n", "missing-field", 0, "keys"),
        ("  t:\n    flows:\n      us: {sql: SELECT id FROM STREAM(us)}\n"
         "    expectations:\n      x: {expect: idd > 1}\n", "unknown-column", 4, "column idd"),
        ("  t:\n    flows:\n      us: {from: us}\n    lookups: {us: follow}\n", "not-a-lookup", 3, "lookup"),
        ("  t:\n    flows:\n      us: {from: t}\n", "cycle", 2, "t reads itself"),
        ("  t:\n    sql: |\n      SELECT id, a FROM STREAM(eu)\n      UNION ALL\n      SELECT id FROM STREAM(us)\n",
         "union", 4, "this branch of UNION ALL"),
        ("  t:\n    sql: |\n      SELECT id, a FROM STREAM(eu)\n      UNION ALL\n      SELECT * FROM STREAM(us)\n",
         "union", 4, "position"),
        ("  t:\n    sql: |\n      SELECT id, a FROM STREAM(eu)\n      UNION ALL\n      SELECT id, a FROM us\n",
         "sql", 4, "STREAM(…)"),
        ("  t:\n    sql: |\n      SELECT id FROM STREAM(eu)\n      UNION\n      SELECT id FROM STREAM(us)\n",
         "sql", 3, "UNION ALL"),
        ("  t:\n    sql: |\n      SELECT id FROM STREAM(eu)\n      UNION ALL\n"
         "      SELECT id FROM STREAM(us)\n      LIMIT 3\n", "sql", 5, "all rows of a UNION ALL"),
        ("  m: {rows: many, sql: SELECT explode(xs) AS x FROM STREAM(eu)}\n"
         "  t:\n    rows: many\n    flows:\n      us: {from: us}\n      m: {sql: SELECT x FROM STREAM(m)}\n",
         "rows", 2, "many rows"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, silver: str, code: str, line: int, said: str) -> None:
    found = mistake(tmp_path, silver)
    assert (found.code, found.line) == (code, FIRST + line)
    assert said in found.message


def test_a_mistake_in_the_file_of_a_flow_has_its_line_there(tmp_path: Path) -> None:
    found = mistake(tmp_path, FLOWS, eu__sql="SELECT id\nFROM STREAM(eu)\nWHERE x = max(y)")
    assert (found.file.rpartition("/")[2], found.line) == ("eu.sql", 3)
    found = mistake(tmp_path, FLOWS, eu__sql="SELECT id\nFROM STREAM(eu) JOIN\ntagss USING (id)")
    assert (found.file.rpartition("/")[2], found.line) == ("eu.sql", 3)

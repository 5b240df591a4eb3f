"""Flows with what else a definition may have: views, parameters and what describes a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.flow.flows import flows
from sluicegate.lake.layout import Lake
from sluicegate.monitor import graph
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

HEAD = """\
name: p
params:
  least: {type: int, default: 5}
views:
  named: SELECT n, tag FROM tags
bronze:
  eu: {path: "/x/eu", format: json}
  us: {path: "/x/us", format: json}
  tags: {path: "/x/tags", format: json}
silver:
"""
FIRST = HEAD.count("\n") + 1

EU = "SELECT e.id, v.tag FROM STREAM(eu) AS e LEFT JOIN named AS v ON e.n = v.n"
US = "SELECT u.id, CAST(NULL AS STRING) AS tag FROM STREAM(us) AS u WHERE u.price > ${param:least}"
BY_FLOWS = f'  t:\n    flows:\n      eu: {{sql: eu.sql}}\n      us: {{sql: "{US}"}}\n'
BY_UNION = "  t: {sql: t.sql}\n"
UNION = f"{EU}\nUNION ALL\n{US}"


def load(tmp_path: Path, silver: str, head: str = HEAD, **files: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(head + silver)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def mistake(tmp_path: Path, silver: str, **files: str) -> Mistake:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, silver, **files)
    [found] = raised.value.mistakes
    return found


@pytest.mark.parametrize("silver", [BY_FLOWS, BY_UNION])
def test_a_flow_reads_the_tables_of_a_view_and_values_of_parameters(tmp_path: Path, silver: str) -> None:
    pipeline = load(tmp_path, silver, eu__sql=EU, t__sql=UNION)
    table = pipeline.silver["t"]
    assert list(table.flows_or_branches) == ["eu", "us"]
    assert (table.reads, table.lookup_tables) == (["eu", "us", "tags"], ["tags"])
    assert (table.referenced_names, pipeline.names_in("t")) == (["eu", "named", "us"], ["eu", "named", "us"])
    us = table.flows_or_branches["us"].query
    assert us is not None
    assert us.text.rstrip().endswith("u.price > 5")
    found = flows(pipeline, Lake(str(tmp_path / "lake"), "p"), "silver")["t"]
    assert {name: uri.rpartition("/")[2] for name, uri in found.streams.items()} == {"eu": "eu", "us": "us"}
    assert [*found.inputs] == ["tags"]
    assert [line.split() for line in graph.graph_lines(pipeline)][:2] == [["silver", "t"], ["bronze", "├─", "eu"]]


def test_another_view_or_value_is_another_definition_of_the_flows_that_have_it(tmp_path: Path) -> None:
    def prints(head: str) -> dict[str, str]:
        several = load(tmp_path, BY_FLOWS, head, eu__sql=EU).silver["t"].flows_or_branches
        return {name: flow.fingerprint for name, flow in several.items()}

    before = prints(HEAD)
    other_view = prints(HEAD.replace("SELECT n, tag FROM", "SELECT n, upper(tag) AS tag FROM"))
    other_value = prints(HEAD.replace("default: 5", "default: 6"))
    assert {name for name in before if other_view[name] != before[name]} == {"eu"}
    assert {name for name in before if other_value[name] != before[name]} == {"us"}


def test_comments_are_of_the_table_and_no_other_definition(tmp_path: Path) -> None:
    plain = load(tmp_path, BY_FLOWS, eu__sql=EU).silver["t"]
    text = BY_FLOWS + "    comment: all sales\n    column_comments: {id: of the shop}\n    tags: {team: shop}\n"
    pipeline = load(tmp_path, text, eu__sql=EU)
    assert pipeline.silver["t"].fingerprint == plain.fingerprint
    found = flows(pipeline, Lake(str(tmp_path / "lake"), "p"), "silver")["t"]
    assert (found.description.comment, dict(found.description.columns)) == ("all sales", {"id": "of the shop"})


@pytest.mark.parametrize(
    ("silver", "code", "line", "said"),
    [
        (BY_FLOWS.replace("      eu", "      some: {from: named}\n      eu"), "not-a-table", 2, "named is a view"),
        (BY_FLOWS + "      some:\n        from: us\n        comment: x\n", "unknown-field", 6, "field comment"),
        (BY_FLOWS.replace("param:least", "param:leest"), "unknown-param", 3, "parameter leest"),
        (BY_FLOWS + "    column_comments: {tagg: x}\n", "unknown-column", 4, "column tagg"),
        ("  s: {sql: 'SELECT id FROM STREAM(t)'}\n" + BY_FLOWS.replace("AS u", "AS u JOIN s ON s.id = u.id"),
         "cycle", 0, "tables wait for each other: s reads t reads s"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, silver: str, code: str, line: int, said: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, silver, eu__sql=EU)
    found = next(one for one in raised.value.mistakes if one.code == code)
    assert (found.line, found.file.rpartition("/")[2]) == (FIRST + line, "pipeline.yaml")
    assert said in found.message


def test_mistakes_in_the_file_of_a_union_have_their_lines_there(tmp_path: Path) -> None:
    found = mistake(tmp_path, BY_UNION, t__sql=UNION.replace("LEFT JOIN named", "LEFT JOIN nammed"))
    assert (found.code, found.file.rpartition("/")[2], found.line) == ("unknown-table", "t.sql", 1)
    assert found.hint == "did you mean named?"
    found = mistake(tmp_path, BY_UNION, t__sql=UNION.replace("STREAM(us)", "STREAM(named)"))
    assert (found.code, found.file.rpartition("/")[2], found.line) == ("not-a-table", "t.sql", 3)

"""Comments, properties and tags of a definition: they decide no row, and each mistake has its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.flow import flows
from sluicegate.lake import layout
from tests.unit.definition.reading.test_loader import Folder

pytestmark = pytest.mark.unit

DEFINITION = """\
name: shop
bronze:
  raw:
    path: /in
    format: json
    schema: id INT, at TIMESTAMP
    {bronze}
silver:
  orders:
    sql: SELECT r.id, r.at FROM STREAM(raw) AS r
    keys: [id]
    {silver}
gold:
  daily:
    sql: SELECT date(at) AS day, count(*) AS n FROM orders GROUP BY 1
    {gold}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def definition(bronze: str = "comment: ''", silver: str = "comment: ''", gold: str = "comment: ''") -> str:
    return DEFINITION.format(bronze=bronze, silver=silver, gold=gold)


def test_what_is_said_of_a_table_is_a_part_of_its_flow_and_no_other_definition(folder: Folder) -> None:
    before = folder.load(definition())
    said = (
        "comment: it's\n    column_comments: {id: the key}\n    table_properties: {a.b: 1}\n    tags: {domain: sales}"
    )
    gold = said.replace("{id: the key}", "{n: how many}")
    after = folder.load(definition(said, said, gold))
    at = layout.Lake("/the/lake", "shop")
    for layer, name, columns in (("bronze", "raw", "id"), ("silver", "orders", "id"), ("gold", "daily", "n")):
        found = flows.flows(after, at, layer)[name].description
        assert (found.comment, [*found.columns]) == ("it's", [columns])
        assert found.properties == {"a.b": "1", "sluicegate.tag.domain": "sales"}
        assert not flows.flows(before, at, layer)[name].description
        tables = [getattr(one, layer)[name] for one in (before, after)]
        assert tables[0].fingerprint == tables[1].fingerprint


@pytest.mark.parametrize(
    ("field", "code", "hint"),
    [
        ("column_comments: {idd: x}", "unknown-column", "did you mean id?"),
        ("column_comments: {a.b: x}", "name", ""),
        ("column_comments: {id: x, ID: y}", "duplicate-name", ""),
        ("column_comments: {_chunk: x}", "reserved-name", ""),
        ("column_comments: {id: 5}", "wrong-type", 'put it in quotes: "…"'),
        ('comment: "a\\0"', "description", ""),
        ('comment: "${env:HOME}"', "description", ""),
        ("table_properties: {delta.appendOnly: true}", "property", None),
        ("table_properties: {delta.targetFileSise: 1}", "property", "did you mean delta.targetFileSize?"),
        ("table_properties: {delta.columnMapping.mode: name}", "property", None),
        ("table_properties: {Delta.enableChangeDataFeed: false}", "property", None),
        ("table_properties: {delta.checkpointInterval: 0}", "property", None),
        ("table_properties: {delta.checkpointInterval: often}", "property", None),
        ("table_properties: {delta.dataSkippingNumIndexedCols: -2}", "property", None),
        ("table_properties: {delta.targetFileSize: large}", "property", None),
        ("table_properties: {delta.tuneFileSizesForRewrites: 1}", "property", None),
        ("table_properties: {owner: me}", "property", "choose another name, or use a tag"),
        ("table_properties: {comment: me}", "property", "set it next to table_properties"),
        ("table_properties: {sluicegate.fence: a}", "property", "choose another name"),
        ('table_properties: {"a\'b": c}', "name", ""),
        ("tags: {a-b: c}", "name", ""),
        ("tags: [a]", "wrong-type", ""),
        ("coment: x", "unknown-field", "did you mean comment?"),
    ],
)
@pytest.mark.parametrize(("layer", "line"), [("bronze", 7), ("silver", 12), ("gold", 16)])
def test_each_mistake_has_its_line(
    folder: Folder, field: str, code: str, hint: str | None, layer: str, line: int
) -> None:
    if layer == "gold":
        field = field.replace("{id:", "{n:").replace("ID:", "N:").replace("idd", "nn")
        hint = hint.replace("id?", "n?") if hint else hint
    [found] = folder.mistakes(definition(**{layer: field}))
    assert (found.code, found.line) == (code, line)
    assert hint is None or found.hint == hint


@pytest.mark.parametrize(
    "said",
    ["checkpointInterval: 1", "dataSkippingNumIndexedCols: -1", "dataSkippingNumIndexedCols: 0", "targetFileSize: 64mb",
     "targetFileSize: 67108864", "tuneFileSizesForRewrites: true", "dataSkippingStatsColumns: 'id,at'"],
)  # fmt: skip
def test_properties_that_tune_are_taken(folder: Folder, said: str) -> None:
    made = folder.load(definition(silver=f"table_properties: {{delta.{said}}}"))
    assert len(next(iter(made.silver.values())).table_properties) == 1


def test_a_column_that_only_its_data_knows_may_have_a_comment(folder: Folder) -> None:
    said = "column_comments: {other: x}"
    text = definition(bronze=said).replace("    schema: id INT, at TIMESTAMP\n", "")
    assert folder.load(text).bronze["raw"].column_comments == {"other": "x"}


def test_a_table_of_a_delta_table_may_have_them(folder: Folder) -> None:
    text = "name: shop\nbronze:\n  raw: {path: /in, format: delta, comment: x, tags: {a: b}}\n"
    assert folder.load(text).bronze["raw"].tags == {"a": "b"}

"""Whether a text is one JSON value: Spark's own tokens against Python's decoder, on whatever can stand in a line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.bronze.text.json_reader import JsonFiles
from sluicegate.bronze.text.json_sql import FLAT
from tests.conftest import Workspace
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# No control characters and halves of pairs, of which the two speak differently.
WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2000), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 999) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
).map(json.dumps)
BETWEEN = st.sampled_from(["", "", ",", " ", ", ", "]", "}", "],[", '},"k":', ',"k":', ":", "[", "{", '"', "\\", ",,"])
TEXTS = st.lists(st.tuples(VALUES, BETWEEN), min_size=1, max_size=3).map(lambda parts: "".join(map("".join, parts)))


def one(text: str) -> bool:
    """Whether there is one value, and perhaps a comma."""
    text = re.sub(r",\s*$", "", text).strip()
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def begins(text: str) -> bool:
    """Whether there is one value, whatever stands behind it: that is what Spark's reader reads."""
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return False
    return True


@given(st.lists(TEXTS, min_size=40, max_size=40))
@in_spark(3)
def test_what_stands_behind_a_value_is_always_seen(spark: SparkSession, texts: list[str]) -> None:
    texts += ['{"a":3},4', '{"a":{}},"k":{"b":2}', '{"a":{"b":1}}],4', '{"a":1},"b":2}', '[]{"a":1}', '{"a":{"b":1}},']
    look = JsonFiles(spark, "things", {}, {})
    frame = spark.createDataFrame([(text,) for text in texts], "value string")
    found = frame.selectExpr("value", f"{look._single_value_condition} AS one", f"{FLAT} AS flat").collect()
    assert [row["value"] for row in found if row["one"] != one(row["value"])] == []
    assert [row["value"] for row in found if row["flat"] and begins(row["value"]) and not one(row["value"])] == []


def test_options_say_what_is_one_value(spark: SparkSession) -> None:
    """What the reader takes for a record must not become corrupt text, and what it leaves out must not pass."""
    frame = spark.createDataFrame(
        [(text,) for text in ('{a:{"b":1}} // x', '{a:{"b":1}} /* } */ ', "{a:{}}{b:2}")], "value string"
    )
    lenient = JsonFiles(spark, "things", {"allowComments": "true", "allowUnquotedFieldNames": "true"}, {})
    strict = JsonFiles(spark, "things", {}, {})
    rows = frame.selectExpr(
        f"{lenient._single_value_condition} AS lenient", f"{strict._single_value_condition} AS strict"
    ).collect()
    assert [row["lenient"] for row in rows] == [True, True, False]
    assert not any(row["strict"] for row in rows)


def test_a_multi_line_file_loses_nothing_behind_its_first_value(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: json, options: {multiLine: true}}\n"
    )
    going_on = {
        "a.json": '{"a":1},\n{"a":2}\n',
        "b.json": "{'a':11}\n{'a':12}\n",
        "c.json": '{"a":"x\ty"}\n{"a":21}\n',
        "d.json": '{"a":"ü"}{"a":2}'.encode("utf-16-le"),
    }
    corrupt = {"e.json": "nonsense", "f.json": "[{'a':1},{'a':", "g.json": "{a:1}\n{a:2}"}
    fine = {
        "h.json": '\ufeff[{"a":31},{"a":32}]',
        "i.json": '{"a":40},\n',
        "j{}.json": '{"a":{},"a":41}',
        "k.json": '[{"a":"ü"},{"a":71}]'.encode("utf-16"),
        "l.json": '[{"a":51},{"a":52},{"a":5',
        "m.json": " \n",
        "n.json": '\n\t[{"a":61},\n{"a":62},\n\t\n',
        "o.json": "\t\n",
    }
    for name, content in (going_on | corrupt | fine).items():
        workspace.land(f"things/{name}", content)
    report = workspace.run(spark, "bronze")["things"]
    failed = {path.rsplit("/", 1)[-1]: why for path, why in report.failed.items()}
    assert sorted(failed) == [*going_on, "l.json", "n.json"]
    assert all("continues after its first JSON value" in failed[name] for name in going_on)
    assert failed["l.json"] == "a damaged array: its first 2 elements were read, the text from line 1 on is not JSON"
    rows = workspace.rows("things", "a", "_corrupt_record")
    assert sorted(text for _, text in rows if text) == sorted([*corrupt.values(), '{"a":5'])
    assert sorted(a for a, _ in rows if a) == ["31", "32", "40", "41", "51", "52", "61", "62", "71", "ü"]


def test_blank_lines_are_no_records(spark: SparkSession, tmp_path: Path) -> None:
    blank = '{"a":{"b":1}}\n\t\n\n \r\n{"a":{"b":2}}\n \t'
    for name, content in {"plain": blank, "odd": blank + '\n{"a":{"b":3}}4\n'}.items():
        (tmp_path / name).write_text(content)
    look = JsonFiles(spark, "things", {}, {})
    plain, odd = str(tmp_path / "plain"), str(tmp_path / "odd")
    assert [group.mode for group in look.lines([plain])] == ["native"]
    assert look.has_flat_lines([plain])
    [native, lines] = look.lines([plain, odd])
    assert (native.paths, lines.paths, lines.mode) == ([plain], [odd], "lines")
    assert len(look.texts(lines).collect()) == len(look.variants(lines, "v").collect()) == 3
    assert spark.read.schema("a STRING").json(plain).count() == 2


def test_lines_that_sparks_reader_takes_for_another_encoding_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    """Of UTF-16 it made empty texts of numbers, and behind a byte order mark between records it left out the second."""
    mark = "\ufeff"
    contents = {
        "plain": f'{mark}{{"a":{{}}}}\n{mark}{{"a":2}}\n'.encode(),
        "joined": f'{{"a":1}}\n{mark}{{"a":2}}{{"a":3}}\n'.encode(),
        "padded": b'{"a":{"b":12.50}}\n\0\0\n',
        **{name: '{"a":12}\n'.encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")},
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    look = JsonFiles(spark, "things", {}, {})
    native, lines = look.lines([str(tmp_path / name) for name in contents])
    assert [Path(path).name for path in native.paths] == ["plain", "padded"]
    sound = [row["value"] for row in look.texts(lines).where("sound").collect()]
    assert sound == ['{"a":1}']


def test_bytes_that_are_no_text_in_the_named_encoding_stop_no_other_file(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: json,"
        ' options: {encoding: UTF-16LE, lineSep: "\\n"}}\n'
    )
    for name in "ab":  # where all files fail in one way it is taken for no fault of theirs
        workspace.land(f"things/{name}.json", '{"a":{}}\n{"a":{"b'.encode("utf-16-le") + b"\0\xd8")
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt, report.failed) == (4, 2, {})


def test_a_key_that_stands_twice_keeps_no_record_out(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: json, inferColumnTypes: true}\n"
    )
    workspace.land("things/a.json", '{"a":1,"a":"x","o":{"k":1,"k":2.5}}\n{"a":3,"o":{"k":3}}\n')
    workspace.land("things/b.json", '{"a":9}\n')
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt, report.failed) == (3, 0, {})
    assert sorted(workspace.rows("things", "a", "o"), key=repr) == [("3", {"k": 3.0}), ("9", None), ("x", {"k": 2.5})]


def test_long_numbers_are_seen_however_names_are_quoted(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: json, schemaHints: a DOUBLE,"
        " options: {allowUnquotedFieldNames: true, allowComments: true}}\n"
    )
    long = "0.1234567890123456789"
    for number, begins in enumerate(("'a'", "a", '/* " */ "a"', '"":1,"a"', '"a"')):
        workspace.land(f"things/{number}.json", f"{{{begins}:{long}}}\n")
        workspace.run(spark, "bronze")
    rows = workspace.rows("things", "a", "_rescued_data")
    assert [(a, json.loads(text)["a"]) for a, text in rows] == [(None, long)] * 5


def test_a_record_may_have_a_long_text(spark: SparkSession, workspace: Workspace) -> None:
    """Longer than the 20 MB at which Spark's parser stops by itself."""
    workspace.define("name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: json}\n")
    long = "x" * (21 << 20)
    workspace.land("things/a.json", json.dumps({"a": long, "o": {"k": 1}}) + '\n{"a":"y"}\n')
    assert workspace.run(spark, "bronze")["things"].corrupt == 0
    assert sorted(len(a) for (a,) in workspace.rows("things", "a")) == [1, 21 << 20]

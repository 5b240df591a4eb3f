"""The cases of our pipelines hold, and cases that are wrong are found out, with the rows that differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.definition import load, names
from sluicegate.settings import Settings
from sluicegate.tools.testing.case_files import load as load_cases
from sluicegate.tools.testing.case_run import FAILED, MISTAKE, OK, CaseResult, run_case
from sluicegate.tools.testing.job import run_each_case
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def results(spark: SparkSession, pipelines: Path, name: str, folder: Path) -> dict[str, CaseResult]:
    """What becomes of each case of a pipeline."""
    # Nothing that is named here is to be touched.
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), pipelines)
    cases = load_cases(load(name, settings))
    done = run_each_case(
        lambda case, at: run_case(spark, pipelines, name, case, at), cases, folder / "cases", lambda _result: None
    )
    assert not (folder / "lake").exists()
    assert not (folder / "landing").exists()
    assert [result.name for result in done] == [case.name for case in cases]
    return {result.name: result for result in done}


# A case takes as long as the runs in it, and there are dozens: some twenty minutes of one core.
SOME = ("online_school_courses",)


@pytest.mark.more
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SOME else pytest.mark.chaos) for name in names(ROOT / "pipelines")],
)
def test_the_cases_of_our_pipelines(spark: SparkSession, tmp_path: Path, name: str) -> None:
    done = results(spark, ROOT / "pipelines", name, tmp_path)
    assert {case: (one.differences, one.errors, one.mistakes) for case, one in done.items() if one.state != OK} == {}
    print({case: round(one.seconds, 1) for case, one in done.items()})


HEARTS = """\
name: hearts
bronze:
  beats: {path: "${landing}/beats", format: json, schemaHints: "rate DOUBLE, id INT"}
silver:
  good:
    sql: SELECT id, rate, who FROM STREAM(beats)
    keys: [id]
    expectations:
      low: {expect_or_quarantine: rate < 200}
      alive: {expect_or_fail: rate <> -1}
gold:
  sums: {sql: "SELECT who, sum(rate) AS total FROM good GROUP BY who"}
"""

GIVEN = """\
    given:
      beats: |
        id, rate, who
        1, 60, a
        2, 70.5, a
        3, 300, b
"""

WRONG = f"""\
cases:
  another value:
{GIVEN}    expect:
      good:
        - {{id: 1, rate: 61}}
        - {{id: 2, rate: 70.5}}
      sums: {{count: 2}}
  a row less:
{GIVEN}    expect:
      good: [{{id: 1, rate: 60}}]
  a row more:
{GIVEN}    expect:
      good_quarantine: [{{id: 3, rate: 300}}, {{id: 4, rate: 300}}]
  none at all:
{GIVEN}    expect:
      good_quarantine: []
  not among them:
{GIVEN}    expect:
      good: {{contains: [{{id: 1, who: a}}, {{id: 7, who: z}}], count: 2}}
  within the tolerance:
{GIVEN}    expect:
      sums: {{rows: [{{who: a, total: 130}}], tolerance: 0.5}}
  beyond the tolerance:
{GIVEN}    expect:
      sums: {{rows: [{{who: a, total: 130}}], tolerance: 0.4}}
  a column that is not there:
{GIVEN}    expect:
      good:
        - {{id: 1, rat: 60}}
  a value of another type:
{GIVEN}    expect:
      good:
        - {{id: one}}
  a table that is not there:
    expect:
      good: [{{id: 1}}]
  a run that is to fail:
    given: {{beats: [{{id: 1, rate: -1, who: a}}]}}
    fails: SG300
    expect: {{good: []}}
  a run that fails:
    given: {{beats: [{{id: 1, rate: -1, who: a}}]}}
    expect: {{good: [{{id: 1}}]}}
  a run that does not fail:
{GIVEN}    fails: SG300
  only the second step is wrong:
    steps:
      - given: {{beats: [{{id: 1, rate: 60, who: a}}]}}
        expect: {{sums: [{{who: a, total: 60}}]}}
      - given: {{beats: [{{id: 2, rate: 1, who: a}}]}}
        expect: {{sums: [{{who: a, total: 60}}]}}
"""


@pytest.mark.release
def test_cases_that_are_wrong_are_found_out(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "hearts"
    (folder / "tests").mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(HEARTS)
    (folder / "tests" / "wrong.yaml").write_text(WRONG)
    done = results(spark, tmp_path / "pipelines", "hearts", tmp_path)
    lines = WRONG.splitlines()

    def only(name: str) -> tuple[object, ...]:
        """The one difference of a case: its table, step, and rows by kind."""
        assert done[name].state == FAILED
        (one,) = done[name].differences
        assert lines[one.line - 1].strip().startswith(f"{one.table}:") or f"{one.table}:" in lines[one.line - 1]
        return one.table, one.step, one.changed, one.missing, one.unexpected, one.note

    first = done["another value"].differences
    assert [(one.table, one.changed, one.counts, one.note) for one in first] == [
        ("good", [[["1", "61.0"], ["1", "60.0"]]], {"missing": 0, "unexpected": 0, "changed": 1}, ""),
        ("sums", [], {}, "expected 2 rows, got 1"),
    ]
    assert only("a row less") == ("good", 1, [], [], [["2", "70.5"]], "")
    assert only("a row more") == ("good_quarantine", 1, [], [["4", "300.0"]], [], "")
    assert done["none at all"].differences[0].counts["unexpected"] == 1
    assert only("not among them") == ("good", 1, [], [["7", "z"]], [], "")
    assert done["within the tolerance"].state == OK
    assert only("beyond the tolerance")[2] == [[["a", "130.0"], ["a", "130.5"]]]
    unknown, unfit = done["a column that is not there"], done["a value of another type"]
    assert [one.state for one in (unknown, unfit)] == [MISTAKE, MISTAKE]
    assert [lines[(one.line or 0) - 1].strip() for one in (*unknown.mistakes, *unfit.mistakes)] == [
        "- {id: 1, rat: 60}", "- {id: one}",
    ]  # fmt: skip
    assert unknown.mistakes[0].hint == "did you mean rate?"
    assert "whole numbers" in unfit.mistakes[0].message
    there = only("a table that is not there")
    assert there[:5] == ("good", 1, [], [["1"]], [])
    assert "the table does not exist yet" in str(there[5])
    assert done["a run that is to fail"].state == OK
    assert done["a run that fails"].state == FAILED
    assert "error[SG300]" in done["a run that fails"].errors[0]
    assert "alive" in done["a run that fails"].errors[0]
    assert done["a run that does not fail"].errors == ["the run was expected to fail with SG300, but succeeded"]
    assert only("only the second step is wrong")[:3] == ("sums", 2, [[["a", "60.0"], ["a", "61.0"]]])


FORMATS = """\
name: formats
bronze:
  lines: {path: "${landing}/lines", format: text}
  parts: {path: "${landing}/parts", format: parquet, pathGlobFilter: "part_*.pq"}
  rows: {path: "${landing}/rows", format: orc}
  blocks: {path: /srv/nobody/blocks, format: avro}
  table: {path: "s3a://nobody/table", format: delta}
  quotes: {path: "${landing}/quotes", format: csv, options: {header: true, sep: ";", encoding: ISO-8859-1}}
  one: {path: "${landing}/one.csv", format: csv, schema: "a STRING, b INT"}
silver:
  latest:
    from: quotes
    apply_changes: {keys: [id], sequence_by: _file_modification_time, column_list: [id, text]}
"""

FORMATS_CASES = """\
cases:
  every format:
    given:
      lines: [{value: first}, {value: "second, and more"}]
      parts:
        schema: id BIGINT, at TIMESTAMP, price DECIMAL(10,2), tags ARRAY<STRING>, m MAP<STRING, INT>
        rows:
          - {id: 1, at: 2024-05-01 12:00:00, price: 9.90, tags: [a, null], m: {x: 1}}
          - {id: 2, at: null, price: null, tags: [], m: {}}
      rows: {schema: "d DATE, f DOUBLE", rows: [{d: 2024-05-01, f: .nan}, {d: null, f: 0.1}]}
      blocks: [{id: 1, inner: {a: x}}]
      table: [{id: 1, name: a}]
      quotes: [{id: 1, text: 'a;"b" é'}, {id: 2, text: null}]
      one: {schema: "a STRING, b INT", rows: [{b: 2, a: x}]}
    expect:
      lines: [{value: "second, and more"}, {value: first}]
      parts:
        - {id: 1, at: 2024-05-01 12:00:00, price: 9.9, tags: [a, null], m: {x: 1}}
        - {id: 2, at: null, price: null, tags: [], m: {}}
      rows: [{d: 2024-05-01, f: .nan}, {d: null, f: 0.1}]
      blocks: [{id: 1, inner: {a: x}}]
      table: [{id: 1, name: a}]
      quotes: [{text: 'a;"b" é'}, {text: null}]
      one: [{a: x, b: 2}]
  files in the order in which they landed:
    steps:
      - landed: 2024-06-01
        given: {quotes: [{id: 1, text: later}]}
        expect: {latest: [{id: "1", text: later}]}
      - landed: 2024-05-01
        given: {quotes: [{id: 1, text: sooner}]}
        expect: {latest: [{id: "1", text: later}], quotes: {count: 2}}
  a Delta table with a new column:
    steps:
      - given: {table: [{id: 1, name: a}]}
        expect: {table: [{id: 1, name: a}]}
      - given: {table: [{id: 2, name: b, age: 3}]}
        expect: {table: [{id: 1, name: a, age: null}, {id: 2, name: b, age: 3}]}
      - given: {table: {mode: overwrite, rows: [{id: 9, name: z, age: 1}]}}
        expect: {table: [{id: 9, name: z}]}
  rows that are not of their types:
    given: {parts: {schema: id INT, rows: [{id: one}]}}
    expect: {parts: []}
"""


@pytest.mark.release
def test_rows_land_in_every_format_and_nowhere_else(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "formats"
    (folder / "tests").mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(FORMATS)
    (folder / "tests" / "all.yaml").write_text(FORMATS_CASES)
    done = results(spark, tmp_path / "pipelines", "formats", tmp_path)
    wrong = done.pop("rows that are not of their types")
    assert {case: (one.differences, one.errors, one.mistakes) for case, one in done.items() if one.state != OK} == {}
    assert wrong.state == MISTAKE
    lines = FORMATS_CASES.splitlines()
    assert lines[(wrong.mistakes[0].line or 0) - 1].startswith("    given: {parts: {schema: id INT")
    assert "a row does not match the types: {id: one}" in wrong.mistakes[0].message

"""The ways to make a silver table's rows besides a query with keys: Python, declared columns, histories, snapshots."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.errors import QueryError, TransformError, UserError
from sluicegate.flow.selection import Choice, Interval, Replay
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables as lakes
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BRONZE = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT, seq BIGINT, v STRING", allowOverwrites: true}
  names_raw: {path: "${landing}/names", format: json, schemaHints: "k BIGINT, name STRING"}
silver:
"""
NAMES = "  names: {from: names_raw, apply_changes: {keys: [k], sequence_by: _file_modification_time}}\n"


def define(workspace: Workspace, silver: str, **files: str) -> None:
    workspace.define(BRONZE + silver, **files)
    for folder in ("raw", "names"):
        (workspace.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(name, "\n".join(json.dumps(record) for record in records), age)


def run(spark: SparkSession, workspace: Workspace) -> dict[str, Any]:
    reports = workspace.run(spark, "bronze", "silver")
    assert status.verify(workspace.definition, workspace.settings) == []
    return reports


def replay(spark: SparkSession, workspace: Workspace, **how: bool) -> TableReport:
    return chosen(spark, workspace, Replay("t", **how))


def chosen(spark: SparkSession, workspace: Workspace, choice: Choice) -> TableReport:
    only = "t" if choice.validate else None
    done = Job(workspace.definition, workspace.lake, "silver", {}, spark, choice=choice, only=only).run()
    return next(table for table in done.tables if table.table == "t")


ENRICH = """
from pyspark.sql import functions as F

def enrich(batch, tables):
    known = batch.where("v <> 'left out'").join(tables["names"], "k", "left")
    return known.select("k", F.upper("v").alias("v"), "name", "_chunk", "_pos")
"""


@pytest.mark.more
def test_a_python_transform_makes_the_rows(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, NAMES + """
  t:
    from: raw
    python: made.py:enrich
    lookups: {names: LOOKUP}
    keys: [k]
    expectations: {named: {expect_or_quarantine: name IS NOT NULL, retry: true}}
""".replace("LOOKUP", "as_of_run"), made__py=ENRICH)  # fmt: skip
    land(workspace, "names/a.json", {"k": 1, "name": "Ada"}, age=100)
    records = [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}, {"k": 3, "v": "left out"}, {"k": 1, "v": "again"}]
    land(workspace, "raw/a.json", *records, age=90)
    first = run(spark, workspace)["t"]
    assert workspace.rows("t", "k", "v", "name") == [(1, "X", "Ada")]
    assert (first.read, first.written, first.quarantined, first.dropped, first.duplicates) == (4, 1, 1, 1, 1)
    [(record,)] = workspace.rows("t_quarantine", "_record")
    assert json.loads(record)["v"] == "y"
    # As of the run: what is in the table stays, what waits in quarantine for a name gets it.
    land(workspace, "names/b.json", {"k": 1, "name": "Eve"}, {"k": 2, "name": "Bo"}, age=80)
    second = run(spark, workspace)["t"]
    assert (second.why, second.inserted, second.updated) == ("names changed", 1, 0)
    assert sorted(workspace.rows("t", "k", "v", "name")) == [(1, "X", "Ada"), (2, "Y", "Bo")]
    assert workspace.rows("t_quarantine") == []
    # Following it, all records are judged again: Python does not say which a changed row touches.
    workspace.edit("pipeline.yaml", "as_of_run", "follow")
    land(workspace, "names/c.json", {"k": 2, "name": "Cy"}, age=70)
    third = run(spark, workspace)["t"]
    assert (third.state, third.why) == ("rebuilt", "names changed")
    assert sorted(workspace.rows("t", "k", "v", "name")) == [(1, "X", "Eve"), (2, "Y", "Cy")]


def test_a_transform_that_raises_names_its_line(spark: SparkSession, workspace: Workspace) -> None:
    define(
        workspace, "  t: {from: raw, python: made.py:f}\n", made__py="def f(batch, tables):\n    return batch.nope\n"
    )
    land(workspace, "raw/a.json", {"k": 1, "v": "x"})
    with pytest.raises(TransformError) as raised:
        workspace.run(spark, "bronze", "silver")
    assert raised.value.where.line == 2
    assert workspace.rows("t") == []
    # Its words may quote a value: where columns are marked as personal, only the kind of error is told.
    code = "def f(batch, tables):\n    raise ValueError(batch.first()['v'])\n"
    define(workspace, "  t: {from: raw, python: made.py:f, pii: [v]}\n", made__py=code)
    with pytest.raises(TransformError) as raised:
        workspace.run(spark, "silver")
    assert (raised.value.cause, raised.value.__cause__) == ("ValueError", None)


def test_declared_columns(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, """
  t: {sql: "SELECT v, k, w FROM STREAM(raw) AS r", schema: "k INT, v DOUBLE", schemaEvolutionMode: none}
""")  # fmt: skip
    land(workspace, "raw/a.json", {"k": 1, "v": "1.5", "w": 1}, {"k": 3_000_000_000, "v": "2"}, {"k": 3, "v": "three"})
    run(spark, workspace)
    assert workspace.rows("t") == [(1, 1.5, *workspace.rows("t", "_chunk", "_pos")[0])]
    broken = workspace.rows("t_quarantine", "_failed_expectations")
    assert sorted(rules for (rules,) in broken) == [["k as INT fits"], ["v as DOUBLE fits"]]


def versions(workspace: Workspace) -> list[tuple[Any, ...]]:
    return sorted(workspace.rows("t", "k", "v", "__START_AT", "__END_AT"), key=lambda row: (row[0], row[2]))


@pytest.mark.more
def test_versions_of_a_key_however_late_its_records_come(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, """
  t:
    from: raw
    apply_changes: {keys: [k], sequence_by: seq, stored_as_scd_type: 2, apply_as_deletes: v = 'gone',
                    except_column_list: [seq]}
""")  # fmt: skip
    land(workspace, "raw/a.json", {"k": 1, "seq": 10, "v": "a"}, {"k": 1, "seq": 30, "v": "c"}, age=100)
    land(workspace, "raw/b.json", {"k": 2, "seq": 5, "v": "x"}, age=95)
    run(spark, workspace)
    assert versions(workspace) == [(1, "a", 10, 30), (1, "c", 30, None), (2, "x", 5, None)]
    late = [{"k": 1, "seq": 20, "v": "b"}, {"k": 1, "seq": 40, "v": "c"}, {"k": 2, "seq": 9, "v": "gone"}]
    land(workspace, "raw/c.json", *late, age=80)
    report = run(spark, workspace)["t"]
    assert versions(workspace) == [(1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, None), (2, "x", 5, 9)]
    assert (report.inserted, report.updated, report.deleted) == (1, 2, 0)
    # The file with the first records is corrected: the versions that it made give way.
    land(workspace, "raw/a.json", {"k": 1, "seq": 10, "v": "A"}, age=70)
    run(spark, workspace)
    assert versions(workspace) == [(1, "A", 10, 20), (1, "b", 20, 40), (1, "c", 40, None), (2, "x", 5, 9)]


@pytest.mark.more
def test_versions_from_snapshots(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, """
  t: {from: raw, apply_changes_from_snapshot: {keys: [k], sequence_by: seq, stored_as_scd_type: 2}}
""")  # fmt: skip
    land(workspace, "raw/1.json", {"k": 1, "seq": 1, "v": "a"}, {"k": 2, "seq": 1, "v": "x"}, age=100)
    land(workspace, "raw/2.json", {"k": 1, "seq": 2, "v": "a"}, {"k": 3, "seq": 2, "v": "new"}, age=90)
    run(spark, workspace)
    assert versions(workspace) == [(1, "a", 1, None), (2, "x", 1, 2), (3, "new", 2, None)]
    land(workspace, "raw/3.json", {"k": 1, "seq": 3, "v": "b"}, {"k": 2, "seq": 3, "v": "x"}, age=80)
    run(spark, workspace)
    assert versions(workspace) == [
        (1, "a", 1, 3),
        (1, "b", 3, None),
        (2, "x", 1, 2),
        (2, "x", 3, None),
        (3, "new", 2, 3),
    ]
    held = lakes.table_at(workspace.uri("t")).version()
    with pytest.raises(UserError, match="this would rebuild t, so there is nothing to compare with"):
        replay(spark, workspace, everything=True, validate=True)
    assert lakes.table_at(workspace.uri("t")).version() == held


@pytest.mark.more
def test_a_changed_definition_is_told_until_all_is_replayed(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, """
  t: {sql: "SELECT k, upper(v) AS v FROM STREAM(raw)", expectations: {low: {expect_or_quarantine: k < 5}}}
""")  # fmt: skip
    land(workspace, "raw/a.json", {"k": 1, "v": "a"}, {"k": 7, "v": "b"}, age=100)
    workspace.run(spark, "bronze")
    with pytest.raises(UserError, match="nothing to compare with"):
        replay(spark, workspace, everything=True, validate=True)
    assert not run(spark, workspace)["t"].mixed
    workspace.edit("pipeline.yaml", "upper(v)", "lower(v)")
    land(workspace, "raw/b.json", {"k": 2, "v": "C"}, age=90)
    report = run(spark, workspace)["t"]
    assert report.mixed
    assert any("sluicegate replay PIPELINE t --everything" in line for line in report.remarks())
    assert sorted(workspace.rows("t", "k", "v")) == [(1, "A"), (2, "c")]
    tried = replay(spark, workspace, everything=True, validate=True)
    assert (tried.state, tried.inserted, tried.updated, tried.deleted) == ("validated", 0, 1, 0)
    assert sorted(workspace.rows("t", "k", "v")) == [(1, "A"), (2, "c")]
    done = replay(spark, workspace, everything=True)
    assert (done.state, done.updated, done.mixed) == ("again", 1, False)
    assert sorted(workspace.rows("t", "k", "v")) == [(1, "a"), (2, "c")]
    assert replay(spark, workspace, everything=True).unchanged


@pytest.mark.release
def test_a_changed_definition_is_told_until_an_interval_had_all_records(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(workspace, """
  t: {sql: "SELECT k, to_timestamp(s) AS s, upper(v) AS v FROM STREAM(raw)", keys: [k], event_time: s,
      expectations: {low: {expect_or_quarantine: k < 5}}}
""")  # fmt: skip
    workspace.edit("pipeline.yaml", "seq BIGINT", "s STRING")
    rows = [{"k": 1, "s": "2020-01-01", "v": "a"}, {"k": 7, "s": "2020-01-02", "v": "b"}]
    land(workspace, "raw/a.json", *rows, {"k": 1, "s": "2020-01-03", "v": "late"}, age=100)
    run(spark, workspace)
    workspace.edit("pipeline.yaml", "upper(v)", "lower(v)")
    land(workspace, "raw/b.json", {"k": 2, "s": "2020-01-04", "v": "C"}, age=90)
    assert run(spark, workspace)["t"].mixed

    # The rows of a day, by their key with the one that was set aside; that of the 2nd is in the quarantine.
    done = chosen(spark, workspace, Interval.parse("2020-01-01", "2020-01-02"))
    assert (done.updated, done.mixed) == (1, True)
    assert sorted(workspace.rows("t", "k", "v")) == [(1, "a"), (2, "c")]
    assert chosen(spark, workspace, Interval.parse("2020-01-01", "2020-01-05")).mixed is False
    assert not chosen(spark, workspace, Interval.parse("2020-01-01", "2020-01-02")).mixed
    assert chosen(spark, workspace, Interval.parse("2020-01-01", "2020-01-05")).unchanged
    assert sorted(workspace.rows("t", "k", "v")) == [(1, "a"), (2, "c")]


def test_a_key_that_the_table_does_not_have_yet(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, """
  t: {sql: "SELECT k, v FROM STREAM(raw)", keys: [k]}
""")  # fmt: skip
    land(workspace, "raw/a.json", {"k": 1, "v": "a", "seq": 1}, {"k": 1, "v": "b", "seq": 2}, age=100)
    run(spark, workspace)
    workspace.edit("pipeline.yaml", "SELECT k, v FROM STREAM(raw)", "SELECT k, seq, v FROM STREAM(raw)")
    workspace.edit("pipeline.yaml", "keys: [k]", "keys: [k, seq]")
    replay(spark, workspace, everything=True)
    assert sorted(workspace.rows("t", "k", "seq", "v")) == [(1, 1, "a"), (1, 2, "b")]
    assert status.verify(workspace.definition, workspace.settings) == []


@pytest.mark.release
def test_a_name_with_a_backtick_or_a_dot_in_it_stops_no_table(spark: SparkSession, workspace: Workspace) -> None:
    """A field of that name can come with any file: one with a backtick, which Delta cannot replace, is rescued."""
    silver = """
  t:
    sql: "SELECT *, v AS `x.NAME` FROM STREAM(raw)"
    keys: [k]
    expectations: {short: {expect_or_drop: length(v) < 3}}
  latest: {from: t, apply_changes: {keys: [k], sequence_by: seq, stored_as_scd_type: 2}}
"""
    define(workspace, silver.replace("NAME", "``"))
    odd = {"of`it": "x", "a.b": [1], "``": {"`": 2}}
    land(workspace, "raw/a.json", {"k": 1, "seq": 1, "v": "a", **odd}, {"k": 2, "seq": 1, "v": "long", **odd}, age=90)
    with pytest.raises(QueryError, match="has a backtick in its name"):
        run(spark, workspace)
    define(workspace, silver.replace("NAME", "y"))
    run(spark, workspace)
    land(workspace, "raw/a.json", {"k": 1, "seq": 2, "v": "b", **odd}, {"k": 3, "seq": 1, "v": "c", **odd}, age=80)
    assert run(spark, workspace)["t"].state == "again"
    for table in ("t", "latest"):
        assert sorted(workspace.rows(table, "k", "x.y", "a.b")) == [(1, "b", ["1"]), (3, "c", ["1"])]
    rescued = [json.loads(text) for (text,) in workspace.rows("raw", "_rescued_data")]
    assert [(one["of`it"], one["``"]) for one in rescued] == [("x", {"`": "2"})] * 2


@pytest.mark.more
def test_tables_that_need_nothing_of_each_other_are_filled_side_by_side(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same names of views and with settings of their own, also where records are applied again."""
    query = 'sql: "SELECT r.k, r.v, m.name FROM STREAM(raw) AS r LEFT JOIN names AS m ON r.k = m.k", keys: [k]'
    define(workspace, NAMES + f"""
  a: {{{query}}}
  b: {{{query}, expectations: {{known: {{expect_or_quarantine: name IS NOT NULL, retry: true}}}}}}
  c: {{sql: "SELECT a.k, b.name FROM STREAM(a) AS a JOIN b ON a.k = b.k"}}
""")  # fmt: skip
    land(workspace, "names/a.json", {"k": 1, "name": "Ada"})
    land(workspace, "raw/a.json", {"k": 1, "seq": 1, "v": "a"}, {"k": 2, "seq": 1, "v": "b"})
    run(spark, workspace)
    assert workspace.rows("c", "k", "name") == [(1, "Ada")]
    land(workspace, "names/b.json", {"k": 2, "name": "Bo"}, {"k": 1, "name": "Ada B."}, age=50)
    met, passed = threading.Barrier(2, timeout=300), itertools.count(1)

    def point(name: str) -> None:  # names comes first, c last, and between them neither of a and b can be alone
        if name == "silver.before_commit" and next(passed) in (2, 3):
            met.wait()

    monkeypatch.setattr(_faults, "point", point)
    reports = run(spark, workspace)
    assert [reports[name].state for name in ("a", "b", "c")] == ["again"] * 3
    assert sorted(workspace.rows("a", "k", "v", "name")) == [(1, "a", "Ada B."), (2, "b", "Bo")]
    assert sorted(workspace.rows("b", "k", "v", "name")) == [(1, "a", "Ada B."), (2, "b", "Bo")]
    assert sorted(workspace.rows("c", "k", "name")) == [(1, "Ada B."), (2, "Bo")]


DEEP = """
  d:
    sql: "SELECT c.k, c.v, c.name, few.label FROM STREAM(c) AS c LEFT JOIN few ON c.v = few.v"
    expectations: {known: {expect_or_quarantine: label <> 'LX'}}
  c: {sql: "SELECT b.k, b.v, people.name FROM STREAM(b) AS b LEFT JOIN people ON b.k = people.k", keys: [k]}
  b: {sql: "SELECT a.k, upper(a.v) AS v FROM STREAM(a) AS a WHERE a.v <> 'gone'"}
  a: {sql: "SELECT k, v, seq FROM STREAM(raw) AS r", keys: [k], sequence_by: seq}
  people: {sql: "SELECT k, initcap(name) AS name FROM STREAM(names) AS n WHERE name <> 'nobody'"}
  labels: {sql: "SELECT upper(n.name) AS v, concat('L', p.name) AS label
    FROM STREAM(names_raw) AS n LEFT JOIN people AS p ON n.k = p.k"}
""" + NAMES + """
views:
  few: SELECT v, max(label) AS label FROM labels GROUP BY v
"""  # fmt: skip


@pytest.mark.release
def test_silver_reads_silver_in_any_depth(spark: SparkSession, workspace: Workspace) -> None:
    """As streams, lookups, lookups of lookups and by a view: after each step it is what one run over all makes."""
    define(workspace, DEEP)
    folder = workspace.folder

    def steps() -> Iterator[None]:
        land(workspace, "raw/a.json", *({"k": k, "seq": 1, "v": v} for k, v in enumerate(["x", "y", "gone", "z"])))
        land(workspace, "names/a.json", {"k": 0, "name": "x"}, {"k": 1, "name": "y"}, age=90)
        yield
        land(
            workspace, "names/b.json", {"k": 2, "name": "z"}, {"k": 1, "name": "nobody"}, {"k": 0, "name": "Y"}, age=50
        )
        yield
        land(workspace, "raw/b.json", {"k": 2, "seq": 2, "v": "z"}, {"k": 0, "seq": 2, "v": "gone"}, age=50)
        land(workspace, "raw/a.json", {"k": 1, "seq": 3, "v": "z"}, {"k": 3, "seq": 1, "v": "x"}, age=40)
        yield
        for table in ("a", "people", "c"):
            version = lakes.delta_table(workspace.uri(table)).version()  # type: ignore[union-attr]
            spark.sql(f"RESTORE TABLE delta.`{workspace.uri(table)}` TO VERSION AS OF {version - 1}")
        yield

    for number, _ in enumerate(steps()):
        run(spark, workspace)
        found = workspace.content()
        assert {report.state for report in run(spark, workspace).values()} == {"idle"}
        (folder / "lake").rename(folder / "kept")
        run(spark, workspace)
        assert workspace.content() == found, number
        shutil.rmtree(folder / "lake")
        (folder / "kept").rename(folder / "lake")
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    assert found["c"] == Counter({(2, "Z", "Z"): 1, (3, None, "X"): 1, (1, None, "Z"): 1})

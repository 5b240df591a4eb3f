"""Silver's rules, keys and slowly changing rows, each record ending in exactly one place."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import ExpectationFailed, FanOut, SluicegateError
from sluicegate.flow import flows as flow_flows
from sluicegate.flow.model import Progress
from sluicegate.flow.progress import progress
from sluicegate.frames import record_ids
from sluicegate.frames.data_skipping import candidate_rows
from sluicegate.frames.record_ids import Identities
from sluicegate.monitor import status
from sluicegate.spark.session import override_settings
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BRONZE = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT, seq BIGINT, at TIMESTAMP"}
  names_raw: {path: "${landing}/names", format: json, schemaHints: "k BIGINT"}
"""


def define(workspace: Workspace, silver: str, **files: str) -> None:
    workspace.define(BRONZE + "silver:\n" + silver, **files)
    for folder in ("raw", "names"):
        (workspace.folder / "landing" / folder).mkdir(parents=True)


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(name, "\n".join(json.dumps(record) for record in records), age)


def verified(workspace: Workspace) -> bool:
    return status.verify(workspace.definition, workspace.settings) == []


def test_each_rule_has_its_own_fate(spark: SparkSession, workspace: Workspace) -> None:
    define(
        workspace,
        """
  t:
    sql: "SELECT r.k, CAST(r.v AS INT) AS v, r.w FROM STREAM(raw) AS r WHERE r.k <> 9 -- not nine"
    keys: [k]
    expectations:
      noted: {expect: w IS NOT NULL}
      dropped: {expect_or_drop: v < 100}
      kept_apart: {expect_or_quarantine: v >= 0}
""",
    )
    land(
        workspace, "raw/a.json",
        {"k": 1, "v": "1", "w": "x"}, {"k": 2, "v": "2"}, {"k": 3, "v": "500"}, {"k": 4, "v": "-1"},
        {"k": 5, "v": "five"}, {"v": "6"}, {"k": 9, "v": "9"}, {"k": 1, "v": "7"}, {"k": 8}, {"k": 4, "v": "-1000"},
    )  # fmt: skip
    report = workspace.run(spark, "bronze", "silver")["t"]
    assert sorted(workspace.rows("t", "k", "v")) == [(1, 1), (2, 2)]
    apart = {(k, v): set(rules) for k, v, rules in workspace.rows("t_quarantine", "k", "v", "_failed_expectations")}
    assert apart == {
        (4, -1): {"noted", "kept_apart"},
        (4, -1000): {"noted", "kept_apart"},
        # NULL breaks a rule; of drop and quarantine the one that keeps the row is done.
        (5, None): {"CAST(r.v AS INT) fits", "noted", "dropped", "kept_apart"},
        (8, None): {"noted", "dropped", "kept_apart"},
    }
    aside = Counter(reason for (reason,) in workspace.rows("t_set_aside", "reason"))
    # The record without a key is left out by the query's own WHERE: NULL <> 9 is not true.
    assert aside == {"dropped": 1, "filtered": 2, "duplicate": 1}
    assert (report.read, report.written, report.quarantined, report.dropped, report.duplicates) == (10, 2, 4, 3, 1)
    [record] = [r for k, r in workspace.rows("t_quarantine", "k", "_record") if k == 5]
    assert json.loads(record)["v"] == "five"
    assert verified(workspace)


def test_a_record_that_a_where_cannot_judge_is_quarantined_with_the_cast_that_failed(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(
        workspace,
        """
  t: {sql: "SELECT r.k, r.w FROM STREAM(raw) AS r WHERE CAST(r.v AS INT) > 5 AND r.w = 'a'"}
  u: {sql: "SELECT r.k FROM STREAM(raw) AS r WHERE COALESCE(CAST(r.v AS INT), 0) > 5 AND r.w = 'a' OR r.k = 6"}
""",
    )
    land(
        workspace, "raw/a.json",
        {"k": 1, "v": "9", "w": "a"}, {"k": 2, "v": "3", "w": "a"},
        {"k": 3, "v": "nine", "w": "a", "at": "2024-01-01T00:00:00.000001Z"},
        {"k": 4, "v": "nine", "w": "b"}, {"k": 5, "w": "a"}, {"k": 6, "v": "nine", "w": "a"},
    )  # fmt: skip
    reports = workspace.run(spark, "bronze", "silver")
    assert workspace.rows("t", "k", "w") == [(1, "a")]
    assert sorted(workspace.rows("t_quarantine", "k", "w", "_failed_expectations")) == [
        (3, "a", ["CAST(r.v AS INT) fits"]), (6, "a", ["CAST(r.v AS INT) fits"]),
    ]  # fmt: skip
    [record] = [r for k, r in workspace.rows("t_quarantine", "k", "_record") if k == 3]
    assert json.loads(record)["at"] == "2024-01-01T00:00:00.000001Z", "the record as it came"
    assert Counter(reason for (reason,) in workspace.rows("t_set_aside", "reason")) == {"filtered": 3}
    assert (reports["t"].read, reports["t"].written, reports["t"].quarantined, reports["t"].dropped) == (6, 1, 2, 3)
    # Where the query makes something of a NULL it is not known what it would have said of the value.
    assert sorted(workspace.rows("u", "k")) == [(1,), (6,)]
    assert sorted(workspace.rows("u_quarantine", "k")) == [(3,), (4,)]
    assert verified(workspace)


def test_a_table_is_the_same_whether_its_keys_are_looked_for_nearby_or_everywhere(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of two, three and four rows, of which more than three are many."""
    table = """
  {}: {{sql: "SELECT r.k, CAST(r.at AS TIMESTAMP) AS at, r.w FROM STREAM(raw) AS r WHERE r.k <= {}", keys: [k, at],
       event_time: at}}"""
    sizes = {"below": 2, "exactly": 3, "above": 4}
    define(workspace, "".join(table.format(name, most) for name, most in sizes.items()))
    looked: list[str] = []

    def looked_nearby(frame: DataFrame, *others: Any) -> DataFrame:
        looked.append(frame.columns[0])
        found = candidate_rows(frame, *others)
        assert found.count() == 3, "of the fourth hour there is no new row"
        return found

    monkeypatch.setattr("sluicegate.frames.data_skipping.MANY_ROWS", 3)
    monkeypatch.setattr("sluicegate.frames.data_skipping.candidate_rows", looked_nearby)
    at = "2024-01-0{}T10:59:59.999999Z"
    land(workspace, "raw/a.json", *[{"k": k, "at": at.format(k), "w": "first"} for k in (1, 2, 3, 4)], age=90)
    workspace.run(spark, "bronze", "silver")
    assert looked == []
    again = [{"k": k, "at": at.format(k), "w": "again"} for k in (1, 2, 3)]
    land(workspace, "raw/b.json", *again, {"k": 1, "at": "2024-01-01T11:00:00Z", "w": "new"}, age=80)
    workspace.run(spark, "bronze", "silver")
    assert len(looked) == 1
    for name, most in sizes.items():
        held = [(k, at.format(k)[:10], "first") for k in range(1, most + 1)]
        found = [(k, f"{moment:%Y-%m-%d}", w) for k, moment, w in workspace.rows(name, "k", "at", "w")]
        assert sorted(found) == sorted([*held, (1, "2024-01-01", "new")])
        doubles = Counter(reason for (reason,) in workspace.rows(f"{name}_set_aside", "reason"))
        assert doubles["duplicate"] == min(most, 3)
    assert verified(workspace)


@pytest.mark.in_the_jvm
def test_records_find_the_same_rows_whether_they_are_SENT_to_the_tasks_or_shuffled(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two, three and four records, of which one comes twice: more than three are not sent."""
    monkeypatch.setattr(record_ids, "SENT", 3)
    every = spark.range(8).selectExpr("id DIV 2 AS _chunk", "id % 2 AS _pos", "id AS v")
    chosen = [(1, 0), (1, 0), (1, 1), (3, 0)]
    values = [2, 2, 3, 6]
    # What Spark would send by itself does not matter here.
    with override_settings(
        spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}
    ):
        for count in (2, 3, 4):
            records = spark.createDataFrame(chosen[:count], "_chunk BIGINT, _pos BIGINT")
            found = Identities(records).rows_in(every)
            planned = found._jdf.queryExecution().executedPlan().toString()
            assert ("BroadcastHashJoin" in planned) == (count <= 3)
            assert sorted(row["v"] for row in found.collect()) == sorted({*values[:count]})


def test_a_value_that_a_rule_cannot_judge_breaks_the_rule(spark: SparkSession, workspace: Workspace) -> None:
    """Text compared with a number, in a query that takes all columns: with ANSI rules one word would stop the table."""
    define(workspace, """
  t: {sql: "SELECT * FROM STREAM(raw)", expectations: {big: {expect_or_quarantine: v > 5}}}
""")  # fmt: skip
    land(workspace, "raw/a.json", {"k": 1, "v": "7"}, {"k": 2, "v": "seven"}, {"k": 3, "v": 5})
    report = workspace.run(spark, "bronze", "silver")["t"]
    assert workspace.rows("t", "k", "v") == [(1, "7")]
    assert sorted(workspace.rows("t_quarantine", "k", "v")) == [(2, "seven"), (3, "5")]
    assert (report.read, report.written, report.quarantined) == (3, 1, 2)
    assert verified(workspace)


def test_a_lookup_that_was_made_anew_is_another_one(spark: SparkSession, workspace: Workspace) -> None:
    """Also where its version is the same as before."""
    define(workspace, """
  names: {from: names_raw, apply_changes: {keys: [k], sequence_by: _file_modification_time}}
  t: {sql: "SELECT r.k, n.name FROM STREAM(raw) AS r LEFT JOIN names AS n USING (k)"}
""")  # fmt: skip
    land(workspace, "raw/a.json", {"k": 1})
    land(workspace, "names/a.json", {"k": 1, "name": "a"})
    workspace.run(spark, "bronze", "silver")
    spark.sql("SELECT 1L AS k, 'b' AS name").write.format("delta").save(workspace.uri("names") + "2")
    shutil.rmtree(workspace.uri("names"))
    Path(workspace.uri("names") + "2").rename(workspace.uri("names"))
    [progress] = [p for n, p in marks(workspace).items() if n == "t"]
    assert (progress.kind, progress.why) == ("whole", "names changed")


def marks(workspace: Workspace) -> dict[str, Progress]:
    """Progress of the silver flows."""
    flows = flow_flows.flows(workspace.definition, workspace.lake, "silver")
    return {name: progress(flow) for name, flow in flows.items() if name == "t"}


def test_a_source_that_went_back_stops_with_a_sentence(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, '  t: {sql: "SELECT k FROM STREAM(raw)"}\n')
    for number in (1, 2):
        land(workspace, f"raw/{number}.json", {"k": number}, age=90 - number)
        workspace.run(spark, "bronze", "silver")
    for file in (Path(workspace.uri("raw")) / "_delta_log").glob(f"*{1:020}*"):
        file.unlink()  # as when a copy of an older state was put in place
    with pytest.raises(SluicegateError, match="raw is older than the version that was read last"):
        marks(workspace)


def test_a_broken_expect_or_fail_writes_nothing_and_stops_nobody_else(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(
        workspace,
        """
  strict: {sql: "SELECT k FROM STREAM(raw)", expectations: {small: {expect_or_fail: k < 5}}}
  loose: {sql: "SELECT k FROM STREAM(raw)"}
""",
    )
    land(workspace, "raw/a.json", {"k": 1}, {"k": 7})
    with pytest.raises(ExpectationFailed, match=r"small \(1 rows\)"):
        workspace.run(spark, "bronze", "silver")
    assert workspace.rows("strict") == []
    assert sorted(workspace.rows("loose", "k")) == [(1,), (7,)]
    workspace.edit("pipeline.yaml", "k < 5", "k < 50")
    workspace.run(spark, "silver")
    assert sorted(workspace.rows("strict", "k")) == [(1,), (7,)]
    assert verified(workspace)


def test_the_latest_row_of_a_key_wins_whenever_it_comes(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "  t: {from: raw, apply_changes: {keys: [k], sequence_by: seq, stored_as_scd_type: 1}}\n")
    land(
        workspace,
        "raw/a.json",
        {"k": 1, "seq": 5, "v": "five"},
        {"k": 2, "seq": 1, "v": "a"},
        {"k": 2, "seq": 3, "v": "b"},
        age=90,
    )
    workspace.run(spark, "bronze", "silver")
    land(
        workspace,
        "raw/b.json",
        {"k": 1, "seq": 4, "v": "late"},
        {"k": 2, "seq": 9, "v": "c"},
        {"k": 3, "v": "no sequence"},
        age=80,
    )
    report = workspace.run(spark, "bronze", "silver")["t"]
    assert (report.read, report.written, report.quarantined, report.duplicates) == (3, 1, 1, 1)
    land(workspace, "raw/c.json", {"k": 1, "seq": 5, "v": "five again"}, {"seq": 1, "v": "no key"}, age=70)
    workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("t", "k", "v")) == [(1, "five again"), (2, "c")]
    assert Counter(reason for (reason,) in workspace.rows("t_set_aside", "reason")) == {"superseded": 4}
    assert len(workspace.rows("t_quarantine")) == 2
    assert verified(workspace)


def test_lookup_with_two_rows_for_a_key_is_refused(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, '  t: {sql: "SELECT r.k, n.name FROM STREAM(raw) AS r LEFT JOIN names_raw AS n USING (k)"}\n')
    land(workspace, "raw/a.json", {"k": 1})
    land(workspace, "names/a.json", {"k": 1, "name": "a"}, {"k": 1, "name": "b"})
    with pytest.raises(FanOut, match="returns 2 rows for 1 records"):
        workspace.run(spark, "bronze", "silver")
    assert workspace.rows("t") == []


def test_silver_waits_for_its_lookup_and_then_follows_it(spark: SparkSession, workspace: Workspace) -> None:
    define(
        workspace,
        """
  names: {from: names_raw, apply_changes: {keys: [k], sequence_by: _file_modification_time}}
  t: {sql: "SELECT r.k, n.name FROM STREAM(raw) AS r LEFT JOIN names AS n USING (k)"}
  u: {sql: "SELECT k, upper(name) AS name FROM STREAM(t) AS t WHERE name IS NOT NULL", keys: [k]}
""",
    )
    land(workspace, "raw/a.json", {"k": 1}, {"k": 2}, age=90)
    waiting = workspace.run(spark, "bronze", "silver")
    assert "names" in waiting["t"].why
    assert {r.state for r in workspace.run(None, "silver").values()} == {"blocked"}  # type: ignore[arg-type]
    land(workspace, "names/a.json", {"k": 1, "name": "a"}, age=80)
    workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("t", "k", "name")) == [(1, "a"), (2, None)]
    land(workspace, "names/b.json", {"k": 2, "name": "b"}, {"k": 1, "name": "A2"}, age=70)
    report = workspace.run(spark, "bronze", "silver")
    assert (report["t"].state, report["t"].why) == ("again", "names changed")
    assert (report["t"].inserted, report["t"].updated, report["t"].deleted) == (0, 2, 0)
    assert sorted(workspace.rows("t", "k", "name")) == [(1, "A2"), (2, "b")]
    assert sorted(workspace.rows("u", "k", "name")) == [(1, "A2"), (2, "B")]
    assert verified(workspace)
    spark.sql(f"DELETE FROM delta.`{workspace.uri('names')}` WHERE k = 2")
    report = workspace.run(spark, "silver")
    assert (report["t"].why, report["t"].updated, report["u"].deleted) == ("names changed", 1, 1)
    assert sorted(workspace.rows("t", "k", "name")) == [(1, "A2"), (2, None)]
    assert workspace.rows("u", "k", "name") == [(1, "A2")]
    # A name that nobody has is taken note of, or each run would look for its records again.
    names = f"delta.`{workspace.uri('names')}`"
    spark.sql(f"INSERT INTO {names} BY NAME SELECT * EXCEPT (k), 9 AS k FROM {names}")
    report = workspace.run(spark, "silver")
    assert (report["t"].why, report["t"].updated, report["t"].inserted) == ("names changed", 0, 0)
    assert {r.state for r in workspace.run(None, "silver").values()} == {"idle"}  # type: ignore[arg-type]

"""Rules of silver that refuse a batch: thresholds, and rules about the whole table, however its records come."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import ExpectationFailed, TableRuleFailed
from sluicegate.flow.selection import Replay
from sluicegate.jobs.layer_job import Job
from tests.conftest import Workspace
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "id BIGINT, x DOUBLE, who STRING", allowOverwrites: true}
  known: {path: "${landing}/known", format: json, schemaHints: "who STRING, name STRING"}
silver:
  people: {sql: "SELECT who, name FROM STREAM(known)", keys: [who]}
  made:
    sql: SELECT r.id, r.x, r.who, p.name FROM STREAM(raw) AS r LEFT JOIN people AS p USING (who)
    keys: [id]
    RULES
"""


def begin(workspace: Workspace, rules: str, **people: str) -> None:
    workspace.define(DEFINITION.replace("RULES", rules))
    (workspace.folder / "landing" / "raw").mkdir(parents=True, exist_ok=True)
    workspace.land("known/a.json", [{"who": who, "name": name} for who, name in people.items()])


def land(workspace: Workspace, name: str, *records: tuple[int, float | None, str], age: float = 60) -> None:
    workspace.land(f"raw/{name}.json", [{"id": i, "x": x, "who": who} for i, x, who in records], age=age)


def refused(spark: SparkSession, workspace: Workspace, kind: type[ExpectationFailed] = ExpectationFailed) -> str:
    with pytest.raises(kind) as raised:
        workspace.run(spark)
    assert type(raised.value) is kind
    return raised.value.message


def ids(workspace: Workspace, table: str) -> list[int]:
    return sorted(one for (one,) in workspace.rows(table, "id"))


def test_rows_that_must_not_come_in_are_rejected(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    high = "high: {expect_or_quarantine: x > 0, warn_above: 0, fail_above: 50%}"
    rules = f"expectations: {{{high}, low: {{expect_or_fail: x < 9}}}}"
    begin(workspace, rules, a="Ann")
    land(workspace, "a", (1, 1.0, "a"), (2, -1.0, "b"), age=90)
    report = workspace.run(spark)["made"]
    assert report.warnings == ["high: 1 of 2 rows failed, above 0"]
    land(workspace, "b", (3, -1.0, "a"), (4, None, "a"), (5, 2.0, "c"), age=80)
    stop_at(monkeypatch, "rules.after_rejection")
    with pytest.raises(Stopped):
        workspace.run(spark)
    monkeypatch.undo()
    assert "low (1 rows)" in refused(spark, workspace)
    assert (ids(workspace, "made"), ids(workspace, "made_quarantine")) == ([1], [2])
    found = {(i, *sorted(rules)) for i, rules in workspace.rows("made_rejected", "id", "_failed_expectations")}
    assert found == {(3, "high"), (4, "high", "low")}  # x that is NULL breaks both
    land(workspace, "b", (3, -1.0, "a"), (4, 3.0, "a"), (5, 2.0, "c"), age=70)
    workspace.run(spark)
    assert (ids(workspace, "made"), ids(workspace, "made_quarantine")) == ([1, 4, 5], [2, 3])
    assert ids(workspace, "made_rejected") == []


@pytest.mark.more
def test_rules_about_the_whole_table(spark: SparkSession, workspace: Workspace) -> None:
    rules = (
        "expect_table: {room: {rows: {min: 1, max: 4}}, once: {unique: [x]}, known: {foreign_key: [who], "
        "references: people}, named: {sql: 'SELECT m.id FROM made AS m JOIN people AS p USING (who) "
        "WHERE NOT (m.name <=> p.name)'}}"
    )
    begin(workspace, rules, a="Ann", b="Bob")
    land(workspace, "a", (1, 1.0, "a"), (2, 2.0, "b"), age=90)
    assert workspace.run(spark)["made"].table_rules == {"room": 0, "once": 0, "known": 0, "named": 0}
    land(workspace, "b", (3, 2.0, "a"), (4, 4.0, "c"), age=80)
    message = refused(spark, workspace, TableRuleFailed)
    assert message == "the data of made broke once (2 rows), known (1 rows)"
    assert Counter(ids(workspace, "made_rejected")) == Counter([2, 3, 4])
    assert ids(workspace, "made") == [1, 2]
    # The lookup brings the name that is missing, and a file in another's place the value: both are reprocessed.
    land(workspace, "b", (3, 3.0, "a"), (4, 4.0, "c"), age=70)
    workspace.land("known/b.json", [{"who": "c", "name": "Cy"}], age=60)
    workspace.run(spark)
    assert (ids(workspace, "made"), ids(workspace, "made_rejected")) == ([1, 2, 3, 4], [])
    land(workspace, "a", (1, 1.0, "a"), (2, 4.0, "b"), age=60)
    assert refused(spark, workspace, TableRuleFailed).endswith("once (2 rows)")
    assert Counter(ids(workspace, "made_rejected")) == Counter([2, 4])
    land(workspace, "a", (1, 1.0, "a"), (2, 5.0, "b"), (6, 6.0, "b"), age=50)
    assert refused(spark, workspace, TableRuleFailed).endswith("room (it would have 5 rows)")
    land(workspace, "a", (1, 1.0, "a"), (2, 5.0, "b"), age=40)
    workspace.run(spark)
    assert sorted(workspace.rows("made", "id", "x", "name")) == [
        (1, 1.0, "Ann"), (2, 5.0, "Bob"), (3, 3.0, "Ann"), (4, 4.0, "Cy"),
    ]  # fmt: skip


@pytest.mark.more
def test_a_replay_and_a_full_refresh_are_held_to_them(spark: SparkSession, workspace: Workspace) -> None:
    begin(workspace, "expectations: {high: {expect_or_quarantine: x > 0}}", a="Ann")
    land(workspace, "a", (1, 1.0, "a"), (2, -1.0, "a"), age=90)
    workspace.run(spark)
    begin(workspace, "expect_table: {room: {rows: {max: 1}}}", a="Ann")
    ways: list[dict[str, Any]] = [{"choice": Replay("made")}, {"full_refresh": True}]
    for how in ways:
        job = Job(workspace.definition, workspace.lake, "silver", {"run_id": "test"}, spark, only="made", **how)
        with pytest.raises(TableRuleFailed, match="room"):
            job.run()
        assert (ids(workspace, "made"), ids(workspace, "made_quarantine")) == ([1], [2])


@pytest.mark.more
def test_rows_of_a_refused_replay_stay_until_one_passes(spark: SparkSession, workspace: Workspace) -> None:
    """Also where the one that passes changes no row; a run between them finds nothing to do, and leaves them."""
    high = "expectations: {high: {expect_or_quarantine: x > 0}}"
    begin(workspace, high, a="Ann")
    land(workspace, "a", (1, 1.0, "a"), (2, -1.0, "a"), (3, 9.0, "a"), age=90)
    workspace.run(spark)

    def replayed() -> bool:
        """Whether the replay changed nothing."""
        choice = Replay("made", everything=True)
        done = Job(workspace.definition, workspace.lake, "silver", {}, spark, only="made", choice=choice).run()
        return done.tables[0].unchanged

    for limit, broke in ((9, [3]), (1, [1, 3])):  # what stands there is of the newest attempt
        begin(workspace, f"{high[:-1]}, low: {{expect_or_fail: x < {limit}}}}}", a="Ann")
        with pytest.raises(ExpectationFailed):
            replayed()
        assert (workspace.run(spark)["made"].state, ids(workspace, "made_rejected")) == ("idle", broke)
    begin(workspace, high, a="Ann")
    assert (replayed(), ids(workspace, "made_rejected"), ids(workspace, "made")) == (True, [], [1, 3])

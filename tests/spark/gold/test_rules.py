"""Rules of gold: what is kept up to date is what is made anew with them, and a table never has what they refuse."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.errors import ExpectationFailed, QueryError
from sluicegate.flow import flows, thresholds
from sluicegate.flow.progress import progress
from sluicegate.frames.rules.row_rules import RowRules
from sluicegate.gold import verify_gold
from sluicegate.lake import layout, tables
from sluicegate.monitor import estimate
from sluicegate.monitor.estimate import Touched
from tests.spark.gold.test_refresh import ROW, rows, step
from tests.spark.test_recovery import Stopped, stop_at
from tests.support.gold_world import GoldWorld, comparable
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUMS = "SELECT g, k, count(*) AS n, sum(p) AS s FROM t GROUP BY g, k"
# What needs all rows of a group, and what is made whole: of which a row cannot be found by its group.
ROWS = "SELECT g, k, count(*) AS n, sum(p) AS s, count(DISTINCT id) AS d FROM t GROUP BY g, k"
WHOLE = "SELECT g, k, n, s FROM (SELECT g, k, count(*) AS n, sum(p) AS s FROM t GROUP BY g, k) ORDER BY n LIMIT 1000"
# What is followed by keys: of which each has one row, and of which one has several.
KEYS = f"SELECT g, k, n, s FROM ({SUMS})"
COUNTED = (
    "SELECT g, k, n, s FROM (SELECT g, max(k) OVER w AS k, count(*) OVER w AS n, sum(p) OVER w AS s, "
    "row_number() OVER (PARTITION BY g, k ORDER BY id) AS r FROM t WINDOW w AS (PARTITION BY g, k)) WHERE r = 1"
)
RULES = (
    "expectations: {known: {expect_or_drop: g IS NOT NULL}, low: {expect: s < 100}, "
    "few: {expect_or_fail: n <= 3}, some: {expect: k > 1, fail_above: 60%}}"
)


def table(query: str, *, refresh: str = "incremental", rules: str = RULES) -> str:
    return f'{{sql: "{query}", refresh: {refresh}, {rules}}}'


TABLES = {
    "sums": table(SUMS),
    "small": table(SUMS, refresh="auto"),
    "by_rows": table(ROWS),
    "whole": table(WHOLE, refresh="full"),
    "by_keys": table(KEYS),
    "counted": table(COUNTED),
}


class Model:
    """What the tables should have, in plain Python: the groups of the newest rows that the rules let pass."""

    def __init__(self) -> None:
        self.good: dict[str, Counter[Any]] = {}

    def settle(self, silver: list[Any], names: list[str]) -> tuple[Counter[Any], dict[str, int], set[str]]:
        """Groups that the table would have, how many of them break each rule, and the rules that refuse them."""
        groups: dict[Any, list[Any]] = {}
        for row in silver:
            groups.setdefault((row.g, row.k), []).append(row.p)
        made = []
        for (g, k), values in groups.items():
            there = [value for value in values if value is not None]
            made.append((g, k, len(values), sum(there) if there else None))
        rows = [row for row in made if row[0] is not None]
        failed = {
            "known": len(made) - len(rows),
            "low": sum(not (s is not None and s < 100) for _, _, _, s in rows),
            "few": sum(n > 3 for _, _, n, _ in rows),
            "some": sum(not (k is not None and k > 1) for _, k, _, _ in rows),
        }
        refused = {"few"} if failed["few"] else set()
        refused |= {"some"} if failed["some"] * 100 > 60 * len(rows) else set()
        breaks = Counter(
            tuple(map(comparable, row))
            for row in rows
            if ("few" in refused and row[2] > 3) or ("some" in refused and not (row[1] is not None and row[1] > 1))
        )
        if not refused:
            self.good = {name: Counter(tuple(map(comparable, row)) for row in rows) for name in names}
        return breaks, failed, refused


def columns(world: GoldWorld, uri: str) -> Counter[Any]:
    if tables.delta_table(uri) is None:
        return Counter()
    found = world.spark.read.format("delta").load(uri).select("g", "k", "n", "s").collect()
    return Counter(tuple(map(comparable, row)) for row in found)


def assert_right(world: GoldWorld, model: Model) -> None:
    """Runs each table, and compares it, its rejected rows and its counts with the model."""
    breaks, failed, refused = model.settle(world.silver_rows(), list(world.pipeline.gold))
    for name in world.pipeline.gold:
        uri = world.at.table("gold", name)
        if refused:
            with pytest.raises(ExpectationFailed) as raised:
                world.run(name)
            assert all(rule in raised.value.message for rule in refused), raised.value.message
        else:
            world.run(name)
        assert columns(world, uri) == model.good.get(name, Counter()), name
        assert columns(world, layout.rejected_table(uri)) == breaks, name
        if not refused:
            said = world.commits(name)[0]["expectations"]
            assert {rule: said[rule]["failed"] for rule in ("low", "few", "some")} == {
                rule: failed[rule] for rule in ("low", "few", "some")
            }, name
            assert said["low"]["passed"] + said["low"]["failed"] == sum(model.good[name].values())
    if not refused:
        assert all(report.state == "idle" for report in world.run().values())
        assert [one for one in verify_gold.prove(world.spark, world.pipeline, world.at) if one.kind == "wrong"] == []


def happen(world: GoldWorld, events: list[Any], first: int) -> None:
    for kind, what in events:
        if kind != "stop":
            step(world, kind, what, first)
            continue
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, what)
            for name in world.pipeline.gold:
                try:
                    world.run(name)
                except (Stopped, ExpectationFailed):
                    continue


POINTS = ["gold.between_commits", "gold.before_commit", "gold.after_commit", "rules.after_rejection",
          "rules.after_clearing"]  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ROW, min_size=1, max_size=4)),
    st.tuples(st.just("update"), st.integers(2, 4)),
    st.tuples(st.just("delete"), st.integers(2, 4)),
    st.tuples(st.just("group"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("restore"), st.just(0)),
    st.tuples(st.just("stop"), st.sampled_from(POINTS)),
)


def row(g: str | None, k: int | None, p: str | None) -> tuple[Any, ...]:
    from decimal import Decimal

    return (g, k, 1.5, 7, None, None if p is None else Decimal(p), 1, True)


FIRST = [row("a", 2, "99.99"), row("a", 3, "0.01"), row(None, 2, "1.00"), row("b", 1, None), row("b", 2, "50.00")]
STEPS = [
    # A sum that is high now, and a group that is dropped.
    [("add", [row("a", 2, "0.01"), row(None, 3, "5.00")]), ("stop", "gold.between_commits")],
    # Too many rows in a group: refused, also after a kill, until they go.
    [("add", [row("a", 3, "1.00")] * 3), ("stop", "rules.after_rejection")],
    [("delete", 2), ("stop", "rules.after_clearing"), ("stop", "gold.before_commit")],
    # Too many groups that break a rule which may be broken.
    [("add", [row(g, k, "1.00") for g in "xyz" for k in (0, 1)])],
    [("update", 3), ("group", "b"), ("add", [row("a", 9, "1.00")] * 2)],
]


@in_spark(examples=0)
@example(first=FIRST, steps=STEPS)
@given(
    first=st.lists(ROW, min_size=3, max_size=12),
    steps=st.lists(st.lists(STEP, min_size=1, max_size=2), min_size=1, max_size=4),
)
def test_tables_with_rules_equal_a_model_after_every_run(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, first: list[Any], steps: list[Any]
) -> None:
    world, model = GoldWorld(tmp_path_factory.mktemp("gold"), {"sums": TABLES["sums"]}, spark), Model()
    every_run(world, model, first, steps)


@pytest.mark.release
@pytest.mark.parametrize(
    "name",
    [
        "small",
        "by_rows",
        "whole",
        *(pytest.param(name, marks=pytest.mark.in_the_jvm) for name in ("by_keys", "counted")),
    ],
)
def test_so_do_those_that_are_made_in_other_ways(spark: SparkSession, tmp_path: Path, name: str) -> None:
    every_run(GoldWorld(tmp_path, {name: TABLES[name]}, spark), Model(), FIRST, STEPS)


def every_run(world: GoldWorld, model: Model, first: list[Any], steps: list[Any]) -> None:
    world.add(rows(first, 0))
    assert_right(world, model)
    for number, events in enumerate(steps, 1):
        happen(world, events, 100 * number)
        assert_right(world, model)


def test_rows_that_stay_are_held_to_rules_only_when_these_are_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is counted is what the changed groups had and have, not the table."""
    counted: list[int] = []
    tally = RowRules.tally

    def spy(rules: RowRules, evaluated: Any) -> Any:
        found = tally(rules, evaluated)
        counted.append(found.rows)
        return found

    monkeypatch.setattr(RowRules, "tally", spy)
    plain = "{low: {expect: s < 100}, few: {expect_or_fail: n <= 3}}"
    world = GoldWorld(tmp_path, {"sums": table(SUMS, rules=f"expectations: {plain}")}, spark)
    world.add(rows(FIRST, 0))
    world.run()
    world.add(rows(FIRST[:1], 50))
    world.run()
    assert world.commits("sums")[0]["expectations"]["low"] == {"passed": 3, "failed": 2}  # no sum is no low one
    assert counted == []
    other = plain.replace("n <= 3", "n <= 1")
    world.define({"sums": table(SUMS, rules=f"expectations: {other}")})
    assert "touches 0 groups" in str(planned(world))
    with pytest.raises(ExpectationFailed, match="few"):
        world.run()
    assert columns(world, layout.rejected_table(world.at.table("gold", "sums"))) == Counter({("a", 2, 2, "199.98"): 1})
    assert counted == [5]
    # Who takes the rule back has a table that is up to date, and no rows that it would not have.
    world.define({"sums": table(SUMS, rules=f"expectations: {plain}")})
    assert world.run()["sums"].why == "its rejected rows are accepted now"
    assert not tables.rows(tables.delta_table(layout.rejected_table(world.at.table("gold", "sums"))))
    assert world.run()["sums"].state == "idle"
    world.define({"sums": table(SUMS, rules=f"expectations: {other.replace('<= 1', '<= 2')}")})
    report = world.run()["sums"]
    assert (report.state, report.why, report.updated) == ("written", "its rules changed", 0)
    assert not tables.rows(tables.delta_table(layout.rejected_table(world.at.table("gold", "sums"))))
    world.define({"sums": table(SUMS, rules="expectations: {}")})
    world.run()
    assert world.run()["sums"].state == "idle"
    assert "expectations" not in world.commits("sums")[0]


def test_a_rule_names_columns_that_the_query_makes(spark: SparkSession, tmp_path: Path) -> None:
    """Also where a star or a function makes them: a column that is not there is no NULL, as it is in bronze."""
    world = GoldWorld(
        tmp_path, {"all": table("SELECT * FROM t", refresh="full", rules="expect_all: {r: q > 1}")}, spark
    )
    world.add(rows(FIRST, 0))
    with pytest.raises(QueryError, match="the rule r of all uses an unknown column, q"):
        world.run()
    assert tables.delta_table(world.at.table("gold", "all")) is None
    world.define({"all": table("SELECT * FROM t", refresh="full", rules="expect_all: {r: K > 1}")})
    assert world.run()["all"].expectations == {"r": {"passed": 4, "failed": 1}}


def planned(world: GoldWorld) -> Touched:
    """What `plan` says that a run would touch."""
    flow = flows.flows(world.pipeline, world.at, "gold")["sums"]
    return estimate.estimate_refresh(world.pipeline.gold["sums"], flow, progress(flow))


def test_a_rule_that_drops_is_a_part_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """By another one the table is made anew, and by one that depends on the time it is each time."""
    world = GoldWorld(tmp_path, {"sums": table(SUMS, rules="expect_all_or_drop: {known: g IS NOT NULL}")}, spark)
    world.add(rows(FIRST, 0))
    report = world.run()["sums"]
    assert (report.written, report.expectations) == (4, {"known": {"passed": 4, "failed": 1}})
    world.define({"sums": table(SUMS, rules="expect_all_or_drop: {known: g IS NULL}")})
    report = world.run()["sums"]
    assert (report.written, report.why) == (1, "its definition changed")
    timed = "expect_all_or_drop: {now: \"current_date() > DATE '2000-01-01' AND g = 'a'\"}"
    world.define({"sums": f'{{sql: "{SUMS}", {timed}}}'})
    assert world.run()["sums"].written == 2
    commit = world.commits("sums")[0]
    assert (commit["strategy"], commit["of_the_run"]) == ("whole", "current_date()")


def test_a_rule_that_depends_on_the_time_is_counted_anew(spark: SparkSession, tmp_path: Path) -> None:
    rule = 'expect_all: {fresh: "k > day(current_date()) - 32"}'
    world = GoldWorld(tmp_path, {"sums": table(SUMS, rules=rule)}, spark)
    world.add(rows(FIRST, 0))
    world.run()
    world.add(rows(FIRST[:1], 50))
    world.run()
    commit = world.commits("sums")[0]
    assert (commit["strategy"], commit["expectations"]) == ("partial", {"fresh": {"passed": 5, "failed": 0}})


@pytest.mark.release
@pytest.mark.parametrize("mode", ["complete", "update"])
@pytest.mark.in_the_jvm
def test_streaming_aggregations(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    rules = RULES.replace(", fail_above: 60%", "")
    world = GoldWorld(tmp_path, {"sums": f'{{sql: "{SUMS}", mode: {mode}, {rules}}}'}, spark)
    world.add(rows(FIRST, 0))
    world.run()
    assert columns(world, world.at.table("gold", "sums")) == Counter(
        {("a", 2, 1, "99.99"): 1, ("a", 3, 1, "0.01"): 1, ("b", 1, 1, None): 1, ("b", 2, 1, "50.00"): 1}
    )
    world.add(rows([row("a", 2, "0.01"), row(None, 5, None)], 50))
    world.run()
    said = world.commits("sums")[0]["expectations"]
    assert {rule: counts["failed"] for rule, counts in said.items() if rule != "known"} == {
        "low": 2, "few": 0, "some": 1,
    }  # fmt: skip
    before = columns(world, world.at.table("gold", "sums"))
    world.add(rows([row("b", 2, "0.01")] * 3, 60))
    for _ in range(2):
        with pytest.raises(ExpectationFailed, match="few"):
            world.run()
        assert columns(world, world.at.table("gold", "sums")) == before
        assert columns(world, layout.rejected_table(world.at.table("gold", "sums"))) == Counter(
            {("b", 2, 4, "50.03"): 1}
        )
    world.define({"sums": f'{{sql: "{SUMS}", mode: {mode}, {rules.replace("n <= 3", "n <= 4")}}}'})
    world.run()
    assert world.rows("sums")[("b", 2, 4, "50.03")] == 1
    assert not tables.rows(tables.delta_table(layout.rejected_table(world.at.table("gold", "sums"))))


def test_many_changed_rows_are_counted_as_few_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, model = GoldWorld(tmp_path, {"sums": TABLES["sums"]}, spark), Model()
    world.add(rows(FIRST, 0))
    assert_right(world, model)
    monkeypatch.setattr(thresholds, "FEW", 0)
    world.add(rows([row("a", 2, "0.01")], 50))
    assert_right(world, model)

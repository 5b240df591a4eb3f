"""Rules about whole gold tables: each below and above its bound, asked of what changed where that is the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.errors import TableRuleFailed
from sluicegate.frames.rules import table_rules
from sluicegate.lake import layout, log, tables
from tests.spark.gold.test_refresh import ROW, rows, step
from tests.spark.gold.test_rules import STEP, happen, row
from tests.support.gold_world import GoldWorld, comparable
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SUMS = "SELECT g, k, count(*) AS n, sum(p) AS s FROM t GROUP BY g, k"
RULES = {
    "room": "{rows: {min: 1, max: 6}}",
    "once": "{unique: [g, n]}",
    "named": "{foreign_key: [g], references: u}",
    "low": "{sql: 'SELECT r.g, NULL AS low, r.s AS high FROM r WHERE s > 100'}",
}


def define(world: GoldWorld, **rules: str) -> None:
    some = ", ".join(f"{name}: {rule}" for name, rule in rules.items())
    world.define({"r": f'{{sql: "{SUMS}", refresh: incremental, expect_table: {{{some}}}}}'})


def begin(spark: SparkSession, folder: Path, **rules: str) -> GoldWorld:
    world = GoldWorld(folder, {"r": SUMS}, spark)
    define(world, **rules)
    world.name([("a", "Ann", 0.5), ("b", "Bob", 0.5), ("c", "Cy", 0.5), ("c", "Di", 0.5)])
    return world


def refused(world: GoldWorld) -> TableRuleFailed:
    with pytest.raises(TableRuleFailed) as raised:
        world.run()
    assert (raised.value.code, raised.value.exit_code) == ("SG303", 3)
    return raised.value


def found(world: GoldWorld, *columns: str, rejected: bool = True) -> Counter[Any]:
    """Rows of the table, or of those for which its newest batch was refused."""
    uri = world.at.table("gold", "r")
    uri = layout.rejected_table(uri) if rejected else uri
    if tables.delta_table(uri) is None:
        return Counter()
    read = world.spark.read.format("delta").load(uri).select(*columns)
    return Counter(tuple(map(comparable, one)) for one in read.collect())


FIRST = [row("a", 1, "1.00"), row("b", 1, "2.00"), row("b", 2, "3.00"), row("b", 2, "3.00"), row(None, 1, "4.00")]


def test_each_kind_below_and_above(spark: SparkSession, tmp_path: Path) -> None:
    world = begin(spark, tmp_path, **RULES)
    world.add(rows(FIRST, 0))
    report = world.run()["r"]
    assert report.table_rules == {"room": 0, "once": 0, "named": 0, "low": 0}  # a group without g needs no name
    assert world.commits("r")[0]["table_rules"] == report.table_rules
    good = found(world, "g", "k", "n", "s", rejected=False)

    world.add(rows([row("a", 3, "5.00")], 10))  # a second group of a with one row
    assert "once (2 rows)" in refused(world).message
    assert found(world, "g", "k", "_failed_expectations") == Counter({("a", 1, ("once",)): 1, ("a", 3, ("once",)): 1})
    assert found(world, "g", "k", "n", "s", rejected=False) == good
    world.add(rows([row("a", 3, "95.00"), row("x", 1, "101.00")], 20))
    error = refused(world)
    assert all(words in error.message for words in ("named (1 rows)", "low (1 rows)"))
    assert "once" not in error.message  # it has two by now
    assert error.cause == "g is in u; its query gives no row"
    assert found(world, "g", "_found", "_failed_expectations") == Counter(
        {("x", None, ("named",)): 1, (None, '{"g":"x","low":null,"high":101.00}', ("low",)): 1}
    )
    world.sql("DELETE FROM {t} WHERE g = 'x'")
    world.run()
    assert found(world, "g") == Counter()
    assert found(world, "g", "k", "n", "s", rejected=False) == good + Counter({("a", 3, 2, "100.00"): 1})

    # A table that a key refers to has lost a row that no changed row needs: seen since it is another version.
    world.sql("DELETE FROM {u} WHERE g = 'b'")
    world.add(rows([row("a", 1, "1.00")], 30))
    assert "named (2 rows)" in refused(world).message
    world.sql("DELETE FROM {t} WHERE id >= 30")
    world.name([("b", "Bea", 0.5)])

    world.add(rows([row("c", k, "1.00") for k in (1, 2, 2)], 40))  # seven groups
    error = refused(world)
    assert "room (it would have 7 rows)" in error.message
    assert error.cause == "it has at least 1 and at most 6 rows"
    assert (found(world, "g"), error.hint) == (
        Counter(),  # no row is to blame
        "r is unchanged; correct the source or the rule, and run again",
    )
    world.sql("DELETE FROM {t}")
    assert "room (it would have 0 rows)" in refused(world).message
    world.add(rows([row("c", 9, None)], 60))
    world.run()
    assert found(world, "g", "k", "n", "s", rejected=False) == Counter({("c", 9, 1, None): 1})
    rejected = tables.delta_table(layout.rejected_table(world.at.table("gold", "r")))
    assert rejected is not None
    said = [(commit.ours or {}) for commit in log.commits(rejected, 3)]
    assert [(one["step"], one.get("refused")) for one in said] == [
        ("clear", None), ("reject", ["room"]), ("reject", ["room"]),
    ]  # fmt: skip


@pytest.mark.more
def test_what_did_not_change_is_not_asked_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    rule = table_rules._rows_with_keys

    def spy(frame: DataFrame, columns: Any, keys: DataFrame) -> DataFrame:
        asked.append(keys.count())
        return rule(frame, columns, keys)

    monkeypatch.setattr(table_rules, "_rows_with_keys", spy)
    world = begin(spark, tmp_path, once=RULES["once"], named=RULES["named"])
    world.add(rows(FIRST, 0))
    world.run()
    assert asked == [0]  # none is there twice, in all rows
    world.add(rows([row("a", 1, "1.00")], 10))
    world.run()
    assert asked == [0, 1, 0]  # the rows that share the key of the one that changed
    world.add(rows([row("a", 2, "1.00")], 20))
    world.name([("e", "Eve", 0.5)])
    world.run()
    assert asked[3:] == [1, 0]
    # A rule that is another one is asked of all rows, though none has changed.
    define(world, once="{unique: [g]}", named=RULES["named"])
    assert "once (4 rows)" in refused(world).message
    define(world, once="{unique: [g, k]}", named=RULES["named"])
    report = world.run()["r"]
    assert (report.why, report.updated) == ("its rules changed", 0)
    assert world.run()["r"].state == "idle"


def test_a_table_that_a_rule_reads_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, {"r": SUMS}, spark)
    define(world, named=RULES["named"])
    world.add(rows(FIRST, 0))
    report = world.run()["r"]
    assert (report.state, report.why) == ("blocked", "one of its rules reads u, which has no rows yet")


class Model:
    """The table as it should be, in plain Python."""

    def __init__(self) -> None:
        self.good: Counter[Any] = Counter()

    def settle(self, world: GoldWorld) -> dict[str, int]:
        """Rows by which each rule refuses what the table would be; ``good`` is that, if none does."""
        groups: dict[Any, list[Any]] = {}
        for one in world.silver_rows():
            groups.setdefault((one.g, one.k), []).append(one.p)
        made = [
            (g, k, len(ps), sum(there) if (there := [p for p in ps if p is not None]) else None)
            for (g, k), ps in groups.items()
        ]
        names = {one.g for one in world.spark.read.format("delta").load(world.names).collect()}
        twins = Counter((g, n) for g, _, n, _ in made)
        broke = {
            "room": int(not 1 <= len(made) <= 6),
            "once": sum(count for count in twins.values() if count > 1),
            "named": sum(g is not None and g not in names for g, _, _, _ in made),
            "low": sum(s is not None and s > 100 for _, _, _, s in made),
        }
        if not any(broke.values()):
            self.good = Counter(tuple(map(comparable, one)) for one in made)
        return {name: count for name, count in broke.items() if count}


def assert_right(world: GoldWorld, model: Model) -> None:
    broke = model.settle(world)
    if broke:
        message = refused(world).message
        assert {name for name in RULES if f"{name} (" in message} == set(broke), message
        by_rows = {name: count for name, count in broke.items() if name != "room"}
        rejected = found(world, "_failed_expectations")
        assert {names[0][0]: count for names, count in rejected.items()} == by_rows
    else:
        world.run()
        assert found(world, "g") == Counter()
    assert found(world, "g", "k", "n", "s", rejected=False) == model.good


STEPS = [
    [("add", [row("a", 2, "1.00")] * 2), ("stop", "gold.between_commits")],
    [("add", [row("c", 5, "60.00")] * 2), ("stop", "rules.after_rejection")],
    [("name", "x"), ("delete", 2), ("stop", "rules.after_clearing")],
    [("lose", "b"), ("add", [row("x", 1, "1.00")])],
    [("group", "b"), ("stop", "gold.before_commit")],
    [("update", 2)],
]


@pytest.mark.release
@in_spark(examples=0)
@example(first=FIRST, steps=STEPS)
@given(
    first=st.lists(ROW, min_size=1, max_size=6),
    steps=st.lists(
        st.lists(
            st.one_of(STEP, st.tuples(st.sampled_from(["name", "lose"]), st.sampled_from("abcx"))),
            min_size=1,
            max_size=2,
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_tables_equal_a_model_after_every_run(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, first: list[Any], steps: list[Any]
) -> None:
    world, model = begin(spark, tmp_path_factory.mktemp("gold"), **RULES), Model()
    world.add(rows(first, 0))
    assert_right(world, model)
    for number, events in enumerate(steps, 1):
        for kind, what in events:
            if kind in ("name", "lose"):
                if kind == "name":
                    world.name([(what, "Zoe", 0.5)])
                else:
                    world.sql(f"DELETE FROM {{u}} WHERE g = '{what}'")
                world.add(rows([row(None, 100 + number, None)], 9000 + number))  # no run for the sake of u alone
            elif kind == "stop":
                happen(world, [(kind, what)], 0)
            else:
                step(world, kind, what, 100 * number)
        assert_right(world, model)

"""Gold tables are the same by whichever technique each batch is made, and what it cost is on record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.flow import flows as flow_flows
from sluicegate.flow import refresh_cost, thresholds
from sluicegate.flow.progress import progress
from sluicegate.flow.refresh_cost import Rates, RefreshCost, Technique, TechniqueChoice, Work
from sluicegate.monitor import estimate, event_log
from tests.spark.gold import test_row_deltas
from tests.spark.gold.test_refresh import ROW, after_every_run, rows, sample, stop
from tests.support.gold_world import GoldWorld
from tests.support.properties import in_spark
from tests.support.techniques import by_lot

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUMS = "SELECT g, count(*) AS n, sum(n) AS s, max(k) AS hi FROM t GROUP BY g"
QUERIES = {
    "sums": SUMS,
    "rows": "SELECT g, count(DISTINCT k) AS n, sum(p) AS p FROM t GROUP BY g",
    "joined": "SELECT u.name, count(*) AS n, sum(t.n) AS s, min(k) AS lo FROM t JOIN u ON t.g = u.g GROUP BY u.name",
}
# "doubles" is compared with sums that Python makes without rounding.
BY_LOT = {
    **{name: fields.replace("refresh: incremental", "refresh: auto")
       for name, fields in test_row_deltas.QUERIES.items() if name != "untied"},
    "nowhere": "SELECT count(*) + 1 AS n, max(x) AS x FROM t GROUP BY g",
    "one": "SELECT count(*) + 1 AS n, sum(n) AS s, max(d) AS d, sum(p) FILTER (WHERE b) AS p FROM t",
    "exact": "SELECT k, avg(d) AS a, sum(p) AS s FROM t GROUP BY k HAVING count(*) > 1",
}  # fmt: skip


@pytest.mark.more
def test_a_history_in_which_the_technique_switches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates by which only rows count: few that changed are followed, and where most changed all are read."""
    monkeypatch.setattr(thresholds, "SMALL", -1)
    monkeypatch.setattr(refresh_cost, "RATES", {
        "partial": Rates(1e-9, changed=10.0), "restart": Rates(1e-9, all=12.0),
        "groups": Rates(1e-9, all=2.0, of_groups=4.0), "whole": Rates(1e-9, all=4.0),
    })  # fmt: skip
    world = GoldWorld(tmp_path, QUERIES, spark)
    world.add([sample(i) for i in range(60)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 1.0), ("c", "Cy", 2.0)])
    taken: dict[str, list[str]] = {name: [] for name in QUERIES}

    def run() -> None:
        flows = flow_flows.flows(world.pipeline, world.at, "gold")
        seen = {
            name: estimate.estimate_refresh(world.pipeline.gold[name], flow, progress(flow))
            for name, flow in flows.items()
        }
        world.run()
        for name in QUERIES:
            assert world.rows(name) == world.expected(name), name
            cost = world.commits(name)[0]["cost"]
            taken[name].append(cost["technique"])
            assert cost["estimated"] == cost["estimates"][cost["technique"]]
            if (choice := seen[name].choice) is not None:
                assert (choice.technique, choice.work) == (cost["technique"], refresh_cost.Work(**cost["rows"])), name

    run()
    world.add([sample(3)])
    run()
    world.sql("UPDATE {t} SET n = n + 1 WHERE id < 50")
    run()
    world.add([sample(5)])
    run()
    world.sql("DELETE FROM {t} WHERE id = 6")
    run()
    assert taken["sums"][:3] == ["restart", "partial", "whole"]
    assert taken["sums"][3] != "partial"  # there is no state that could be followed
    assert taken["sums"][-1] == "partial"
    assert taken["rows"][:3] == ["whole", "groups", "whole"]

    event_log.copy_events(world.pipeline, world.at)
    events = [event for event in DeltaTable(world.at.events).to_pyarrow_table().to_pylist() if event["table"] == "sums"]
    costs = [json.loads(event["details"])["cost"] for event in sorted(events, key=lambda one: int(one["version"]))]
    assert [cost["technique"] for cost in costs] == taken["sums"]
    assert all(0 < cost["seconds"] < 600 for cost in costs)
    assert {*costs[2]["estimates"]} == {"partial", "groups", "whole"}
    assert costs[1]["rows"] == {"changed": 1, "all": 61, "held": 4, "touched": 1}


@pytest.mark.release
def test_state_that_a_batch_left_behind_is_not_used(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the joined table had changed, so the source's version of the state is that of the table all the same."""
    monkeypatch.setattr(thresholds, "SMALL", -1)
    permitted: list[set[str]] = []
    wanted = iter(["restart", "whole", "groups", "restart", "partial"])

    def choose(_: RefreshCost, found: Collection[Technique], work: Work) -> TechniqueChoice:
        permitted.append({*found})
        technique = cast("Technique", next(wanted))
        return TechniqueChoice(technique, {technique: 1.0}, work)

    monkeypatch.setattr(RefreshCost, "choose", choose)
    world = GoldWorld(tmp_path, {"joined": QUERIES["joined"]}, spark)
    world.add([sample(i) for i in range(20)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 1.0)])
    for change in ("", "UPDATE {u} SET name = 'Bo' WHERE g = 'b'", "add", "add", "add"):
        if change == "add":
            world.add([sample(len(permitted))])
        elif change:
            world.sql(change)
        world.run()
        assert world.rows("joined") == world.expected("joined")
    assert ["partial" in found for found in permitted] == [False, True, False, False, True]


@pytest.mark.more
def test_silver_that_is_moved_away_and_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gold's log has the offset of the former table, but its rows are of the other one."""
    monkeypatch.setattr(thresholds, "SMALL", -1)
    world = GoldWorld(tmp_path, QUERIES, spark)
    world.add([sample(i) for i in range(20)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 1.0)])
    world.run()
    kept, other = Path(world.silver), tmp_path / "other"
    kept.rename(other)
    world.add([sample(i) for i in range(30, 35)])
    world.run()
    kept.rename(tmp_path / "gone")
    other.rename(kept)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    world.add([sample(40)])
    for name, report in world.run().items():
        assert report.why == "t is not the table that it was filled from last", name
        assert world.rows(name) == world.expected(name), name


STEP = st.one_of(test_row_deltas.STEP, st.tuples(st.just("add"), st.lists(ROW, min_size=20, max_size=40)))


@pytest.mark.release
@in_spark(examples=0)
@example(seed=4, first=test_row_deltas.FIRST, steps=[*test_row_deltas.STEPS, [("add", test_row_deltas.FIRST[1:4])],
                                                    [("stop", "gold.between_commits"), ("rename", "b")]])  # fmt: skip
@given(
    seed=st.integers(0, 2**30),
    first=st.lists(ROW, min_size=3, max_size=12),
    steps=st.lists(st.lists(STEP, min_size=1, max_size=2), min_size=2, max_size=5),
)
def test_gold_is_the_same_by_whichever_technique_each_batch_is_made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int, first: list[Any], steps: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "SMALL", -1)
        lot = by_lot(patch, seed)

        def stop_with_state(world: GoldWorld, point: str, rows: list[tuple[Any, ...]]) -> None:
            """Only techniques that write aggregate state come between its commit and the table's."""
            with pytest.MonkeyPatch.context() as of_the_stop:
                if point == "gold.between_commits":
                    of_the_stop.setattr(lot, "preferred", {Technique.INCREMENTAL, Technique.RESTART})
                stop(world, point, rows)

        world = GoldWorld(tmp_path_factory.mktemp("gold"), BY_LOT, spark)
        world.add(rows(first, 0))
        world.name([("a", "Ann", 0.1), ("a", "Bob", 3.5), ("b", "Bob", -1e16), (None, "No", 3.5)])
        after_every_run(world, first, steps, test_row_deltas.happen, test_row_deltas.assert_right, stop_with_state)
        assert {"partial", "restart", "groups", "whole"} <= {*lot.taken}

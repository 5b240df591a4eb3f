"""Gold tables that read gold: each is what its query gives over those that it reads, in any depth, whatever happens."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate import _faults
from sluicegate.errors import SluicegateError
from sluicegate.gold import verify_gold
from sluicegate.jobs.continuous import Continuous
from sluicegate.jobs.run_job import Run
from sluicegate.lake import tables
from sluicegate.launch.request import Request
from sluicegate.maintenance import optimize_vacuum
from sluicegate.monitor import plan, status, streams
from sluicegate.spark.session import SharedSpark
from tests.conftest import Workspace
from tests.spark.test_recovery import Stopped
from tests.support.delivery_world import without_streams
from tests.support.gold_world import GoldWorld, comparable, exact, kept
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Rows = list[Any]

# A diamond (share), gold beside silver (named), one that is replaced by each run (most), and what follows that (after).
# They are not in the order in which they can be made.
DAY = "SELECT g, k, count(*) AS n, sum(x) AS s FROM t GROUP BY g, k"
QUERIES = {
    "after": kept("SELECT n, count(*) AS c, max(parts) AS parts FROM most GROUP BY n"),
    "share": kept(
        "SELECT d.g, d.k, sum(d.s) AS s, max(o.n) AS whole, count(*) AS c FROM day AS d JOIN total AS o ON d.g = o.g "
        "GROUP BY d.g, d.k"
    ),
    "named": kept(
        "SELECT u.name, count(*) AS c, sum(o.n) AS n FROM total AS o LEFT JOIN u ON o.g = u.g GROUP BY u.name"
    ),
    "most": "SELECT max(o.n) AS n, (SELECT count(*) FROM share) AS parts FROM total AS o",
    "spread": kept("SELECT n, count(DISTINCT g) AS gs, array_sort(collect_list(k)) AS ks FROM day GROUP BY n"),
    "total": kept("SELECT g, sum(n) AS n, sum(s) AS s, max(k) AS k FROM day GROUP BY g"),
    "day": kept(DAY),
}  # fmt: skip


# --- the same in Python ----------------------------------------------------------------------------------------------


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, Rows]:
    found: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def day(t: Rows) -> Iterable[Any]:
    for (g, k), rows in grouped(t, lambda row: (row.g, row.k)).items():
        yield g, k, len(rows), exact(row.x for row in rows)[0]


def total(day: Rows) -> Iterable[Any]:
    for g, rows in grouped(day, lambda row: row.g).items():
        yield (
            g,
            sum(row.n for row in rows),
            exact(row.s for row in rows)[0],
            max(known(r.k for r in rows), default=None),
        )


def share(day: Rows, total: Rows) -> Iterable[Any]:
    pairs = [(one, of) for one in day for of in total if one.g is not None and one.g == of.g]
    for (g, k), rows in grouped(pairs, lambda pair: (pair[0].g, pair[0].k)).items():
        yield g, k, exact(one.s for one, _ in rows)[0], max(of.n for _, of in rows), len(rows)


def spread(day: Rows) -> Iterable[Any]:
    for n, rows in grouped(day, lambda row: row.n).items():
        yield n, len(set(known(row.g for row in rows))), sorted(known(row.k for row in rows))


def named(total: Rows, u: Rows) -> Iterable[Any]:
    pairs = [(name, of) for of in total for name in [r.name for r in u if r.g == of.g and r.g is not None] or [None]]
    for name, rows in grouped(pairs, lambda pair: pair[0]).items():
        yield name, len(rows), sum(of.n for _, of in rows)


def most(total: Rows, share: Rows) -> Iterable[Any]:
    yield max((row.n for row in total), default=None), len(share)


def after(most: Rows) -> Iterable[Any]:
    for n, rows in grouped(most, lambda row: row.n).items():
        yield n, len(rows), max(row.parts for row in rows)


MODEL: dict[str, tuple[Callable[..., Iterable[Any]], tuple[str, ...]]] = {
    "day": (day, ("t",)), "total": (total, ("day",)), "share": (share, ("day", "total")), "spread": (spread, ("day",)),
    "named": (named, ("total", "u")), "most": (most, ("total", "share")), "after": (after, ("most",)),
}  # fmt: skip


def assert_right(world: GoldWorld, *only: str) -> None:
    """Each table is what Python makes of those that it reads as they are, all rows; so the last is of silver, too."""
    rows = {name: world.table(name).collect() for name in QUERIES if tables.delta_table(world.at.table("gold", name))}
    rows["t"] = world.silver_rows()
    if tables.delta_table(world.names):
        rows["u"] = world.spark.read.format("delta").load(world.names).collect()
    for name in only or QUERIES:
        make, reads = MODEL[name]
        expected = Counter(tuple(map(comparable, row)) for row in make(*(rows[read] for read in reads)))
        assert Counter(tuple(map(comparable, row)) for row in rows[name]) == expected, name


# --- what happens ----------------------------------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.sampled_from([0.1, 1e16, -1e16, 5e-324, float("nan")]), st.floats(-1e3, 1e3))
ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, 3, None]), VALUES)
NAME = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["Ann", "Bob", None]))
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ROW, min_size=1, max_size=6)),
    st.tuples(st.just("name"), st.lists(NAME, min_size=1, max_size=3)),
    st.tuples(st.just("update"), st.integers(2, 4)),
    st.tuples(st.just("delete"), st.integers(2, 4)),
    st.tuples(st.just("group"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("alone"), st.sampled_from(sorted(QUERIES))),
    st.tuples(st.just("kill"), st.integers(1, 3 * len(QUERIES))),
    st.tuples(st.just("define"), st.sampled_from(["day", "total"])),
    st.tuples(st.just("restore"), st.sampled_from(["day", "total", "share", "after"])),
    st.tuples(st.just("lose"), st.sampled_from(["day", "total", "most"])),
    st.tuples(st.just("optimize"), st.sampled_from(["day", "total"])),
)


def kill_at(patch: pytest.MonkeyPatch, number: int) -> None:
    """From the n-th fault point on, of whichever tables, nothing goes on: so it is where a process is gone."""
    lock, passed = Lock(), list[str]()

    def point(here: str) -> None:
        with lock:
            passed.append(here)
            if len(passed) >= number:
                raise Stopped(here)

    patch.setattr(_faults, "point", point)


def added(rows: Iterable[tuple[Any, ...]], first: int) -> list[tuple[Any, ...]]:
    return [(first + i, g, k, x, None, None, None, None, None) for i, (g, k, x) in enumerate(rows)]


def happen(world: GoldWorld, kind: str, what: Any, first: int) -> None:
    if kind in ("restore", "lose", "optimize"):
        to_gold(world, kind, what)
    elif kind == "alone":
        if all(tables.delta_table(world.at.table("gold", name)) for name in MODEL[what][1] if name in QUERIES):
            world.run(what)
            assert_right(world, what)
    elif kind == "define":  # the same rows by another text, or by the first one again
        other = {} if "(g)" in world.pipeline.gold[what].query.text else {what: "SELECT (g) AS g,"}
        world.define(
            {name: query.replace("SELECT g,", other.get(name, "SELECT g,")) for name, query in QUERIES.items()}
        )
    elif kind == "kill":
        world.add(added([("a", 1, 0.1), ("d", 1, 2.5)], first))
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, what)
            with suppress(Stopped):
                world.run()
    else:
        to_silver(world, kind, what, first)


def to_silver(world: GoldWorld, kind: str, what: Any, first: int) -> None:
    if kind == "add":
        world.add(added(what, first))
    elif kind == "name":
        world.name([(g, name, None) for g, name in what])
    elif kind == "update":
        world.sql(f"UPDATE {{t}} SET k = coalesce(k, 0) + 1, x = -x, g = CASE WHEN id % 3 = 0 THEN g END "
                  f"WHERE id % {what} = 0")  # fmt: skip
    elif kind == "delete":
        world.sql(f"DELETE FROM {{t}} WHERE id % {what} = 1")
    else:
        world.sql(f"DELETE FROM {{t}} WHERE g = '{what}'")


def to_gold(world: GoldWorld, kind: str, name: str) -> None:
    uri = world.at.table("gold", name)
    table = tables.delta_table(uri)
    if table is None:
        return
    if kind == "restore":
        world.spark.sql(f"RESTORE TABLE delta.`{uri}` TO VERSION AS OF {max(table.version() - 1, 0)}")
    elif kind == "lose":
        shutil.rmtree(uri)
    else:
        world.spark.sql(f"OPTIMIZE delta.`{uri}`")


FIRST: list[Any] = [("a", 1, 0.1), ("a", 2, 1e16), ("a", 2, -1e16), ("b", 2, 5e-324), (None, 1, None), ("c", None, 2.5)]
STEPS: list[Any] = [
    [("add", FIRST[:3]), ("kill", 3), ("alone", "total")],
    [("update", 2), ("name", [("a", "Bob"), ("c", None)]), ("kill", 8), ("optimize", "day")],
    [("define", "day"), ("restore", "total"), ("group", "b")],
    [("lose", "day"), ("delete", 3)],
]


@pytest.mark.release
@in_spark(examples=0)
@example(first=FIRST, steps=STEPS)
@given(
    first=st.lists(ROW, min_size=1, max_size=12),
    steps=st.lists(st.lists(STEP, min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_each_table_equals_its_query_after_every_run(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, first: list[Any], steps: list[Any]
) -> None:
    world = GoldWorld(tmp_path_factory.mktemp("gold"), QUERIES, spark)
    world.add(added(first, 0))
    world.name([("a", "Ann", None), ("b", "Bob", None)])
    assert [*world.run()] == ["day", "spread", "total", "share", "named", "most", "after"]
    assert_right(world)
    assert all(report.state == "idle" for report in world.run().values())  # also what saw its columns only now
    for number, events in enumerate(steps):
        for at, (kind, what) in enumerate(events):
            happen(world, kind, what, 1000 * (number + 1) + 100 * at)
        with pytest.MonkeyPatch.context() as patch:
            if number == 1:
                without_streams(patch)
            world.run()
        assert_right(world)
    assert all(report.state == "idle" for report in world.run().values())
    assert waiting(world).nothing


# --- one thing at a time ---------------------------------------------------------------------------------------------

THREE = {"share": QUERIES["share"], "total": QUERIES["total"], "day": QUERIES["day"]}


@pytest.fixture
def three(spark: SparkSession, tmp_path: Path) -> GoldWorld:
    """Three tables that a run has made, of which two read the first."""
    world = GoldWorld(tmp_path, THREE, spark)
    world.add(added([("a", 1, 0.5), ("a", 2, 1.5), ("b", 1, 2.0)], 0))
    world.run()
    return world


def waiting(world: GoldWorld) -> plan.Pending:
    """What waits, as it is told without a JVM."""
    Path(world.where.landing).mkdir(exist_ok=True)
    return plan.pending(world.pipeline, world.where)


def states(world: GoldWorld, *only: str) -> dict[str, str]:
    return {name: report.state for name, report in world.run(*only).items()}


def test_a_run_costs_what_changed_in_every_depth(three: GoldWorld) -> None:
    three.add(added([("b", 1, 1.0)], 100))
    reports = three.run()
    assert {name: report.updated for name, report in reports.items()} == {"day": 1, "total": 1, "share": 1}
    assert {name: three.commits(name)[0]["mode"] for name in THREE} == dict.fromkeys(THREE, "incremental")
    assert three.commits("share")[0]["groups"] == 1
    assert_right(three, *THREE)


def test_chosen_tables_read_what_is_there(three: GoldWorld, spark: SparkSession, tmp_path: Path) -> None:
    three.add(added([("b", 1, 1.0)], 100))
    assert states(three, "total", "share") == {"total": "idle", "share": "idle"}
    assert states(three, "day") == {"day": "written"}
    found = waiting(three)
    assert (found.late_layers, [one.table for one in found.tables if one.work]) == (["gold"], ["total", "share"])
    told = {one.table: one.state for one in status.status(three.pipeline, three.where).tables if one.layer == "gold"}
    assert told == {"day": "up to date", "total": "behind", "share": "behind"}
    assert states(three, "share") == {"share": "written"}
    assert_right(three, "day", "share")
    assert states(three) == {"day": "idle", "total": "written", "share": "again"}
    assert_right(three, *THREE)
    empty = GoldWorld(tmp_path / "empty", THREE, spark)
    empty.add(added([("a", 1, 0.5)], 0))
    report = empty.run("share")["share"]
    assert (report.state, report.why) == ("blocked", "day has no rows yet")


def test_those_that_read_a_failed_table_wait_and_no_others(
    three: GoldWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: three.rows(name) for name in ("total", "share")}
    bad = kept("SELECT g, sum(n) + max(CAST(g AS INT)) AS n, sum(s) AS s, max(k) AS k FROM day GROUP BY g")
    three.define({
        **THREE, "total": bad, "other": "SELECT count(*) AS n FROM day",
        "last": "SELECT count(*) AS n FROM share",
    })  # fmt: skip
    three.add(added([("b", 1, 1.0)], 100))
    capsys.readouterr()
    with pytest.raises(SluicegateError, match="total"):
        three.run()
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "gold share waits: it reads total, which this run could not bring up to date" in lines
    assert "gold last waits: it reads share, which this run could not bring up to date" in lines
    assert any(line.startswith("gold total FAILED: ") for line in lines)
    assert {name: three.rows(name) for name in before} == before
    assert_right(three, "day")
    assert three.rows("other") == Counter([(3,)])
    three.define({**THREE, "last": "SELECT count(*) AS n FROM share"})
    three.run()
    assert_right(three, *THREE)
    assert three.rows("last") == Counter([(3,)])


def test_those_that_read_a_table_that_waits_wait_too(three: GoldWorld) -> None:
    """Else they would be made of some tables as they are now, and of others as they were before."""
    three.name([("a", "Ann", None)])
    total = kept(
        "SELECT d.g, sum(d.n) AS n, sum(d.s) AS s, max(d.k) AS k FROM day AS d LEFT JOIN u ON d.g = u.g GROUP BY d.g"
    )
    three.define({**THREE, "total": total})
    three.run()
    before = three.rows("share")
    Path(three.names).rename(Path(three.names).with_name("moved_away"))
    three.add(added([("b", 1, 1.0)], 100))
    reports = three.run()
    assert {name: (one.state, one.why) for name, one in reports.items()} == {
        "day": ("written", ""),
        "total": ("blocked", "it joins u, which has no rows yet"),
        "share": ("blocked", "it reads total, which this run could not bring up to date"),
    }
    assert three.rows("share") == before
    Path(three.names).with_name("moved_away").rename(three.names)
    three.run()
    assert_right(three, *THREE)


def test_a_table_that_was_replaced_is_followed(three: GoldWorld) -> None:
    """By who follows it whole, by who joins it in the rows that are other; and if its columns are others, whole."""
    three.define({**THREE, "total": kept("SELECT g, sum(n) + 1 AS n, sum(s) AS s, max(k) AS k FROM day GROUP BY g")})
    reports = three.run()
    assert (reports["total"].state, reports["total"].why) == ("rebuilt", "its definition changed")
    assert (reports["share"].updated, reports["share"].why) == (3, "total changed")
    assert three.commits("share")[0]["mode"] == "incremental"
    three.define({**THREE, "total": kept("SELECT g, avg(n) AS n, sum(s) AS s, max(k) AS k FROM day GROUP BY g")})
    reports = three.run()
    assert (reports["share"].state, reports["share"].why) == ("rebuilt", "total changed")
    assert three.rows("share") == three.expected("share")
    three.define(THREE)
    three.run()
    assert_right(three, *THREE)


@pytest.mark.more
def test_a_joined_table_whose_columns_were_others_in_between(three: GoldWorld) -> None:
    """Of gold by its definition, there and back; of silver by a full refresh with another query."""
    other = kept("SELECT g, avg(n) AS n, sum(s) AS s, max(k) AS k FROM day GROUP BY g")
    for total in (other, THREE["total"]):
        three.define({**THREE, "total": total})
        three.add(added([("b", 1, 1.0)], 100))
        three.run("day", "total")
    reports = three.run()
    assert (reports["share"].state, reports["share"].why) == ("rebuilt", "total changed")
    assert_right(three, *THREE)
    three.name([("a", "Ann", 1.5)])
    three.define({**THREE, "named": QUERIES["named"]})
    three.run()
    frame = three.spark.createDataFrame([("a", "Bob", "heavy")], "g STRING, name STRING, weight STRING")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(three.names)
    reports = three.run()
    assert (reports["named"].state, reports["named"].why) == ("rebuilt", "u changed")
    assert_right(three, "named")


def test_what_follows_a_full_refresh_is_brought_up_to_date(three: GoldWorld, spark: SparkSession) -> None:
    shared = SharedSpark("w", three.at, private=False, opened=spark)
    request = Request.from_arguments(three.pipeline, "full-refresh", tables=["day"])
    done = list(Run(three.pipeline, three.at, {"run_id": "test"}, shared).reports(request, ["gold"], follow=True))
    assert [(one.table, one.state, one.why) for one in done[0].tables] == [
        ("day", "rebuilt", "a full refresh was requested")
    ]
    assert [one.table for one in done[1].tables] == ["day", "total", "share"]
    for one in done[1].tables:  # no row of day differs, so nobody has anything to do but to say how far it has come
        assert (one.state != "rebuilt", one.inserted, one.updated, one.deleted) == (True, 0, 0, 0), one.table
    assert_right(three, *THREE)


@pytest.mark.release
def test_tables_share_views_that_are_a_part_of_their_queries(three: GoldWorld) -> None:
    """Over tables of any layer, and other views; each reader sees them as of the versions of its own batch."""
    queries = {
        "few": "SELECT v.g, v.k, u.name FROM v LEFT JOIN u ON v.g = u.g",
        "many": "SELECT count(*) AS n, (SELECT max(n) FROM w) AS most FROM v",
        "top": "SELECT name, count(*) AS c FROM few GROUP BY name",
        **THREE,
    }
    views = {"w": "SELECT g, max(n) AS n FROM v GROUP BY g", "v": "SELECT d.g, d.k, d.n FROM day AS d WHERE d.n > 0"}
    three.name([("a", "Ann", None)])
    three.define(queries, views)
    three.run()
    assert three.rows("few") == Counter([("a", 1, "Ann"), ("a", 2, "Ann"), ("b", 1, None)])
    assert three.rows("many") == Counter([(3, 1)])
    three.add(added([("b", 1, 1.0), ("c", 1, 1.0)], 100))
    assert {name: report.state for name, report in three.run().items() if name in ("few", "many")} == {
        "few": "written", "many": "written"
    }  # fmt: skip
    assert three.rows("many") == Counter([(4, 2)])
    assert three.rows("top") == Counter([("Ann", 2), (None, 2)])
    assert three.run()["many"].state == "idle"
    three.define(queries, {**views, "v": views["v"].replace("> 0", "> 1")})
    reports = three.run()
    assert {name: reports[name].why for name in ("few", "many")} == dict.fromkeys(
        ("few", "many"), "its definition changed"
    )
    assert (three.rows("few"), three.rows("many")) == (Counter([("b", 1, None)]), Counter([(1, 2)]))
    proofs = verify_gold.prove(three.spark, three.pipeline, three.at)
    assert [one for one in proofs if one.kind != "proved"] == []


@pytest.mark.more
def test_the_proof_is_of_the_versions_that_a_table_was_made_of(three: GoldWorld) -> None:
    def found() -> dict[str, str]:
        every = verify_gold.prove(three.spark, three.pipeline, three.at)
        return {one.table: one.kind for one in every if one.kind != "proved"}

    three.add(added([("b", 1, 1.0)], 100))
    three.run("day")
    assert found() == {}  # the others are behind, which is no fault of their rows
    three.spark.sql(f"UPDATE delta.`{three.at.table('gold', 'day')}` SET n = n + 1 WHERE g = 'a'")
    assert found() == {"day": "wrong"}
    three.run()
    assert found() == {"day": "wrong"}  # the others are what their queries give over it
    shutil.rmtree(three.at.table("gold", "day"))
    three.run()
    assert found() == {}
    assert_right(three, *THREE)


def test_files_stay_that_another_gold_table_has_yet_to_follow(three: GoldWorld) -> None:
    assert optimize_vacuum.unread_sources(three.pipeline, three.at) == {}
    three.add(added([("b", 1, 1.0)], 100))
    three.run("day")
    held = optimize_vacuum.unread_sources(three.pipeline, three.at)
    assert {uri: by for uri, (_, by) in held.items()} == {three.at.table("gold", "day"): "total"}
    three.run("total")
    held = optimize_vacuum.unread_sources(three.pipeline, three.at)
    assert {uri: by for uri, (_, by) in held.items()} == {
        three.at.table("gold", name): "share" for name in ("day", "total")
    }


@pytest.mark.in_the_jvm
@pytest.mark.release
def test_a_streaming_aggregation_and_a_function_read_gold(spark: SparkSession, tmp_path: Path) -> None:
    queries = {
        "late": '{sql: "SELECT k, count(*) AS c FROM hours GROUP BY k", mode: complete}',
        "copied": "{python: transforms.py:copied, reads: [sums, hours]}",
        "sums": "SELECT k, sum(n) AS n FROM hours GROUP BY k ORDER BY k",
        "hours": "SELECT g, k, count(*) AS n FROM t GROUP BY g, k",
    }
    (tmp_path / "pipelines" / "w").mkdir(parents=True)
    (tmp_path / "pipelines" / "w" / "transforms.py").write_text(
        "def copied(tables):\n    return tables['sums'].join(tables['hours'].groupBy('k').count(), 'k')\n"
    )
    world = GoldWorld(tmp_path, queries, spark)
    world.add(added([("a", 1, 0.5), ("a", 2, 1.5), ("b", 1, 2.0)], 0))
    world.run()

    def found() -> tuple[Any, ...]:
        return world.rows("late"), world.rows("copied"), world.rows("sums")

    assert found() == (Counter([(1, 2), (2, 1)]), Counter([(1, 2, 2), (2, 1, 1)]), Counter([(1, 2), (2, 1)]))
    world.add(added([("a", 1, 0.5), ("c", 1, 0.5)], 100))
    reports = world.run()
    assert reports["late"].why.startswith("hours was changed by MERGE")
    assert found() == (Counter([(1, 3), (2, 1)]), Counter([(1, 4, 3), (2, 1, 1)]), Counter([(1, 4), (2, 1)]))
    assert all(report.state == "idle" for report in world.run().values())


@pytest.mark.release
def test_a_continuous_run_fills_gold_over_gold_in_each_tick(spark: SparkSession, workspace: Workspace) -> None:
    """In order, in one Spark; a tick without news makes no batch, and what another program deletes is followed."""
    workspace.define(
        """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "g STRING, n BIGINT"}
silver:
  t: {sql: "SELECT g, n FROM STREAM(raw)"}
gold:
  above: {sql: "SELECT n, count(*) AS groups FROM sums GROUP BY n"}
  sums: {sql: "SELECT g, sum(n) AS n FROM t GROUP BY g"}
  top: {sql: "SELECT max(groups) AS most FROM above"}
"""
    )
    (workspace.folder / "landing" / "raw").mkdir()
    stream = streams.Stream("heart_rate", streams.new_id(), "1s")
    shared = SharedSpark("tests", workspace.lake, private=False, opened=spark)
    with streams.Registration(workspace.lake, stream) as known:
        loop = Continuous(workspace.settings, workspace.lake, stream, {}, known, shared)

        def ticked() -> tuple[int, list[Any], list[Any], list[Any]]:
            loop.tick()
            tables = (sorted(workspace.rows(name)) for name in ("sums", "above", "top"))
            return loop.batches, *tables

        workspace.land("raw/a.json", [{"g": "a", "n": 1}, {"g": "b", "n": 1}], age=90)
        assert ticked() == (1, [("a", 1), ("b", 1)], [(1, 2)], [(2,)])
        assert ticked()[0] == 1
        workspace.land("raw/b.json", [{"g": "a", "n": 4}, {"g": "c", "n": 5}, {"g": "d", "n": 5}], age=80)
        assert ticked() == (2, [("a", 5), ("b", 1), ("c", 5), ("d", 5)], [(1, 1), (5, 3)], [(3,)])
        spark.sql(f"DELETE FROM delta.`{workspace.uri('t')}` WHERE g IN ('c', 'b')")
        assert ticked() == (3, [("a", 5), ("d", 5)], [(5, 2)], [(2,)])
        assert (ticked()[0], loop.failures) == (3, 0)

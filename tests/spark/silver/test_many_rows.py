"""Records that give many rows: whatever happens, the tables hold what plain Python makes of the landed files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from deltalake import DeltaTable
from hypothesis import currently_in_test_context, event, example, given
from hypothesis import strategies as st

from sluicegate.errors import ExpectationFailed, FanOut
from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch
from sluicegate.flow.selection import Interval, Replay
from sluicegate.frames import record_ids
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables
from sluicegate.monitor import status
from tests.conftest import Workspace
from tests.spark.test_recovery import Stopped
from tests.support.many_world import Today, World, of_record
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.flow.selection import Choice

pytestmark = pytest.mark.spark

HOUR = 3600


def line(k: int | None = 1, v: str | None = "5", s: int | None = 0) -> dict[str, Any]:
    return {"k": k, "v": v, "s": s}


def record(id_: int, *lines: dict[str, Any], n: int | None = 1) -> dict[str, Any]:
    return {"id": id_, "n": n, "lines": list(lines)}


def tag(n: int | None, text: str | None) -> dict[str, Any]:
    return {"n": n, "tag": text}


@contextmanager
def killed_before(commit: int) -> Iterator[list[str]]:
    """Stops the run before it makes its n-th commit; gives what the commits before it were to do."""
    real = Batch.commit
    made: list[str] = []

    @contextmanager
    def committing(batch: Batch, **facts: Any) -> Iterator[None]:
        if batch.flow.table == "t":
            if len(made) + 1 == commit:
                raise Stopped(batch.flow.table)
            made.append(str(facts.get("step", "table")))
        with real(batch, **facts):
            yield

    with mock.patch.object(Batch, "commit", committing):
        yield made


def noted(what: str) -> None:
    """Counts what happened among the examples of a property."""
    if currently_in_test_context():
        event(what)


class Course:
    """What happens to a world, step by step."""

    def __init__(self, spark: SparkSession, world: World) -> None:
        self.spark, self.world, self.definitions = spark, world, [world.today]

    def go(self, files: dict[str, list[dict[str, Any]]], edit: tuple[int, int] | None, how: tuple[Any, ...]) -> None:
        """Lands files, for the first time or again, edits the definition, and runs, perhaps not to the end."""
        for file, records in files.items():
            self.world.put(file, *records)
        if edit is not None:
            today = self.world.today
            self.world.redefine(Today(today.order, today.quarantine, *edit))
            self.definitions.append(self.world.today)
        self.world.take_in(self.spark, "bronze")
        choice, commit = self.choice(how[0]), how[1]
        noted(how[0])
        if commit:
            with killed_before(commit) as made:
                try:
                    self.run(choice)
                except Stopped:
                    noted(f"killed after {', '.join(made) or 'nothing'}")
            self.run(None)
            self.assert_no_record_is_half()
            return
        self.run(choice)
        if choice is not None:
            assert self.world.take_in(self.spark, "silver", choice=choice)["t"].unchanged

    def choice(self, how: str) -> Choice | None:
        if how == "interval":
            return Interval.parse("1970-01-01T00:00", "1970-01-01T01:00")
        return Replay("t", (), True) if how == "replay" else None

    def run(self, choice: Choice | None) -> None:
        self.world.take_in(self.spark, "silver", choice=choice)

    def assert_no_record_is_half(self) -> None:
        """Each record has the rows that one of the definitions so far makes, and not some of each of two."""
        assert status.verify(self.world.definition, self.world.settings) == []
        if self.world.today.order != "every":
            return
        landing = self.world.folder / "landing"
        made = [of_record(landing, today) for today in self.definitions]
        for place in self.world.by_record().values():
            ids = {row[0] for row in (*place[0], *place[1])}
            if not ids:
                continue
            (id_,) = ids
            assert any(place == _places(its.get(id_, [])) for its in made), (id_, place)


def _places(rows: list[Any]) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    return (
        Counter(row.tuple for row in rows if row.place == "t"),
        Counter(row.tuple for row in rows if row.place == "quarantine"),
        Counter(("dropped",) for row in rows if row.place == "aside"),
    )


LINES = st.lists(
    st.builds(
        line,
        st.sampled_from([1, 1, 2, 2, 3, None, 9]),
        st.sampled_from(["1", "2", "4", "6", "6", "-3", "500", "five", None]),
        st.sampled_from([0, 0, HOUR - 1, HOUR, 3 * HOUR, None]),
    ),
    max_size=3,
)
RECORDS = st.lists(st.tuples(LINES, st.sampled_from([1, 1, 2, None])), max_size=3)
TAGS = st.lists(st.builds(tag, st.sampled_from([1, 2, None]), st.sampled_from(["a", "b", None])), max_size=3)
FILES = st.fixed_dictionaries(
    {},
    optional={**{f"raw/{n}": RECORDS for n in range(3)}, **{f"tags/{n}": TAGS for n in range(2)}},
)
EDIT = st.none() | st.tuples(st.sampled_from([0, 1, 3]), st.sampled_from([0, 0, HOUR]))
HOW = st.tuples(st.sampled_from(["run", "interval", "replay"]), st.integers(0, 5))
STEPS = st.lists(st.tuples(FILES, EDIT, HOW), min_size=2, max_size=4)


def _with_ids(files: dict[str, list[Any]], first: int) -> dict[str, list[dict[str, Any]]]:
    """Records of the lines and tags' keys that were drawn, each with an id that no other has."""
    found = {}
    for file, drawn in files.items():
        if not file.startswith("raw/"):
            found[file] = drawn
            continue
        found[file] = [record(first + at, *lines, n=n) for at, (lines, n) in enumerate(drawn)]
        first += len(drawn)
    return found


# Each kill that leaves a record in several states, and files that are landed again with other lines.
NAMED = [
    ({"raw/0": [([line(), line(2, "-3"), line(3, "500")], 1)], "tags/0": [tag(1, "a"), tag(1, "b")]}, None, ("run", 2)),
    ({}, (5, 0), ("replay", 0)),
    ({"raw/0": [([line(2, "6"), line(2, "-3"), line(9)], 2), ([], 1)], "tags/1": [tag(2, "a"), tag(2, "a")]}, (0, HOUR),
     ("interval", 3)),
    ({"tags/0": [tag(1, None)]}, None, ("run", 4)),
]  # fmt: skip


@pytest.mark.parametrize("few", [thresholds.FEW, pytest.param(-1, marks=pytest.mark.release)], ids=["few", "many"])
@pytest.mark.parametrize("quarantine", ["row", pytest.param("record", marks=pytest.mark.release)])
@in_spark(examples=0)
@example(order="every", steps=NAMED)
@example(order="latest", steps=NAMED)
@given(order=st.sampled_from(["first", "latest", "every"]), steps=STEPS)
@pytest.mark.more
def test_the_tables_are_a_function_of_what_landed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, few: int, quarantine: Any, order: Any, steps: Any
) -> None:
    """Also where records are taken for so many that Spark is to shuffle them."""
    with mock.patch.object(thresholds, "FEW", few), mock.patch.object(record_ids, "SENT", few):
        world = World(tmp_path_factory.mktemp("property"), today=Today(order, quarantine))
        world.put("tags/first", tag(1, "a"), tag(2, "b"), tag(2, "c"))
        world.put("raw/first", record(1, line(), line(2, "4")), record(2), record(3, line(2, "-1"), line(3), n=2))
        world.take_in(spark)
        world.assert_right()
        course = Course(spark, world)
        for number, (files, edit, how) in enumerate(steps, 1):
            course.go(_with_ids(files, 100 * number), edit, how)
        world.take_in(spark, "silver", choice=Replay("t", everything=True) if len(course.definitions) > 1 else None)
        world.assert_right()


@pytest.mark.parametrize("commit", [2, *(pytest.param(n, marks=pytest.mark.release) for n in (1, 3, 4, 5))])
def test_a_replay_that_is_killed_between_two_commits_leaves_no_record_half(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, commit: int
) -> None:
    """By the numbers alone nothing would tell: a row of the quarantine, which was changed, and one of the table."""
    world = World(tmp_path_factory.mktemp("killed"), today=Today("every"), more="")
    world.put("tags/first", tag(1, "a"))
    mixed = record(2, line(2, "-2", s=HOUR), line(3, "7"), line(1, "600"))
    world.put("raw/first", record(1, line(1, "-1"), line(2, "5")), mixed, record(3, line(1, "3"), line(2, "3")))
    world.take_in(spark)
    course = Course(spark, world)
    course.go({}, (4, HOUR), ("replay", commit))
    course.go({}, None, ("replay", 0))
    world.take_in(spark, "silver", choice=Replay("t", everything=True))
    world.assert_right()


@pytest.mark.parametrize("commit", [4, pytest.param(5, marks=pytest.mark.release)])
def test_a_row_that_is_gone_leaves_the_quarantine_after_a_kill(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, commit: int
) -> None:
    """The numbers that are left go through from 1, and the record is still there: they tell nothing."""
    world = World(tmp_path_factory.mktemp("gone"), today=Today("every"), more="")
    world.put("tags/a", tag(1, "a"))
    world.put("tags/b", tag(1, "b"))
    world.put("raw/first", record(1, line(2, "7"), line(3, "-1")))
    world.take_in(spark)
    world.put("tags/b")
    world.take_in(spark, "bronze")
    with killed_before(commit) as made, pytest.raises(Stopped):
        world.take_in(spark, "silver")
    assert made == ["enter", "enter", "table", "leave"][: commit - 1]
    assert sorted(world.rows("t_quarantine", "_record_row")) == ([(2,), (3,), (4,)] if commit == 4 else [(2,)])
    world.take_in(spark, "silver")
    world.assert_right()


DEFINED = """
name: heart_rate
bronze:
  orders: {path: "${landing}/orders", format: json, allowOverwrites: true, schemaHints: "HINTS"}
silver:
  lines:
    rows: many
    sql: LINES
OTHERS
gold:
  by_sku: {sql: "SELECT sku, sum(qty) AS qty, count(*) AS n FROM lines GROUP BY sku"}
"""
HINTS = "id BIGINT, lines ARRAY<STRUCT<sku: STRING, qty: BIGINT>>, attributes MAP<STRING, STRING>, at DOUBLE"
FIRST = "SELECT id, get(lines, 0).sku AS sku, get(lines, 0).qty AS qty FROM STREAM(orders)"
OUTER = "SELECT o.id, l.sku, l.qty FROM STREAM(orders) AS o LATERAL VIEW OUTER inline(o.lines) l AS sku, qty"


def orders(workspace: Workspace, query: str, others: str = "", **files: str) -> None:
    text = DEFINED.replace("HINTS", HINTS).replace("LINES", json.dumps(query)).replace("OTHERS", others)
    workspace.define(text, **files)
    (workspace.folder / "landing" / "orders").mkdir(parents=True, exist_ok=True)


def order(id_: int, *lines: tuple[str, int], **more: Any) -> dict[str, Any]:
    return {"id": id_, "lines": [{"sku": sku, "qty": qty} for sku, qty in lines], **more}


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(f"orders/{name}", "\n".join(json.dumps(one) for one in records), age)


def run(spark: SparkSession, workspace: Workspace, *layers: str) -> dict[str, Any]:
    reports = workspace.run(spark, *layers)
    assert status.verify(workspace.definition, workspace.settings) == []
    return reports


def test_lines_of_orders(spark: SparkSession, workspace: Workspace) -> None:
    """Rows are numbered, records and rows each add up, gold reads them, and a corrected file changes what differs."""
    orders(workspace, OUTER.replace(" OUTER", ""), "    expectations: {some: {expect_or_quarantine: qty > 0}}")
    land(workspace, "a.json", order(1, ("b", 2), ("a", 1), ("a", 1)), order(2), order(3, ("a", 0), ("c", 4)), age=90)
    report = run(spark, workspace)["lines"]
    counts = (report.read, report.rows, report.no_rows, report.written, report.quarantined, report.dropped)
    assert counts == (3, 5, 1, 4, 1, 0)
    assert "3 read (1 gave no row), 5 rows = 4 written + 1 quarantined + 0 dropped + 0 duplicates" in report.line()
    assert sorted(workspace.rows("lines", "id", "_record_row", "sku", "qty")) == [
        (1, 1, "a", 1), (1, 2, "a", 1), (1, 3, "b", 2), (3, 2, "c", 4),
    ]  # fmt: skip
    assert workspace.rows("lines_set_aside", "_record_row", "reason") == [(0, "no_rows")]
    [(number, text)] = workspace.rows("lines_quarantine", "_record_row", "_record")
    assert (number, [one["sku"] for one in json.loads(text)["lines"]]) == (1, ["a", "c"])
    assert sorted(workspace.rows("by_sku")) == [("a", 2, 2), ("b", 2, 1), ("c", 4, 1)]
    land(workspace, "a.json", order(1, ("b", 2), ("a", 1)), order(2, ("d", 9)), order(3, ("a", 5), ("c", 4)), age=50)
    report = run(spark, workspace)["lines"]
    assert (report.read, report.rows, report.no_rows) == (3, 5, 0)
    assert sorted(workspace.rows("by_sku")) == [("a", 6, 2), ("b", 2, 1), ("c", 4, 1), ("d", 9, 1)]
    assert workspace.rows("lines_set_aside") == workspace.rows("lines_quarantine") == []


def test_one_row_becomes_many_and_one_again(spark: SparkSession, workspace: Workspace) -> None:
    """The table and what reads it row by row are made anew, as rows are known by another identity."""
    others = "  picked: {sql: 'SELECT id, sku FROM STREAM(lines) AS l'}"
    orders(workspace, OUTER, others)
    workspace.edit("pipeline.yaml", "rows: many", "rows: one")
    workspace.edit("pipeline.yaml", json.dumps(OUTER), FIRST)
    land(workspace, "a.json", order(1, ("a", 1), ("b", 2)), order(2))
    first = run(spark, workspace, "bronze", "silver")["lines"]
    assert (first.rows, workspace.rows("lines", "sku")) == (None, [("a",), (None,)])
    orders(workspace, OUTER, others)
    done = run(spark, workspace, "silver")
    assert [done[name].why for name in ("lines", "picked")] == [
        "a record may now give many rows", "a record of lines may now give many rows",
    ]  # fmt: skip
    assert sorted(workspace.rows("picked", "id", "_record_row")) == [(1, 1), (1, 2), (2, 1)]
    workspace.edit("pipeline.yaml", "rows: many", "rows: one")
    workspace.edit("pipeline.yaml", json.dumps(OUTER), FIRST)
    done = run(spark, workspace, "silver")
    assert [done[name].why for name in ("lines", "picked")] == ["a record now gives one row"] * 2
    assert len(workspace.rows("picked")) == 2


NESTED = "SELECT o.id, l.sku, l.qty, o.attributes, parse_json(l.sku) AS raw, o.at FROM STREAM(orders) AS o " \
         "LATERAL VIEW explode(o.lines) x AS l"  # fmt: skip


def test_rows_are_numbered_by_values_that_spark_does_not_sort(spark: SparkSession, workspace: Workspace) -> None:
    """Maps, variants and zeros: evaluated again, also in another order, the rows have the numbers that they had."""
    orders(workspace, NESTED)
    skus = ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', "3", "3.0", '"x"']
    made = order(1, *[(sku, 1) for sku in skus], attributes={"m": "1", "n": "2"}, at=-0.0)
    land(workspace, "a.json", made, order(2, ("1", 1), at=0.0))
    run(spark, workspace, "bronze", "silver")
    before = sorted(workspace.rows("lines", "id", "_record_row", "sku"))
    assert [number for id_, number, _ in before if id_ == 1] == [1, 2, 3, 4, 5]
    table = tables.table_at(workspace.uri("lines")).version()
    choice = Replay("lines", everything=True)
    job = Job(workspace.definition, workspace.lake, "silver", {"run_id": "test"}, spark, choice=choice)
    assert job.run().tables[0].unchanged
    assert tables.table_at(workspace.uri("lines")).version() == table
    assert sorted(workspace.rows("lines", "id", "_record_row", "sku")) == before


TWICE = """
from pyspark.sql import functions as F

def lines(batch, tables):
    made = batch.select("id", F.inline("lines"), "_chunk", "_pos")
    return made.where("qty <> 0")

def skus(batch, tables):
    return batch.select("sku", "_chunk", "_pos", "_record_row")
"""


def test_python_makes_many_rows_and_reads_them_one_by_one(spark: SparkSession, workspace: Workspace) -> None:
    orders(workspace, "", "  skus: {from: lines, python: made.py:skus, keys: [sku]}", made__py=TWICE)
    workspace.edit("pipeline.yaml", 'sql: ""', "from: orders\n    python: made.py:lines\n    deidentified: {sku: mask}")
    land(workspace, "a.json", order(1, ("b", 1), ("a", 2), ("b", 0)), order(2, ("a", 0)), order(3, ("a", 1)))
    report = run(spark, workspace, "bronze", "silver")["lines"]
    assert (report.read, report.rows, report.no_rows) == (3, 3, 1)
    assert sorted(workspace.rows("skus", "sku")) == [("a",), ("b",)]
    copied = sorted(workspace.rows("lines_deidentified", "sku", "qty", "_record_row"))
    assert copied == [("***", 1, 1), ("***", 1, 2), ("***", 2, 1)]


def test_several_rows_without_the_word_stop_the_run_and_name_it(spark: SparkSession, workspace: Workspace) -> None:
    orders(workspace, OUTER, "  pairs: {sql: 'SELECT a.id FROM STREAM(orders) AS a JOIN lines AS b ON a.id = b.id'}")
    land(workspace, "a.json", order(1, ("a", 1), ("b", 2)))
    with pytest.raises(FanOut, match="pairs returns 2 rows for 1 records") as raised:
        workspace.run(spark, "bronze", "silver")
    assert "if a record should give several rows, set `rows: many`" in raised.value.hint
    workspace.edit("pipeline.yaml", "pairs: {", "pairs: {rows: many, ")
    run(spark, workspace, "silver")
    assert sorted(workspace.rows("pairs", "id", "_record_row")) == [(1, 1), (1, 2)]


def test_a_rule_that_fails_the_run_does_so_for_one_row(spark: SparkSession, workspace: Workspace) -> None:
    orders(workspace, OUTER, "    quarantine: record\n    expectations: {some: {expect_or_fail: qty > 0}}")
    land(workspace, "a.json", order(1, ("a", 1), ("b", 0)))
    with pytest.raises(ExpectationFailed, match="some \\(1 rows\\)"):
        workspace.run(spark, "bronze", "silver")
    assert workspace.rows("lines") == []


@pytest.mark.release
def test_a_table_that_was_restored_has_all_rows_of_its_records(spark: SparkSession, workspace: Workspace) -> None:
    """With what the side tables have of later batches, and what reads its rows one by one."""
    others = (
        "    keys: [id, sku]\n    expectations: {some: {expect_or_quarantine: qty > 0}}\n"
        "  picked: {sql: 'SELECT id, sku FROM STREAM(lines) AS l'}"
    )
    orders(workspace, OUTER.replace(" OUTER", ""), others)
    land(workspace, "a.json", order(1, ("b", 2), ("a", 1)), order(2, ("c", 0), ("d", 1)), age=90)
    run(spark, workspace)
    restored_to = tables.table_at(workspace.uri("lines")).version()
    land(workspace, "b.json", order(1, ("b", 3), ("e", 1)), order(3, ("a", 0)), order(4), age=80)
    land(workspace, "a.json", order(1, ("b", 2), ("f", 1)), order(2, ("c", 5), ("d", 0)), age=70)
    run(spark, workspace)
    columns = {"lines": ("id", "_record_row", "sku", "qty"), "picked": ("id", "_record_row", "sku"), "by_sku": ()}
    columns |= {"lines_quarantine": columns["lines"], "lines_set_aside": ("_record_row", "reason")}

    def held() -> dict[str, Counter[tuple[Any, ...]]]:
        return {name: Counter(workspace.rows(name, *its)) for name, its in columns.items()}

    before = held()
    DeltaTable(workspace.uri("lines")).restore(restored_to)
    assert "RESTORE" in run(spark, workspace)["lines"].why
    assert held() == before
    land(workspace, "c.json", order(5, ("g", 7), ("g", 8)), age=60)
    assert run(spark, workspace)["lines"].duplicates == 1


@pytest.mark.release
def test_rows_of_a_record_go_by_a_sequence_that_they_do_not_select(spark: SparkSession, workspace: Workspace) -> None:
    """It is the record's; of its rows with one key the last counts, and a late, older record wins nothing."""
    orders(workspace, OUTER, "    keys: [id, sku]\n    sequence_by: at")
    land(workspace, "a.json", order(1, ("a", 1), ("b", 1), at=2.0), order(2, ("a", 1), ("a", 2), at=1.0), age=90)
    run(spark, workspace)
    assert sorted(workspace.rows("lines", "id", "sku", "qty")) == [(1, "a", 1), (1, "b", 1), (2, "a", 2)]
    land(workspace, "b.json", order(1, ("a", 9), ("c", 9), at=1.0), order(1, ("b", 7), at=3.0), age=80)
    land(workspace, "c.json", order(2, ("a", 4), at=None), age=70)
    reports = run(spark, workspace)
    assert reports["lines"].quarantined == 1
    rows = [(1, "a", 1), (1, "b", 7), (1, "c", 9), (2, "a", 2)]
    assert sorted(workspace.rows("lines", "id", "sku", "qty")) == rows
    assert sorted(workspace.rows("by_sku")) == [("a", 3, 2), ("b", 7, 1), ("c", 9, 1)]
    choice = Replay("lines", everything=True)
    done = Job(workspace.definition, workspace.lake, "silver", {"run_id": "test"}, spark, choice=choice).run()
    assert (done.tables[0].unchanged, sorted(workspace.rows("lines", "id", "sku", "qty"))) == (True, rows)

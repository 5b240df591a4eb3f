"""Tables that several flows fill: whatever happens, they hold what plain Python makes of the landed files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import currently_in_test_context, event, given
from hypothesis import strategies as st

from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch
from sluicegate.flow.selection import Interval, Replay
from sluicegate.frames import record_ids
from tests.spark.test_recovery import Stopped
from tests.support.flows_world import FOLDERS, World
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.flow.selection import Choice

pytestmark = pytest.mark.spark

HOUR = 3600


def record(k: int | None = 1, v: str | None = "5", s: int | None = 0, u: int | None = 1, n: int | None = 1) -> Any:
    return {"k": k, "v": v, "s": s, "u": u, "n": n}


def own(k: int | None = 1, v: int | None = 5, s: int | None = 0, u: int | None = 1, x: str | None = "o") -> Any:
    at = None if s is None else datetime.fromtimestamp(s, UTC).isoformat()
    return {"k": k, "v": v, "at": at, "u": u, "x": x}


def tag(n: int | None, text: str | None) -> dict[str, Any]:
    return {"n": n, "tag": text}


@contextmanager
def killed_before(commit: int) -> Iterator[list[str]]:
    """Stops the run before it makes its n-th commit to ``t``; gives what the commits before it were to do."""
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
        self.spark, self.world, self.ids = spark, world, 0

    def go(self, files: dict[str, list[Any]], flows: tuple[str, ...], how: tuple[Any, ...]) -> None:
        """Lands files, for the first time or again, edits which flows there are, and runs, perhaps not to the end."""
        for file, records in files.items():
            for one in records if not file.startswith("tags") else []:
                self.ids += 1
                one["id"] = self.ids
            self.world.put(file, *records)
        if flows != self.world.flows:
            noted("a flow comes or goes")
            self.world.redefine(flows)
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
        else:
            self.run(choice)
        self.world.assert_right()
        if choice is not None and not commit:
            assert self.world.take_in(self.spark, "silver", choice=choice)["t"].unchanged
        assert {one.state for one in self.world.take_in(self.spark, "silver").values()} <= {"idle", "blocked"}

    def choice(self, how: str) -> Choice | None:
        if how == "interval":
            return Interval.parse("1970-01-01T00:00", "1970-01-01T01:00")
        return Replay("t", (), True) if how == "replay" else None

    def run(self, choice: Choice | None) -> None:
        self.world.take_in(self.spark, "silver", choice=choice)


KEY = st.sampled_from([1, 1, 2, 2, 3, None, 9])
SECONDS = st.sampled_from([0, 0, HOUR - 1, HOUR, None])
SEQUENCE = st.sampled_from([1, 1, 2, 3, None])
VALUE = st.sampled_from(["1", "2", "4", "6", "-3", "500", "five", None])
RECORDS = st.lists(
    st.builds(record, k=KEY, v=VALUE, s=SECONDS, u=SEQUENCE, n=st.sampled_from([1, 1, 2, None])), max_size=3
)
OWN = st.lists(
    st.builds(
        own, k=KEY, v=st.sampled_from([1, 2, -3, 500, None]), s=SECONDS, u=SEQUENCE, x=st.sampled_from(["o", None])
    ),
    max_size=3,
)
TAGS = st.lists(st.builds(tag, st.sampled_from([1, 2, None]), st.sampled_from(["a", "b", None])), max_size=2)
FILES = st.fixed_dictionaries(
    {},
    optional={
        **{f"{folder}/{n}": RECORDS for folder in ("eu", "us") for n in range(2)},
        **{f"own/{n}": OWN for n in range(2)},
        **{f"tags/{n}": TAGS for n in range(2)},
    },
)
SOME = st.sets(st.sampled_from(FOLDERS), min_size=1).map(lambda some: tuple(f for f in FOLDERS if f in some))
HOW = st.tuples(st.sampled_from(["run", "interval", "replay"]), st.integers(0, 5))
STEPS = st.lists(st.tuples(FILES, SOME, HOW), min_size=2, max_size=4)

# A flow is added, its run being killed; records of two flows share a key, and the first comes later; a file is landed
# again; a flow goes, its run being killed, and comes back; a lookup changes.
NAMED = [
    ({"own/0": [own(2, 7), own(4, 8), own(1, -1, u=2)]}, FOLDERS, ("run", 3)),
    ({"eu/1": [record(2, "3"), record(None), record(5, "five")], "us/0": [record(1, "6", u=3), record(9)]}, FOLDERS,
     ("run", 0)),
    ({"tags/0": [tag(1, "z")]}, ("eu", "own"), ("run", 3)),
    ({"eu/0": [record(3, "2")]}, FOLDERS, ("run", 2)),
]  # fmt: skip


@pytest.mark.release
@pytest.mark.parametrize("order", ["latest", "every"])
def test_flows_come_and_go_in_tables_of_each_order(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, order: Any
) -> None:
    """With histories beside it: of the table that flows fill, and one that flows fill with changes."""
    course = begun(spark, tmp_path_factory, order)
    for files, flows, how in NAMED:
        course.go(files, flows, how)


@pytest.mark.release
@pytest.mark.parametrize("few", [thresholds.FEW, -1], ids=["few", "many"])
@in_spark(examples=3)
@given(order=st.sampled_from(["first", "latest", "every"]), steps=STEPS)
def test_the_tables_are_a_function_of_what_landed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, few: int, order: Any, steps: Any
) -> None:
    """Also where records are taken for so many that Spark is to shuffle them."""
    with mock.patch.object(thresholds, "FEW", few), mock.patch.object(record_ids, "SENT", few):
        course = begun(spark, tmp_path_factory, order)
        for files, flows, how in steps:
            course.go(files, flows, how)


def begun(spark: SparkSession, folder: pytest.TempPathFactory, order: Any, *, more: bool = True) -> Course:
    """A world with two flows, one of whose sources is there, after its first run."""
    world = World(folder.mktemp("property"), order=order, flows=("eu", "us"), more=more)
    course = Course(spark, world)
    first = [record(1, "4"), record(2, "-1"), record(2, "5", u=2), record(3, "500"), record(3, s=None)]
    course.go({"tags/first": [tag(1, "a")], "eu/0": first}, world.flows, ("run", 0))
    return course


def test_flows_come_and_go_and_share_keys(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The flow that stands first has the first arrival, whichever run took its record in."""
    course = begun(spark, tmp_path_factory, "first", more=False)
    for files, flows, how in NAMED[:3]:
        course.go(files, flows, how)

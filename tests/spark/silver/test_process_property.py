"""However silver came to where it is, it holds what plain Python makes of the landed files by today's definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from sluicegate import _faults
from sluicegate.flow import thresholds
from sluicegate.flow.selection import Interval, Replay
from sluicegate.frames import record_ids
from sluicegate.lake import tables
from tests.spark.test_recovery import Stopped
from tests.support.properties import in_spark
from tests.support.silver_oracle import Today
from tests.support.silver_world import World, name, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOUR = 3600
SOME = st.sampled_from([1, 1, 2, 3, None])
RECORD = st.builds(
    record,
    st.integers(1, 99),
    k=st.sampled_from([1, 1, 2, 2, 3, None, 9]),
    n=SOME,
    v=st.sampled_from(["1", "2", "4", "6", "6", "-3", "500", "five", None]),
    s=st.sampled_from([0, 0, HOUR - 1, HOUR, 3 * HOUR, None]),
    seq=SOME,
)
NAME = st.builds(name, SOME, st.sampled_from(["Ada", "Bo", "Ada", None]), seq=SOME)
FILES = st.fixed_dictionaries(
    {},
    optional={
        **{f"raw/{number}": st.lists(RECORD, max_size=4) for number in range(3)},
        **{f"names/{number}": st.lists(NAME, max_size=2) for number in range(2)},
    },
)
# What the definition is edited to: the rule's bound, the transform's shift.
EDIT = st.tuples(st.sampled_from([0, 1, 3]), st.sampled_from([0, 0, HOUR]))
POINTS = st.sampled_from([point for point in _faults.POINTS if point.startswith("silver.")])
ACTION = st.one_of(
    st.just(("run",)),
    st.tuples(st.just("stop"), POINTS, st.integers(1, 2)),
    st.tuples(st.just("interval"), EDIT, st.sampled_from([0, 1])),
    st.tuples(st.just("replay"), EDIT, st.sampled_from([(), ("big",), ("known",)]), st.booleans()),
    st.tuples(st.just("restore"), st.sampled_from(["t", "names"]), st.floats(0, 1)),
)
STEPS = st.lists(st.tuples(FILES, ACTION), min_size=3, max_size=4)


class Course:
    """What happens to a world, step by step."""

    def __init__(self, spark: SparkSession, world: World) -> None:
        self.spark, self.world = spark, world

    def go(self, files: dict[str, list[dict[str, Any]]], action: tuple[Any, ...]) -> None:
        """Lands files, for the first time or again, and does something with them."""
        for file, records in files.items():
            self.world.put(file, *records)
        self.world.take_in(self.spark, "bronze")
        getattr(self, action[0])(*action[1:])
        event(action[0])

    def run(self) -> None:
        self.world.take_in(self.spark, "silver")

    def stop(self, point: str, times: int) -> None:
        """A run that is killed when it passes a point, if it does."""
        passed: list[str] = []

        def at(here: str) -> None:
            passed.append(here)
            if here == point and passed.count(here) == times:
                raise Stopped(here)

        with mock.patch.object(_faults, "point", at):
            try:
                self.run()
            except Stopped:
                event(f"stopped at {point}")

    def interval(self, edit: tuple[int, int], hour: int) -> None:
        """An edited definition for the records of an hour."""
        self._edit(edit)
        chosen = Interval.parse(f"1970-01-01T0{hour}:00", f"1970-01-01T0{hour + 1}:00")
        self.world.take_in(self.spark, "silver", choice=chosen)
        assert self.world.problems() == []
        assert self.world.take_in(self.spark, "silver", choice=chosen)["t"].unchanged

    def replay(self, edit: tuple[int, int], rules: tuple[str, ...], dropped: bool) -> None:
        """An edited definition for records that were quarantined or dropped."""
        self._edit(edit)
        self.world.take_in(self.spark, "silver", choice=Replay("t", rules, dropped))
        assert self.world.problems() == []

    def restore(self, table: str, share: float) -> None:
        """A former version of the table or of its lookup."""
        found = tables.delta_table(self.world.uri(table))
        assert found is not None
        version = int(share * found.version())
        self.spark.sql(f"RESTORE TABLE delta.`{self.world.uri(table)}` TO VERSION AS OF {version}")
        self.run()

    def _edit(self, edit: tuple[int, int]) -> None:
        least, shift = edit
        self.world.redefine(Today(self.world.today.order, least, shift))


NAMED = [
    ({"raw/0": [], "raw/1": [record(38, k=9, n=None, v="500", s=10800, seq=1), record(15, k=3, n=3, v="6", s=None,
                                                                                      seq=None)]},
     ("replay", (0, 0), ("big",), True)),
    ({"names/1": [], "names/0": [name(3, "Ada", seq=2), name(None, "Bo", seq=3)], "raw/1": []},
     ("interval", (1, 3600), 1)),
    ({"names/0": [name(1, "Ada", seq=None)]}, ("restore", "t", 0.18)),
]  # fmt: skip


@pytest.mark.parametrize("few", [thresholds.FEW, pytest.param(-1, marks=pytest.mark.release)], ids=["few", "many"])
@in_spark(examples=0)
@example(order="latest", steps=NAMED)
@given(order=st.sampled_from(["first", "latest", "every"]), steps=STEPS)
def test_silver_is_a_function_of_what_landed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, few: int, order: Any, steps: list[Any]
) -> None:
    """Also where records are taken for so many that Spark is to shuffle them."""
    with mock.patch.object(thresholds, "FEW", few), mock.patch.object(record_ids, "SENT", few):
        _assert_right_after(spark, tmp_path_factory, order, steps)


def _assert_right_after(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, order: Any, steps: list[Any]
) -> None:
    world = World(tmp_path_factory.mktemp("property"), today=Today(order))
    world.put("names/first", name(1, "Ada"), name(2, "Bo"))
    world.put("raw/first", record(100), record(101, k=2, n=3), record(102, k=2, s=HOUR))
    world.take_in(spark)
    course = Course(spark, world)
    for files, action in steps:
        course.go(files, action)
    edited = world.today != Today(order)
    world.take_in(spark, "silver", choice=Replay("t", everything=True) if edited else None)
    world.assert_right()

"""Rules ``unique``: of rows that share values the first to arrive stays, however they came and whatever went."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.errors import ExpectationFailed
from sluicegate.flow.selection import Replay
from tests.support.properties import in_spark
from tests.support.silver_world import BRONZE, KEYS, World, record

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = """
  t:
    sql: "SELECT r.id, r.k, r.n, r.s, CAST(r.v AS INT) AS v FROM STREAM(raw) AS r"
    {keys}
    expectations:
      low: {{expect_or_quarantine: v > 0}}
      apart: {{expect_or_quarantine: "unique(n, s)"}}
      told: {{{told}: unique(v)}}
"""


def world(folder: Path, order: str, told: str = "expect") -> World:
    """Tables whose rows must not share ``n`` and ``s``."""
    found = World(folder)
    found.define(BRONZE + TABLE.format(keys=KEYS[order], told=told))
    return found


def expected(landing: Path, order: str) -> tuple[Counter[Any], Counter[Any]]:
    """Identities in the table, and in its quarantine with the rules that they broke, in plain Python."""
    records = [
        json.loads(line)
        for file in sorted(landing.glob("raw/*.json"), key=lambda file: file.stat().st_mtime)
        for line in file.read_text().splitlines()
    ]
    quarantine: Counter[Any] = Counter()
    winners: dict[Any, tuple[int, dict[str, Any]]] = {}
    for arrival, one in enumerate(records):
        broken = ["k is not null"] * (order != "every" and one["k"] is None) + ["low"] * (int(one["v"]) <= 0)
        if broken:
            quarantine[one["id"], tuple(broken)] += 1
            continue
        key = arrival if order == "every" else one["k"]
        held = winners.get(key)
        if held is None or (order == "latest" and one["seq"] >= held[1]["seq"]):
            winners[key] = (arrival, one)
    table: Counter[Any] = Counter()
    apart: set[tuple[Any, ...]] = set()
    values: set[str] = set()
    for _, one in sorted(winners.values(), key=lambda winner: winner[0]):
        broken = ["told"] * (one["v"] in values)
        values.add(one["v"])
        pair = (one["n"], one["s"])
        if None in pair or pair in apart:
            quarantine[one["id"], tuple(sorted(["apart", *broken]))] += 1
        else:
            table[one["id"]] += 1
        apart.add(pair)
    return table, quarantine


def assert_right(world: World, order: str) -> None:
    rows = world.rows("t_quarantine", "id", "_failed_expectations")
    held = (Counter(world.ids()), Counter((id_, tuple(sorted(rules))) for id_, rules in rows))
    assert held == expected(world.folder / "landing", order)
    assert all(json.loads(text)["id"] == id_ for id_, text in world.rows("t_quarantine", "id", "_record"))
    assert world.problems() == []


RECORD = st.builds(
    record,
    st.integers(1, 99),
    k=st.sampled_from([1, 2, 3, 4, None]),
    n=st.sampled_from([1, 1, 2, None]),
    s=st.sampled_from([0, 0, 7]),
    v=st.sampled_from(["1", "2", "3", "-1"]),
    seq=st.sampled_from([1, 2]),
)
FILES = st.dictionaries(st.sampled_from(["raw/0", "raw/1", "raw/2"]), st.lists(RECORD, max_size=4), min_size=1)


@pytest.mark.more
@in_spark(examples=2)
@given(order=st.sampled_from(["every", "first", "latest"]), steps=st.lists(FILES, min_size=3, max_size=4))
def test_the_first_to_arrive_stays(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, order: str, steps: list[Any]
) -> None:
    made = world(tmp_path_factory.mktemp("unique"), order)
    for files in steps:
        for file, records in files.items():
            made.put(file, *records)
        made.take_in(spark)
        assert_right(made, order)
    assert made.take_in(spark, "silver", choice=Replay("t", everything=True))["t"].unchanged


@pytest.mark.more
def test_the_next_takes_its_place(spark: SparkSession, tmp_path: Path) -> None:
    made = world(tmp_path, "first")
    made.put("raw/0", record(1), record(2, k=2, v="6"))
    report = made.take_in(spark)["t"]
    assert report.expectations["apart"] == {"passed": 1, "failed": 1}
    made.put("raw/1", record(3, k=3, v="6"), record(4, k=2, s=9, v="8"))
    report = made.take_in(spark)["t"]
    assert made.ids() == [1]  # 4 has the key of 2, which holds it in quarantine
    assert_right(made, "first")
    made.put("raw/0", record(2, k=2, n=5, v="6"))  # the values of 1 are free; 2 comes after 4 now, who has its key
    made.take_in(spark)
    assert made.ids() == [3, 4]
    assert_right(made, "first")


def test_a_double_can_stop_the_run(spark: SparkSession, tmp_path: Path) -> None:
    made = world(tmp_path, "every", told="expect_or_fail")
    made.put("raw/0", record(1, v="6"))
    made.take_in(spark)
    made.put("raw/1", record(2, v="6", s=9))
    with pytest.raises(ExpectationFailed, match=r"told \(1 rows\)"):
        made.take_in(spark)
    assert made.ids() == [1]

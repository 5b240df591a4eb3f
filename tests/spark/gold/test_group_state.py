"""The state of groups, and the table, in many files: a batch finds its groups in few of them, and nothing is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluicegate.flow import thresholds
from sluicegate.gold import group_state
from sluicegate.lake import tables
from tests.spark.gold.test_refresh import sample
from tests.support.gold_world import GoldWorld, kept

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUMS = "count(*) AS c, sum(n) AS s, sum(k) AS a, min(d) AS least, max(t) AS last"
KEYS = {
    "whole": "id", "text": "concat(g, chr(39), k)", "day": "CAST(t AS DATE)", "double": "x",
    "two": "CASE WHEN id % 3 > 0 THEN id END, p",
}  # fmt: skip
QUERIES = {
    name: kept(f"SELECT {', '.join(f'{one} AS k{at}' for at, one in enumerate(parts))}, {SUMS} FROM t GROUP BY {keys}")
    for name, keys in KEYS.items()
    if (parts := keys.split(", ") if name == "two" else [keys])
}


def files(uri: str) -> set[str]:
    table = tables.delta_table(uri)
    assert table is not None
    return {*table.file_uris()}


@pytest.mark.release
def test_groups_of_every_type_are_found_in_many_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three groups are in a file; from six files on, the state is written anew."""
    monkeypatch.setattr(thresholds, "FEW", 3)
    monkeypatch.setattr(group_state, "IN_A_FILE", 3)
    monkeypatch.setattr(group_state, "MOST_FILES", 30)
    world = GoldWorld(tmp_path, QUERIES, spark)
    world.add([sample(i) for i in range(60)])
    world.run()
    gold, state = world.at.table("gold", "whole"), world.at.group_state("whole")
    assert len(files(state)) >= 20
    was = files(gold), files(state)
    world.add([sample(7)])
    world.run()
    now = files(gold), files(state)
    assert [len(before - after) for before, after in zip(was, now, strict=True)] == [1, 1], "one file has the group"
    assert {name: world.rows(name) == world.expected(name) for name in QUERIES} == dict.fromkeys(QUERIES, True)
    for statement in (
        "UPDATE {t} SET n = n + 1, g = 'new' WHERE id = 20",
        "INSERT INTO {t} SELECT id + 200, NULL, NULL, NULL, n, d, NULL, NULL, b FROM {t} WHERE id < 2",
        "DELETE FROM {t} WHERE id IN (7, 30, 31, 32, 200)",
    ):
        world.sql(statement)
        world.run()
        assert {name: world.rows(name) == world.expected(name) for name in QUERIES} == dict.fromkeys(QUERIES, True)


@pytest.mark.more
@pytest.mark.parametrize(("most", "files_after"), [(4, 1), (5, 1), (6, 5)], ids=["above", "exactly", "below"])
def test_state_of_MOST_FILES_is_written_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, files_after: int
) -> None:
    """Five files of one group each: a batch changes a group in one of them, or writes all of them again."""
    monkeypatch.setattr(thresholds, "FEW", 3)
    monkeypatch.setattr(group_state, "IN_A_FILE", 1)
    monkeypatch.setattr(group_state, "MOST_FILES", most)
    world = GoldWorld(tmp_path, {"q": kept("SELECT id, count(*) AS c FROM t GROUP BY id")}, spark)
    world.add([sample(i) for i in range(5)])
    world.run()
    state = world.at.group_state("q")
    assert len(files(state)) == 5
    monkeypatch.setattr(group_state, "IN_A_FILE", 9)
    world.add([sample(2)])
    world.run()
    assert len(files(state)) == files_after
    assert world.rows("q") == world.expected("q")


def test_state_of_full_files_is_not_written_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five full files of one group each, where three files that are not full would be too many."""
    monkeypatch.setattr(thresholds, "FEW", 3)
    monkeypatch.setattr(group_state, "IN_A_FILE", 1)
    monkeypatch.setattr(group_state, "MOST_FILES", 3)
    world = GoldWorld(tmp_path, {"q": kept("SELECT id, count(*) AS c FROM t GROUP BY id")}, spark)
    world.add([sample(i) for i in range(5)])
    world.run()
    before = files(world.at.group_state("q"))
    world.add([sample(2)])
    world.run()
    assert len(before & files(world.at.group_state("q"))) == 4, "only the file with the group is another one"
    assert world.rows("q") == world.expected("q")


def test_groups_are_looked_for_in_some_files_of_more_than_IN_A_FILE(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of two, three and four groups, of which more than three are in several files."""
    monkeypatch.setattr(thresholds, "FEW", 1)
    monkeypatch.setattr(group_state, "IN_A_FILE", 3)
    sizes = {"below": 2, "exactly": 3, "above": 4}
    queries = {
        name: kept(f"SELECT k, count(*) AS c, sum(n) AS s FROM t WHERE k < {groups} GROUP BY k")
        for name, groups in sizes.items()
    }
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(i) for i in range(12)])
    world.run()
    assert {name: len(files(world.at.table("gold", name))) > 1 for name in sizes} == {
        "below": False, "exactly": False, "above": True
    }  # fmt: skip
    world.add([sample(1)])
    world.run()
    for name in sizes:
        assert world.rows(name) == world.expected(name)

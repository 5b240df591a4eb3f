"""Records that changed rows of a lookup touch: those that match such a row as it was or as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.frames import lookup_changes
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.spark_sql.join_keys import JoinKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BY_K = JoinKey("r", "m", "r.k = m.k", ("k",))
BY_N = JoinKey("r", "m", "r.n = m.n", ("n",))

COLUMNS = """_change_type STRING, k INT, n INT, v STRING, _chunk BIGINT, _commit_version BIGINT,
    _commit_timestamp TIMESTAMP"""

# Rows of a lookup that came, went and changed: kind of change, k, n, value, and the ledger batch that brought each.
CHANGES: list[tuple[Any, ...]] = [
    ("insert", 1, 10, "new", 5),
    ("delete", 2, 20, "gone", 1),
    ("update_preimage", 3, 30, "was", 1), ("update_postimage", 3, 31, "is", 5),
    ("delete", 4, 40, "same", 1), ("insert", 4, 40, "same", 5),  # written anew by an overwrite
    ("insert", 5, 50, "brief", 5), ("delete", 5, 50, "brief", 5),
    ("delete", None, 60, None, 1),
    ("delete", 7, 70, "twice", 1), ("delete", 7, 70, "twice", 1), ("insert", 7, 70, "twice", 5),  # once now
]  # fmt: skip


@pytest.fixture
def changes(spark: SparkSession) -> DataFrame:
    rows = [(*row, 3, None) for row in CHANGES]
    return spark.createDataFrame(rows, COLUMNS)


def test_keys_of_rows_that_came_went_or_changed_and_of_none_that_was_written_anew(changes: DataFrame) -> None:
    net = lookup_changes.changed_keys(changes, ["k"], ENGINE_COLUMNS)
    keys = [row.k for row in net.collect()]
    assert sorted(keys, key=str) == [1, 2, 3, 7, None]
    both = lookup_changes.changed_keys(changes, ["k", "n"], ENGINE_COLUMNS)
    assert {(row.k, row.n) for row in both.collect()} == {(1, 10), (2, 20), (3, 30), (3, 31), (7, 70), (None, 60)}
    # The engine's own columns are none that a query sees; told to it as others, they make all rows differ.
    assert {row.k for row in lookup_changes.changed_keys(changes, ["k"], ()).collect()} == {1, 2, 3, 4, 7, None}


def test_records_match_a_row_as_it_was_or_as_it_is(spark: SparkSession, changes: DataFrame) -> None:
    ids = [(1, 0, 99), (2, 0, 99), (3, 0, 99), (4, 0, 99), (5, 0, 99), (6, 30, 99), (6, 31, 99), (6, 40, 99),
           (None, 60, 99), (9, 60, 99)]  # fmt: skip
    records = spark.createDataFrame(
        [(*row, number) for number, row in enumerate(ids)], "k INT, n INT, _chunk BIGINT, _pos BIGINT"
    )

    def touched(*keys: JoinKey) -> set[int]:
        return {row[1] for row in lookup_changes.affected_records(records, changes, keys, ENGINE_COLUMNS).collect()}

    assert touched(BY_K) == {0, 1, 2}
    assert touched(BY_N) == {5, 6, 8, 9}
    assert touched(BY_K, BY_N) == {0, 1, 2, 5, 6, 8, 9}
    keys = [(lookup_changes.changed_keys(changes, BY_K.columns, ENGINE_COLUMNS), BY_K)]
    flagged = lookup_changes.flag_matches(records, keys).collect()
    assert {row["_pos"]: bool(row[lookup_changes.TOUCHED]) for row in flagged} == {n: n < 3 for n in range(len(ids))}
    touching = lookup_changes.matching_rows(records, keys)
    assert (touching.columns, {row["_pos"] for row in touching.collect()}) == (records.columns, {0, 1, 2})

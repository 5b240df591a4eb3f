"""Which of several records with one key wins, and what becomes of the others, rule by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from sluicegate.schema.columns import FLOW, IDENTITY, SEQUENCE
from sluicegate.silver import several_flows
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.keys.deduplicate import PLACE, Keyed, replaced_identity
from sluicegate.silver.provenance import ARRIVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = f"id STRING, k INT, {SEQUENCE} INT, {DISPOSITION} STRING, _chunk BIGINT, {ARRIVED} INT, _pos BIGINT"
OF_FLOWS = f"{COLUMNS}, {FLOW} STRING"


def frame(spark: SparkSession, rows: list[tuple[Any, ...]], *, flows: bool = False) -> DataFrame:
    found = spark.createDataFrame(rows, OF_FLOWS if flows else COLUMNS)
    return found.withColumn(PLACE, several_flows.place(F.col(FLOW), ["eu", "us"])) if flows else found


def row(
    id_: str, k: int | None, chunk: int, *, pos: int = 0, file: int = 0, seq: int | None = None, fate: str = "good"
) -> tuple[Any, ...]:
    return (id_, k, seq, fate, chunk, file, pos)


def settled(keyed: Keyed, evaluated: DataFrame, held: DataFrame | None = None) -> dict[str, tuple[str, Any]]:
    """Fate of each record, and the ledger batch of the stored row that it replaces or finds in its place."""
    rows = keyed.settle(evaluated, held).collect()
    assert len(rows) == evaluated.count()
    return {one.id: (one[DISPOSITION], one[replaced_identity(keyed.row_id)[0]]) for one in rows}


def test_without_keys_every_record_is_a_row(spark: SparkSession) -> None:
    rows = frame(spark, [row("a", 1, 1), row("b", 1, 1), row("c", None, 2)])
    keyed = Keyed((), sequenced=False)
    assert settled(keyed, rows, rows) == dict.fromkeys("abc", ("good", None))
    assert {*replaced_identity(IDENTITY)} <= {*keyed.settle(rows, None).columns}


def test_the_first_to_arrive_wins_by_batch_then_file_then_position(spark: SparkSession) -> None:
    """A record that is quarantined or dropped takes no part, though it came first; a NULL is a key."""
    rows = [
        row("later batch", 1, 2), row("later file", 1, 1, file=2), row("later line", 1, 1, file=1, pos=9),
        row("first", 1, 1, file=1, pos=3), row("bad", 1, 0, fate="quarantine"), row("out", 1, 0, fate="drop"),
        row("none", None, 2), row("none too", None, 3), row("alone", 2, 7),
    ]  # fmt: skip
    fates = {name: fate for name, (fate, _) in settled(Keyed(("k",), sequenced=False), frame(spark, rows)).items()}
    assert fates == {
        "later batch": "duplicate", "later file": "duplicate", "later line": "duplicate", "first": "good",
        "bad": "quarantine", "out": "drop", "none": "good", "none too": "duplicate", "alone": "good",
    }  # fmt: skip


def test_a_stored_row_arrived_before(spark: SparkSession) -> None:
    held = frame(spark, [row("held", 1, 5)])
    rows = frame(spark, [row("a", 1, 6), row("b", 2, 6), row("bad", 1, 6, fate="quarantine")])
    assert settled(Keyed(("k",), sequenced=False), rows, held) == {
        "a": ("duplicate", 5), "b": ("good", None), "bad": ("quarantine", 5),
    }  # fmt: skip


def test_the_greatest_sequence_wins_and_of_equal_ones_the_last_to_arrive(spark: SparkSession) -> None:
    held = frame(spark, [row("held", 1, 1, seq=5), row("held", 2, 1, seq=5), row("held", 3, 1, seq=5)])
    rows = [
        row("old", 1, 2, seq=4), row("none", 1, 2), row("same", 2, 2, seq=5, pos=1),
        row("same, later", 2, 2, seq=5, pos=2),
        row("new", 3, 2, seq=7, pos=1), row("newer", 3, 2, seq=8), row("fresh", 4, 2, seq=1),
    ]  # fmt: skip
    assert settled(Keyed(("k",), sequenced=True), frame(spark, rows), held) == {
        "old": ("duplicate", 1), "none": ("duplicate", 1), "same": ("duplicate", 1), "same, later": ("good", 1),
        "new": ("duplicate", 1), "newer": ("good", 1), "fresh": ("good", None),
    }  # fmt: skip


def test_of_several_flows_the_first_in_the_definition_counts_as_the_first_to_arrive(spark: SparkSession) -> None:
    """So it does not matter in which order runs took their records in: also a stored row gives way."""
    held = [(*row("held", k, 9, seq=5), flow) for k, flow in ((1, "eu"), (2, "us"), (3, "us"))]
    rows = [
        (*row("us", 1, 1, seq=5), "us"), (*row("eu", 2, 20, seq=5), "eu"), (*row("us too", 3, 20, seq=5), "us"),
        (*row("us first", 4, 1, seq=5), "us"), (*row("eu last", 4, 20, seq=5), "eu"),
    ]  # fmt: skip
    by_arrival = Keyed(("k",), sequenced=False, row_id=(*IDENTITY, FLOW))
    evaluated, stored = frame(spark, rows, flows=True), frame(spark, held, flows=True)
    assert settled(by_arrival, evaluated, stored) == {
        "us": ("duplicate", 9), "eu": ("good", 9), "us too": ("duplicate", 9), "us first": ("duplicate", None),
        "eu last": ("good", None),
    }  # fmt: skip
    by_sequence = Keyed(("k",), sequenced=True, row_id=(*IDENTITY, FLOW))
    assert settled(by_sequence, evaluated, stored) == {
        "us": ("good", 9), "eu": ("duplicate", 9), "us too": ("good", 9), "us first": ("good", None),
        "eu last": ("duplicate", None),
    }  # fmt: skip


def test_places_of_flows_of_flows_follow_the_definition_of_the_table_itself(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("us/b",), ("eu/a",), ("us/a",), ("eu",), ("gone/a",)], "flow STRING")
    places = rows.select("flow", several_flows.place(F.col("flow"), ["us", "eu"]).alias("place")).orderBy("place")
    assert [one.flow for one in places.collect()] == ["us/a", "us/b", "eu", "eu/a", "gone/a"]
    assert len({one.place for one in places.collect()}) == 5
    as_they_are = rows.select(several_flows.place(F.col("flow"), []).alias("place")).collect()
    assert [one.place for one in as_they_are] == ["us/b", "eu/a", "us/a", "eu", "gone/a"]

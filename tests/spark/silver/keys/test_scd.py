"""Slowly changing dimensions: what becomes of each record, against a model in plain Python, and rule by rule."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sluicegate.definition import ApplyChanges, ApplyChangesFromSnapshot
from sluicegate.errors import ChangesError
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.keys.deduplicate import ARRIVAL
from sluicegate.silver.keys.scd import DELETES, History
from sluicegate.silver.provenance import ARRIVED
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = (
    f"_chunk BIGINT, _pos BIGINT, {ARRIVED} STRUCT<at: BIGINT, file: STRING>, {DISPOSITION} STRING, {DELETES} BOOLEAN"
)
NAN = float("nan")

# --- the model: one key after the other, one record after the other --------------------------------------------------

Record = dict[str, Any]
Outcome = tuple[Any, ...]  # fate, the columns of VALUES, __START_AT, __END_AT


VALUES = ("a", "b", "s")


def model_key(record: Record) -> Any:
    number = record["k1"]
    return ("NaN" if number is not None and number != number else number, record["k2"])


def happened(record: Record) -> Any:
    arrived = record[ARRIVED]
    return (record["_sequence"], record["_chunk"], arrived is not None, arrived or (), record["_pos"])


def shown(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else value


def filled(value: Any, known: Any) -> Any:
    if isinstance(value, tuple) and isinstance(known, tuple):
        return tuple(filled(one, other) for one, other in zip(value, known, strict=True))
    return known if value is None else value


class Model:
    """What each record of ``records`` becomes, by its identity."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.tracked = [c for c in VALUES if (history.track is None or c in history.track)]
        self.tracked = [c for c in self.tracked if c not in history.track_except]
        self.outcome: dict[tuple[int, int], Outcome] = {}

    def of(self, records: Iterable[Record]) -> dict[tuple[int, int], Outcome]:
        keys: dict[Any, list[Record]] = {}
        for record in records:
            self.say(record, record[DISPOSITION], record)
            if record[DISPOSITION] == "good":
                keys.setdefault(model_key(record), []).append(record)
        snapshots = sorted({record["_sequence"] for its in keys.values() for record in its})
        for its in keys.values():
            its.sort(key=happened)
            for record in its:
                self.say(record, "deleted" if record[DELETES] else "duplicate", record)
            self.settle(its, snapshots)
        return self.outcome

    def settle(self, records: list[Record], snapshots: list[int]) -> None:
        known: Record = {}
        last: dict[int, tuple[Record, Record]] = {}
        for record in records:
            if record[DELETES]:
                known = {}
            elif self.history.ignore_null_updates:
                known = {c: filled(record[c], known.get(c)) for c in VALUES}
            else:
                known = {c: record[c] for c in VALUES}
            last[record["_sequence"]] = (record, known)
        if self.history.scd_type == 1 and not self.history.snapshots:
            record, known = last[max(last)]
            if not record[DELETES]:
                self.say(record, "good", known)
            return
        for version in self.versions(last, snapshots if self.history.snapshots else sorted(last)):
            record, values, start, end = version
            if self.history.scd_type == 2:
                self.say(record, "good", values, start, end)
            elif end is None:
                self.say(record, "good", values)

    def versions(self, last: dict[int, tuple[Record, Record]], moments: Sequence[int]) -> list[list[Any]]:
        closed: list[list[Any]] = []
        current: list[Any] | None = None
        for moment in moments:
            record, values = last.get(moment, ({DELETES: True}, {}))
            same = current is not None and all(shown(current[1][c]) == shown(values.get(c)) for c in self.tracked)
            if current is not None and not record[DELETES] and same:
                current[1] = {c: current[1][c] if c in self.tracked else values[c] for c in VALUES}
                continue
            if current is not None:
                closed.append([*current[:3], moment])
                current = None
            if not record[DELETES]:
                current = [record, values, moment, None]
        return closed + ([current] if current is not None else [])

    def say(self, record: Record, fate: str, values: Record, *ends: Any) -> None:
        ends = ends or ((None, None) if self.history.scd_type == 2 else ())
        self.outcome[record["_chunk"], record["_pos"]] = (fate, *[shown(values[c]) for c in VALUES], *ends)


# --- real DataFrames against the model -------------------------------------------------------------------------------

COLUMNS = (
    f"k1 DOUBLE, k2 STRING, a STRING, b DOUBLE, s STRUCT<x: INT, y: STRING>, _sequence BIGINT, other INT, {ENGINE}"
)
KEYS = st.sampled_from([(1.0, "x"), (NAN, "x"), (0.0, "y"), (-0.0, "y"), (None, "x"), (1.0, None)])
SOME = st.sampled_from([None, "p", "q"])
STRUCT = st.one_of(st.none(), st.tuples(st.sampled_from([None, 1, 2]), SOME))
FATES = st.sampled_from(["good"] * 9 + ["quarantine", "drop"])
DELETE = st.sampled_from([None, False, False, True])
WHEN = st.one_of(st.none(), st.tuples(st.integers(0, 2), st.sampled_from(["f", "g"])))
NUMBER = st.sampled_from([None, 0.0, -0.0, NAN, 1.5])
RECORD = st.tuples(KEYS, SOME, NUMBER, STRUCT, st.integers(0, 7), WHEN, FATES, DELETE)
TRACKS: list[dict[str, Any]] = [
    {}, {"track": ("a",)}, {"track": ("b", "s")}, {"track_except": ("a",)}, {"track_except": VALUES},
]  # fmt: skip


def made(drawn: Sequence[Any]) -> list[Record]:
    names = ("a", "b", "s", "_sequence", ARRIVED, DISPOSITION, DELETES)
    records = []
    for number, (key, *rest) in enumerate(drawn):
        record = {"k1": key[0], "k2": key[1], "other": number} | dict(zip(names, rest, strict=True))
        records.append(record | {"_chunk": number // 7, "_pos": (number * 31) % 7 + number})
    return records


def frame_of(spark: SparkSession, records: list[Record], seed: int) -> DataFrame:
    order = random.Random(seed).sample(records, len(records))
    names = spark.createDataFrame([], COLUMNS).columns
    return spark.createDataFrame([tuple(record[n] for n in names) for record in order], COLUMNS).repartition(
        1 + seed % 5
    )


def result(settled: DataFrame, history: History) -> dict[tuple[int, int], Outcome]:
    ends = ("__START_AT", "__END_AT") if history.scd_type == 2 else ()
    outcome = {}
    for row in settled.collect():
        struct = None if row["s"] is None else tuple(row["s"])
        values = (row["a"], shown(row["b"]), struct)
        assert (row["_chunk"], row["_pos"]) not in outcome
        outcome[row["_chunk"], row["_pos"]] = (row[DISPOSITION], *values, *[row[end] for end in ends])
    return outcome


def compare(spark: SparkSession, history: History, records: list[Record], seed: int) -> None:
    frame = frame_of(spark, records, seed)
    settled = history.settle(frame, ["k1", "a", "k2", "b", "s"])
    assert settled.columns == frame.columns + (["__START_AT", "__END_AT"] if history.scd_type == 2 else [])
    assert result(settled, history) == Model(history).of(records)


@in_spark(examples=8)
@given(
    drawn=st.lists(RECORD, min_size=40, max_size=90), scd_type=st.sampled_from([1, 2, 2]),
    track=st.sampled_from(TRACKS), nulls=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_changes_agree_with_the_model(
    spark: SparkSession, drawn: list[Any], scd_type: int, track: dict[str, Any], nulls: bool, seed: int
) -> None:
    event(f"type {scd_type}, nulls {nulls}")
    chosen = track if scd_type == 2 else {}
    history = History(("k1", "k2"), "seq", scd_type, ignore_null_updates=nulls, **chosen)
    compare(spark, history, made(drawn), seed)


@in_spark(examples=6)
@given(
    drawn=st.lists(RECORD, min_size=40, max_size=90), scd_type=st.sampled_from([1, 2, 2]),
    track=st.sampled_from(TRACKS), seed=st.integers(0, 99),
)  # fmt: skip
def test_snapshots_agree_with_the_model(
    spark: SparkSession, drawn: list[Any], scd_type: int, track: dict[str, Any], seed: int
) -> None:
    records = [record | {DELETES: None} for record in made(drawn)]
    chosen = track if scd_type == 2 else {}
    compare(spark, History(("k1", "k2"), "seq", scd_type, snapshots=True, **chosen), records, seed)


# --- rule by rule ----------------------------------------------------------------------------------------------------


def settled(
    spark: SparkSession, history: History, columns: str, *records: tuple[Any, ...], sequence: str = "BIGINT"
) -> list[tuple[Any, ...]]:
    """The outcome of records in the order in which they are given, which is that of arrival.

    A record is the columns, and then its sequence; a delete has True behind that. Without its columns of the engine.
    """
    names = spark.createDataFrame([], columns).columns
    rows = [
        (*record[: len(names) + 1], 1, number, None, "good", True if len(record) > len(names) + 1 else None)
        for number, record in enumerate(records)
    ]
    frame = spark.createDataFrame(rows, f"{columns}, _sequence {sequence}, {ENGINE}")
    done = history.settle(frame, names).orderBy("_pos")
    ends = [end for end in ("__START_AT", "__END_AT") if end in done.columns]
    return [tuple(row) for row in done.select(DISPOSITION, *[f"`{n}`" for n in names], *ends).collect()]


TYPE_1 = History(("k",), "seq")
TYPE_2 = History(("k",), "seq", 2)


def test_type_1_keeps_the_latest_by_sequence_and_of_equal_ones_the_last_arrival(spark: SparkSession) -> None:
    found = settled(spark, TYPE_1, "k INT, a STRING", (1, "new", 5), (1, "late", 3), (2, "x", 4), (2, "y", 4))
    assert found == [("good", 1, "new"), ("duplicate", 1, "late"), ("duplicate", 2, "x"), ("good", 2, "y")]


def test_type_1_deletes(spark: SparkSession) -> None:
    """An older record behind a delete brings nothing back, a newer one does, and an unknown key may be deleted."""
    found = settled(
        spark, TYPE_1, "k INT, a STRING",
        (1, None, 5, True), (1, "older", 3), (2, "x", 1), (2, None, 2, True), (2, "back", 3), (3, None, 1, True),
    )  # fmt: skip
    assert [fate for fate, *_ in found] == ["deleted", "duplicate", "duplicate", "deleted", "good", "deleted"]


def test_null_updates_keep_what_is_known_since_the_last_delete(spark: SparkSession) -> None:
    history = History(("k",), "seq", ignore_null_updates=True)
    columns = "k INT, a STRING, s STRUCT<x: INT, y: STRING>"
    found = settled(
        spark, history, columns,
        (1, "a", (1, "one"), 1), (1, None, (2, None), 2), (1, None, None, 3),
        (2, "lost", (1, "lost"), 1), (2, "said by a delete", None, 2, True), (2, None, (None, "kept"), 3),
    )  # fmt: skip
    assert found[2] == ("good", 1, "a", (2, "one"))
    assert found[5] == ("good", 2, None, (None, "kept"))
    assert found[1] == ("duplicate", 1, None, (2, None)), "a record that is no row stays as it came"


def test_equal_sequences_of_partial_updates_are_put_together(spark: SparkSession) -> None:
    history = History(("k",), "seq", 2, ignore_null_updates=True)
    found = settled(spark, history, "k INT, a STRING, b STRING", (1, "a", None, 1), (1, None, "b", 1))
    assert found == [("duplicate", 1, "a", None, None, None), ("good", 1, "a", "b", 1, None)]


def test_type_2_has_a_version_for_each_change_and_a_gap_for_a_delete(spark: SparkSession) -> None:
    found = settled(
        spark, TYPE_2, "k INT, a STRING",
        (1, "b", 20), (1, None, 30, True), (1, "a", 10), (1, "b", 40), (2, None, 5, True), (1, None, 35, True),
    )  # fmt: skip
    assert found == [
        ("good", 1, "b", 20, 30),
        ("deleted", 1, None, None, None),
        ("good", 1, "a", 10, 20),
        ("good", 1, "b", 40, None),
        ("deleted", 2, None, None, None),
        ("deleted", 1, None, None, None),
    ]


def test_type_2_a_record_that_changes_nothing_begins_no_version(spark: SparkSession) -> None:
    found = settled(spark, TYPE_2, "k INT, a STRING", (1, "a", 1), (1, "a", 2), (1, None, 3), (1, None, 4), (1, "a", 5))
    assert found == [
        ("good", 1, "a", 1, 3),
        ("duplicate", 1, "a", None, None),
        ("good", 1, None, 3, 5),
        ("duplicate", 1, None, None, None),
        ("good", 1, "a", 5, None),
    ]


def test_type_2_a_late_record_splits_a_version(spark: SparkSession) -> None:
    found = settled(spark, TYPE_2, "k INT, a STRING", (1, "a", 1), (1, "a", 3), (1, "b", 2))
    assert found == [("good", 1, "a", 1, 2), ("good", 1, "a", 3, None), ("good", 1, "b", 2, 3)]


@pytest.mark.parametrize("track", [{"track": ("city",)}, {"track_except": ("phone",)}])
def test_type_2_untracked_columns_show_the_newest_value_of_each_version(
    spark: SparkSession, track: dict[str, Any]
) -> None:
    found = settled(
        spark, History(("k",), "seq", 2, **track), "k INT, city STRING, phone STRING",
        (1, "Rome", "1", 1), (1, "Rome", "2", 2), (1, "Oslo", "3", 3), (1, "Oslo", None, 4),
    )  # fmt: skip
    assert found == [
        ("good", 1, "Rome", "2", 1, 3),
        ("duplicate", 1, "Rome", "2", None, None),
        ("good", 1, "Oslo", None, 3, None),
        ("duplicate", 1, "Oslo", None, None, None),
    ]


def test_type_2_of_equal_sequences_the_last_arrival_counts(spark: SparkSession) -> None:
    found = settled(
        spark, TYPE_2, "k INT, a STRING",
        (1, "a", 1), (1, "b", 2), (1, "c", 2), (2, "a", 1), (2, "b", 2), (2, None, 2, True),
        (3, "a", 1), (3, None, 2, True), (3, "a", 2),
    )  # fmt: skip
    assert [(fate, start, end) for fate, _, _, start, end in found] == [
        ("good", 1, 2), ("duplicate", None, None), ("good", 2, None),
        ("good", 1, 2), ("duplicate", None, None), ("deleted", None, None),
        ("good", 1, None), ("deleted", None, None), ("duplicate", None, None),
    ]  # fmt: skip


def test_snapshots_end_the_rows_that_the_next_one_does_not_have(spark: SparkSession) -> None:
    records = [(1, "a", 1), (2, "x", 1), (3, "z", 1), (1, "b", 2), (3, "z", 2), (1, "b", 3), (2, "x", 3)]
    history = History(("k",), "_sequence", 2, snapshots=True)
    assert settled(spark, history, "k INT, a STRING", *records) == [
        ("good", 1, "a", 1, 2),
        ("good", 2, "x", 1, 2),
        ("good", 3, "z", 1, 3),
        ("good", 1, "b", 2, None),
        ("duplicate", 3, "z", None, None),
        ("duplicate", 1, "b", None, None),
        ("good", 2, "x", 3, None),
    ]
    latest = settled(spark, History(("k",), "_sequence", snapshots=True), "k INT, a STRING", *records)
    assert [number for number, (fate, *_) in enumerate(latest) if fate == "good"] == [3, 6]


def test_the_sequence_of_a_snapshot_is_no_change_and_that_of_a_change_is(spark: SparkSession) -> None:
    """Where the table has the column of the sequence, a snapshot without changes leaves all rows as they are."""
    columns, records = "k INT, a STRING, day INT", [(1, "a", 1, 1), (1, "a", 2, 2), (1, "a", 3, 3)]
    snapshots = settled(spark, History(("k",), "day", 2, snapshots=True), columns, *records)
    assert snapshots[0] == ("good", 1, "a", 1, 1, None)
    assert [fate for fate, *_ in snapshots] == ["good", "duplicate", "duplicate"]
    changes = settled(spark, History(("k",), "day", 2), columns, *records)
    assert [fate for fate, *_ in changes] == ["good", "good", "good"]


def test_maps_and_variants_are_compared_too(spark: SparkSession) -> None:
    columns = "k INT, m MAP<STRING, MAP<STRING, DOUBLE>>, l ARRAY<STRUCT<v: MAP<STRING, INT>>>"
    same, other = {"a": {"x": 1.0}, "b": {"y": NAN, "z": 2.0}}, {"b": {"z": 2.0, "y": NAN}, "a": {"x": 1.0}}
    found = settled(
        spark, TYPE_2, columns,
        (1, same, [({"p": 1, "q": 2},)], 1), (1, other, [({"q": 2, "p": 1},)], 2), (1, None, None, 3), (1, {}, [], 4),
        (1, {}, [None], 5), (1, {}, [(None,)], 6), (1, {"a": {"x": 2.0}}, [(None,)], 7),
    )  # fmt: skip
    assert [fate for fate, *_ in found] == ["good", "duplicate", "good", "good", "good", "good", "good"]
    texts = [(1, '{"a": 1, "b": [1]}', 1), (1, '{"b": [1], "a": 1}', 2), (1, '{"a": 1, "b": [2]}', 3)]
    rows = [(k, text, at, 1, number, None, "good", None) for number, (k, text, at) in enumerate(texts)]
    frame = spark.createDataFrame(rows, f"k INT, v STRING, _sequence INT, {ENGINE}").selectExpr(
        "* EXCEPT (v)", "parse_json(v) AS v"
    )
    found = [row[0] for row in TYPE_2.settle(frame, ["k", "v"]).orderBy("_pos").select(DISPOSITION).collect()]
    assert found == ["good", "duplicate", "good"]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("TIMESTAMP", datetime(2024, 1, 1), datetime(2024, 1, 2)),
        ("STRING", "2024-01-01", "2024-01-02"),
        ("STRUCT<day: INT, number: DOUBLE>", (1, 7.0), (1, NAN)),
    ],
)
def test_a_sequence_is_of_any_type_with_an_order(spark: SparkSession, kind: str, first: Any, second: Any) -> None:
    found = settled(spark, TYPE_2, "k INT, a STRING", (1, "b", second), (1, "a", first), sequence=kind)
    assert [str(value) for value in found[1][3:]] == [str(value) for value in (found[1][3], found[0][3])]
    assert [fate for fate, *_ in found] == ["good", "good"]
    assert found[0][4] is None
    snapshots = settled(
        spark,
        History(("k",), "seq", 2, snapshots=True),
        "k INT, a STRING",
        (1, "a", second),
        (1, "a", first),
        sequence=kind,
    )
    assert [fate for fate, *_ in snapshots] == ["duplicate", "good"]


def test_names_may_need_quotes_and_a_table_may_have_its_keys_alone(spark: SparkSession) -> None:
    history = History(("the.key",), "seq", 2, track_except=("B c",), ignore_null_updates=True)
    frame = spark.createDataFrame(
        [(1, "x", "y", 1, 1, 1, None, "good", None), (1, None, "z", 2, 1, 2, None, "good", None)],
        f"`the.key` INT, `a.b` STRING, `b c` STRING, _sequence INT, {ENGINE}",
    )
    [first, _] = history.settle(frame, ["the.key", "a.b", "b c"]).orderBy("_pos").collect()
    assert (first["a.b"], first["b c"], first[DISPOSITION], first["__END_AT"]) == ("x", "z", "good", None)
    assert settled(spark, TYPE_2, "k INT", (1, 1), (1, 2)) == [("good", 1, 1, None), ("duplicate", 1, None, None)]


@pytest.mark.in_the_jvm
def test_it_costs_one_shuffle(spark: SparkSession) -> None:
    frame = frame_of(spark, made([((1.0, "x"), "a", 1.0, None, 1, None, "good", None)]), 2)
    history = History(("k1", "k2"), "seq", 2, track=("a",), ignore_null_updates=True)
    before, after = (
        str(one._jdf.queryExecution().executedPlan()).count("Exchange hashpartitioning")
        for one in (frame, history.settle(frame, ["k1", "k2", "a", "b", "s"]))
    )
    assert after - before == 1


def test_columns_that_do_not_fit(spark: SparkSession) -> None:
    frame = frame_of(spark, [], 0)
    with pytest.raises(ChangesError, match="no column city"):
        History(("k1",), "seq", 2, track=("city",)).settle(frame, ["k1", "a"])
    with pytest.raises(ChangesError, match="__start_at"):
        History(("k1",), "seq", 2).settle(frame.withColumnRenamed("other", "__start_at"), ["k1", "a"])


def test_a_history_is_what_the_definition_says() -> None:
    changes = ApplyChanges(
        keys=["k"], sequence_by="at", stored_as_scd_type=2, ignore_null_updates=True,
        track_history_except_column_list=["a"], column_list=["k", "a", "b"],
    )  # fmt: skip
    assert History.from_definition(changes, ARRIVAL) == History(
        ("k",), "at", 2, track_except=("a",), ignore_null_updates=True
    )
    snapshots = ApplyChangesFromSnapshot(
        keys=["k", "l"], sequence_by="day", stored_as_scd_type=2, track_history_column_list=["a"]
    )
    assert History.from_definition(snapshots, ARRIVAL) == History(("k", "l"), "day", 2, track=("a",), snapshots=True)

"""Rows counted by disposition, and batches that do not add up, on evaluated rows without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import AccountingError, FanOut, SluicegateError
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.schema.columns import IDENTITY, RECORD
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.keys.deduplicate import replaced_identity
from sluicegate.silver.provenance import SOURCE
from sluicegate.silver.reconcile import Reconciliation
from tests.support.evaluators import evaluator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SOME = "SELECT k, v FROM STREAM(raw) WHERE v > 0"
COLUMNS = f"k INT, v STRING, {DISPOSITION} STRING, {BROKEN} ARRAY<STRING>, _pos BIGINT"


def frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Evaluated rows of ledger batch 7, each with ``k``, ``v``, its disposition, the rules it broke and its record."""
    return spark.createDataFrame(list(rows), COLUMNS).selectExpr("*", "7L AS _chunk", f"'f.json' AS {SOURCE}")


def test_rows_are_counted_by_disposition_and_records_without_a_row_by_what_is_missing(spark: SparkSession) -> None:
    of_table = evaluator(sql=SOME, keys=["k"], expectations={"low": {"expect_or_quarantine": "v < 9"}})
    rows = frame(
        spark, (1, "1", "good", [], 1), (2, "9", "quarantine", ["low"], 2), (3, "3", "drop", [], 3),
        (1, "2", "duplicate", [], 4), (4, "4", "deleted", [], 5),
    )  # fmt: skip
    reconciliation = Reconciliation.from_rows(of_table, rows, 7)
    sums = {name: reconciliation.sums[name] for name in ("good", "quarantine", "drop", "duplicate", "deleted")}
    assert sums == dict.fromkeys(sums, 1)
    assert (reconciliation.filtered_records, reconciliation.set_aside_count, reconciliation.failed) == (
        2,
        5,
        {"low": 1},
    )
    assert reconciliation.sample == {"row": {"v": "9"}, "file": "f.json", "rules": ["low"]}


@pytest.mark.parametrize(("sql", "read"), [(None, 2), (SOME, 9)], ids=["each record", "some records"])
def test_two_rows_of_one_record_are_refused_with_their_record(spark: SparkSession, sql: str | None, read: int) -> None:
    rows = frame(spark, (1, "1", "good", [], 1), (1, "2", "good", [], 1), (2, "1", "good", [], 2))
    fields = {"sql": sql} if sql else {}
    with pytest.raises(FanOut) as refused:
        Reconciliation.from_rows(evaluator(**fields), rows, read)
    assert "record 7/1 gave 2 rows" in str(refused.value.cause)
    many = Reconciliation.from_rows(evaluator(rows="many", **fields), rows, 2)
    assert (many.sums["rows"], many.sums["records"], many.filtered_records) == (3, 2, 0)


@pytest.mark.parametrize(
    ("sql", "read", "refused"),
    [(None, 3, True), (None, 2, False), (SOME, 3, False), (SOME, 1, True)],
    ids=["one is missing", "all are there", "one is left out", "one that was not read"],
)
def test_records_that_are_missing_or_too_many_are_refused(
    spark: SparkSession, sql: str | None, read: int, refused: bool
) -> None:
    """Of a query that keeps each record none may be missing, and none may give records that were not read."""
    rows = frame(spark, (1, "1", "good", [], 1), (2, "1", "good", [], 2))
    of_table = evaluator(**({"sql": sql} if sql else {}))
    if not refused:
        assert Reconciliation.from_rows(of_table, rows, read).filtered_records == read - 2
        return
    with pytest.raises(AccountingError):
        Reconciliation.from_rows(of_table, rows, read)


def test_a_table_with_two_rows_of_one_key_is_to_blame_and_not_the_query(spark: SparkSession) -> None:
    of_table = evaluator(keys=["k"])
    chunk, pos = replaced_identity(IDENTITY)
    rows = frame(spark, (1, "1", "duplicate", [], 1), (1, "1", "duplicate", [], 1))
    rows = rows.selectExpr("*", f"row_number() OVER (PARTITION BY k ORDER BY v) AS {pos}", f"1L AS {chunk}")
    twice = rows.selectExpr(*[c for c in rows.columns if c != chunk], f"CAST({pos} AS BIGINT) AS {chunk}")
    with pytest.raises(SluicegateError, match="2 rows") as blamed:
        Reconciliation.from_rows(of_table, twice, 1)
    assert not isinstance(blamed.value, FanOut)


@pytest.mark.parametrize(
    ("pii", "row"),
    [
        ([], {"v": None, "amount": "x"}),
        (["V"], {"v": "***", "amount": "***"}),
        (["k"], {"v": None, "amount": "***"}),
    ],
    ids=["none is personal", "in another case", "another column"],
)
def test_a_sample_shows_what_did_not_convert_as_it_landed_but_for_personal_data(
    spark: SparkSession, pii: list[str], row: dict[str, Any]
) -> None:
    """Which columns a landed value is made of is not known, so it is masked where any column is personal."""
    of_table = evaluator(pii=pii)
    rules = ["v fits its type", "amount fits its type"]
    record = '{"k":1,"amount":"x","day":"2024-01-01"}'
    rows = frame(spark, (1, None, "quarantine", rules, 1)).selectExpr("*", f"'{record}' AS {RECORD}")
    sample = Reconciliation.from_rows(of_table, rows, 1).sample
    assert sample is not None
    assert sample["row"] == row

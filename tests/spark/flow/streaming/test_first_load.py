"""A first load has all rows of its source once, whichever way its stream begins."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sluicegate.flow.model import Flow
from sluicegate.flow.streaming import first_load, source_stream
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze: {events: {path: "${landing}/events", format: json}}
silver: {read_events: {sql: read_events.sql}}
"""
QUERY = "SELECT id, tag, sent_by FROM STREAM(events)"


@pytest.fixture
def events(spark: SparkSession, workspace: Workspace) -> Workspace:
    """Bronze of three commits: each adds a record, the second a column."""
    workspace.define(DEFINITION, read_events__sql=QUERY)
    for number, tag in enumerate(({}, {"tag": "a"}, {"tag": "b"})):
        workspace.land(f"events/{number}.json", [{"id": number, **tag, "sent_by": str(number)}])
        workspace.run(spark, "bronze")
    return workspace


EXPECTED = Counter({("0", None, "0"): 1, ("1", "a", "1"): 1, ("2", "b", "2"): 1})


def _nothing(bronze: DeltaTable) -> None:
    """Leaves the table as it is."""


def _compact(bronze: DeltaTable) -> None:
    bronze.optimize.compact()


def _delete(bronze: DeltaTable) -> None:
    bronze.delete("id = 1")


def _restore(bronze: DeltaTable) -> None:
    bronze.delete("id = 2")
    bronze.restore(bronze.version() - 1)


def _snapshots_of_first_load(spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of streams of a snapshot that a first load of silver starts."""
    shutil.rmtree(workspace.folder / "lake" / "heart_rate" / "silver", ignore_errors=True)
    snapshots: list[str] = []
    all_rows = source_stream.all_rows

    def counted(session: SparkSession, flow: Flow) -> DataFrame:
        snapshots.append(flow.table)
        return all_rows(session, flow)

    with monkeypatch.context() as patch:
        patch.setattr(source_stream, "all_rows", counted)
        assert workspace.run(spark, "silver")["read_events"].trigger == "availableNow"
    return len(snapshots)


@pytest.mark.parametrize(
    ("change", "is_additive"), [(_nothing, True), (_compact, False), (_delete, False), (_restore, False)]
)
def test_it_follows_the_feed_of_a_SHORT_HISTORY_that_only_added_files(
    spark: SparkSession,
    events: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[DeltaTable], None],
    is_additive: bool,
) -> None:
    bronze = DeltaTable(events.uri("events"))
    change(bronze)
    expected = Counter(DeltaTable(events.uri("events")).to_pyarrow_table(columns=["id"])["id"].to_pylist())

    monkeypatch.setattr(first_load, "SHORT_HISTORY", bronze.version())
    assert _snapshots_of_first_load(spark, events, monkeypatch) == 1
    assert Counter(row[0] for row in events.rows("read_events", "id")) == expected
    monkeypatch.setattr(first_load, "SHORT_HISTORY", bronze.version() + 1)
    assert _snapshots_of_first_load(spark, events, monkeypatch) == (0 if is_additive else 1)
    assert Counter(row[0] for row in events.rows("read_events", "id")) == expected

    if is_additive:
        assert Counter(events.rows("read_events", "id", "tag", "sent_by")) == EXPECTED
    assert events.run(spark, "silver")["read_events"].state == "idle"

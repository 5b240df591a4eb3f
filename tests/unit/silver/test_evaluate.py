"""By what a silver table knows its records, and whether it keeps rows of another definition. No Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from sluicegate.errors import UserError
from sluicegate.flow.model import Progress
from sluicegate.flow.selection import Replay
from sluicegate.lake import log
from sluicegate.schema.columns import FLOW, IDENTITY, ROW
from sluicegate.silver.evaluate import RowEvaluator
from tests.support.evaluators import evaluator

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("of_flows", "of_many", "rows", "record_id", "row_id"),
    [
        (False, False, "one", IDENTITY, IDENTITY),
        (True, False, "one", (*IDENTITY, FLOW), (*IDENTITY, FLOW)),
        (False, True, "one", (*IDENTITY, ROW), (*IDENTITY, ROW)),
        (True, True, "one", (*IDENTITY, FLOW, ROW), (*IDENTITY, FLOW, ROW)),
        (False, False, "many", IDENTITY, (*IDENTITY, ROW)),
        (True, False, "many", (*IDENTITY, FLOW), (*IDENTITY, FLOW, ROW)),
    ],
)
def test_rows_have_the_identity_of_their_record_and_a_number_where_it_gives_many(
    of_flows: bool, of_many: bool, rows: str, record_id: tuple[str, ...], row_id: tuple[str, ...]
) -> None:
    progress = Progress("incremental", of_flows=of_flows, of_many=of_many)
    of_table = evaluator(progress, rows=rows)
    assert (of_table.record_id, of_table.row_id) == (record_id, row_id)


def test_a_record_with_a_number_gives_one_row() -> None:
    """The number of its own row would be a second one."""
    with pytest.raises(UserError, match="many rows"):
        evaluator(Progress("incremental", of_many=True), rows="many")


@pytest.mark.parametrize(
    ("fields", "time"),
    [
        ({"event_time": "at", "keys": ["k", "at"]}, "at"),
        ({"event_time": "at", "keys": ["k"]}, None),
        ({"event_time": "at"}, None),
        ({"keys": ["k", "at"]}, None),
    ],
    ids=["in the key", "beside the key", "no key", "no event time"],
)
def test_records_that_share_a_key_share_their_time_if_it_is_in_the_key(
    fields: dict[str, Any], time: str | None
) -> None:
    assert evaluator(Progress("incremental"), **fields).bound_time == time


@pytest.fixture
def edited(tmp_path: Path) -> RowEvaluator:
    """Evaluator of a table whose rows were made by another definition."""
    uri = str(tmp_path / "t")
    facts = {"userMetadata": json.dumps({log.METADATA: {"definition": "another"}})}
    write_deltalake(uri, pa.table({"k": [1]}), commit_properties=CommitProperties(custom_metadata=facts))
    return evaluator(Progress("incremental"), uri)


def test_rows_of_another_definition_are_left_by_a_batch_of_some_records(edited: RowEvaluator) -> None:
    assert (edited.has_former_rows, edited.leaves_former_rows, edited.definition_facts["mixed"]) == (True, True, True)
    assert not evaluator(Progress("incremental"), "no table").leaves_former_rows


@pytest.mark.parametrize("reason", ["a full refresh", "a replay of everything", "all rows turned out to be its own"])
def test_none_is_left_by_a_batch_of_all_records(edited: RowEvaluator, reason: str) -> None:
    batch = cast("Any", edited.batch)
    match reason:
        case "a full refresh":
            batch.whole = True
        case "a replay of everything":
            batch.choice = Replay("t", everything=True)
        case _:
            edited.renewed = True
    assert (edited.has_former_rows, edited.leaves_former_rows) == (True, False)
    batch.choice, batch.whole, edited.renewed = Replay("t"), False, False
    assert edited.leaves_former_rows

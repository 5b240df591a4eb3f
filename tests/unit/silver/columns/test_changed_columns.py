"""Reasons for which stored rows cannot be compared with today's. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.definition.tables.silver import SilverTable
from sluicegate.schema.columns import SEQUENCE
from sluicegate.silver.columns.changed_columns import why_missing_column
from sluicegate.silver.evaluate import RowEvaluator

pytestmark = pytest.mark.unit


def evaluator(uri: Any, columns: list[str], *, whole: bool = False, **fields: object) -> RowEvaluator:
    """Evaluator of a table that has these columns."""
    write_deltalake(str(uri), pa.table({column: [1] for column in columns}))
    progress = SimpleNamespace(of_many=False, of_flows=False)
    batch: Any = SimpleNamespace(whole=whole, progress=progress, flow=SimpleNamespace(target=str(uri)))
    table = SilverTable.model_validate({"sql": "SELECT * FROM raw", **fields})
    return RowEvaluator(batch, "clean", table)


def test_a_missing_key_is_named(tmp_path: Any) -> None:
    assert " day," in why_missing_column(evaluator(tmp_path / "t", ["id"], keys=["id", "day"]))


def test_a_key_in_another_case_is_there(tmp_path: Any) -> None:
    assert why_missing_column(evaluator(tmp_path / "t", ["ID"], keys=["id"])) == ""


def test_a_missing_sequence_is_named_as_the_definition_does(tmp_path: Any) -> None:
    fields = {"keys": ["id"], "sequence_by": "changed_at"}
    assert "changed_at" in why_missing_column(evaluator(tmp_path / "t", ["id", "changed_at"], **fields))
    assert why_missing_column(evaluator(tmp_path / "u", ["id", SEQUENCE], **fields)) == ""


def test_rows_that_are_replaced_may_lack_any_column(tmp_path: Any) -> None:
    assert why_missing_column(evaluator(tmp_path / "t", ["n"], whole=True, keys=["id"])) == ""

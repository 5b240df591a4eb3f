"""A batch of several flows, as far as it is told without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.several.several_batch import StreamsBatch
from sluicegate.flow.table_report import TableReport

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("new_rows", "may_have"), [({"a": 0, "b": 3}, False), ({"a": 1, "b": 3}, True)])
def test_a_flow_without_new_rows_brings_no_rescued_values(new_rows: dict[str, int], may_have: bool) -> None:
    """Its delivery has no files to look into, and in doubt each batch would be evaluated as if it had some."""
    deliveries = {"a": SimpleNamespace(may_have_rescued=True), "b": SimpleNamespace(may_have_rescued=False)}
    batch = StreamsBatch(
        cast("Any", deliveries["a"]), read=3, whole=False, reprocesses=False, progress=Progress("incremental"),
        flow=Flow("silver", "t", "a", "t"), report=TableReport("t", "silver"), facts={},
        deliveries=cast("Any", deliveries), counts=new_rows,
    )  # fmt: skip
    assert batch.may_have_rescued is may_have

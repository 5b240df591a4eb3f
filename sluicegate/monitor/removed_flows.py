"""Rows of flows that the definition of a table has no more: the next run deletes them. No Spark."""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.flow.model import Flow, Progress, ProgressKind
from sluicegate.flow.several import several_progress
from sluicegate.lake import tables
from sluicegate.lake.table import Tables
from sluicegate.schema.columns import FLOW


def deleted_rows(flow: Flow, progress: Progress, opened: Tables) -> Mapping[str, int]:
    """Return the number of rows that the next run deletes, by the name of the flow that made them.

    Args:
        flow: the flow of the table.
        progress: its offsets, and what the next run does.
        opened: the handles of the step.
    """
    target, removed = opened[flow.target].delta, _removed_flows(flow, progress, opened)
    if target is None or not removed:
        return {}
    import pyarrow.dataset as ds

    dataset = tables.dataset(target)
    counts = {name: dataset.count_rows(filter=ds.field(FLOW) == name) for name in removed}
    return {name: count for name, count in counts.items() if count}


def _removed_flows(flow: Flow, progress: Progress, opened: Tables) -> list[str]:
    if flow.streams:
        return list(progress.removed)
    # One query fills it now: what flows over other tables have made is not made again by the full refresh.
    recorded = several_progress.recorded_offsets(opened[flow.target].last_own_commit)
    source = opened[flow.source].delta
    if progress.kind != ProgressKind.FULL_REFRESH or recorded is None or source is None:
        return []
    source_id = tables.table_id(source)
    return [name for name, offset in recorded.items() if offset["source_id"] != source_id]

"""Limit how much of what waits one batch processes. No Spark.

A batch of all that waits has one commit at its end: a first load longer than its task's time limit would start over at
each try. So work is divided at versions of the source, and each part is a batch of its own: its offset is a version,
its rows are counted against the log, and a stopped run continues after the last part. The result is the same as of
several consecutive runs.

Changes and first loads are divided. A full refresh of an existing table is one commit, as readers would otherwise see
half of it.
"""

from __future__ import annotations

from dataclasses import replace

from sluicegate.flow.model import Flow, Progress, ProgressKind, StreamProgress, name_of
from sluicegate.flow.several import several_progress
from sluicegate.flow.source_changes import SourceChanges
from sluicegate.lake import log
from sluicegate.lake.table import Tables


def first_part(flow: Flow, waiting: Progress, opened: Tables) -> Progress:
    """Return the first part of what waits: the progress with an earlier end, or itself if that is all.

    Args:
        flow: the flow.
        waiting: its progress.
        opened: the handles of the step.
    """
    most_bytes = flow.policy.batch_bytes
    if most_bytes is None or not waiting.has_work:
        return waiting
    if waiting.kind == ProgressKind.FULL_REFRESH and opened[flow.target].delta is not None:
        return waiting
    if flow.streams:
        return _first_part_of_streams(flow, waiting, most_bytes, opened)
    least = _side_table_offset(flow, waiting, opened)
    end = _part_end(flow.source, waiting.since, waiting.until, most_bytes, least)
    if end == waiting.until:
        return waiting
    return replace(waiting, until=end)


def _first_part_of_streams(flow: Flow, waiting: Progress, most_bytes: int, opened: Tables) -> Progress:
    """Return the first part for a table that several flows fill: each flow has its own."""
    parts: dict[str, StreamProgress] = {}
    for name, stream in waiting.streams.items():
        if stream.restarts:  # its records in the target give way to all that its source has
            parts[name] = stream
            continue
        least = max((_recorded_offset(uri, name, opened) for uri in flow.side_tables), default=-1)
        since = -1
        if stream.known:
            since = stream.since
        parts[name] = replace(stream, until=_part_end(flow.streams[name], since, stream.until, most_bytes, least))
    if parts == waiting.streams:
        return waiting
    return replace(waiting, streams=parts)


def _recorded_offset(side_table: str, flow: str, opened: Tables) -> int:
    """Return a flow's offset by the newest commit of a side table; -1 if it has none."""
    offset = (several_progress.recorded_offsets(opened[side_table].last_own_commit) or {}).get(flow)
    if offset is None:
        return -1
    return int(offset["until"])


def _side_table_offset(flow: Flow, waiting: Progress, opened: Tables) -> int:
    """Return the greatest offset that a stopped run wrote to a side table; -1 without any.

    No part may end before it: Delta would skip a later write to that table as already done, and records of that run
    would appear too early.
    """
    offsets: list[int | None] = []
    for table in (opened[uri] for uri in flow.side_tables):
        offsets.append(table.offset(waiting.app_id))
        offsets.append(log.info_of(table.last_own_commit).until)
    return max((offset for offset in offsets if offset is not None), default=-1)


def _part_end(uri: str, since: int, until: int, most_bytes: int, least: int) -> int:
    """Return the version at which a part ends: before it would exceed the bytes, but with some rows.

    Args:
        uri: the source.
        since: the version that was processed last.
        until: the version at the end of all that waits.
        most_bytes: maximum bytes of files in a part.
        least: version before which the part may not end.
    """
    if until - since <= 1:
        return until
    part_bytes, end = 0, None
    for version in range(since + 1, until + 1):
        try:
            size = _bytes(uri, version)
        except FileNotFoundError:  # cleaned away: nobody can read the table as of this version
            end = None
            continue
        is_full = bool(size and part_bytes) and part_bytes + size > most_bytes
        if is_full and end is not None and end >= least:
            # Columns that came later are NULL in what is read before; anything else cannot be read by today's columns.
            if SourceChanges.read(uri, end, until, name=name_of(uri)).only_adds_columns:
                return end
            return until
        part_bytes, end = part_bytes + size, version
    return until


def _bytes(uri: str, version: int) -> int:
    """Return the bytes of the files with a version's changed rows.

    Raises:
        FileNotFoundError: the log no longer has the version.
    """
    sizes = {"add": 0, "cdc": 0}
    for action in log.actions(uri, version):
        for kind in sizes:
            if kind in action and (kind == "cdc" or action[kind].get("dataChange", True)):
                sizes[kind] += int(action[kind]["size"])
    return sizes["cdc"] or sizes["add"]

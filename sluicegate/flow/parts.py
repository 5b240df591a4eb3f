"""Parts of what waits for a table: how much one batch takes in. No Spark.

All that waits in one batch is one commit at the end of it: a first load that takes longer than the time limit of its
task would begin from nothing at each try. So what waits is cut at versions of the source, and each part is a batch of
its own, as exact as any: its offset is a version, its rows are counted against the log, and a run that is stopped goes
on behind the last one. Nothing else differs from so many runs, one after another.

Cut is what is added to a table: its changes, and the first load. A full refresh of a table that is there is one commit,
or its readers would find half of it.
"""

from __future__ import annotations

from dataclasses import replace

from sluicegate.flow import stream_progress
from sluicegate.flow.model import Flow, Progress, StreamProgress, name_of
from sluicegate.flow.source_changes import SourceChanges
from sluicegate.lake import log
from sluicegate.lake.table import Tables


def first(flow: Flow, now: Progress, opened: Tables) -> Progress:
    """The first part of what waits: the same progress with a nearer end, or itself if that is all.

    Args:
        flow: the flow.
        now: its progress.
        opened: the handles of the step.
    """
    if flow.batch_bytes is None or not now.work or (now.kind == "whole" and opened[flow.target].delta is not None):
        return now
    if not flow.streams:
        end = _end(flow.source, now.since, now.until, flow.batch_bytes, _written_to_side_tables(flow, now, opened))
        return now if end == now.until else replace(now, until=end)
    ends = {name: _end_of_stream(flow, name, one, opened) for name, one in now.streams.items()}
    if all(one.until == ends[name] for name, one in now.streams.items()):
        return now
    return replace(now, streams={name: replace(one, until=ends[name]) for name, one in now.streams.items()})


def _end_of_stream(flow: Flow, name: str, one: StreamProgress, opened: Tables) -> int:
    """Version at which the first part of one of several flows ends."""
    if one.restarts or not flow.batch_bytes:  # its records in the target give way to all that its source has
        return one.until
    least = max((_recorded(flow, uri, name, opened) for uri in flow.side_tables), default=-1)
    return _end(flow.streams[name], one.since if one.known else -1, one.until, flow.batch_bytes, least)


def _recorded(flow: Flow, uri: str, name: str, opened: Tables) -> int:
    """Offset of one of several flows by the newest commit of a side table; -1 if it has none."""
    said = (stream_progress.recorded(opened[uri].last_commit_of_ours) or {}).get(name)
    return -1 if said is None else int(said["until"])


def _written_to_side_tables(flow: Flow, now: Progress, opened: Tables) -> int:
    """The greatest offset that a run which was stopped has written to a side table; -1 without any.

    No part may end before it: Delta would take a later write to that table for one that it has, and records of that
    run would be there whose time has not come.
    """
    found: list[int | None] = []
    for table in (opened[uri] for uri in flow.side_tables):
        last = table.last_commit_of_ours
        found += [table.offset(now.app_id), (last.ours or {}).get("until") if last else None]
    return max((offset for offset in found if offset is not None), default=-1)


def _end(uri: str, since: int, until: int, most: int, least: int) -> int:
    """Version at which a part ends: before the one by which it would have more bytes, but not before it has any.

    Args:
        uri: the source.
        since: its version that was taken in last.
        until: its version at which all that waits ends.
        most: how many bytes of its files a part may have.
        least: version before which it may not end.
    """
    taken, end = 0, None
    for version in range(since + 1, until + 1) if until - since > 1 else ():
        try:
            size = _bytes(uri, version)
        except FileNotFoundError:  # cleaned away: nobody can read the table as of this version
            end = None
            continue
        if size and taken and taken + size > most and end is not None and end >= least:
            # Columns that came later are NULL in what is read before; anything else cannot be read by today's columns.
            later = SourceChanges.of(uri, end, until, name=name_of(uri))
            return end if later.only_gained_columns else until
        taken, end = taken + size, version
    return until


def _bytes(uri: str, version: int) -> int:
    """Bytes of the files in which a version's changed rows are.

    Raises:
        FileNotFoundError: the log no longer has it.
    """
    sizes = {"add": 0, "cdc": 0}
    for action in log.actions(uri, version):
        for kind in sizes:
            if kind in action and (kind == "cdc" or action[kind].get("dataChange", True)):
                sizes[kind] += int(action[kind]["size"])
    return sizes["cdc"] or sizes["add"]

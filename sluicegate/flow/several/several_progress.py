"""Read the offsets of a table's several flows, and decide what to do about each. No Spark.

Each commit of the target records the offsets of all flows in ``streams``: the ID and version of each flow's source. The
commit's ``txn`` counts batches, so that of two runs at the same offsets one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from deltalake import DeltaTable

from sluicegate.flow import histories, source_changes
from sluicegate.flow.model import Flow, StreamProgress, name_of
from sluicegate.flow.policies import CopyPolicy
from sluicegate.flow.source_changes import SourceChanges
from sluicegate.lake import log, tables
from sluicegate.lake.table import Table, Tables


def app_id(flow: Flow) -> str:
    """Return the ``txnAppId`` of a table with several flows, which counts batches."""
    return f"sluicegate.{flow.layer}.{flow.table}@flows"


def newest_batch(places: Iterable[Table], app_id: str) -> int:
    """Return the newest batch number of a table and its side tables; -1 before the first.

    A table that was moved away starts from scratch, and an older one may be restored. Its side tables stay, and Delta
    skips a write to them with a number that they already have, even with other rows.
    """
    batches = (tables.txn_version(place.delta, app_id) for place in places)
    return max((version for version in batches if version is not None), default=-1)


def recorded_offsets(last: log.Commit | None) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the recorded offsets of flows by name; None if the table had one flow then."""
    streams = log.info_of(last).streams
    if isinstance(streams, dict):
        return streams
    return None


def facts(streams: Mapping[str, StreamProgress]) -> dict[str, dict[str, Any]]:
    """Return the offsets of flows for the commits of a batch."""
    return {name: {"source_id": stream.source_id, "until": stream.until} for name, stream in streams.items()}


def why_source_lost(flow: Flow, opened: Tables, last: log.Commit | None) -> str:
    """Return why the table is blocked: a flow that has loaded records lost its source; empty if none did."""
    for name in recorded_offsets(last) or {}:
        if name in flow.streams and opened[flow.streams[name]].delta is None:
            return f"{name_of(flow.streams[name])}, which its flow {name} reads, no longer exists"
    return ""


def missing_columns(flow: Flow, source: Table, columns: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the columns to de-identify that the source lacks, and the flows that may still add them.

    A flow whose source has no rows yet returns no columns. A flow that certainly returns a column, by its query, is not
    waited for.

    Args:
        flow: the flow of the copy.
        source: the table that it follows.
        columns: the columns of the source.
    """
    policy = flow.policy
    if not isinstance(policy, CopyPolicy):
        return [], []
    offsets = recorded_offsets(source.last_own_commit)
    awaited: dict[str, frozenset[str] | None] = {}
    if offsets is not None:
        awaited = {flow: new_columns for flow, new_columns in policy.makes.items() if flow not in offsets}
    certain: set[str] = set().union(*(new_columns for new_columns in awaited.values() if new_columns))
    lacking = policy.treated - {column.lower() for column in columns} - certain
    return sorted(lacking), [flow for flow, new_columns in awaited.items() if new_columns is None]


def progress_of(flow: Flow, opened: Tables, last: log.Commit | None) -> dict[str, StreamProgress]:
    """Return the progress of each flow whose source exists.

    Args:
        flow: the flow of the table.
        opened: the handles of the step.
        last: our last commit to the target, if it records its inputs.

    Raises:
        SluicegateError: a source is older than its offset, or has another history now.
    """
    offsets, sources = recorded_offsets(last) or {}, {name: opened[uri].delta for name, uri in flow.streams.items()}
    streams = {name: _flow_progress(flow, name, delta, offsets.get(name)) for name, delta in sources.items() if delta}
    for name, stream in streams.items():
        uri, identity = flow.streams[name], histories.identity_of_source(log.info_of(last), name)
        if stream.since >= 0 and histories.is_other_commit(opened[uri], stream.since, identity):
            raise histories.replaced_source_error(flow, uri, stream.since)
    return streams


def _flow_progress(flow: Flow, name: str, source: DeltaTable, offset: Mapping[str, Any] | None) -> StreamProgress:
    """Return the progress of one flow.

    Args:
        flow: the flow of the table.
        name: the name of the flow.
        source: the table that it follows.
        offset: offset of the flow in the last commit; None if the flow is new.
    """
    uri, source_id = flow.streams[name], tables.table_id(source)
    if offset is None:
        return StreamProgress(source_id, until=source.version())
    since = int(offset["until"])
    until = source_changes.newest_version(source, since)
    if offset["source_id"] != source_id:
        mismatch = f"{name_of(uri)} is not the table that the flow {name} was filled from"
        return StreamProgress(source_id, until=until, known=True, restarts=True, why=mismatch)
    if since > until:
        raise histories.older_source_error(flow, uri)
    changes = SourceChanges.read(uri, since, source.version(), name=name_of(uri))
    stream = StreamProgress(source_id, since, until, known=True)
    if reason := changes.why_overwritten or changes.why_other_columns:
        return replace(stream, restarts=True, why=reason)
    return replace(stream, revised=bool(changes.why_revised), why=changes.why_revised)

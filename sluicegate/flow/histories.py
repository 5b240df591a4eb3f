"""Compare histories of a flow's tables: does an offset still name the commit that was read? No Spark.

An offset is a version number. A log that was restored to an earlier state, from a backup or after a power cut, and then
written, has the same number for another commit. So a batch's commit records the identities of the commits that it read
(``lake.commit_identity``), and readers of an offset compare them. Offsets from before there were identities, and
commits that were cleaned up, are not compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sluicegate.errors import SluicegateError, Where
from sluicegate.flow.model import Flow, Progress, name_of
from sluicegate.lake import log, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.offsets import RestoreHistory
from sluicegate.lake.table import Table, Tables


def facts(flow: Flow, progress: Progress, opened: Tables) -> dict[str, Any]:
    """Return the identities of the commits that a batch reads: of sources and of other inputs.

    Args:
        flow: the flow.
        progress: its progress, with the versions of the batch.
        opened: the handles of the batch.
    """
    if flow.streams:
        sources = {name: (flow.streams[name], stream.until) for name, stream in progress.streams.items()}
    else:
        sources = {"": (flow.source, progress.until)}
    inputs = {name: (flow.inputs[name], version) for name, version in progress.versions.items()}
    read = {"sources": sources, "inputs": inputs}
    return {
        kind: {name: opened[uri].commit_identity(version) for name, (uri, version) in places.items()}
        for kind, places in read.items()
    }


def replaced_source_version(flow: Flow, opened: Tables, last: log.Commit | None) -> int | None:
    """Return the source version that is no longer the commit that was read; None if there is none.

    Args:
        flow: the flow, of one source.
        opened: the handles of the step.
        last: our last commit to the target.
    """
    source = opened[flow.source]
    # A run that was stopped has read a later version than the target has taken in, for the tables beside it.
    for commit in (last, *(opened[uri].last_own_commit for uri in flow.side_tables)):
        info = log.info_of(commit)
        if source.delta is None or info.source_id != tables.table_id(source.delta) or info.until is None:
            continue
        if is_other_commit(source, info.until, identity_of_source(info)):
            return info.until
    return None


def identity_of_source(info: CommitInfo, flow: str = "") -> str | None:
    """Return the recorded identity of the source's commit at the offset.

    Args:
        info: what the commit says of itself.
        flow: name of the flow, for a table with several flows.
    """
    return info.commits.get("sources", {}).get(flow)


def is_other_commit(table: Table, version: int, recorded: str | None) -> bool:
    """Return whether a version is another commit than the recorded one; False if unknown."""
    identity = None
    if recorded is not None:
        identity = table.commit_identity(version)
    return identity is not None and identity != recorded


def comparable_history(flow: Flow, past: RestoreHistory | None, opened: Tables) -> RestoreHistory | None:
    """Return the history of a target with input stamps in the present form.

    If an input has another history now, its stamp lacks the table ID, as for another table: neither its version nor
    later changes can be followed.
    """
    last = None
    if past is not None:
        last = past.ours
    if past is None or last is None or last.ours is None:
        return past
    stamps = {name: _comparable_stamp(flow, name, last.ours, opened) for name in last.ours.inputs}
    return replace(past, ours=replace(last, ours=last.ours.with_facts({"inputs": stamps})))


def _comparable_stamp(flow: Flow, name: str, info: CommitInfo, opened: Tables) -> str:
    stamp = info.inputs[name]
    version, identity = int(stamp.rpartition("@")[2]), info.commits.get("inputs", {}).get(name)
    if name in flow.inputs and is_other_commit(opened[flow.inputs[name]], version, identity):
        return f"@{version}"
    return stamp


def why_replaced(uri: str, version: int) -> str:
    """Return why a source with another history requires a full refresh."""
    return f"{name_of(uri)} was put back and then written: its version {version} is not the commit that was read"


def older_source_error(flow: Flow, uri: str) -> SluicegateError:
    """Return the error for a source that is older than the offset.

    Delta keeps the higher of two offsets, so later changes of the source would be skipped.
    """
    return SluicegateError(
        f"{flow.table} cannot continue: {name_of(uri)} is older than the version that was read last",
        where=Where(table=flow.table, file=uri),
        hint=_hint(flow, uri),
    )


def replaced_source_error(flow: Flow, uri: str, version: int) -> SluicegateError:
    """Return the error for a source with another history, where the target may have the only copy of rows.

    Args:
        flow: the flow.
        uri: address of the source.
        version: the version that is another commit now.
    """
    name = name_of(uri)
    return SluicegateError(
        f"{flow.table} cannot continue: version {version} of {name} is not the commit that was read",
        where=Where(table=flow.table, file=uri),
        cause=f"the log of {name} was put back to an earlier state and then written: {flow.table} may have rows of"
        " commits that it no longer has, and lack rows of the commits that replaced them",
        hint=_hint(flow, uri),
    )


def _hint(flow: Flow, uri: str) -> str:
    """Return what to do about a source that was put back: the target may have the only copy of rows."""
    name, places = name_of(uri), " and ".join([flow.target, *flow.side_tables])
    rebuilds = "reads the ledger's files again"
    if flow.policy.rebuildable:
        rebuilds = f"rebuilds it from the rows that {name} has"
    return (
        f"restore the pipeline's folder in the lake from one backup, so that {name} and {flow.table} match;"
        f" without a backup, move {places} away and keep them, as they may have the only copy: the next run {rebuilds}"
    )

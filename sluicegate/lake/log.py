"""Delta log of a table: commits, their actions, and our commit metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from deltalake import DeltaTable

from sluicegate.lake import layout
from sluicegate.lake.commits.commit_info import METADATA as METADATA
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.damage import damages, whole
from sluicegate.lake.damage.damages import Damage
from sluicegate.storage import filesystems

# Property that a fence sets, and key of the commitInfo of one that sets none; see lake/exclusion/fence.py.
FENCE = "sluicegate.fence"

# Names of the rows that a commit wrote, in its metrics: Spark's, and delta-rs's of a MERGE and of a write.
ROWS_WRITTEN = ("numOutputRows", "num_output_rows", "num_added_rows")


@dataclass(frozen=True)
class Commit:
    """One commit of a table, with our metadata.

    Attributes:
        version: the table's version that the commit made.
        timestamp: commit time, milliseconds since 1970 UTC.
        operation: Delta's name for it: WRITE, MERGE, RESTORE…
        ours: what a commit of ours says of itself; None if another program wrote the commit.
        rows_written: rows that the commit wrote, if Delta counted them.
        overwrites: whether it was an overwrite.
        partly: whether the overwrite had a predicate (``replaceWhere``).
        restored_to: target version of a RESTORE by version.
        fence: whether it is one of our fences, which change nothing that readers see.
    """

    version: int
    timestamp: int
    operation: str
    ours: CommitInfo | None
    rows_written: int | None
    overwrites: bool
    partly: bool
    restored_to: int | None = None
    fence: bool = False

    @property
    def info(self) -> CommitInfo:
        """What the commit says of itself: nothing if another program wrote it."""
        return self.ours or CommitInfo()


def commits(table: DeltaTable, limit: int | None = None) -> Iterator[Commit]:
    """Yield the commits up to the version that the table was opened at, newest first, as far as its log holds them.

    Args:
        table: the table.
        limit: maximum number of commits; None for all.
    """
    for number, entry in enumerate(_history(table, limit)):
        yield commit_of(table.version() - number, entry)


def _history(table: DeltaTable, limit: int | None) -> Iterable[Mapping[str, Any]]:
    """Return the commitInfo of each commit up to the opened version, newest first.

    delta-rs gives the newest commits that the log has by now, and counts their versions down from the one that the
    table was opened at (1.6.6): once another commit has come, each would pass for one before it, a RESTORE as well.
    """
    entries = table.history(limit)
    # Looked for behind the reading: if it is not there now, it was not among what was read.
    # Not by ``exists`` of fsspec: to that a store that does not answer has no such file.
    if filesystems.file_facts(commit_file(table.table_uri, table.version() + 1)) is None:
        return entries[:limit]
    return islice(_infos(table.table_uri, table.version()), limit)


def commit_file(uri: str, version: int) -> str:
    """Return the address of the log entry of a version."""
    return f"{layout.address(uri).rstrip('/')}/_delta_log/{version:020d}.json"


def _infos(uri: str, newest: int) -> Iterator[Mapping[str, Any]]:
    """Yield the commitInfo of a version and of earlier ones, read from the log's files."""
    for version in range(newest, -1, -1):
        try:
            actions_of_commit = list(actions(uri, version, added=False))
        except FileNotFoundError:  # older ones were cleaned away
            return
        yield commit_info(actions_of_commit)


def commit_info(actions_of_commit: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what a commit says of itself, among its actions; nothing if it does not."""
    return next((action["commitInfo"] for action in actions_of_commit if "commitInfo" in action), {})


def commit_of(version: int, entry: Mapping[str, Any]) -> Commit:
    """Read a commit from the ``commitInfo`` of its entry in the log."""
    metrics = entry.get("operationMetrics") or {}
    parameters = entry.get("operationParameters") or {}
    restored = None
    if entry.get("operation") == "RESTORE":
        restored = _int(parameters.get("version"))
    return Commit(
        version=version, timestamp=int(entry.get("timestamp") or 0), operation=str(entry.get("operation")),
        ours=CommitInfo.from_user_metadata(entry.get("userMetadata")),
        rows_written=_int(next((metrics[name] for name in ROWS_WRITTEN if name in metrics), None)),
        overwrites=str(parameters.get("mode", "Append")) == "Overwrite",
        partly=str(parameters.get("predicate") or "[]") not in ("[]", "true"), restored_to=restored,
        fence=FENCE in entry or _properties(parameters) == {FENCE},
    )  # fmt: skip


def _int(value: Any) -> int | None:
    if value is None:
        return None
    return int(value)


def _properties(parameters: Mapping[str, Any]) -> set[str]:
    """Return the names of the properties that a commit set."""
    try:
        properties = json.loads(parameters.get("properties") or "{}")
    except (TypeError, ValueError):  # another program writes them in another form
        return set()
    if not isinstance(properties, dict):
        return set()
    return {*properties}


def actions(uri: str, version: int, *, added: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the actions of a commit, as in Delta's protocol.

    Args:
        uri: the table.
        version: the version that the commit made.
        added: whether to include ``add`` actions.

    Raises:
        FileNotFoundError: the log no longer has the version.
        DamagedTable: the entry is not a valid commit.
    """
    file = commit_file(uri, version)
    left_out: tuple[str, ...] = ('{"add"',)
    if added:
        left_out = ()
    fs, path = filesystems.open_store(file)
    with fs.open(path, "rt", encoding="utf-8") as entry:
        try:
            yield from damages.actions(entry, left_out=left_out)
        except ValueError as error:
            raise whole.damaged_table_error(uri, Damage(file, f"is not a valid commit: {error}", version)) from error


def info_of(commit: Commit | None) -> CommitInfo:
    """Return what a commit says of itself: nothing without a commit."""
    if commit is None:
        return CommitInfo()
    return commit.info


def last_own_commit(table: DeltaTable | None) -> Commit | None:
    """Return the newest commit of our runs; None if the log has none."""
    if table is None:
        return None
    # Nearly always the newest commit; the whole log is read only if others write the table as well.
    for limit in (5, None):
        for commit in commits(table, limit):
            if commit.ours is not None:
                return commit
    return None

"""What the file statuses on record tell of, by the logs of three tables alone: how far they go, and if a file failed.

A run with nothing to do asks no more than this, and needs no Arrow for it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.table import Tables
from sluicegate.landing.file_states import LedgerAction

# Within the engine of delta-rs: as objects of Python, the paths of a million files take longer, and more memory.
_BATCHES = f"SELECT DISTINCT chunk FROM ledger WHERE action = '{LedgerAction.SKIP}'"

# A skipped file that moves is entered again as skipped. So entries with one name, size and time are of as many files
# as there are in the first batch and in batches of lists, and the last of them have the places where the files are.
_FILE = "PARTITION BY name, size, modification_time"
_ENTRIES = f"""
WITH entries AS (
  SELECT path, chunk, size, modification_time, split_part(path, '/', -1) AS name
  FROM ledger WHERE action = '{LedgerAction.SKIP}'
), followed AS (
  SELECT *, chunk > min(chunk) OVER ({_FILE}) AND chunk NOT IN ({{listed}}) AS is_move FROM entries
), ranked AS (
  SELECT path, chunk, row_number() OVER ({_FILE} ORDER BY chunk, path) AS place,
    sum(CASE WHEN is_move THEN 1 ELSE 0 END) OVER ({_FILE}) AS moves
  FROM followed
)
"""
_MOVED_AWAY = _ENTRIES + "SELECT DISTINCT path FROM ranked WHERE place <= moves"
_SKIPPED = (
    _ENTRIES
    + """
SELECT count(*) AS files, min(ranked.path) AS first
FROM ranked JOIN (SELECT path, max(chunk) AS newest FROM ledger GROUP BY path) AS files
ON ranked.path = files.path AND ranked.chunk = files.newest
WHERE place > moves
"""
)


def has_no_failures(status_log: DeltaTable) -> bool:
    """Return whether the statistics of a status log show that no file failed; False if its rows must be read."""
    return all(
        nulls is not None and nulls == rows
        for nulls, rows in tables.statistics_rows(status_log, "null_count.error", "num_records")
    )


@dataclass(frozen=True)
class Skipped:
    """The files that are in no table, as their newest entries say that they are not to be read.

    Attributes:
        files: their number.
        first: path of the first of them; empty if there is none.
    """

    files: int = 0
    first: str = ""


def skipped_files(ledger: DeltaTable | None) -> Skipped:
    """Return the files that a ledger has as skipped, and that nothing has read since."""
    if ledger is None or not _may_skip(ledger):
        return Skipped()
    result = _query_result(ledger, _SKIPPED)
    return Skipped(result["files"].to_pylist()[0], result["first"].to_pylist()[0] or "")


def moved_away_paths(ledger: DeltaTable) -> set[str]:
    """Return former paths of skipped files that moved: the ledger has each file at another path, too."""
    if not _may_skip(ledger):
        return set()
    return set(_query_result(ledger, _MOVED_AWAY)["path"].to_pylist())


def _query_result(ledger: DeltaTable, query: str) -> Any:
    """Return the result of a query about the skipped files of a ledger."""
    batches = QueryBuilder().register("ledger", ledger).execute(_BATCHES).read_all()["chunk"].to_pylist()
    listed = [batch for batch in batches if batch_info(ledger, batch).ledger.skip_list is not None]
    text = query.format(listed=", ".join(map(str, listed)) or "-1")
    return QueryBuilder().register("ledger", ledger).execute(text).read_all()


def batch_info(ledger: DeltaTable, batch: int) -> CommitInfo:
    """Return the commit info of a ledger batch, empty if the log no longer has it."""
    with suppress(FileNotFoundError):
        for action in log.actions(ledger.table_uri, batch, added=False):
            if "commitInfo" in action:
                return CommitInfo.from_user_metadata(action["commitInfo"].get("userMetadata")) or CommitInfo()
    return CommitInfo()


def _may_skip(ledger: DeltaTable) -> bool:
    """Return whether statistics leave it open that a file was skipped: no action of a ledger sorts after that one."""
    greatest = [action for (action,) in tables.statistics_rows(ledger, "max.action")]
    return any(action is None or action >= LedgerAction.SKIP for action in greatest)


def last_version(lake: layout.Lake, name: str, bronze: DeltaTable, opened: Tables) -> int:
    """Return the last version of bronze whose outcome is recorded, -1 if there is none."""
    status_log = opened[lake.file_status(name)].delta
    if status_log is None:
        return -1
    files = tables.statistics_rows(status_log, "min.table_id", "max.table_id", "max.version")
    if all(first is not None and first == last and version is not None for first, last, version in files):
        mine = tables.table_id(bronze)
        return max((int(version) for of, _, version in files if of == mine), default=-1)
    # Else rows of a former table under this name are in the same file.
    import pyarrow.compute as pc

    from sluicegate.landing.status_log import read

    newest = pc.max(read(lake, name, ["version"], opened=opened)["version"]).as_py()
    if newest is None:
        return -1
    return int(newest)


def has_unrecorded_batches(lake: layout.Lake, name: str, opened: Tables | None = None) -> bool:
    """Return whether a killed run left committed chunks that the outcome does not record."""
    return bool(unrecorded_batches(lake, name, opened))


def unrecorded_batches(lake: layout.Lake, name: str, opened: Tables | None = None) -> set[int]:
    """Return chunks that bronze committed and the outcome does not record yet; the next run adds them."""
    opened = opened or Tables()
    bronze, ledger = opened[lake.table("bronze", name)].delta, opened[lake.ledger(name)].delta
    if bronze is None or ledger is None:
        return set()
    return {*chunk_commits(bronze, ledger, name, last_version(lake, name, bronze, opened))}


def chunk_commits(bronze: DeltaTable, ledger: DeltaTable, name: str, recorded: int) -> dict[int, log.Commit]:
    """Return bronze's commit of each ledger batch after version ``recorded``, without those that a RESTORE undid."""
    behind = bronze.version() - recorded
    if behind <= 0:
        return {}
    past = offsets.restore_history(bronze)
    offset = offsets.committed_offset(bronze, offsets.app_id("bronze", name, ledger), past).offset or 0
    commits: dict[int, log.Commit] = {}
    for commit in log.commits(bronze, behind):
        chunk = commit.info.bronze.chunk
        undone = past.restores and not (past.keeps_commit(commit.version) and (chunk or 0) <= offset)
        if chunk is not None and not undone:
            commits.setdefault(chunk, commit)
    return commits

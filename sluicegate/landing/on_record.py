"""What the file statuses on record tell of, by the logs of three tables alone: how far they go, and if a file failed.

A run with nothing to do asks no more than this, and needs no Arrow for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalake import DeltaTable, QueryBuilder

from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.table import Tables

# Action of an entry that is not read, as landing/ledger.py has it, which needs Arrow.
SKIP = "skip"

# Within the engine of delta-rs: as objects of Python, the paths of a million files take longer, and more memory.
_SKIPPED = f"""
SELECT count(*) AS files, min(path) AS first
FROM (
  SELECT path, max(chunk) AS newest, max(CASE WHEN action = '{SKIP}' THEN chunk END) AS skipped
  FROM ledger GROUP BY path
) AS entries
WHERE newest = skipped
"""


def none_failed(status_log: DeltaTable) -> bool:
    """Whether the statistics of a status log show that no file failed; else its rows are to be asked."""
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


def skipped(ledger: DeltaTable | None) -> Skipped:
    """The files that a ledger has as skipped, and that nothing has read since."""
    if ledger is None or not _may_skip(ledger):
        return Skipped()
    result = QueryBuilder().register("ledger", ledger).execute(_SKIPPED).read_all()
    return Skipped(result["files"].to_pylist()[0], result["first"].to_pylist()[0] or "")


def _may_skip(ledger: DeltaTable) -> bool:
    """Whether statistics leave it open that a file was skipped: no action of a ledger sorts after that one."""
    greatest = [action for (action,) in tables.statistics_rows(ledger, "max.action")]
    return any(action is None or action >= SKIP for action in greatest)


def last_version(lake: layout.Lake, name: str, bronze: DeltaTable, opened: Tables) -> int:
    """The last version of bronze whose files' outcome is on record; -1 if there is none."""
    status_log = opened[lake.outcome(name)].delta
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


def behind(lake: layout.Lake, name: str, opened: Tables | None = None) -> bool:
    """Whether bronze has committed chunks that the outcome does not tell of: a run was killed between the two."""
    return bool(untold(lake, name, opened))


def untold(lake: layout.Lake, name: str, opened: Tables | None = None) -> set[int]:
    """The chunks that bronze has committed and the outcome does not tell of yet; the next run makes up for it."""
    opened = opened or Tables()
    bronze, ledger = opened[lake.table("bronze", name)].delta, opened[lake.ledger(name)].delta
    if bronze is None or ledger is None:
        return set()
    return {*chunk_commits(bronze, ledger, name, last_version(lake, name, bronze, opened))}


def chunk_commits(bronze: DeltaTable, ledger: DeltaTable, name: str, recorded: int) -> dict[int, log.Commit]:
    """Bronze's commit of each ledger batch, in versions after ``recorded``, without those that a RESTORE undid."""
    behind = bronze.version() - recorded
    if behind <= 0:
        return {}
    past = offsets.lineage(bronze)
    offset = offsets.committed_offset(bronze, offsets.app_id("bronze", name, ledger), past).offset or 0
    commits: dict[int, log.Commit] = {}
    for commit in log.commits(bronze, behind):
        chunk = (commit.ours or {}).get("chunk")
        undone = past.restores and not (past.stands(commit.version) and int(chunk or 0) <= offset)
        if chunk is not None and not undone:
            commits.setdefault(int(chunk), commit)
    return commits

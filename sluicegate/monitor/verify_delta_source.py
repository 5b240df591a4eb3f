"""Ingestion history of a bronze table with a Delta source, and the proof that it has all of the source's rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.lake import layout, log, tables
from sluicegate.lake.commits.commit_info import BatchMode
from sluicegate.landing.file_states import FileStatus


def entries(lake: layout.Lake, name: str, path: str) -> list[dict[str, Any]]:
    """Return the ingestion history of a bronze table with a Delta source: an entry for each run, oldest first.

    ``chunk`` is the source version that a run ended at, ``rows`` what it wrote, ``version`` and ``ingested`` its
    commit. ``state`` is ``ingested``, ``replaced`` (by a later full refresh), or ``waiting`` for the versions that the
    next run takes.
    """
    target, source = tables.delta_table(lake.table("bronze", name)), tables.delta_table(path)
    taken_in: list[dict[str, Any]] = []
    state, taken = FileStatus.INGESTED, -1
    for commit in log.commits(target) if target else ():
        info = commit.info
        if info.bronze.source is None:
            continue
        if not taken_in and source is not None and info.bronze.source == tables.table_id(source):
            taken = int(info["until"])
        ingested = datetime.fromtimestamp(commit.timestamp / 1000, UTC)
        taken_in.append(
            {"path": path, "chunk": info["until"], "rows": commit.rows_written, "version": commit.version,
             "ingested": ingested, "state": state}
        )  # fmt: skip
        if info.mode == BatchMode.FULL_REFRESH:  # what earlier commits brought
            state = FileStatus.REPLACED
    taken_in.reverse()
    if source is not None and source.version() > taken:
        taken_in.append({"path": path, "chunk": source.version(), "state": FileStatus.WAITING})
    return taken_in


def verify(lake: layout.Lake, name: str, path: str) -> list[str]:
    """Prove that identities are unique and rows as many as the source had at the offset; return problems."""
    bronze, source = tables.delta_table(lake.table("bronze", name)), tables.delta_table(path)
    if bronze is None:
        return []
    problems = []
    identities = tables.dataset(bronze).to_table(["_chunk", "_pos"])
    distinct = identities.group_by(["_chunk", "_pos"]).aggregate([]).num_rows
    if distinct != identities.num_rows:
        problems.append(f"{name}: {identities.num_rows - distinct:,} rows have a duplicate record id")
    last = log.last_own_commit(bronze)
    info = log.info_of(last)
    if source is None or info.bronze.source != tables.table_id(source):
        return [*problems, f"{name}: its source table is no longer at {path}"]
    version = int(info["until"])
    try:
        had = _count(tables.table_at(path, version=version))
    except (DeltaError, OSError) as error:
        reason = str(error).splitlines()[0]
        return [*problems, f"{name}: the rows of {path} in version {version} cannot be counted without Spark: {reason}"]
    if had != identities.num_rows:
        at_offset = f"{path} had {had:,} rows in version {version}"
        problems.append(f"{name}: {at_offset}, but the table has {identities.num_rows:,}")
    return problems


def _count(table: DeltaTable) -> int:
    """Count rows by reading the table: other writers may omit statistics, and deletion vectors take rows away."""
    from deltalake import QueryBuilder

    counted = QueryBuilder().register("source", table).execute("SELECT count(1) AS n FROM source").read_all()
    return int(counted["n"][0].as_py())

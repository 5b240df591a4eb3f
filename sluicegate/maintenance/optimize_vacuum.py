"""Decide which tables of a pipeline need OPTIMIZE and VACUUM, and run them.

What is due is found from logs and folders, without Spark. Each table is maintained by its writer: layer tables, side
tables and aggregate state by Spark; the event log and others by delta-rs. Ledgers and file status need nothing: they
compact themselves (see lake/commits/compaction.py). Delta itself writes checkpoints of its logs and removes log files
after 30 days.

OPTIMIZE and ALTER TABLE change no row but commit a version: silver and gold run afterwards, so their offsets pass it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.console import files, human_bytes
from sluicegate.definition import LAYERS
from sluicegate.definition.pipeline.maintenance import RETENTION
from sluicegate.flow import flows
from sluicegate.flow.model import ProgressKind, name_of
from sluicegate.flow.progress import progress
from sluicegate.lake import layout, log, tables
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.storage import listings
from sluicegate.times import time_span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import Pipeline


# Files below this size are compacted, once there are lake.tables.MANY_FILES of them.
SMALL = 128 * 1024**2

# A data file is older than its commit by as long as its job took.
SLACK = timedelta(days=1)

SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL),
    # VACUUM would commit two versions of its own, for nothing that changed.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # Tasks for listing a folder: the default of 10,000 took half a minute for a table of two files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}


@dataclass(frozen=True)
class MaintainedTable:
    """Files of a table, and the maintenance that is due.

    Attributes:
        name: path below the pipeline's lake.
        uri: URI of the table.
        of_spark: whether Spark writes the table; otherwise delta-rs does.
        files: number of data files of its newest version.
        bytes: bytes of all data files in its folder, former versions included.
        scattered: whether small files need compaction, or rows clustering.
        stale: files older than the retention that the newest version does not use.
        retention: retention of unused files.
        lengthen: whether the table's own ``delta.deletedFileRetentionDuration`` is shorter.
        hold_reason: why VACUUM is held back (may be empty).
    """

    name: str
    uri: str
    of_spark: bool
    files: int
    bytes: int
    scattered: bool
    stale: int
    retention: timedelta
    lengthen: bool = False
    hold_reason: str = ""

    @property
    def is_due(self) -> bool:
        """Whether maintenance is due."""
        return self.scattered or self.is_vacuum_due or self.lengthen

    @property
    def is_vacuum_due(self) -> bool:
        """Whether files are to be deleted."""
        return bool(self.stale) and not self.hold_reason


def retention(pipeline: Pipeline) -> timedelta:
    """Return how long files that a table no longer needs are kept."""
    if not pipeline.maintenance:
        return RETENTION
    return pipeline.maintenance.retention_span


def maintained_tables(pipeline: Pipeline, lake: layout.Lake, keeps: timedelta | None = None) -> list[MaintainedTable]:
    """Return the tables of a pipeline, with the maintenance that is due.

    Args:
        pipeline: the definition.
        lake: the lake.
        keeps: retention of files; by default the definition's.
    """
    if keeps is None:
        keeps = retention(pipeline)
    behind = unread_sources(pipeline, lake)
    # Each refresh keeps them in small files by itself, so that it need not write all for one group.
    states = set(map(lake.group_state, pipeline.gold))
    maintained = []
    for uri, of_spark in _addresses(pipeline, lake):
        table = tables.delta_table(uri)
        if table is None:
            continue
        state = _state(table, uri, lake, of_spark, keeps, behind.get(uri))
        if uri in states:
            state = replace(state, scattered=False)
        maintained.append(state)
    return maintained


def unread_sources(pipeline: Pipeline, lake: layout.Lake) -> dict[str, tuple[datetime, str]]:
    """Return source tables that a table is behind: the oldest unread commit's time, and the reader's name.

    The change feed from that commit on needs the files that it and later commits added or removed.
    """
    oldest: dict[str, tuple[datetime, str]] = {}
    for layer in ("silver", "gold"):  # bronze follows ledgers, and tables of other programs
        for flow in flows.flows(pipeline, lake, layer).values():
            state = progress(flow)
            if state.kind != ProgressKind.INCREMENTAL:
                continue
            for uri, (version, _) in state.unprocessed_versions(flow).items():
                unread = _commit_time(uri, version + 1), flow.table
                oldest[uri] = min(oldest.get(uri, unread), unread, key=itemgetter(0))
    return oldest


def _commit_time(uri: str, version: int) -> datetime:
    """Return the commit time of a version; 1970 if the log no longer has it."""
    for commit in log.commits(tables.table_at(uri)):
        if commit.version == version:
            return datetime.fromtimestamp(commit.timestamp / 1000, UTC)
    return datetime(1970, 1, 1, tzinfo=UTC)


def _addresses(pipeline: Pipeline, lake: layout.Lake) -> Iterator[tuple[str, bool]]:
    """Yield the URIs of tables that may need maintenance, and whether Spark writes them."""
    for layer in LAYERS:
        for name in pipeline.names(layer):
            yield lake.table(layer, name), True
            yield layout.rejected_table(lake.table(layer, name)), True
    for name in pipeline.silver:
        yield lake.quarantine(name), True
        yield lake.set_aside(name), True
        yield lake.discards(name), False
    for name in pipeline.gold:
        yield lake.group_state(name), True
    for name in pipeline.bronze:
        yield lake.schemas(name), False
        yield lake.archive(name), False
    yield lake.events, False


def _state(
    table: DeltaTable,
    uri: str,
    lake: layout.Lake,
    of_spark: bool,
    keeps: timedelta,
    behind: tuple[datetime, str] | None,
) -> MaintainedTable:
    sizes = tables.statistics(table, "size_bytes")["size_bytes"].to_pylist()
    small = sum(size < SMALL for size in sizes)
    many = tables.MANY_FILES
    if "clustering" in (table.protocol().writer_features or ()):
        many = 2
    own_setting = table.metadata().configuration.get("delta.deletedFileRetentionDuration")
    own_retention = RETENTION
    if own_setting:
        own_retention = time_span(own_setting)
        keeps = max(keeps, own_retention)
    horizon = datetime.now(UTC) - keeps
    live = set(map(name_of, table.file_uris()))
    lying = _data_files(uri)
    old = lying.filter(pc.less(lying["modification_time"], horizon))["path"].to_pylist()
    stale = [path for path in old if name_of(path) not in live]
    return MaintainedTable(
        name=uri.removeprefix(f"{lake.root.rstrip('/')}/{lake.pipeline}/"), uri=uri, of_spark=of_spark,
        files=len(sizes), bytes=pc.sum(lying["size"]).as_py() or 0, scattered=small >= many, stale=len(stale),
        retention=keeps, lengthen=of_spark and own_retention < keeps, hold_reason=_hold_reason(behind, horizon),
    )  # fmt: skip


def _hold_reason(behind: tuple[datetime, str] | None, horizon: datetime) -> str:
    """Return why former files must stay, as a table has yet to read such old changes; empty if they need not."""
    if behind is None or behind[0] - SLACK >= horizon:
        return ""
    committed, table = behind
    return f"{table} has not read it since {committed:%Y-%m-%d}"


def _data_files(uri: str) -> pa.Table:
    """Return the data files below a table's folder, change data feed included (schema ``FILES``)."""
    files = listings.files(layout.local_path(uri))
    of_log = pc.match_substring(files["path"], "/_delta_log/")
    return files.filter(pc.and_(pc.ends_with(files["path"], ".parquet"), pc.invert(of_log)))


def optimize_by_delta_rs(table: MaintainedTable) -> None:
    if table.scattered:
        # As large as Spark makes them. By default delta-rs leaves files from 100 MB on: they would stay due for ever.
        tables.table_at(table.uri).optimize.compact(target_size=8 * SMALL)
    if table.is_vacuum_due:
        # The retention is no shorter than the table's own.
        tables.table_at(table.uri).vacuum(_hours(table), dry_run=False, enforce_retention_duration=False, full=True)


def optimize_by_spark(spark: SparkSession, table: MaintainedTable) -> None:
    name = f"delta.{quote_name(table.uri)}"
    if table.lengthen:  # Delta 4.4's RETAIN takes no time but 0
        keeps = f"'delta.deletedFileRetentionDuration' = 'interval {_hours(table)} hours'"
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({keeps})")
    if table.scattered:
        spark.sql(f"OPTIMIZE {name}")
    if table.is_vacuum_due:
        spark.sql(f"VACUUM {name}")


def _hours(table: MaintainedTable) -> int:
    return -(-int(table.retention.total_seconds()) // 3600)


def line_of(before: MaintainedTable, after: MaintainedTable) -> str:
    former, current = (f"{files(table.files)}, {human_bytes(table.bytes)}" for table in (before, after))
    return f"  {before.name:<44} {former:>22} → {current}"


def compare_tables(before: Sequence[MaintainedTable], after: Sequence[MaintainedTable]) -> list[dict[str, Any]]:
    """Return the files and bytes of each maintained table before and after."""
    maintained = {table.name: table for table in after}
    return [
        {
            "table": former.name,
            "files_before": former.files,
            "files_after": current.files,
            "bytes_before": former.bytes,
            "bytes_after": current.bytes,
            "held": former.hold_reason,
        }
        for former in before
        if (current := maintained.get(former.name)) is not None
    ]

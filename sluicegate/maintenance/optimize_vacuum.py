"""OPTIMIZE and VACUUM of a pipeline's tables: what is due, and doing it.

What is due is found from logs and folders, without Spark. Each table is maintained by its writer: layer tables, side
tables and aggregate state by Spark; the event log and others by delta-rs. Ledgers and file status need nothing: they
compact themselves (see lake/compaction.py). Delta itself writes checkpoints of its logs and removes log files after 30
days.

OPTIMIZE and ALTER TABLE change no row but commit a version: silver and gold run afterwards, so their offsets pass it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.console import files, human_bytes
from sluicegate.definition import LAYERS
from sluicegate.definition.maintenance import RETENTION
from sluicegate.flow import flows
from sluicegate.flow.model import name_of
from sluicegate.flow.progress import progress
from sluicegate.lake import layout, log, tables
from sluicegate.sql.identifiers import quoted
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
class Table:
    """A table's files, and the maintenance that is due.

    Attributes:
        name: its path below the pipeline's lake.
        uri: its URI.
        of_spark: whether Spark writes it, else delta-rs does.
        files: data files of its newest version.
        bytes: bytes of all data files in its folder, former versions included.
        scattered: whether small files are to be compacted, or rows to be clustered.
        stale: files older than the retention that the newest version does not use.
        retention: how long such files stay.
        lengthen: whether the table's own ``delta.deletedFileRetentionDuration`` is shorter.
        held: why VACUUM is held back (may be empty).
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
    held: str = ""

    @property
    def due(self) -> bool:
        """Whether there is something to do."""
        return self.scattered or self.vacuum or self.lengthen

    @property
    def vacuum(self) -> bool:
        """Whether files are to be deleted."""
        return bool(self.stale) and not self.held


def retention(pipeline: Pipeline) -> timedelta:
    """How long files stay that a table no longer needs."""
    return pipeline.maintenance.keeps if pipeline.maintenance else RETENTION


def maintainable(pipeline: Pipeline, at: layout.Lake, keeps: timedelta | None = None) -> list[Table]:
    """Tables of a pipeline, with the maintenance that is due.

    Args:
        pipeline: the definition.
        at: the lake.
        keeps: how long files stay; by default as the definition says.
    """
    keeps = retention(pipeline) if keeps is None else keeps
    behind = unfollowed(pipeline, at)
    # Each refresh keeps them in small files by itself, so that it need not write all for one group.
    states = {at.groups(name) for name in pipeline.gold}
    found = []
    for uri, of_spark in _addresses(pipeline, at):
        table = tables.delta_table(uri)
        if table is not None:
            seen = _seen(table, uri, at, of_spark, keeps, behind.get(uri))
            found.append(replace(seen, scattered=False) if uri in states else seen)
    return found


def unfollowed(pipeline: Pipeline, at: layout.Lake) -> dict[str, tuple[datetime, str]]:
    """Source tables that another table is behind: the time of the oldest commit it has yet to take in, and its name.

    The change feed from that commit on needs the files that it and later commits added or removed.
    """
    found: dict[str, tuple[datetime, str]] = {}
    for layer in ("silver", "gold"):  # bronze follows ledgers, and tables of other programs
        for flow in flows.flows(pipeline, at, layer).values():
            now = progress(flow)
            if now.kind != "incremental":
                continue
            for uri, (version, _) in now.spans(flow).items():
                made = _made(uri, version + 1)
                if uri not in found or made < found[uri][0]:
                    found[uri] = made, flow.table
    return found


def _made(uri: str, version: int) -> datetime:
    """Commit time of a version; 1970 if the log no longer tells."""
    for commit in log.commits(tables.table_at(uri)):
        if commit.version == version:
            return datetime.fromtimestamp(commit.timestamp / 1000, UTC)
    return datetime(1970, 1, 1, tzinfo=UTC)


def _addresses(pipeline: Pipeline, at: layout.Lake) -> Iterator[tuple[str, bool]]:
    """URIs of the tables that may need maintenance, each with whether Spark writes it."""
    for layer in LAYERS:
        for name in pipeline.names(layer):
            yield at.table(layer, name), True
            yield layout.rejected(at.table(layer, name)), True
    for name in pipeline.silver:
        yield at.quarantine(name), True
        yield at.set_aside(name), True
        yield at.discarded(name), False
    for name in pipeline.gold:
        yield at.groups(name), True
    for name in pipeline.bronze:
        yield at.schemas(name), False
        yield at.archive(name), False
    yield at.events, False


def _seen(
    table: DeltaTable, uri: str, at: layout.Lake, of_spark: bool, keeps: timedelta, behind: tuple[datetime, str] | None
) -> Table:
    sizes = tables.statistics(table, "size_bytes")["size_bytes"].to_pylist()
    small = sum(size < SMALL for size in sizes)
    clustered = "clustering" in (table.protocol().writer_features or ())
    said = (table.metadata().configuration or {}).get("delta.deletedFileRetentionDuration")
    own = time_span(said) if said else RETENTION
    keeps = max(keeps, own if said else keeps)
    horizon = datetime.now(UTC) - keeps
    live = {name_of(file) for file in table.file_uris()}
    lying = _data_files(uri)
    old = lying.filter(pc.less(lying["modification_time"], horizon))["path"].to_pylist()
    stale = [path for path in old if name_of(path) not in live]
    return Table(
        name=uri.removeprefix(f"{at.root.rstrip('/')}/{at.pipeline}/"),
        uri=uri,
        of_spark=of_spark,
        files=len(sizes),
        bytes=pc.sum(lying["size"]).as_py() or 0,
        scattered=small > 1 if clustered else small >= tables.MANY_FILES,
        stale=len(stale),
        retention=keeps,
        lengthen=of_spark and own < keeps,
        held=f"{behind[1]} has not followed it since {behind[0]:%Y-%m-%d}"
        if behind and behind[0] - SLACK < horizon
        else "",
    )


def _data_files(uri: str) -> pa.Table:
    """Data files below a table's folder, change data feed included (schema ``FILES``)."""
    files = listings.files(layout.local_path(uri))
    of_log = pc.match_substring(files["path"], "/_delta_log/")
    return files.filter(pc.and_(pc.ends_with(files["path"], ".parquet"), pc.invert(of_log)))


def by_delta_rs(table: Table) -> None:
    if table.scattered:
        # As large as Spark makes them. By default delta-rs leaves files from 100 MB on: they would stay due for ever.
        tables.table_at(table.uri).optimize.compact(target_size=8 * SMALL)
    if table.vacuum:
        # The retention is no shorter than the table's own.
        tables.table_at(table.uri).vacuum(_hours(table), dry_run=False, enforce_retention_duration=False, full=True)


def by_spark(spark: SparkSession, table: Table) -> None:
    name = f"delta.{quoted(table.uri)}"
    if table.lengthen:  # Delta 4.4's RETAIN takes no time but 0
        keeps = f"'delta.deletedFileRetentionDuration' = 'interval {_hours(table)} hours'"
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({keeps})")
    if table.scattered:
        spark.sql(f"OPTIMIZE {name}")
    if table.vacuum:
        spark.sql(f"VACUUM {name}")


def _hours(table: Table) -> int:
    return -(-int(table.retention.total_seconds()) // 3600)


def line_of(before: Table, after: Table) -> str:
    was, now = (f"{files(table.files)}, {human_bytes(table.bytes)}" for table in (before, after))
    return f"  {before.name:<44} {was:>22} → {now}"


def compared(before: Sequence[Table], after: Sequence[Table]) -> list[dict[str, Any]]:
    """Files and bytes of each maintained table before and after."""
    done = {table.name: table for table in after}
    return [
        {
            "table": was.name,
            "files_before": was.files,
            "files_after": now.files,
            "bytes_before": was.bytes,
            "bytes_after": now.bytes,
            "held": was.held,
        }
        for was in before
        if (now := done.get(was.name)) is not None
    ]

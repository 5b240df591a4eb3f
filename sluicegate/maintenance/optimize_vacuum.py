"""Maintenance of a pipeline's tables: small files are put together (OPTIMIZE), files of old versions go (VACUUM).

What is to be done is seen from logs and folders, without Spark. Each table is maintained by whoever writes it: those of
the layers, and what Spark keeps beside them, by Spark; the event log and others by delta-rs. Some need nothing: ledgers
and outcomes put themselves together (see lake/compaction.py). Delta itself makes checkpoints of its logs, and takes
log files away after 30 days.

OPTIMIZE and ALTER TABLE change no row, but make a version: so silver and gold run afterwards, and their marks pass it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from sluicegate.storage import filesystems
from sluicegate.times import time_span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import Pipeline


# Files below this size are put together, once there are lake.MANY_FILES of them.
SMALL = 128 * 1024**2

# A file is older than the commit that it came with by the time that its job took.
SLACK = timedelta(days=1)

SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL),
    # VACUUM would make two versions of its own, for nothing that changed.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # It lists a folder in so many tasks; the default, 10,000, made it take half a minute for a table of two files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}


@dataclass(frozen=True)
class Table:
    """A table as it lies there, and what there is to gain.

    Attributes:
        name: its address below the pipeline's lake.
        uri: its whole address.
        of_spark: whether Spark writes it, else delta-rs does.
        files: data files of its newest version.
        bytes: bytes of all data files in its folder, those of former versions too.
        scattered: whether small files are to be put together, or rows to be clustered.
        stale: files that no version within the retention needs, as far as their age tells.
        retention: for how long such files stay.
        lengthen: whether the table itself says a shorter time (``delta.deletedFileRetentionDuration``).
        held: why they stay longer (may be empty).
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
    """For how long files stay that a table no longer needs."""
    return pipeline.maintenance.keeps if pipeline.maintenance else RETENTION


def maintainable(pipeline: Pipeline, at: layout.Lake, keeps: timedelta | None = None) -> list[Table]:
    """The tables of a pipeline that can be maintained.

    Args:
        pipeline: the definition.
        at: the lake.
        keeps: for how long files stay; what the definition says if not given.
    """
    keeps = retention(pipeline) if keeps is None else keeps
    behind = unfollowed(pipeline, at)
    found = []
    for uri, of_spark in _addresses(pipeline, at):
        table = tables.delta_table(uri)
        if table is not None:
            found.append(_seen(table, uri, at, of_spark, keeps, behind.get(uri)))
    return found


def unfollowed(pipeline: Pipeline, at: layout.Lake) -> dict[str, tuple[datetime, str]]:
    """By table: when the oldest of its commits was made that another table has yet to take in, and which table that is.

    To follow it, the files are needed that this commit and later ones added or removed.
    """
    found: dict[str, tuple[datetime, str]] = {}
    for layer in ("silver", "gold"):  # bronze follows ledgers, and tables of other programs
        for flow in flows.flows(pipeline, at, layer).values():
            now = progress(flow)
            if now.kind != "incremental":
                continue
            behind = {flow.source: now.since} if now.since < now.until else {}
            behind |= {flow.inputs[name]: was for name, was in now.changed.items()}
            for uri, version in behind.items():
                made = _made(uri, version + 1)
                if uri not in found or made < found[uri][0]:
                    found[uri] = made, flow.table
    return found


def _made(uri: str, version: int) -> datetime:
    """When a version was made; long ago if the log no longer tells."""
    for commit in log.commits(tables.table_at(uri)):
        if commit.version == version:
            return datetime.fromtimestamp(commit.timestamp / 1000, UTC)
    return datetime(1970, 1, 1, tzinfo=UTC)


def _addresses(pipeline: Pipeline, at: layout.Lake) -> Iterator[tuple[str, bool]]:
    """Each table that may need something, and whether Spark writes it."""
    for layer in LAYERS:
        for name in pipeline.names(layer):
            yield at.table(layer, name), True
    for name in pipeline.silver:
        yield at.quarantine(name), True
        yield at.set_aside(name), True
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
    """All data files below a table's folder, and those of its change data feed (schema ``FILES``)."""
    files = filesystems.files(layout.local_path(uri))
    of_log = pc.match_substring(files["path"], "/_delta_log/")
    return files.filter(pc.and_(pc.ends_with(files["path"], ".parquet"), pc.invert(of_log)))


def by_delta_rs(table: Table) -> None:
    if table.scattered:
        # As large as Spark makes them. By itself delta-rs leaves files from 100 MB on: these would be due for ever.
        tables.table_at(table.uri).optimize.compact(target_size=8 * SMALL)
    if table.vacuum:
        # The retention is no shorter than the table's own.
        tables.table_at(table.uri).vacuum(_hours(table), dry_run=False, enforce_retention_duration=False, full=True)


def by_spark(spark: SparkSession, table: Table) -> None:
    name = f"delta.{quoted(table.uri)}"
    if table.lengthen:  # Delta 4.4 takes no other time from RETAIN than 0
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
    """For each table its files and bytes before and after."""
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

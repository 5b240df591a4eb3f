"""Another Delta table as the source of a bronze table, which has the rows that the source has at the mark.

There is no ledger: the source's own version is the progress. Commits that only added rows are followed by a plain
stream, since tables of other programs seldom have a change data feed. After any other commit, after a change of columns
other than new ones, and when history is gone, the bronze table is made again whole, in one commit, and says why.
What a commit did is read from its actions, not guessed from its operation's name: a MERGE may only insert, and an
OPTIMIZE only moves rows. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate import _faults
from sluicegate.errors import LandingMissing, SchemaMismatch, Where
from sluicegate.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sluicegate.definition import BronzeTable
    from sluicegate.flow.loop import Batch
    from sluicegate.flow.progress import Flow
    from sluicegate.schema.evolution import Schema

# One batch, whatever has come: Delta's own limit, 1000 files, could end it in the middle of a commit.
STREAM = {"maxFilesPerTrigger": str(2**31 - 1)}

# How Spark, and we, say that a commit did more than add rows, or that columns are not what they were.
REWRITTEN = ("SLUICEGATE_SOURCE_REWRITTEN", "DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
             "DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
             "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING", "DELTA_BLOCK_COLUMN_MAPPING")  # fmt: skip


def missing(flow: Flow) -> LandingMissing:
    """The error for a source that is not there."""
    return LandingMissing(
        f"there is no Delta table at {flow.source}",
        where=Where(table=flow.table, file=flow.source),
        hint="correct its path, or make the table first",
    )


def why_whole(flow: Flow, source: DeltaTable, last: tables.Commit | None, mark: int | None) -> str:
    """Why the bronze table must be made again from its source; empty when the rows added since the mark are enough.

    Args:
        flow: the flow.
        source: its source now.
        last: the newest commit of ours in the bronze table's log.
        mark: version of the source that the bronze table has taken in.

    Raises:
        SchemaMismatch: the bronze table has rows of another kind of source, which would be lost.
    """
    name = flow.source.rstrip("/").rsplit("/", 1)[-1]
    filled_from = (last.ours or {}).get("source") if last else None
    if filled_from is None and (last is not None or mark is None):
        raise SchemaMismatch(
            f"{flow.table} has rows that did not come from a Delta table",
            where=Where(table=flow.table, file=flow.target),
            cause="its definition says format delta, and what was read before would give way to that table's rows",
            hint=f"give the table that reads {name} another name, or move {flow.target} away",
        )
    if last is None:
        return "its log no longer tells what it was made from"
    if filled_from != tables.table_id(source):
        return f"{name} is another table than the one that it was filled from"
    return "" if mark is None else rewritten(flow.source, name, mark, source.version())


def demand_additive(flow: Flow, until: int, end: int) -> None:
    """Makes sure that commits which came while the source was read only added rows, too.

    Raises:
        RuntimeError: they did not.
    """
    if why := rewritten(flow.source, flow.source, until, end):
        raise RuntimeError(f"{REWRITTEN[0]}: {why}")


def rewritten(uri: str, name: str, mark: int, until: int) -> str:
    """What the commits after the mark did besides adding rows; empty if nothing."""
    before: dict[str, Any] | None = None
    for version in range(mark + 1, until + 1):
        try:
            actions = list(tables.actions(uri, version, added=False))
        except FileNotFoundError:
            return f"the history of {name} is gone up to version {version}"
        operation = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), "another program")
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            return f"{name} was changed by {operation} in version {version}"
        for after in (json.loads(action["metaData"]["schemaString"]) for action in actions if "metaData" in action):
            before = before or _columns_at(uri, mark)
            if before is None or not _grew(before, after):
                return f"the columns of {name} were changed by {operation} in version {version}"
            before = after
    return ""


def _columns_at(uri: str, version: int) -> dict[str, Any] | None:
    """The source's columns as of a version, as Delta writes them; None if that is no longer known."""
    try:
        columns: dict[str, Any] = json.loads(tables.table_at(uri, version=version).schema().to_json())
    except DeltaError:
        return None
    return columns


def _grew(before: Any, after: Any) -> bool:
    """Whether a type is as it was, but for new fields; what was written before then reads as it did."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return bool(before == after)
    if before.get("type") != "struct" or after.get("type") != "struct":
        # Arrays and maps; whether an element may be NULL changes nothing that is there.
        parts = ("type", "elementType", "keyType", "valueType")
        return all(_grew(before.get(part), after.get(part)) for part in parts)
    now = {field["name"]: field for field in after["fields"]}
    return all(
        field["name"] in now and _physical(field) == _physical(now[field["name"]])
        and _grew(field["type"], now[field["name"]]["type"])
        for field in before["fields"]
    )  # fmt: skip


def _physical(field: dict[str, Any]) -> Any:
    """Name of a field in the data files: a column that was dropped and made again has another."""
    return (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])


def apply(batch: Batch, name: str, table: BronzeTable) -> None:
    """Adds the rows that the source gained, or replaces all by those that it has; one commit.

    Raises:
        SchemaMismatch: there is a new column, and the definition says failOnNewColumns.
    """
    from sluicegate.bronze.layer import CASE_SENSITIVE
    from sluicegate.spark.session import configured

    source = tables.delta_table(table.path)
    if source is None:
        raise missing(batch.flow)
    with configured(batch.session, CASE_SENSITIVE):
        writer = _frame(batch, name, table).write.format("delta").mode("overwrite" if batch.whole else "append")
        # Made again, it may have the source's own columns anew; where they were frozen, they stay.
        again = batch.whole and table.schemaEvolutionMode == "addNewColumns"
        writer = writer.option("overwriteSchema" if again else "mergeSchema", "true")
        _faults.point("bronze.before_commit")
        with batch.commit(source=tables.table_id(source)):
            writer.save(batch.flow.target)
    _faults.point("bronze.after_commit")
    target = tables.delta_table(batch.flow.target)
    of_batch = pc.field("_chunk") == batch.progress.until
    if target is not None:
        batch.report.read = batch.report.written = tables.dataset(target).count_rows(filter=of_batch)
        batch.report.rescued = tables.dataset(target).count_rows(filter=of_batch & pc.field("_rescued_data").is_valid())


def _frame(batch: Batch, name: str, table: BronzeTable) -> DataFrame:
    """The source's rows with the bronze table's columns."""
    from pyspark.sql import functions as F

    from sluicegate.schema.values import Value, quoted, rescued

    columns = _schema(batch, name, table).columns([*batch.rows.schema])
    values = [Value(column, F.col(quoted(column.field)), {}) for column in columns]
    path = F.lit(table.path)
    return batch.rows.select(
        # Without what the source says of a column (a default, an identity, a length): these are rules for its writers.
        *[value.typed.alias(value.column.name, metadata={}) for value in values if value.column.name],
        rescued(values, F.struct(path.alias("file_path"))).alias("_rescued_data"),
        F.lit(None).cast("string").alias("_corrupt_record"),
        F.current_timestamp().alias("receipt_time"),
        path.alias("source_file"),
        F.lit(_committed(table.path, batch.progress.until)).cast("timestamp").alias("_file_modification_time"),
        F.lit(batch.progress.until).cast("bigint").alias("_chunk"),
        F.monotonically_increasing_id().alias("_pos"),
    )


def _schema(batch: Batch, name: str, table: BronzeTable) -> Schema:
    from sluicegate.schema.evolution import Schema, data_columns

    there = tables.delta_table(batch.flow.target)
    if there is None or (batch.whole and table.schemaEvolutionMode == "addNewColumns"):
        return Schema(name, table, {}, first=True)
    schema: Any = batch.session.read.format("delta").load(batch.flow.target).schema
    known = {field.name: field.dataType for field in schema if field.name in data_columns(schema.names)}
    return Schema(name, table, known, first=tables.rows(there) == 0)


def _committed(uri: str, version: int) -> datetime | None:
    """When the source was committed to in a version (UTC); None if its log no longer tells."""
    table = tables.delta_table(uri)
    for commit in tables.commits(table, table.version() - version + 1) if table else ():
        if commit.version == version:
            return datetime.fromtimestamp(commit.timestamp / 1000, UTC)
    return None


def entries(at: tables.Lake, name: str, path: str) -> list[dict[str, Any]]:
    """What a bronze table took from its source, a line for each run as long as the table's log has it, oldest first.

    ``chunk`` is the version of the source that a run ended at, ``rows`` what it brought, and ``version`` and
    ``ingested`` tell the commit. ``state`` is ``ingested``, ``replaced`` (the table was made again since), or
    ``waiting`` for the versions that the next run takes.
    """
    target, source = tables.delta_table(at.table("bronze", name)), tables.delta_table(path)
    found: list[dict[str, Any]] = []
    replaced, taken = False, -1
    for commit in tables.commits(target) if target else ():
        ours = commit.ours or {}
        if "source" not in ours:
            continue
        if not found and source is not None and ours["source"] == tables.table_id(source):
            taken = int(ours["until"])
        ingested = datetime.fromtimestamp(commit.timestamp / 1000, UTC)
        found.append(
            {"path": path, "chunk": ours["until"], "rows": commit.rows_written, "version": commit.version,
             "ingested": ingested, "state": "replaced" if replaced else "ingested"}
        )  # fmt: skip
        replaced = replaced or ours["mode"] == "whole"
    found.reverse()
    if source is not None and source.version() > taken:
        found.append({"path": path, "chunk": source.version(), "state": "waiting"})
    return found


def verify(at: tables.Lake, name: str, path: str) -> list[str]:
    """What does not hold: each row has an identity of its own, and there are as many as the source had at the mark."""
    bronze, source = tables.delta_table(at.table("bronze", name)), tables.delta_table(path)
    if bronze is None:
        return []
    problems = []
    identities = tables.dataset(bronze).to_table(["_chunk", "_pos"])
    distinct = identities.group_by(["_chunk", "_pos"]).aggregate([]).num_rows
    if distinct != identities.num_rows:
        problems.append(f"{name}: {identities.num_rows - distinct:,} rows have the identity of another")
    last = tables.last_commit_of_ours(bronze)
    ours = (last.ours if last else None) or {}
    if source is None or ours.get("source") != tables.table_id(source):
        return [*problems, f"{name}: the table that it was filled from is not at {path} any more"]
    version = int(ours["until"])
    try:
        had = _count(tables.table_at(path, version=version))
    except (DeltaError, OSError) as error:
        why = str(error).splitlines()[0]
        return [*problems, f"{name}: the rows of {path} in version {version} cannot be counted without Spark: {why}"]
    if had != identities.num_rows:
        at_mark = f"{path} had {had:,} rows in version {version}"
        problems.append(f"{name}: {at_mark}, and the table has {identities.num_rows:,}")
    return problems


def _count(table: DeltaTable) -> int:
    """Rows of a table, by reading it: others' statistics may be absent, and deletion vectors take rows away."""
    from deltalake import QueryBuilder

    counted = QueryBuilder().register("source", table).execute("SELECT count(1) AS n FROM source").read_all()
    return int(counted["n"][0].as_py())

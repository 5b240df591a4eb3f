"""Commits of few rows by delta-rs: in hundredths of a second what takes Spark seconds, and some ten jobs of its own.

Spark computes the rows; only who writes them differs. delta-rs writes a table only where it does so as Spark would: it
must know every feature of the table, and be able to count the rows' values for data skipping as they are. The commit is
atomic and has the same metadata and the same ``txn`` as Spark's.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError

from sluicegate.errors import SluicegateError, Where
from sluicegate.lake import tables

# Features of a table for its writers that delta-rs has; a table with any other is written by Spark.
FEATURES = {"appendOnly", "changeDataFeed", "invariants"}

# Of tables from before features had names, the newest version for writers without generated columns in it.
LEGACY_WRITER = 4

# Properties of a table that Spark heeds when it writes.
OF_WRITERS = ("delta.constraints.", "delta.autoOptimize.", "delta.columnMapping.", "delta.appendOnly")

# A MERGE rewrites whole files: in tables up to this size one process does it as fast as Spark.
MOST_BYTES = 128 * 1024 * 1024

# Digits that a number has in the statistics of a file, where delta-rs has it as a double.
DIGITS = 15

# Attempts at an append beside other programs that commit to the table.
ATTEMPTS = 5

# Names of columns that need no escape in DataFusion's predicates.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Years 1 to 9999, which every reader of statistics takes, in microseconds and in days.
_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS = (-719_162, 2_932_896)


@dataclass(frozen=True)
class Facts:
    """What a commit says besides its rows.

    Attributes:
        metadata: its ``userMetadata``; None for none.
        app_id: id of the ``txn`` that it sets; None for none.
        version: version of this.
    """

    metadata: str | None = None
    app_id: str | None = None
    version: int = 0

    def is_in(self, table: DeltaTable) -> bool:
        """Whether a commit with this ``txn`` or a later one is in the table, so that Delta would skip the write."""
        known = tables.txn_version(table, self.app_id) if self.app_id is not None else None
        return known is not None and known >= self.version

    @property
    def properties(self) -> CommitProperties:
        """The same as delta-rs takes it. A commit is made for one version: who retries looks at the table first."""
        said = {"userMetadata": self.metadata} if self.metadata is not None else None
        transactions = [Transaction(self.app_id, self.version)] if self.app_id is not None else None
        return CommitProperties(max_commit_retries=0, custom_metadata=said, app_transactions=transactions)


# The log is cleaned by Spark alone, which knows how long its history is needed.
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def takes(table: DeltaTable) -> bool:
    """Whether delta-rs writes this table as Spark does."""
    protocol = table.protocol()
    features = protocol.writer_features
    known = protocol.min_writer_version <= LEGACY_WRITER if features is None else {*features} <= FEATURES
    properties = table.metadata().configuration
    return known and tables.is_plain(table) and not any(name.startswith(OF_WRITERS) for name in properties)


def storable(rows: pa.Table) -> bool:
    """Whether the statistics that delta-rs makes of these values are right, so that no reader skips one of them."""
    return all(_countable(column.combine_chunks()) for column in rows.columns)


def append(uri: str, rows: pa.Table, facts: Facts) -> None:
    """Appends rows to a table, in one commit, which is made also if there are none.

    Args:
        uri: the table, which ``takes`` it.
        rows: rows with columns of the table, of its types; the others become NULL.
        facts: what the commit says.

    Raises:
        SluicegateError: other programs committed again and again, or have made another table of it.
    """
    first: str | None = None
    for _ in range(ATTEMPTS):
        table = tables.table_at(uri)
        schema = pa.schema(table.schema().to_arrow())
        first = first or f"{tables.table_id(table)} {schema}"
        if not takes(table) or f"{tables.table_id(table)} {schema}" != first:
            break
        if facts.is_in(table):
            return
        how: dict[str, Any] = {"commit_properties": facts.properties, "post_commithook_properties": _HOOKS}
        try:
            tables.write(table, _fitted(rows, schema), mode="append", **how)
            return
        except CommitFailedError:
            continue
    raise _overtaken(uri)


def merge(uri: str, changes: pa.Table, keys: Sequence[str], op: str, facts: Facts, near: str = "") -> None:
    """Merges rows into a table by keys that are not NULL, in one commit.

    Args:
        uri: the table, which ``takes`` it.
        changes: rows with the columns of the table, and with ``op``: insert, update or delete.
        keys: the key columns.
        op: the column that says what is to be done with a row.
        facts: what the commit says.
        near: predicate that holds for each row ``held`` of the table with one of these keys, so that files are skipped.

    Raises:
        SluicegateError: another program committed to the table first.
    """
    table = tables.table_at(uri)
    if facts.is_in(table):
        return
    values = {f"`{name}`": f"new.`{name}`" for name in changes.column_names if name != op}
    work = table.merge(
        changes,
        " AND ".join([*([near] if near else []), *[f"held.`{key}` = new.`{key}`" for key in keys]]),
        source_alias="new",
        target_alias="held",
        commit_properties=facts.properties,
        post_commithook_properties=_HOOKS,
    )
    for kind in pc.unique(changes[op]).to_pylist():
        if kind == "delete":
            work = work.when_matched_delete(f"new.`{op}` = 'delete'")
        elif kind == "update":
            work = work.when_matched_update(values, f"new.`{op}` = 'update'")
        else:
            work = work.when_not_matched_insert(values, f"new.`{op}` = 'insert'")
    try:
        work.execute()
    except CommitFailedError as error:
        raise _overtaken(uri) from error


def _overtaken(uri: str) -> SluicegateError:
    return SluicegateError(
        "another program committed to the table first, so this run stopped",
        where=Where(table=uri.rstrip("/").rsplit("/", 1)[-1], file=uri),
        hint="nothing is lost: a new run goes on where the last commit ended",
    )


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a table, in their order."""
    there = {*rows.column_names}
    columns = [
        rows[field.name].cast(field.type) if field.name in there else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _countable(values: Any) -> bool:
    kind = values.type
    if pa.types.is_struct(kind):
        return all(_countable(part) for part in values.flatten())
    if pa.types.is_map(kind):
        return _countable(values.keys) and _countable(values.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _countable(values.flatten())
    if pa.types.is_floating(kind):  # NaN is left out of a file's greatest value, which for Spark it is
        return not pc.any(pc.is_nan(values)).as_py()
    if pa.types.is_decimal(kind):
        return _within(values, (-(limit := Decimal(10**DIGITS - 1).scaleb(-kind.scale)), limit))
    if pa.types.is_timestamp(kind):
        return kind.unit == "us" and kind.tz is not None and _within(values.cast(pa.int64()), _TIMES)
    if pa.types.is_date32(kind):
        return _within(values.cast(pa.int32()), _DAYS)
    return bool(pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind))


def _within(values: Any, limits: tuple[Any, Any]) -> bool:
    found = pc.min_max(values)
    least, most = found["min"].as_py(), found["max"].as_py()
    return least is None or (limits[0] <= least and most <= limits[1])

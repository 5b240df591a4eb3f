"""Commit few rows by delta-rs, in hundredths of a second where Spark needs seconds and some ten jobs.

Spark computes the rows; only the writer differs. delta-rs writes a table only where it does so as Spark would: it must
support every feature of the table, and compute right statistics of its rows (``file_statistics``). The commit is atomic
and has the same metadata and ``txn`` as Spark's. https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate.errors import SluicegateError, Where
from sluicegate.lake import tables
from sluicegate.lake.layout import address

# Features of a table for its writers that delta-rs has; a table with any other is written by Spark.
FEATURES = {"appendOnly", "changeDataFeed", "invariants"}

# Of tables from before features had names, the newest version for writers without generated columns in it.
LEGACY_WRITER = 4

# Properties of Delta that ask nothing more of who writes rows. By any other one Spark may do more at each commit than
# the features show, such as a manifest of the files for readers of other formats.
HARMLESS = {
    f"delta.{name}"
    for name in (
        "checkpointInterval", "checkpointPolicy", "dataSkippingNumIndexedCols", "dataSkippingStatsColumns",
        "deletedFileRetentionDuration", "enableChangeDataFeed", "enableDeletionVectors", "enableExpiredLogCleanup",
        "logRetentionDuration", "minReaderVersion", "minWriterVersion", "setTransactionRetentionDuration",
        "tuneFileSizesForRewrites", "targetFileSize",
    )
}  # fmt: skip

# A MERGE rewrites whole files: in tables up to this size one process does it as fast as Spark.
MOST_BYTES = 128 * 1024 * 1024

# Attempts at an append beside other programs that commit to the table.
ATTEMPTS = 5


@dataclass(frozen=True)
class Facts:
    """Metadata of a commit.

    Attributes:
        metadata: its ``userMetadata``; None for none.
        app_id: ID of the ``txn`` to set; None for none.
        version: version of the ``txn``.
        private: whether rows may have personal data, which a commit must not quote.
    """

    metadata: str | None = None
    app_id: str | None = None
    version: int = 0
    private: bool = False

    def is_in(self, table: DeltaTable) -> bool:
        """Return whether the table has a commit with this ``txn`` or a later one, so that Delta skips the write."""
        if self.app_id is None:
            return False
        version = tables.txn_version(table, self.app_id)
        return version is not None and version >= self.version

    @property
    def properties(self) -> CommitProperties:
        """Commit properties of delta-rs, for one version: a retry has to open the table first."""
        user_metadata = transactions = None
        if self.metadata is not None:
            user_metadata = {"userMetadata": self.metadata}
        if self.app_id is not None:  # with a time by which Delta lets it go, if the table says that transactions end
            transactions = [Transaction(self.app_id, self.version, int(time.time() * 1000))]
        return CommitProperties(max_commit_retries=0, custom_metadata=user_metadata, app_transactions=transactions)


# The log is cleaned by Spark alone, which knows how long its history is needed.
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def can_write(table: DeltaTable) -> bool:
    """Return whether delta-rs can write this table as Spark does."""
    properties = table.metadata().configuration
    unknown_properties = {name for name in properties if name.startswith("delta.")} - HARMLESS
    return _has_known_features(table) and tables.is_plain(table) and not unknown_properties


def _has_known_features(table: DeltaTable) -> bool:
    protocol = table.protocol()
    if protocol.writer_features is None:
        return protocol.min_writer_version <= LEGACY_WRITER
    return {*protocol.writer_features} <= FEATURES


def append(uri: str, rows: pa.Table, facts: Facts, opened: DeltaTable | None = None) -> None:
    """Append rows to a table in one commit, also if there are none.

    Args:
        uri: the table, for which ``can_write`` is true.
        rows: rows with columns of the table, in its types; other columns become NULL.
        facts: metadata of the commit.
        opened: the opened table; it is reopened if others have committed since.

    Raises:
        SluicegateError: other programs kept committing, or replaced the table.
    """
    first: str | None = None
    for _ in range(ATTEMPTS):
        table = opened or tables.table_at(uri)
        opened = None
        schema = pa.schema(table.schema().to_arrow())
        first = first or f"{tables.table_id(table)} {schema}"
        if not can_write(table) or f"{tables.table_id(table)} {schema}" != first:
            break
        if facts.is_in(table):
            return
        try:
            _append(table, rows, facts)
            return
        except CommitFailedError:
            continue
    raise _overtaken_error(uri)


def _append(table: DeltaTable, rows: pa.Table, facts: Facts) -> None:
    options: dict[str, Any] = {"commit_properties": facts.properties, "post_commithook_properties": _HOOKS}
    tables.write(table, _fit_columns(rows, pa.schema(table.schema().to_arrow())), mode="append", **options)


def merge(table: DeltaTable, changes: pa.Table, keys: Sequence[str], op: str, facts: Facts, near: str = "") -> bool:
    """Merge rows into a table by non-NULL keys in one commit, also if no row changes.

    Args:
        table: the table, for which ``can_write`` is true, as of the version before the commit.
        changes: rows with the columns of the table, and with ``op``: insert, update or delete.
        keys: the key columns.
        op: the column with the operation of each row.
        facts: metadata of the commit.
        near: predicate that holds for each row ``held`` of the table with one of these keys, so that files are skipped.
            Its values are in the commit.

    Returns:
        False, and nothing is written, if delta-rs cannot read rows of the table, as with text that is not UTF-8.

    Raises:
        SluicegateError: another program committed to the table first.
    """
    if facts.is_in(table):
        return True
    values = {f"`{name}`": f"new.`{name}`" for name in changes.column_names if name != op}
    conditions = [near, *[f"held.`{key}` = new.`{key}`" for key in keys]]
    work = table.merge(
        changes, " AND ".join(filter(None, conditions)), source_alias="new", target_alias="held",
        commit_properties=facts.properties, post_commithook_properties=_HOOKS,
    )  # fmt: skip
    for kind in pc.unique(changes[op]).to_pylist():
        if kind == "delete":
            work = work.when_matched_delete(f"new.`{op}` = 'delete'")
        elif kind == "update":
            work = work.when_matched_update(values, f"new.`{op}` = 'update'")
        else:
            work = work.when_not_matched_insert(values, f"new.`{op}` = 'insert'")
    before = table.version()
    try:
        work.execute()
        if table.version() == before:  # delta-rs commits nothing where no row changes
            _append(table, changes.slice(0, 0).drop_columns([op]), facts)
    except CommitFailedError as error:
        raise _overtaken_error(address(table.table_uri)) from error
    except DeltaError as error:
        newest = tables.table_at(table.table_uri)
        if newest.version() == before:
            return False
        if not facts.is_in(newest):
            raise _overtaken_error(address(table.table_uri)) from error
    return True


def _overtaken_error(uri: str) -> SluicegateError:
    return SluicegateError(
        "another program committed to the table first, so this run stopped",
        where=Where(table=uri.rstrip("/").rsplit("/", 1)[-1], file=uri),
        hint="nothing is lost: a new run continues after the last commit",
    )


def _fit_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of a table in their order."""
    present = {*rows.column_names}
    columns = [
        rows[field.name].cast(field.type) if field.name in present else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)

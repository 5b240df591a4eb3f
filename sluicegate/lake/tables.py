"""Delta tables through delta-rs, in milliseconds and without a JVM: open, read, write, statistics.

pyarrow is imported by the functions that give its tables, as it takes longer to import than a run with nothing to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.table import SUPPORTED_READER_FEATURES

from sluicegate.errors import NotADeltaTable, SluicegateError, Where
from sluicegate.lake.damage import whole
from sluicegate.lake.layout import address, is_local, local_path
from sluicegate.storage import aws, filesystems

if TYPE_CHECKING:
    import pyarrow as pa

# Small tables with this many data files are compacted: opening the files costs more than reading them.
MANY_FILES = 32


class UnreadableFeatures(SluicegateError, DeltaProtocolError):
    """Raised for a table with Delta features that jobs cannot read, enabled by another program."""


def unreadable_features(table: DeltaTable) -> list[str]:
    """Return the Delta features that hide rows or columns of a table from delta-rs, which jobs read by."""
    return sorted(set(table.protocol().reader_features or ()) - SUPPORTED_READER_FEATURES)


def delta_table(uri: str, version: int | None = None) -> DeltaTable | None:
    """Open the Delta table at ``uri``; None if it does not exist yet.

    Raises:
        NotADeltaTable: the folder at ``uri`` has files, but no Delta log that can be read.
        DamagedTable: a log entry, or a data file of the newest commit, is damaged.
        DeltaError: the log no longer has that version.
    """
    if is_local(uri):
        folder = Path(local_path(uri))
        if not (folder / "_delta_log").is_dir():
            if folder.exists() and not (folder.is_dir() and _is_unwritten(folder)):
                raise NotADeltaTable(
                    f"{uri} contains files, but is not a Delta table",
                    where=Where(table=folder.name, file=uri),
                    hint="move these files away, or choose another lake with --lake",
                )
            return None
    try:
        return table_at(uri, version)
    except TableNotFoundError:
        if is_local(uri) and (damaged := whole.unreadable_log_error(uri)) is not None:
            raise damaged from None
        return None
    except DeltaError as error:
        if not is_local(uri):  # a store's refusal is translated by who asked it
            raise
        if (damaged := whole.unreadable_log_error(uri)) is not None:
            raise damaged from error
        if version is not None:
            raise
        raise NotADeltaTable(
            f"the Delta log of {uri} cannot be read",
            where=Where(table=folder.name, file=f"{uri}/_delta_log"),
            cause=str(error).splitlines()[0],
            hint="restore the damaged file of the log from a backup",
        ) from error


def _is_unwritten(folder: Path) -> bool:
    """Return whether a table can be created in a folder without a log, as nothing in it would be lost.

    In a bookkeeping table, as the ledger, these are the files of a first commit: delta-rs writes them before the log,
    so another run may be in between, or was killed there.
    """
    bookkeeping = any(name.startswith("_") for name in (folder.name, folder.parent.name))
    return all(bookkeeping and file.match("part-*.parquet") for file in folder.iterdir())


def table_at(uri: str, version: int | None = None) -> DeltaTable:
    """Open the Delta table at ``uri``, on any store.

    Raises:
        TableNotFoundError: the table does not exist.
        DamagedTable: a log entry, or a data file of that version's commit, is damaged.
        DeltaError: its log no longer has that version.
    """
    table = DeltaTable(uri, version=version, storage_options=filesystems.options(uri))
    whole.demand_whole(uri, table.version())
    return table


def write(target: DeltaTable | str, rows: Any, **how: Any) -> None:
    """Write rows to a table or a new one, on any store; ``how``: arguments of ``write_deltalake``."""
    options = None
    if isinstance(target, str):
        options = filesystems.options(target)
    write_deltalake(target, rows, storage_options=options, **how)


def txn_version(table: DeltaTable | None, app_id: str) -> int | None:
    """Return ``txnVersion`` of ``app_id`` in the table's log; None before its first commit."""
    if table is None:
        return None
    return table.transaction_version(app_id)


def table_id(table: DeltaTable) -> str:
    """Return Delta's table id; a table that was replaced has another."""
    return str(table.metadata().id)


def dataset(table: DeltaTable) -> Any:
    """Return the table as a pyarrow dataset, with column pruning and data skipping.

    Files on local disk and S3 are read by Arrow itself. Through delta-rs, the default, Arrow's reader threads call
    back into Python, and a process that exits while they still run is sometimes aborted ("terminate called").

    Raises:
        UnreadableFeatures: the files alone do not hold the rows.
    """
    store = filesystem(table)
    try:
        return table.to_pyarrow_dataset(filesystem=store, parquet_read_options=_read_options())
    except DeltaProtocolError as error:
        raise _unreadable_error(table, error) from error
    except ValueError:  # delta-rs makes Python's dates of the statistics: there is none after the year 9999
        if store is None or not is_plain(table):
            raise
        return files_of(table, statistics(table, "path")["path"].to_pylist())


def _unreadable_error(table: DeltaTable, error: DeltaProtocolError) -> UnreadableFeatures:
    uri, features = address(table.table_uri), ", ".join(unreadable_features(table)) or "a feature of Delta"
    name = uri.rstrip("/").rpartition("/")[2]
    return UnreadableFeatures(
        f"{name} cannot be read: another program has enabled {features}",
        where=Where(table=name, file=uri),
        cause=str(error).splitlines()[0],
        hint="remove it with ALTER TABLE … DROP FEATURE in Spark; the next run then continues",
    )


def rows_above(table: DeltaTable, column: str, value: int) -> Any:
    """Return the rows with ``column`` above ``value``, as a pyarrow dataset of the files that can have any.

    For tables of thousands of files: describing them all to Arrow takes longer than reading a few. The files with the
    greatest values come first.
    """
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    greater = ds.field(column) > value
    if filesystem(table) is None or not is_plain(table):
        return dataset(table).filter(greater)
    files = statistics(table, "path", f"max.{column}")
    newest = files.filter(pc.fill_null(pc.greater(files[1], value), True)).sort_by([(f"max.{column}", "descending")])
    return files_of(table, newest["path"].to_pylist()).filter(greater)


def files_of(table: DeltaTable, paths: list[str]) -> Any:
    """Return some data files of a table as a pyarrow dataset in this order; requires ``is_plain``."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = pa.schema(table.schema().to_arrow())
    form = ds.ParquetFileFormat(read_options=_read_options())
    return ds.dataset(paths, schema=schema, filesystem=filesystem(table), format=form)


def filter_rows(dataset: Any, condition: Any, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a pyarrow dataset that meet a condition.

    Files rewritten by delta-rs (by a user's DELETE, say) have a string type that Arrow cannot compare yet.
    """
    import pyarrow as pa

    try:
        return dataset.to_table(columns, filter=condition)
    except pa.ArrowNotImplementedError:
        rows = dataset.to_table().filter(condition)
        if columns is None:
            return rows
        return rows.select(columns)


def is_plain(table: DeltaTable) -> bool:
    """Return whether the data files alone hold the rows: no deletion vectors, column mapping or partitions."""
    protocol = table.protocol()
    unsupported = {"deletionVectors", "columnMapping"} & set(protocol.reader_features or ())
    return protocol.min_reader_version != 2 and not unsupported and not table.metadata().partition_columns


def filesystem(table: DeltaTable) -> Any:
    """Return the Arrow file system of a table's folder; None if Arrow has none for its store."""
    from pyarrow import fs

    uri = table.table_uri
    if is_local(uri):
        return fs.SubTreeFileSystem(local_path(uri), fs.LocalFileSystem())
    if not aws.is_on_s3(uri):
        return None
    store, folder = filesystems.open_store(address(uri))
    return fs.SubTreeFileSystem(folder, store.fs)


def _read_options() -> Any:
    from pyarrow.dataset import ParquetReadOptions

    # INT96 times of other writers, taken as nanoseconds, would end in the year 2262.
    return ParquetReadOptions(coerce_int96_timestamp_unit="us")


def statistics(table: DeltaTable, *columns: str) -> pa.Table:
    """Return the statistics of each data file, from the table's log.

    Args:
        table: the table.
        columns: ``path``, ``num_records``, or ``min.x``, ``max.x`` and ``null_count.x`` of a column ``x``. Texts are
            truncated to 64 characters. A statistic that the writer of a file did not collect is null.
    """
    import pyarrow as pa

    described = pa.table(table.get_add_actions(flatten=True))
    present = set(described.column_names)
    return pa.table([described[c] if c in present else pa.nulls(described.num_rows) for c in columns], list(columns))


def statistics_rows(table: DeltaTable, *columns: str) -> list[tuple[Any, ...]]:
    """Return ``statistics`` as Python tuples, one for each data file: for few files, without pyarrow."""
    described = table.get_add_actions(flatten=True)
    present = set(described.column_names)
    values = [described[c].to_pylist() if c in present else [None] * described.num_rows for c in columns]
    return list(zip(*values, strict=True))


def rows(table: DeltaTable | None) -> int:
    """Return the row count of a table from file statistics (our tables have no deletion vectors); no data is read."""
    if table is None:
        return 0
    return int(table.count())

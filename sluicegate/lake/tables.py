"""The layout of the lake, and what a table says of itself, read by delta-rs in milliseconds and without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from sluicegate.errors import NotADeltaTable, Where
from sluicegate.lake.layout import address, is_local, local_path
from sluicegate.storage import aws, filesystems

# So many data files of a small table are put into one: opening them costs more than what is in them.
MANY_FILES = 32


def delta_table(uri: str, version: int | None = None) -> DeltaTable | None:
    """The Delta table at ``uri``; None where there is nothing yet.

    Raises:
        NotADeltaTable: there are files at ``uri``, but no Delta log among them.
    """
    if is_local(uri):
        folder = Path(local_path(uri))
        if not (folder / "_delta_log").is_dir():
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise NotADeltaTable(
                    f"{uri} has files in it but is not a Delta table",
                    where=Where(table=folder.name, file=uri),
                    hint="move what lies there away, or choose another lake with --lake",
                )
            return None
    try:
        return table_at(uri, version)
    except TableNotFoundError:
        return None


def table_at(uri: str, version: int | None = None) -> DeltaTable:
    """The Delta table at ``uri``, as delta-rs opens it on any store.

    Raises:
        TableNotFoundError: there is none.
        DeltaError: its log no longer has that version.
    """
    return DeltaTable(uri, version=version, storage_options=filesystems.options(uri))


def write(target: DeltaTable | str, rows: Any, **how: Any) -> None:
    """Writes rows into a table, or a new one at an address, on any store; ``how`` is as ``write_deltalake`` has it."""
    options = filesystems.options(target) if isinstance(target, str) else None
    write_deltalake(target, rows, storage_options=options, **how)


def txn_version(table: DeltaTable | None, app_id: str) -> int | None:
    """How far the flow ``app_id`` has come, as written in its target's own log; None before its first commit."""
    return None if table is None else table.transaction_version(app_id)


def table_id(table: DeltaTable) -> str:
    """The id that Delta gave the table when it was made; a table that was replaced has another."""
    return str(table.metadata().id)


def dataset(table: DeltaTable) -> Any:
    """The table as a pyarrow dataset, which reads only the columns and files that are asked for.

    Files on local disk and S3 are read by Arrow itself. Through delta-rs, as by default, Arrow's reader threads call
    back into Python, and a process that ends before they have come to rest is sometimes aborted ("terminate called").
    """
    return table.to_pyarrow_dataset(filesystem=filesystem(table), parquet_read_options=_read_options())


def above(table: DeltaTable, column: str, value: int) -> Any:
    """The rows whose ``column`` is greater, as a pyarrow dataset, without opening files that have none of them.

    For tables of thousands of files: to describe them all to Arrow takes longer than to read a few. The files with the
    greatest values come first.
    """
    import pyarrow.dataset as ds

    greater = ds.field(column) > value
    if filesystem(table) is None or not is_plain(table):
        return dataset(table).filter(greater)
    files = statistics(table, "path", f"max.{column}")
    newest = files.filter(pc.fill_null(pc.greater(files[1], value), True)).sort_by([(f"max.{column}", "descending")])
    return files_of(table, newest["path"].to_pylist()).filter(greater)


def files_of(table: DeltaTable, paths: list[str]) -> Any:
    """Some data files of a table, as a pyarrow dataset that reads them in this order; only if it ``is_plain``."""
    import pyarrow.dataset as ds

    schema = pa.schema(table.schema().to_arrow())
    form = ds.ParquetFileFormat(read_options=_read_options())
    return ds.dataset(paths, schema=schema, filesystem=filesystem(table), format=form)


def where(found: Any, condition: Any, columns: list[str] | None = None) -> pa.Table:
    """The rows of a pyarrow dataset that meet a condition.

    Files that delta-rs has rewritten (a DELETE of somebody's, say) hold texts of a type that Arrow cannot compare yet.
    """
    try:
        return found.to_table(columns, filter=condition)
    except pa.ArrowNotImplementedError:
        rows = found.to_table().filter(condition)
        return rows if columns is None else rows.select(columns)


def is_plain(table: DeltaTable) -> bool:
    """Whether the data files alone say what the rows are: no deletions, renamed columns or partitions beside them."""
    protocol = table.protocol()
    unsupported = {"deletionVectors", "columnMapping"} & set(protocol.reader_features or ())
    return protocol.min_reader_version != 2 and not unsupported and not table.metadata().partition_columns


def filesystem(table: DeltaTable) -> Any:
    """The folder of a table as Arrow opens it; None where it cannot."""
    from pyarrow import fs

    uri = table.table_uri
    if is_local(uri):
        return fs.SubTreeFileSystem(local_path(uri), fs.LocalFileSystem())
    if not aws.on_s3(uri):
        return None
    store, folder = filesystems.opened(address(uri))
    return fs.SubTreeFileSystem(folder, store.fs)


def _read_options() -> Any:
    from pyarrow.dataset import ParquetReadOptions

    # INT96 times of other writers, taken as nanoseconds, would end in the year 2262.
    return ParquetReadOptions(coerce_int96_timestamp_unit="us")


def statistics(table: DeltaTable, *columns: str) -> pa.Table:
    """What the table's log says of each of its data files.

    Args:
        table: the table.
        columns: ``path``, ``num_records``, or ``min.x``, ``max.x`` and ``null_count.x`` of a column ``x``. Texts are
            cut at 64 characters there. What the writer of a file has not counted is null.
    """
    described = pa.table(table.get_add_actions(flatten=True))
    there = set(described.column_names)
    return pa.table([described[c] if c in there else pa.nulls(described.num_rows) for c in columns], list(columns))


def rows(table: DeltaTable | None) -> int:
    """Rows of a table by its files' statistics (tables of ours have no deletion vectors), without reading data."""
    return 0 if table is None else int(table.count())

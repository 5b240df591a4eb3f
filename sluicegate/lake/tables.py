"""The layout of the lake, and what a table says of itself, read by delta-rs in milliseconds and without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from sluicegate.errors import LakeUnsupported, NotADeltaTable, Where
from sluicegate.storage import aws, filesystems

LAYERS = ("bronze", "silver", "gold")

# The key under which our facts stand in a commit's userMetadata: other writers have metadata of their own.
METADATA = "sluicegate"

# Columns that Delta's change data feed adds.
ENGINE_COLUMNS = ("_chunk", "_pos", "_sequence")
"""Columns by which we know a row; a query over whole tables does not see them."""

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

# So many data files of a small table are put into one: opening them costs more than what is in them.
MANY_FILES = 32


@dataclass(frozen=True)
class Lake:
    """The addresses of one pipeline's tables.

    Attributes:
        root: path or URI of the lake.
        pipeline: name of the pipeline.
    """

    root: str
    pipeline: str

    def __post_init__(self) -> None:
        """Refuses a root that Spark and delta-rs would take for two different places, or that delta-rs stops at.

        Raises:
            LakeUnsupported: the path has one of the characters ``#?%[]^|\\`` in it.
        """
        if is_local(self.root) and (odd := set(self.root) & set("#?%[]^|\\")):
            cause = f"delta-rs, which reads and writes tables beside Spark, cannot work below {' '.join(sorted(odd))}"
            raise LakeUnsupported(f"no lake can be at {self.root}", cause=cause, hint="choose another with --lake")

    def _at(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), self.pipeline, *parts))

    def table(self, layer: str, name: str) -> str:
        """``{lake}/{pipeline}/{layer}/{name}``."""
        return self._at(layer, name)

    def quarantine(self, name: str) -> str:
        """Rows of silver table ``name`` that broke a rule, beside the table."""
        return self._at("silver", f"{name}_quarantine")

    def set_aside(self, name: str) -> str:
        """Identities of records that are in neither silver nor quarantine: duplicates, superseded, dropped."""
        return self._at("_state", f"{name}_set_aside")

    def groups(self, name: str) -> str:
        """What is kept of each group of gold table ``name``, so that its rows need not be read again."""
        return self._at("_state", f"{name}_groups")

    def checkpoint(self, name: str) -> str:
        """Spark's state of gold table ``name``, where it is a streaming aggregation."""
        return self._at("_state", f"{name}_checkpoint")

    def ledger(self, name: str) -> str:
        """The landed files of bronze table ``name``."""
        return self._at("_ledger", name)

    def outcome(self, name: str) -> str:
        """What became of each landed file of bronze table ``name``."""
        return self._at("_ledger", f"{name}_outcome")

    def schemas(self, name: str) -> str:
        """The columns that bronze table ``name`` has had over time."""
        return self._at("_schemas", name)

    def archive(self, name: str) -> str:
        """Which files of bronze table ``name`` were taken away from landing, and to where."""
        return self._at("_ledger", f"{name}_archive")

    @property
    def registered(self) -> str:
        """A file that says which tables the catalog was told of."""
        return self._at("_state", "_catalog.json")

    @property
    def databases(self) -> str:
        """The folder that a database of the catalog has for tables of people's own; ours lie elsewhere."""
        return "/".join((self.root.rstrip("/"), "_databases"))

    @property
    def events(self) -> str:
        """The event log: one row for each commit that a run made."""
        return self._at("_events")

    @property
    def streams(self) -> str:
        """The folder in which continuous runs say that they are there."""
        return self._at("_streams")

    @property
    def locks(self) -> str:
        """The folder of the pipeline's locks."""
        return self._at("_locks")

    def lock(self, name: str) -> str:
        """A lock of the pipeline: a file on local disk, a lease on an object store."""
        return f"{self.locks}/{name}.lock" if is_local(self.root) else f"{self.locks}/{name}"


def is_local(uri: str) -> bool:
    """Whether a path or URI lies on this machine's file systems."""
    return urlparse(uri).scheme in ("", "file")


def local_path(uri: str) -> str:
    """The path of a local path or ``file:`` URI."""
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri


def canonical(source_file: str) -> str:
    """The ledger's path of a file that Spark's ``_metadata.file_path`` names (``file:///a%20b`` is ``/a b``)."""
    if source_file.startswith("file:"):
        return "/" + unquote(source_file[len("file:") :]).lstrip("/")
    return unquote(source_file)


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


def mark(table: DeltaTable | None, app_id: str) -> int | None:
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
    beside = {"deletionVectors", "columnMapping"} & set(protocol.reader_features or ())
    return protocol.min_reader_version != 2 and not beside and not table.metadata().partition_columns


def filesystem(table: DeltaTable) -> Any:
    """The folder of a table as Arrow opens it; None where it cannot."""
    from pyarrow import fs

    uri = table.table_uri
    if is_local(uri):
        return fs.SubTreeFileSystem(local_path(uri), fs.LocalFileSystem())
    return fs.SubTreeFileSystem(filesystems.opened(uri)[1], filesystems.opened(uri)[0].fs) if aws.on_s3(uri) else None


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


@dataclass(frozen=True)
class Commit:
    """One commit of a table, with what we wrote into it.

    Attributes:
        version: the table's version that the commit made.
        timestamp: commit time, milliseconds since 1970 UTC.
        operation: Delta's word for it: WRITE, MERGE, RESTORE…
        ours: our facts from userMetadata; None where another program wrote the commit.
        rows_written: rows that the commit wrote, where Delta counted them.
        overwrites: whether it replaced rows instead of adding some.
        partly: whether it replaced only those that a condition named.
        restored_to: the version that a RESTORE brought back, where it was asked for by version.
    """

    version: int
    timestamp: int
    operation: str
    ours: dict[str, Any] | None
    rows_written: int | None
    overwrites: bool
    partly: bool
    restored_to: int | None = None


def commits(table: DeltaTable, limit: int | None = None) -> Iterator[Commit]:
    """The commits that the table's log still holds, newest first."""
    for entry in table.history(limit):
        metrics = entry.get("operationMetrics") or {}
        parameters = entry.get("operationParameters") or {}
        restored = parameters.get("version") if entry.get("operation") == "RESTORE" else None
        counted = metrics.get("numOutputRows", metrics.get("num_added_rows"))
        yield Commit(
            version=int(entry["version"]),
            timestamp=int(entry.get("timestamp") or 0),
            operation=str(entry.get("operation")),
            ours=_ours(entry.get("userMetadata")),
            rows_written=None if counted is None else int(counted),
            overwrites=str(parameters.get("mode", "Append")) == "Overwrite",
            partly=str(parameters.get("predicate") or "[]") not in ("[]", "true"),
            restored_to=None if restored is None else int(restored),
        )


def actions(uri: str, version: int, *, added: bool = True) -> Iterator[dict[str, Any]]:
    """What a commit says, as Delta's protocol has it.

    Args:
        uri: the table.
        version: the version that the commit made.
        added: whether to tell of the files that it added, too.

    Raises:
        FileNotFoundError: the log no longer has it.
    """
    fs, folder = filesystems.opened(uri)
    with fs.open(f"{folder}/_delta_log/{version:020d}.json", "rt", encoding="utf-8") as log:
        yield from (json.loads(line) for line in log if line.strip() and (added or not line.startswith('{"add"')))


def _ours(user_metadata: str | None) -> dict[str, Any] | None:
    try:
        facts = json.loads(user_metadata or "null")
    except ValueError:
        return None
    ours = facts.get(METADATA) if isinstance(facts, dict) else None
    return ours if isinstance(ours, dict) else None


def last_commit_of_ours(table: DeltaTable | None) -> Commit | None:
    """The newest commit that a run of ours made; None when there is none in the log any more."""
    if table is None:
        return None
    # Nearly always the newest commit of all; the whole log is read only when others write the table as well.
    for limit in (5, None):
        for commit in commits(table, limit):
            if commit.ours is not None:
                return commit
    return None

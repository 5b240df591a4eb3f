"""What has landed and settled, and the ledger that remembers it. No Spark: Airflow's sensor calls this too.

The ledger is a Delta table of immutable facts, one row a file, one commit a *chunk* (the files of one micro-batch).
A chunk's number is the version of the commit that entered it, so chunks have an order that nobody can dispute.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import fault, lake, outcome
from sluicegate.errors import LandingMissing, Where

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
LEDGER = pa.schema(
    [
        *FILES,
        pa.field("action", pa.string(), nullable=False),
        pa.field("chunk", pa.int64(), nullable=False),
        pa.field("discovered", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

# What bronze is to do with a file of the ledger: READ it, REPLACE the rows that it gave before, or SKIP it.
READ, REPLACE, SKIP = "read", "replace", "skip"

# Names that programs give to what they have not finished writing.
TEMPORARY = ("*.tmp", "*.temp", "*.part", "*.partial", "*.crdownload", "*.filepart", "*.swp", "*~", "*._COPYING_")

# Another run may enter files between our look at the ledger and our commit; each time we look again.
ATTEMPTS = 20


Look = Callable[[str, "BronzeTable", lake.Lake], "Discovery"]
"""A way to find files for a table's ledger; ``discover`` is the usual one."""


@dataclass(frozen=True)
class Discovery:
    """What a look at a landing folder found.

    Attributes:
        new: files to enter into the ledger, oldest first (schema ``FILES`` and ``action``).
        settling: files younger than the settle time; a later look takes them.
        changed: files that were read before and have another size or time now, where ``allowOverwrites`` does not
            say to read them again; they are reported.
    """

    new: pa.Table
    settling: pa.Table
    changed: pa.Table

    @property
    def bytes(self) -> int:
        """Bytes that wait to be read."""
        return pc.sum(self.new["size"]).as_py() or 0


def listing(name: str, table: BronzeTable) -> pa.Table:
    """All finished files of a landing folder that the definition lets in (schema ``FILES``).

    Hidden names (beginning with ``.`` or ``_``) and names of unfinished files are left out, as Spark and Hadoop do.

    Raises:
        LandingMissing: the folder does not exist.
    """
    folder, _ = folder_of(table.path)
    files = below(name, folder)
    inside = [finished(path[len(folder) :].strip("/"), table.pathGlobFilter) for path in files["path"].to_pylist()]
    files = files.filter(pa.array(inside, pa.bool_()))
    if table.modifiedAfter:
        files = files.filter(pc.field("modification_time") > table.modifiedAfter)
    return files.filter(pc.field("modification_time") < table.modifiedBefore) if table.modifiedBefore else files


def folder_of(address: str) -> tuple[str, tuple[str, ...]]:
    """A folder as the paths of its files begin, and the one file in it if the address is that of a file."""
    fs, root = fsspec.core.url_to_fs(address)
    if "file" in fs.protocol:
        root = os.path.normpath(root)  # as Spark will name the files, or they would not be known again
    if fs.isfile(root):
        above, _, file = root.rpartition("/")
        return _spark_path(fs, above), (file,)
    return _spark_path(fs, root), ()


def below(name: str, folder: str) -> pa.Table:
    """All files in a folder and the folders below it, finished or not (schema ``FILES``).

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
    """
    fs, root = fsspec.core.url_to_fs(folder)
    fs.invalidate_cache(root)  # a long-lived process, a sensor's, must not look at an old listing
    if not fs.isdir(root):
        raise LandingMissing(
            f"the landing folder {folder} does not exist",
            where=Where(table=name, file=folder),
            hint="make the folder, or say where files land with --landing",
        )
    try:
        # By default fsspec leaves out in silence what it may not look into.
        found = fs.find(root, detail=True, on_error="raise")
    except OSError as error:
        raise LandingMissing(
            f"the landing folder {folder} cannot be listed",
            where=Where(table=name, file=getattr(error, "filename", None) or folder),
            cause=str(error),
            hint="give this user the right to read it, and run again",
        ) from error
    return pa.table(
        {
            "path": [_spark_path(fs, path) for path in found],
            "size": [int(info["size"]) for info in found.values()],
            "modification_time": [_modified(fs, path, info) for path, info in found.items()],
        },
        schema=FILES,
    )


def finished(relative: str, glob: str | None) -> bool:
    """Whether a file, by its name below the folder, is whole and matches the pattern."""
    parts = relative.split("/")
    if any(part.startswith((".", "_")) for part in parts):
        return False
    name = parts[-1]
    return not any(fnmatch.fnmatchcase(name, t) for t in TEMPORARY) and (
        glob is None or fnmatch.fnmatchcase(name, glob)
    )


def _spark_path(fs: Any, path: str) -> str:
    """A local file by its path, any other by its URI: what both Spark and fsspec open."""
    return path if "file" in fs.protocol else str(fs.unstrip_protocol(path))


def _modified(fs: Any, path: str, info: dict[str, Any]) -> datetime:
    named = [info[key] for key in ("mtime", "LastModified", "created") if info.get(key) is not None]
    stamp = named[0] if named else fs.modified(path)
    if isinstance(stamp, datetime):
        return stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return datetime.fromtimestamp(float(stamp), UTC)


def discover(name: str, table: BronzeTable, at: lake.Lake, now: datetime | None = None) -> Discovery:
    """Looks at the landing folder and takes away what the ledger knows; writes nothing.

    Args:
        name: the bronze table's name, for messages.
        table: its definition.
        at: the lake that has its ledger, if there is one yet.
        now: the time that files must be ``settleSeconds`` older than (UTC; the clock's by default).

    Raises:
        LandingMissing: the folder does not exist.
    """
    landed = listing(name, table)
    now = now or datetime.now(UTC)
    young_since = pa.scalar(int((now.timestamp() - table.settleSeconds) * 1e6), pa.int64()).cast(
        pa.timestamp("us", "UTC")
    )
    young = pc.greater(landed["modification_time"], young_since)
    settled, settling = landed.filter(pc.invert(young)), landed.filter(young)
    ledger = lake.delta_table(at.ledger(name))
    if ledger is None:
        if table.includeExistingFiles:
            return Discovery(in_order(to(READ, settled)), settling, settled.slice(0, 0))
        return Discovery(in_order(to(SKIP, landed)), landed.slice(0, 0), landed.slice(0, 0))
    entries = lake.dataset(ledger).to_table(columns=[*FILES.names, "chunk"]).sort_by("chunk")
    # Of the entries of a path the last one counts: an older version may come back. Columnar, and with a columnar
    # anti-join: the cost of a run must not grow with a Python loop over all files that ever landed.
    last = entries.group_by("path", use_threads=False).aggregate([("size", "last"), ("modification_time", "last")])
    known = last.rename_columns(FILES.names).cast(FILES)
    unknown = settled.join(known, keys=FILES.names, join_type="left anti")
    changed = unknown.join(known.select(["path"]), keys="path", join_type="left semi").cast(FILES)
    new = unknown.join(known.select(["path"]), keys="path", join_type="left anti").cast(FILES)
    failed = outcome.failed(at, name, table.fingerprint)
    # A file that could not be read is read when it is repaired, or when what kept us from it may have gone.
    again = changed if table.allowOverwrites else _among(changed, failed)
    left = changed.join(again.select(["path"]), keys="path", join_type="left anti").cast(FILES)
    retried = _among(settled, [path for path, retry in failed.items() if retry])
    retried = retried.join(again.select(["path"]), keys="path", join_type="left anti").cast(FILES)
    entered = [to(READ, new), to(REPLACE, again), to(REPLACE, retried)]
    return Discovery(in_order(pa.concat_tables(entered)), settling, left)


def _among(files: pa.Table, paths: Iterable[str]) -> pa.Table:
    return files.filter(pc.is_in(files["path"], value_set=pa.array(sorted(paths), pa.string())))


def to(action: str, files: pa.Table) -> pa.Table:
    """Files with what bronze is to do with them."""
    return files.append_column(LEDGER.field("action"), pa.repeat(pa.scalar(action), files.num_rows))


def in_order(files: pa.Table) -> pa.Table:
    """Files in the order in which they are read."""
    return files.sort_by([("modification_time", "ascending"), ("path", "ascending")])


def enter(name: str, table: BronzeTable, at: lake.Lake, look: Look | None = None) -> Discovery:
    """Enters all newly landed files into the ledger, a commit a chunk, and returns what was found.

    Args:
        name: the bronze table's name.
        table: its definition.
        at: the lake that has its ledger.
        look: how to find the files; by default ``discover``.

    Each commit is a compare-and-set on the version that the look was made at: of two runs at once one wins, and the
    other looks again, so no file is entered twice (delta-rs would let two appends both succeed).

    Raises:
        LandingMissing: the folder does not exist.
        CommitFailedError: others were faster ``ATTEMPTS`` times in a row.
    """
    uri = at.ledger(name)
    for attempt in range(ATTEMPTS):
        ledger = lake.delta_table(uri)  # before the look: of what it does not have yet, the commit would fail
        found = (look or discover)(name, table, at)
        first = ledger is None and not table.includeExistingFiles
        if not found.new.num_rows and not first:
            return found
        try:
            if ledger is None:
                ledger = _create(uri, _baseline(name, table, at))
                found = found if table.includeExistingFiles else (look or discover)(name, table, at)
            for chunk in chunks(found.new, table.maxFilesPerTrigger, table.maxBytesPerTrigger):
                number = _append(ledger, chunk)
                fault.point("ledger.after_commit")
                # Exactly our own commit, not the newest: if another run has entered files since, the next
                # compare-and-set must fail.
                ledger.load_as_version(number)
            return found
        except CommitFailedError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _baseline(name: str, table: BronzeTable, at: lake.Lake) -> pa.Table:
    """The files that a new ledger has from the start, because they are not to be read."""
    found = to(SKIP, FILES.empty_table()) if table.includeExistingFiles else discover(name, table, at).new
    return _stamped(found, 0)


def _create(ledger_uri: str, files: pa.Table) -> DeltaTable:
    """A new ledger, in one commit with the files that it has from the start.

    Raises:
        CommitFailedError: another run made it at the same moment. (With retries, or with ``mode="ignore"``, the slower
            one would put a second metadata commit on top, and the table would have another id from then on.)
    """
    try:
        write_deltalake(
            ledger_uri,
            files,
            mode="error",
            # The ledger is read as a stream of changes, and its history is never cleaned away: chunks are its versions.
            configuration={"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 36500 days"},
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except DeltaError as error:
        raise CommitFailedError(str(error)) from error
    return DeltaTable(ledger_uri, version=0)


def chunks(files: pa.Table, max_files: int, max_bytes: int | None) -> list[pa.Table]:
    """Cuts files into chunks of at most ``max_files`` files and some ``max_bytes`` bytes.

    A chunk has at least one file; as in Auto Loader, ``max_bytes`` is soft: the file that passes it still belongs.
    """
    cut, start, weight = [], 0, 0
    for index, size in enumerate(files["size"].to_pylist()):
        weight += size
        if index + 1 - start >= max_files or (max_bytes is not None and weight >= max_bytes):
            cut.append(files.slice(start, index + 1 - start))
            start, weight = index + 1, 0
    if start < files.num_rows:
        cut.append(files.slice(start))
    return cut


def _append(ledger: DeltaTable, files: pa.Table) -> int:
    number = ledger.version() + 1
    # Without retries the commit is exactly version `number` or fails; a retry would give the chunk another version.
    properties = CommitProperties(max_commit_retries=0)
    write_deltalake(ledger, _stamped(files, number), mode="append", commit_properties=properties)
    return number


def _stamped(files: pa.Table, chunk: int) -> pa.Table:
    """Files as rows of the ledger."""
    constants = {
        "chunk": pa.scalar(chunk, pa.int64()),
        "discovered": pa.scalar(datetime.now(UTC), LEDGER.field("discovered").type),
    }
    for column, value in constants.items():
        files = files.append_column(LEDGER.field(column), pa.repeat(value, files.num_rows))
    return files.cast(LEDGER)

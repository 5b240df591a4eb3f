"""What has landed and settled, and the ledger that remembers it. No Spark: Airflow's sensor calls this too.

The ledger is a Delta table of immutable facts, one row a file, one commit a *chunk* (the files of one micro-batch).
A chunk's number is the version of the commit that entered it, so chunks have an order that nobody can dispute.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import archive, fault, known, lake, outcome, store_errors, stores
from sluicegate.errors import LandingMissing, StoreUnreachable, Where
from sluicegate.stores import FILES

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable

LEDGER = pa.schema(
    [
        *FILES,
        pa.field("action", pa.string(), nullable=False),
        pa.field("chunk", pa.int64(), nullable=False),
        pa.field("discovered", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

# What bronze is to do with a file of the ledger: READ it, REPLACE the rows that it gave before, or SKIP it. In a chunk
# with RESET or DROP the table is made anew: RESET files are read again, and of DROP files the rows go.
READ, REPLACE, SKIP, RESET, DROP = "read", "replace", "skip", "reset", "drop"

# Names that programs give to what they have not finished writing.
TEMPORARY = ("*.tmp", "*.temp", "*.part", "*.partial", "*.crdownload", "*.filepart", "*.swp", "*~", "*._COPYING_")
UNFINISHED = "(^|/)[._]|(" + "|".join(re.escape(pattern[1:]) for pattern in TEMPORARY) + r")\z"

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
        how: how they are to be read where not as the definition says (``CopyOptions.facts``), for the ledger's commits.
        whole: whether ``new`` is to be one chunk, however many files it has.
    """

    new: pa.Table
    settling: pa.Table
    changed: pa.Table
    how: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False

    @property
    def bytes(self) -> int:
        """Bytes that wait to be read."""
        return pc.sum(self.new["size"]).as_py() or 0


def folder_of(address: str) -> tuple[str, tuple[str, ...]]:
    """A folder as the paths of its files begin, and the one file in it if the address is that of a file."""
    try:
        fs, root = stores.opened(address)
    except (OSError, ValueError, ImportError):
        return address, ()  # what is wrong with it is said when it is listed
    if fs.isfile(root):
        above, _, file = root.rpartition("/")
        return stores.uri(fs, above), (file,)
    return stores.uri(fs, root), ()


def below(name: str, folder: str, emptied: Callable[[], bool] = lambda: False) -> pa.Table:
    """All files in a folder and the folders below it, finished or not (schema ``FILES``).

    Args:
        name: the bronze table, for messages.
        folder: path or URI.
        emptied: whether files of a folder that is not there have been read; asked only of stores without folders.

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
        StoreUnreachable: its store does not answer.
    """
    try:
        return stores.files(folder)
    except FileNotFoundError as error:
        if not stores.has_folders(folder) and emptied():
            return FILES.empty_table()
        hint = "make the folder" if stores.has_folders(folder) else "land a file in it"
        raise LandingMissing(
            f"the landing folder {folder} does not exist",
            where=Where(table=name, file=folder),
            hint=f"{hint}, or say where files land with --landing",
        ) from error
    except (OSError, ValueError, ImportError) as error:  # Arrow's errors, and fsspec's for a store it has no way to
        of_store = store_errors.readable(error)
        if isinstance(of_store, StoreUnreachable):  # a retry may help
            raise of_store from error
        raise LandingMissing(
            f"the landing folder {folder} cannot be listed",
            where=Where(table=name, file=getattr(error, "filename", None) or folder),
            cause=str(error),
            hint="the cause says what stands in the way: rights, credentials, an address or the network",
        ) from error


def relative(files: pa.Table, folder: str) -> pa.ChunkedArray:
    """The names of files below their folder."""
    return pc.utf8_ltrim(pc.utf8_slice_codeunits(files["path"], len(folder)), "/")


def finished(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which files are whole, by their names below the folder: neither hidden nor temporary."""
    return pc.invert(pc.match_substring_regex(names, UNFINISHED))


def matching(names: pa.ChunkedArray, glob: str | None) -> pa.ChunkedArray:
    """Which files, by their names below the folder, have a last part that matches the pattern; all without one."""
    if glob is None:
        return pc.is_valid(names)
    matches = re.compile(fnmatch.translate(glob)).match
    found = [[matches(name.rpartition("/")[2]) is not None for name in part.to_pylist()] for part in names.chunks]
    return pa.chunked_array(found, pa.bool_())


def discover(name: str, table: BronzeTable, at: lake.Lake, now: datetime | None = None) -> Discovery:
    """Looks at the landing folder and takes away what the ledger knows; writes nothing.

    Hidden names (beginning with ``.`` or ``_``) and names of unfinished files are left out, as Spark and Hadoop do.
    A folder of S3, which vanishes with its last file, counts as empty if files of it are in the ledger.

    Args:
        name: the bronze table's name, for messages.
        table: its definition.
        at: the lake that has its ledger, if there is one yet.
        now: the time that files must be ``settleSeconds`` older than (UTC; the clock's by default). A file whose time
            is further ahead than that has it from another clock, and counts as settled: it would wait for ever.

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
    """
    ledger = lake.delta_table(at.ledger(name))
    folder, only = folder_of(table.path)
    landed = below(name, folder, lambda: ledger is not None and _has_of(at, name, ledger, folder))
    landed = _only(landed, folder, only)
    admitted = partial(_admitted, table=table, folder=folder)
    settled, settling = by_age(landed, table, now)
    settling = admitted(settling)
    nothing = FILES.empty_table()
    if ledger is None:
        if table.includeExistingFiles:
            return Discovery(in_order(to(READ, admitted(settled))), settling, nothing)
        return Discovery(in_order(to(SKIP, admitted(landed))), nothing, nothing)
    # Names are looked at last: of very many files that landed some time, nearly all are known.
    new, changed, former = known.compare(at, name, ledger, settled)
    new, changed = admitted(new), admitted(changed)
    # What has landed where a file was taken away is another file, not that one changed.
    if not table.allowOverwrites and (away := archive.table(at, name, ledger)).num_rows:
        others = former.join(away, keys=FILES.names, join_type="left semi")
        new = pa.concat_tables([new, _among(changed, others["path"].to_pylist())])
        changed = _without(changed, others)
    failed = outcome.failed(at, name, table.fingerprint)
    # A file that could not be read is read when it is repaired, or when what kept us from it may have gone.
    again = changed if table.allowOverwrites else _among(changed, failed)
    left = _without(changed, again)
    retried = _without(admitted(_among(settled, [path for path, retry in failed.items() if retry])), again)
    entered = [to(READ, new), to(REPLACE, again), to(REPLACE, retried)]
    return Discovery(in_order(pa.concat_tables(entered)), settling, left)


def listing(name: str, table: BronzeTable) -> pa.Table:
    """All files of the landing folder that the definition lets in (schema ``FILES``).

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
    """
    folder, only = folder_of(table.path)
    return _admitted(_only(below(name, folder, lambda: True), folder, only), table, folder)


def _only(files: pa.Table, folder: str, names: Sequence[str]) -> pa.Table:
    wanted = pa.array([f"{folder}/{name}" for name in names], pa.string())
    return files.filter(pc.is_in(files["path"], value_set=wanted)) if names else files


def by_age(files: pa.Table, table: BronzeTable, now: datetime | None = None) -> tuple[pa.Table, pa.Table]:
    """The files that have settled, and those that are too young."""
    clock, settle = now or datetime.now(UTC), timedelta(seconds=table.settleSeconds)
    young = pc.and_(
        pc.greater(files["modification_time"], clock - settle),
        pc.less_equal(files["modification_time"], clock + settle),
    )
    if not pc.any(young).as_py():  # a million paths are not copied
        return files, files.slice(0, 0)
    return files.filter(pc.invert(young)), files.filter(young)


def _admitted(files: pa.Table, table: BronzeTable, folder: str) -> pa.Table:
    """The files that are whole by their names, and that the definition lets in."""
    names = relative(files, folder)
    files = files.filter(pc.and_(finished(names), matching(names, table.pathGlobFilter)))
    if table.modifiedAfter:
        files = files.filter(pc.field("modification_time") > table.modifiedAfter)
    return files.filter(pc.field("modification_time") < table.modifiedBefore) if table.modifiedBefore else files


def _has_of(at: lake.Lake, name: str, ledger: DeltaTable, folder: str) -> bool:
    return bool(known.entries(at, name, ledger, *known.below(folder)).num_rows)


def _without(files: pa.Table, others: pa.Table) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files["path"], value_set=others["path"])))


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
            limits = (found.new.num_rows, None) if found.whole else (table.maxFilesPerTrigger, table.maxBytesPerTrigger)
            for chunk in chunks(found.new, *limits):
                _append(ledger, chunk, found.how)
            known.keep(at, name, ledger)
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
        lake.write(
            ledger_uri,
            files,
            mode="error",
            # The ledger is read as a stream of changes, and its history is never cleaned away: chunks are its versions.
            configuration={"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 36500 days"},
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except DeltaError as error:
        raise CommitFailedError(str(error)) from error
    return lake.table_at(ledger_uri, version=0)


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


def _append(ledger: DeltaTable, files: pa.Table, how: Mapping[str, Any]) -> None:
    """Enters a chunk, as exactly the version after the one that the ledger is loaded at.

    Raises:
        CommitFailedError: another run has made that version.
    """
    number = ledger.version() + 1
    fault.point("ledger.before_commit")
    said = {"userMetadata": json.dumps({lake.METADATA: {"copy": how}})} if how else None
    # With retries the chunk would be given another version.
    properties = CommitProperties(max_commit_retries=0, custom_metadata=said)
    lake.write(ledger, _stamped(files, number), mode="append", commit_properties=properties)
    fault.point("ledger.after_commit")
    # Exactly our own commit, not the newest: if another run has entered files, the next compare-and-set must fail.
    if ledger.version() != number:
        ledger.load_as_version(number)


def _stamped(files: pa.Table, chunk: int) -> pa.Table:
    """Files as rows of the ledger."""
    constants = {
        "chunk": pa.scalar(chunk, pa.int64()),
        "discovered": pa.scalar(datetime.now(UTC), LEDGER.field("discovered").type),
    }
    for column, value in constants.items():
        files = files.append_column(LEDGER.field(column), pa.repeat(value, files.num_rows))
    return files.cast(LEDGER)

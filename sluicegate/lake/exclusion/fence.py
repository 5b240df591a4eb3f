"""Block writes that a server may still do for a run whose client is gone.

A killed driver writes nothing more. A Spark Connect server continues with the last request for seconds or minutes,
while the lock is already free. So a run on a server leaves a note beside the lock while it may write. The next holder
of the lock that finds the note commits a change of metadata to every table. By Delta's rules, a transaction that began
before such a commit fails, and one that came first is seen by whoever reads offsets afterwards.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate.console import say
from sluicegate.errors import SluicegateError, Where
from sluicegate.lake import log, tables
from sluicegate.lake.commits import metadata_commit
from sluicegate.lake.damage.set_aside import set_aside_damaged
from sluicegate.lake.exclusion.lock import pipeline_lock
from sluicegate.lake.layout import LAYERS, Lake, is_local
from sluicegate.storage import durable, filesystems

# Table property that is set to another value where a server may still be writing.
PROPERTY = log.FENCE

# Folders of the tables that Spark writes; the ledger's and the event log's are written by the client alone.
WRITTEN = (*LAYERS, "_state")

# Commits of other programs that may come between before it is given up.
ATTEMPTS = 20

# Seconds after which a commit that had found no file at its version before ours was there has been renamed over it.
SETTLES = 1.0

OTHERS = "other programs kept committing"


@contextmanager
def sole_writer(
    lake: Lake,
    owner: str,
    *,
    remote: bool,
    wait: float = 600.0,
    sent: Callable[[], bool] = lambda: True,
    renaming: bool = False,
) -> Iterator[None]:
    """Hold the pipeline's lock, and block what a former holder's server may still write.

    Args:
        lake: the pipeline's lake.
        owner: name of the holder, shown to those who wait.
        remote: whether the holder writes by a Spark Connect server.
        wait: seconds to wait for another holder.
        sent: whether anything has been sent to the server yet.
        renaming: see ``pipeline_lock``.

    Raises:
        LakeLocked: another process held the lock for the whole wait.
        SluicegateError: a table cannot be fenced.
        DamagedTable: see ``set_aside_damaged``.
        LakeUnsupported: this version has no safe lock on the lake's store or mount.
    """
    with pipeline_lock(lake, owner, wait, renaming=renaming):
        set_aside_damaged(lake, say)
        if (former := filesystems.read_text(_note(lake))) is not None:
            say("the last run on a Spark Connect server did not end cleanly; blocking anything that it may still write")
            _fence_all(lake)
            _forget(lake, former)
        note = ""
        if remote:
            note = _write_note(lake, owner)
        try:
            yield
        except BaseException:  # it may be that of a connection, and the server be at work
            remote = remote and not sent()
            raise
        finally:
            if remote:
                _forget(lake, note)


def written_tables(lake: Lake) -> list[str]:
    """Return the addresses of all tables that Spark has written for a pipeline, on any store.

    All tables, on a disk, are those of ``set_aside.local_tables``.
    """
    addresses = []
    for folder in WRITTEN:
        fs, path = filesystems.open_store(lake.table(folder, "").rstrip("/"))
        fs.invalidate_cache()
        with suppress(FileNotFoundError):
            names = sorted(entry.rstrip("/").rpartition("/")[2] for entry in fs.ls(path, detail=False))
            addresses += [lake.table(folder, name) for name in names if fs.exists(f"{path}/{name}/_delta_log")]
    return addresses


def _fence_all(lake: Lake) -> None:
    """Fence all tables that Spark has written.

    On a disk, Spark checks for the commit file and then renames its own over it. So a commit a moment later may
    overwrite a fence, which is therefore checked again.
    """
    unfenced = written_tables(lake)
    for _ in range(ATTEMPTS):
        fences = {uri: fence for uri in unfenced if (fence := _fence(lake, uri)) is not None and is_local(uri)}
        if not fences:
            return
        time.sleep(SETTLES)
        unfenced = [uri for uri, fence in fences.items() if not metadata_commit.has_property(*fence)]
    raise _fence_error(lake, unfenced[0], OTHERS)


def _fence(lake: Lake, uri: str) -> tuple[DeltaTable, int, str, str] | None:
    """Fence one table; return the facts by which the fence is found, or None without a table."""
    for _ in range(ATTEMPTS):
        value = uuid.uuid4().hex
        try:
            if (table := tables.delta_table(uri)) is None:
                return None
            before = table.version()
            metadata_commit.demand_possible(table)
            if _put(table, value):
                return table, before + 1, PROPERTY, value
        except (SluicegateError, DeltaError, OSError) as error:
            cause = str(error)
            if isinstance(error, SluicegateError):
                cause = error.cause or error.message
            raise _fence_error(lake, uri, cause) from error
    raise _fence_error(lake, uri, OTHERS)


def _put(table: DeltaTable, value: str) -> bool:
    """Commit a fence; return False if another commit came first."""
    if is_local(table.table_uri):
        return metadata_commit.put(table, PROPERTY, value)
    before = table.version()
    try:  # delta-rs alone has S3's conditional writes here; what it commits by this is the metadata alone, too
        properties = CommitProperties(max_commit_retries=0, custom_metadata={PROPERTY: value})
        table.alter.set_table_description(table.metadata().description or "", commit_properties=properties)
    except CommitFailedError:
        if tables.table_at(table.table_uri).version() == before:
            raise
        return False
    return True


def _fence_error(lake: Lake, uri: str, cause: str) -> SluicegateError:
    return SluicegateError(
        f"cannot protect {uri} from what a Spark Connect server may still write for the previous run",
        where=Where(file=uri),
        cause=cause,
        hint=f"make sure that the server has stopped or is idle, and delete {_note(lake)}",
    )


def _note(lake: Lake) -> str:
    return f"{lake.locks}/remote"


def _write_note(lake: Lake, owner: str) -> str:
    """Write a unique note that names who may be writing through a server."""
    note = f"{owner}\n{uuid.uuid4().hex}\n"
    durable.write(_note(lake), note)
    return note


def _forget(lake: Lake, note: str) -> None:
    """Remove a note, unless another holder replaced it: who lost the lock may end after the next run has begun."""
    if filesystems.read_text(_note(lake)) != note:
        return
    fs, path = filesystems.open_store(_note(lake))
    with suppress(FileNotFoundError):
        fs.rm_file(path)

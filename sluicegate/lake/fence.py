"""Fence against what a server still writes for a run whose client is gone.

A driver that is killed writes nothing more. A Spark Connect server goes on with what it was sent last, for seconds or
for minutes, while the lock is free already. So a run on a server leaves a note beside the lock while it may write. Who
takes the lock next and finds the note commits a change of metadata to every table. By Delta's rules a transaction that
began before such a commit fails, whatever it writes, and one that came before it is seen by whoever reads offsets now.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate.console import say
from sluicegate.errors import LakeLocked, Where
from sluicegate.lake import tables
from sluicegate.lake.layout import LAYERS, Lake
from sluicegate.lake.lock import pipeline_lock
from sluicegate.storage import filesystems

PROPERTY = "sluicegate.fence"
"""Table property that is set to another value where a server may still be writing."""

# Folders of the tables that Spark writes; the ledger's and the event log's are written by the client alone.
WRITTEN = (*LAYERS, "_state")

# Commits of other programs that may come between before it is given up.
ATTEMPTS = 20


@contextmanager
def sole_writer(
    lake: Lake, owner: str, *, remote: bool, wait: float = 600.0, sent: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Hold the pipeline's lock, and keep out what a former holder's server still writes.

    Args:
        lake: the pipeline's lake.
        owner: name of the holder, shown to those who wait.
        remote: whether the holder writes by a Spark Connect server.
        wait: seconds to wait for another holder.
        sent: whether the server has been sent anything by now.

    Raises:
        LakeLocked: somebody else held the lock all that time, or a table cannot be fenced.
        LakeUnsupported: this version has no safe lock on the lake's store or mount.
    """
    with pipeline_lock(lake, owner, wait):
        if filesystems.file(_note(lake)) is not None:
            say("the last run on a Spark Connect server has not ended well; what it may still write is kept out")
            for uri in written_tables(lake):
                _fence(lake, uri)
            _forget(lake)
        if remote:
            _write_note(lake, owner)
        try:
            yield
        except BaseException:  # it may be that of a connection, and the server be at work
            remote = remote and not sent()
            raise
        finally:
            if remote:
                _forget(lake)


def written_tables(lake: Lake) -> list[str]:
    """Addresses of all tables that Spark has written for a pipeline."""
    found = []
    for folder in WRITTEN:
        fs, path = filesystems.opened(lake.table(folder, "").rstrip("/"))
        fs.invalidate_cache()
        with suppress(FileNotFoundError):
            names = sorted(entry.rstrip("/").rpartition("/")[2] for entry in fs.ls(path, detail=False))
            found += [lake.table(folder, name) for name in names if fs.exists(f"{path}/{name}/_delta_log")]
    return found


def _fence(lake: Lake, uri: str) -> None:
    for _ in range(ATTEMPTS):
        if (table := tables.delta_table(uri)) is None:
            return
        try:
            table.alter.set_table_properties({PROPERTY: uuid.uuid4().hex}, raise_if_not_exists=False)
            return
        except CommitFailedError:  # the server's own commit came first, or another program's
            continue
        except DeltaError as error:
            cause = str(error)
            break
    else:
        cause = "other programs committed again and again"
    raise LakeLocked(
        f"{uri} cannot be kept from what a Spark Connect server may still write for the run before",
        where=Where(file=uri),
        cause=cause,
        hint=f"see that the server has ended or does nothing any more, and delete {_note(lake)}",
    )


def _note(lake: Lake) -> str:
    return f"{lake.locks}/remote"


def _write_note(lake: Lake, owner: str) -> None:
    fs, path = filesystems.opened(_note(lake))
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    with fs.open(path, "wb") as file:
        file.write(owner.encode())


def _forget(lake: Lake) -> None:
    fs, path = filesystems.opened(_note(lake))
    with suppress(FileNotFoundError):
        fs.rm_file(path)

"""Lock of a pipeline, for one writer at a time. It saves work; offsets keep tables right (flow/loop.py)."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sluicegate.console import say
from sluicegate.errors import LakeLocked, LakeUnsupported, Where
from sluicegate.lake.exclusion import lease, mounts, renamed
from sluicegate.lake.layout import Lake, is_local, local_path
from sluicegate.storage import aws
from sluicegate.times import utc_now

POLL_SECONDS = 0.5

FREED = "the lock is freed with its process"


@contextmanager
def pipeline_lock(lake: Lake, owner: str, wait: float = 600.0, *, renaming: bool = False) -> Iterator[None]:
    """Hold the pipeline's lock.

    On local disk it is ``flock``, which the system releases when the process dies, so it need not expire; on S3 a
    lease (see lake/exclusion/lease.py).

    Args:
        lake: the pipeline's lake.
        owner: name of the holder, shown to those who wait.
        wait: seconds to wait for another holder.
        renaming: whether the holder completes a rename, which excludes others.

    Raises:
        LakeLocked: another process held the lock for the whole wait, or took a lease that was not renewed.
        PipelineRenamed: the pipeline has another name, or is being renamed.
        LakeUnsupported: this version has no safe lock on the lake's store or mount.
    """
    address = lake.lock("pipeline")
    if aws.is_on_s3(lake.root):
        with lease.hold(address, _take_lease(address, lake, owner, wait), stops=True):
            yield
        return
    _demand_local(lake)
    if not renaming:
        renamed.demand_current(lake)
    with _wait_for_lock(address, lake, wait, renaming=renaming) as file:
        _demand_exclusive(address)
        _sign(file, owner)
        yield


@contextmanager
def turn(lake: Lake, owner: str) -> Iterator[str | None]:
    """Hold the turn to start a job, for callers that come back later rather than wait in a JVM.

    The job itself takes the lock some seconds later; if callers only checked the lock, two of them would both start.

    Yields:
        None if the turn is ours; else the holder of the turn or the lock, and nothing is held.
    """
    address = lake.lock("turn")
    if aws.is_on_s3(lake.root):
        claim = lease.take(address, owner)
        if isinstance(claim, str):
            yield claim
            return
        with lease.hold(address, claim, stops=False):
            yield lease.holder(lake.lock("pipeline"))
        return
    if not is_local(lake.root):  # the job reports the error
        yield None
        return
    with _open_lock_file(address) as file:
        if not _try_lock(file):
            yield _holder(file)
            return
        _sign(file, owner)
        yield _current_holder(lake)


def _wait_for_lock(address: str, lake: Lake, wait: float, *, renaming: bool) -> IO[str]:
    """Wait for the lock file, and return it once it is ours and still at its address.

    Raises:
        LakeLocked: another process held the lock for the whole wait.
        PipelineRenamed: the pipeline was renamed meanwhile.
    """
    file = _open_lock_file(address)
    try:
        _poll(lambda: None if _try_lock(file) else _holder(file), address, lake, wait, FREED)
        if not renaming:  # once more, before anything is made at the former address
            renamed.demand_current(lake)
        if os.fstat(file.fileno()).st_nlink:
            return file
    except BaseException:
        file.close()
        raise
    # Another pipeline has got this name while this waited, and the folder with this file gave way to that one's.
    file.close()
    return _wait_for_lock(address, lake, wait, renaming=renaming)


def _demand_local(lake: Lake) -> None:
    if not is_local(lake.root):
        raise LakeUnsupported(
            f"the lake {lake.root} is neither on a local disk nor on S3",
            hint="this version locks a lake by a file lock or by S3's conditional writes; use a local or mounted"
            " folder, or s3a://, for --lake",
        )
    if not mounts.is_vouched() and (doubt := mounts.doubt(local_path(lake.locks))):
        raise _unsafe_lock_error(lake.root, doubt)


def _demand_exclusive(address: str) -> None:
    """Check that our lock excludes another: some mounts grant it to everybody."""
    with _open_lock_file(address) as other:
        if _try_lock(other) and not mounts.is_vouched():
            raise _unsafe_lock_error(address, "a second process got a lock that was already held")


def _unsafe_lock_error(place: str, cause: str) -> LakeUnsupported:
    return LakeUnsupported(
        f"a file lock at {place} may not exclude writers on other machines",
        where=Where(file=place),
        cause=f"{cause}; without a lock one of two concurrent commits is lost",
        hint="put the lake on a local disk, a mount with working locks, or S3; or set "
        f"{mounts.VOUCHED}=1 if no other machine, and no host of this one, ever writes to it",
    )


def _take_lease(address: str, lake: Lake, owner: str, wait: float) -> lease.Claim:
    claims: list[lease.Claim] = []

    def try_lease() -> str | None:
        claim = lease.take(address, owner)
        if isinstance(claim, str):
            return claim
        claims.append(claim)
        return None

    _poll(try_lease, address, lake, wait, f"if that run has died, its lock expires within {lease.LASTS:g} s")
    return claims[0]


def _poll(tried: Callable[[], str | None], address: str, lake: Lake, wait: float, freed: str) -> None:
    """Poll until the lock is taken, and report its holder once.

    Raises:
        LakeLocked: the lock was not free in time.
    """
    deadline = time.monotonic() + wait
    reported = False
    while holder := tried():
        if time.monotonic() >= deadline:
            raise LakeLocked(
                f"pipeline {lake.pipeline} is being written by {holder}",
                where=Where(file=address),
                hint=f"wait for that run to end, or stop it; {freed}",
            )
        if not reported:
            say(f"waiting for {holder}, which is writing pipeline {lake.pipeline}")
            reported = True
        time.sleep(POLL_SECONDS)


def _open_lock_file(address: str) -> IO[str]:
    """Open the file of a lock for writing.

    Raises:
        LakeUnsupported: this user has no permission to write the file.
    """
    path = Path(local_path(address))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+", encoding="utf-8")
    except PermissionError as error:
        raise _permission_error(error) from error


def _permission_error(error: OSError) -> LakeUnsupported:
    return LakeUnsupported(
        "this user has no permission to lock the lake",
        where=Where(file=error.filename),
        cause=f"{error.strerror}; the user ID is {os.geteuid()}",
        hint="run this as the user that wrote the lake, or let both users write all of it: manual runs and Airflow's "
        "often have different users",
    )


def _try_lock(file: IO[str], mode: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # the mount has no locks at all
        if not mounts.is_vouched():
            raise _unsafe_lock_error(file.name, str(error)) from error
    return True


def _current_holder(lake: Lake) -> str | None:
    """Return the current holder of the pipeline's lock file; None if it is free."""
    path = Path(local_path(lake.lock("pipeline")))
    if not path.exists():
        return None
    try:
        opened = path.open(encoding="utf-8")
    except PermissionError as error:
        raise _permission_error(error) from error
    with opened as file:
        if _try_lock(file, fcntl.LOCK_SH):
            return None
        return _holder(file)


def _sign(file: IO[str], owner: str) -> None:
    """Write the holder into the lock file."""
    file.seek(0)
    file.truncate()
    json.dump({"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": utc_now()}, file)
    file.flush()


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        facts = json.load(file)
        return "{owner} (pid {pid} on {host}, since {since})".format(**facts)
    except (ValueError, TypeError, KeyError):  # the holder is between taking the lock and writing its name
        return "another run"

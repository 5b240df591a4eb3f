"""Leases: locks on an object store, which the holder renews and which expire by themselves.

A lease is a Delta table without rows, whose commits say who holds it until when. Each is a compare-and-set on the
version before it (delta-rs puts it with ``If-None-Match``), like all else in the lake: so it needs no client and no
credentials of its own. Clocks only decide when a lease expires. If they are wrong a lease is taken too early; the
offsets keep the tables right all the same (see flow/loop.py), and the run that lost it is stopped.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from types import FrameType

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import processes
from sluicegate.errors import LakeLocked, Where
from sluicegate.lake import log, tables
from sluicegate.storage import aws, filesystems
from sluicegate.times import utc_now

# Seconds until a lease expires without renewal, and between renewals.
LASTS = 60.0
RENEWED_AFTER = 15.0

KEY = "lease"

# Stops the main thread's work. Not SIGINT, which a shell lets its background jobs ignore.
STOPS = signal.SIGUSR1

# Each renewal is a commit: checkpoint often and keep the log short.
SETTINGS = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 1 hours"}


@dataclass(frozen=True)
class Claim:
    """Holder and expiry of a lease, as committed.

    Attributes:
        owner: name of the holder; empty once it has released the lease.
        until: when the lease expires, seconds since 1970 UTC.
        host: machine of the holder.
        pid: process ID of the holder on that machine.
        since: start of the lease (UTC, ISO 8601).
        token: unique to this holder.
        world: namespace in which the pid is valid (see ``processes.process_namespace``); empty if unknown.
    """

    owner: str
    until: float
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=utc_now)
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    world: str = ""

    @property
    def is_held(self) -> bool:
        """Whether the lease is held: neither released nor expired, and its process may be alive."""
        return bool(self.owner) and time.time() < self.until and not processes.is_gone(self.world, self.pid)

    def __str__(self) -> str:
        return f"{self.owner} (pid {self.pid} on {self.host}, since {self.since})"


def holder(address: str) -> str | None:
    """Return the current holder of a lease; None if it is free."""
    claim = _last_claim(tables.delta_table(address))
    if not (claim and claim.is_held):
        return None
    return str(claim)


def take(address: str, owner: str) -> Claim | str:
    """Take a lease if it is free; return the claim, or else the name of the holder."""
    while True:
        table = tables.delta_table(address)
        if table is None:
            _create(address)
            continue
        last = _last_claim(table)
        if last and last.is_held:
            return str(last)
        mine = Claim(owner, time.time() + LASTS, world=processes.process_namespace())
        if _commit_claim(table, mine):
            return mine


@contextmanager
def hold(address: str, claim: Claim, *, stops: bool) -> Iterator[None]:
    """Renew a lease within the block, and release it at the end.

    Args:
        address: address of the lease.
        claim: the claim that ``take`` returned.
        stops: whether work in the main thread is interrupted once somebody else has the lease. Other threads cannot
            be interrupted: their commits fail on their offsets.

    Raises:
        LakeLocked: the lease was not renewed in time and was lost, so work was stopped.
    """
    stops = stops and threading.current_thread() is threading.main_thread()
    keeper = _Keeper(address, claim, stops)
    former = None
    if stops:
        former = signal.signal(STOPS, _interrupt)
    keeper.start()
    try:
        yield
    except KeyboardInterrupt:
        if keeper.lost is None:
            raise
        raise LakeLocked(
            f"this run lost its lock to {keeper.lost}, and was stopped",
            where=Where(file=address),
            cause=f"it was not renewed for {LASTS:g} s: the machine was suspended, or the store was unreachable",
            hint="nothing is lost: a new run continues after the last commit",
        ) from None
    finally:
        keeper.end()
        if stops:
            signal.signal(STOPS, former)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Handle a signal as Ctrl-C, which also cancels Spark jobs; works where SIGINT is ignored."""
    usual = signal.getsignal(signal.SIGINT)
    if callable(usual):
        usual(signal.SIGINT, frame)
    raise KeyboardInterrupt


class _Keeper(threading.Thread):
    """Thread that renews a lease, and interrupts the main thread once another holder has it."""

    def __init__(self, address: str, claim: Claim, stops: bool) -> None:
        super().__init__(name="lease", daemon=True)
        self._address, self._claim, self._stops, self._over = address, claim, stops, threading.Event()
        self._given = aws.overrides()
        self.lost: Claim | None = None

    def run(self) -> None:
        with aws.override_variables(self._given):
            while self.lost is None and not self._over.wait(RENEWED_AFTER):
                # After a failure of the store the next renewal tries again; nobody takes the lease before it expires.
                with suppress(OSError, DeltaError):
                    self._put(time.time() + LASTS)
        if self.lost and self._stops and not self._over.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, STOPS)

    def end(self) -> None:
        """Stop renewing, and release the lease."""
        self._over.set()
        self.join()
        if self.lost is None:
            self._claim = replace(self._claim, owner="")
            with suppress(OSError, DeltaError):  # it expires by itself
                self._put(time.time())

    def _put(self, until: float) -> None:
        table = tables.delta_table(self._address)
        last = _last_claim(table)
        if table is None or last is None or last.token != self._claim.token:
            self.lost = last or Claim("nobody", 0.0)
            return
        self._claim = replace(self._claim, until=until)
        _commit_claim(table, self._claim)


def _last_claim(table: DeltaTable | None) -> Claim | None:
    """Return the claim of the newest commit; None without a table, and right after it was created."""
    if table is None:
        return None
    said = next(a["commitInfo"] for a in log.actions(table.table_uri, table.version()) if "commitInfo" in a)
    if KEY not in said:
        return None
    known = {part.name for part in fields(Claim)}  # another release may write more fields
    return Claim(**{name: value for name, value in json.loads(said[KEY]).items() if name in known})


def _commit_claim(table: DeltaTable, claim: Claim) -> bool:
    """Commit a claim by compare-and-set on the loaded version; return False if another commit won."""
    properties = CommitProperties(max_commit_retries=0, custom_metadata={KEY: json.dumps(asdict(claim))})
    try:
        table.create_write_transaction([], mode="append", schema=table.schema(), commit_properties=properties)
    except CommitFailedError:
        # The response may have been lost, so that the retried request met our own commit.
        last = _last_claim(tables.delta_table(table.table_uri))
        return last is not None and last.token == claim.token
    return True


def _create(address: str) -> None:
    columns = pa.schema([pa.field("nothing", pa.int8())])
    with suppress(DeltaError):  # another run made it at this moment
        DeltaTable.create(address, schema=columns, configuration=SETTINGS, storage_options=filesystems.options(address))

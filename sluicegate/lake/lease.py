"""Locks on an object store: a lease, which its holder renews as long as it lives, and which ends by itself.

A lease is a Delta table without rows, whose commits say who holds it until when. Each is a compare-and-set on the
version before it (delta-rs puts it with ``If-None-Match``), as all that is in the lake: so it needs no client and no
credentials of its own. Clocks count only to tell when a lease is over. If they are wrong a lease is taken
too early; the marks keep the tables right all the same (see flow/loop.py), and the one who lost it is stopped.
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

# Seconds that a lease lasts without being renewed, and after which it is renewed.
LASTS = 60.0
RENEWED_AFTER = 15.0

KEY = "lease"

# Stops the main thread's work. Not SIGINT, which a shell lets its background jobs ignore.
STOPS = signal.SIGUSR1

# Renewals are commits; their log is cut short often.
SETTINGS = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 1 hours"}


@dataclass(frozen=True)
class Claim:
    """What a commit of a lease says.

    Attributes:
        owner: what the holder calls itself; empty once it has let go.
        until: when the lease is over, seconds since 1970 UTC.
        host: the machine that the holder runs on.
        pid: number of its process there.
        since: when it began (UTC, ISO 8601).
        token: tells this holder from all others.
        world: where the number means this process (see ``processes.world``); empty where that is not known.
    """

    owner: str
    until: float
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=utc_now)
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    world: str = ""

    @property
    def stands(self) -> bool:
        """Whether somebody holds it: not if its time is over, or its process is gone for certain."""
        return bool(self.owner) and time.time() < self.until and not processes.is_gone(self.world, self.pid)

    def __str__(self) -> str:
        return f"{self.owner} (pid {self.pid} on {self.host}, since {self.since})"


def holder(address: str) -> str | None:
    """Who holds a lease at this moment; None if nobody does."""
    table = tables.delta_table(address)
    claim = None if table is None else _last(table)
    return str(claim) if claim and claim.stands else None


def taken(address: str, owner: str) -> Claim | str:
    """Takes a lease if nobody holds it; gives the claim, or in words who does."""
    while True:
        table = tables.delta_table(address)
        if table is None:
            _made(address)
            continue
        last = _last(table)
        if last and last.stands:
            return str(last)
        mine = Claim(owner, time.time() + LASTS, world=processes.world())
        if _committed(table, mine):
            return mine


@contextmanager
def held(address: str, claim: Claim, *, stops: bool) -> Iterator[None]:
    """Within it a lease that was taken is renewed; afterwards it is free.

    Args:
        address: of the lease.
        claim: what ``taken`` gave.
        stops: whether work in the main thread is stopped once somebody else has it. Any other thread cannot be: its
            commits are refused by their marks.

    Raises:
        LakeLocked: it was lost, since it could not be renewed in time, and work was stopped.
    """
    stops = stops and threading.current_thread() is threading.main_thread()
    keeper = _Keeper(address, claim, stops)
    former = signal.signal(STOPS, _interrupted) if stops else None
    keeper.start()
    try:
        yield
    except KeyboardInterrupt:
        if keeper.lost is None:
            raise
        raise LakeLocked(
            f"the lock of this run was taken over by {keeper.lost}, so the run was stopped",
            where=Where(file=address),
            cause=f"it was not renewed for {LASTS:g} s: the machine stood still, or the store was out of reach",
            hint="nothing is lost: a new run goes on where the last commit ended",
        ) from None
    finally:
        keeper.end()
        if stops:
            signal.signal(STOPS, former)


def _interrupted(_number: int, frame: FrameType | None) -> None:
    """Does what Ctrl-C does, which ends Spark's jobs, too; also where that is ignored, as in a shell's background."""
    usual = signal.getsignal(signal.SIGINT)
    if callable(usual):
        usual(signal.SIGINT, frame)
    raise KeyboardInterrupt


class _Keeper(threading.Thread):
    """Renews a lease, and stops the main thread's work once somebody else has it."""

    def __init__(self, address: str, claim: Claim, stops: bool) -> None:
        super().__init__(name="lease", daemon=True)
        self._address, self._claim, self._stops, self._over = address, claim, stops, threading.Event()
        self._given = aws.current()
        self.lost: Claim | None = None

    def run(self) -> None:
        with aws.given(self._given):
            while self.lost is None and not self._over.wait(RENEWED_AFTER):
                # A store out of reach for a moment is asked again; nobody else takes the lease before it is over.
                with suppress(OSError, DeltaError):
                    self._put(time.time() + LASTS)
        if self.lost and self._stops and not self._over.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, STOPS)

    def end(self) -> None:
        """Lets go of the lease."""
        self._over.set()
        self.join()
        if self.lost is None:
            self._claim = replace(self._claim, owner="")
            with suppress(OSError, DeltaError):  # it ends by itself
                self._put(time.time())

    def _put(self, until: float) -> None:
        table = tables.delta_table(self._address)
        last = _last(table) if table else None
        if table is None or last is None or last.token != self._claim.token:
            self.lost = last or Claim("nobody", 0.0)
            return
        self._claim = replace(self._claim, until=until)
        _committed(table, self._claim)


def _last(table: DeltaTable) -> Claim | None:
    """What the newest commit says; None right after the table was made."""
    said = next(
        action["commitInfo"] for action in log.actions(table.table_uri, table.version()) if "commitInfo" in action
    )
    if KEY not in said:
        return None
    known = {part.name for part in fields(Claim)}  # another version of ours may say more
    return Claim(**{name: value for name, value in json.loads(said[KEY]).items() if name in known})


def _committed(table: DeltaTable, claim: Claim) -> bool:
    """Commits as exactly the version after the one that the table is loaded at; False if another was faster."""
    try:
        table.create_write_transaction(
            [], mode="append", schema=table.schema(),
            commit_properties=CommitProperties(
                max_commit_retries=0, custom_metadata={KEY: json.dumps(asdict(claim))}
            ),
        )  # fmt: skip
    except CommitFailedError:
        # An answer may have been lost, and the request that was sent again have met its own commit.
        now = tables.delta_table(table.table_uri)
        last = _last(now) if now else None
        return last is not None and last.token == claim.token
    return True


def _made(address: str) -> None:
    columns = pa.schema([pa.field("nothing", pa.int8())])
    with suppress(DeltaError):  # another run made it at this moment
        DeltaTable.create(address, schema=columns, configuration=SETTINGS, storage_options=filesystems.options(address))

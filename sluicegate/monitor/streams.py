"""Registry of continuous runs in the lake: registered by heartbeat, listed, asked to stop. No Spark.

A run rewrites ``{lake}/{pipeline}/_streams/{id}.json`` while it lives and deletes it when it ends. A file ``{id}.stop``
in that folder, or the deletion of its ``.json``, asks it to stop. No data depends on either: a killed run leaves its
file behind.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sluicegate import processes
from sluicegate.definition.fields import name_fault
from sluicegate.errors import UserError
from sluicegate.lake.layout import Lake
from sluicegate.storage import durable, filesystems
from sluicegate.times import utc_now

# Seconds between heartbeats, and the silence after which a run counts as dead.
BEAT = 5.0
SILENCE = timedelta(seconds=20)

ID = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class Stream:
    """Registration of a continuous run.

    Attributes:
        pipeline: the pipeline that it runs.
        id: eight hexadecimal digits.
        every: its interval, as requested.
        layer: the only layer that it runs; None for all.
        state: ``running``, ``stopping``, or ``no heartbeat``.
        since: when it began (UTC, ISO 8601, as the other times here).
        batches: batches that had work.
        rows: rows that these read.
        last_batch: when the last batch ended.
        failures: consecutive failed ticks.
        host: the machine that it runs on.
        pid: its Python process there.
        beat: its last heartbeat.
        world: where that pid means this process (see ``processes.process_namespace``); empty where that is not known.
    """

    pipeline: str
    id: str
    every: str
    layer: str | None = None
    state: str = "running"
    since: str = field(default_factory=utc_now)
    batches: int = 0
    rows: int = 0
    last_batch: str | None = None
    failures: int = 0
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    beat: str = field(default_factory=utc_now)
    world: str = ""

    @property
    def is_dead(self) -> bool:
        """Whether it is dead: its heartbeat is too old, or its process is gone from this machine."""
        if datetime.now(UTC) - datetime.fromisoformat(self.beat) > SILENCE:
            return True
        return processes.is_gone(self.world, self.pid)


def new_id() -> str:
    """Return the new random id of a run."""
    return secrets.token_hex(4)


class Registration:
    """Context in which a continuous run is registered, visible to every machine that sees the lake.

    Args:
        at: the pipeline's lake.
        stream: the registration to begin with.
        beat: seconds between heartbeats.
    """

    def __init__(self, lake: Lake, stream: Stream, beat: float = BEAT) -> None:
        self._at, self._stream, self._beat = lake, stream, beat
        self._over, self._writing = threading.Event(), threading.Lock()

    def __enter__(self) -> Registration:
        """Write the file and start the heartbeat thread."""
        self._write()
        self._heart = threading.Thread(target=self._send_heartbeats, name="heartbeat", daemon=True)
        self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the heartbeat and delete the file."""
        self._over.set()
        self._heart.join()
        forget(self._at, self._stream.id)

    def update_facts(self, **facts: Any) -> None:
        """Update the registration (fields of ``Stream``), unless its file was deleted."""
        with self._writing:
            self._stream = replace(self._stream, **facts)
        if not self.is_stop_requested():
            self._write()

    def is_stop_requested(self) -> bool:
        """Return whether the run is asked to stop."""
        with suppress(OSError):  # a store out of reach for a moment has asked for nothing
            names = _names(self._at)
            return f"{self._stream.id}.stop" in names or f"{self._stream.id}.json" not in names
        return False

    def _send_heartbeats(self) -> None:
        while not self._over.wait(self._beat):
            with suppress(OSError):
                if f"{self._stream.id}.json" in _names(self._at):
                    self._write()

    def _write(self) -> None:
        with self._writing:
            self._stream = replace(self._stream, beat=utc_now())
            durable.write(f"{self._at.streams}/{self._stream.id}.json", json.dumps(asdict(self._stream)))


def _names(lake: Lake) -> set[str]:
    """Return the file names in a pipeline's ``_streams`` folder; none if there is no folder."""
    fs, folder = filesystems.open_store(lake.streams)
    fs.invalidate_cache(folder)
    try:
        return {path.rsplit("/", 1)[-1] for path in fs.ls(folder, detail=False)}
    except FileNotFoundError:
        return set()


def list_streams(root: str, pipeline: str | None = None) -> list[Stream]:
    """List the continuous runs of a lake, of one pipeline or of all, oldest first.

    Args:
        root: path or URI of the lake.
        pipeline: name of the pipeline; None for all.
    """
    streams: list[Stream] = []
    for lake in [Lake(root, name) for name in ([pipeline] if pipeline else _pipelines(root)) if not name_fault(name)]:
        names = _names(lake)
        for name in names:
            identity, _, kind = name.rpartition(".")
            if kind == "json" and ID.fullmatch(identity) and (stream := _read(lake, identity)) is not None:
                state = "running"
                if f"{identity}.stop" in names:
                    state = "stopping"
                streams.append(replace(stream, state="no sign of life" if stream.is_dead else state))
    return sorted(streams, key=lambda stream: (stream.since, stream.id))


def _pipelines(root: str) -> list[str]:
    fs, folder = filesystems.open_store(root)
    try:
        return [entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in fs.ls(folder, detail=True)
                if entry["type"] == "directory"]  # fmt: skip
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(lake: Lake, identity: str) -> Stream | None:
    fs, folder = filesystems.open_store(lake.streams)
    try:
        facts = json.loads(fs.cat_file(f"{folder}/{identity}.json"))
        # Pipeline and id come from the path, whatever the file says: they go into paths.
        return Stream(**{**facts, "pipeline": lake.pipeline, "id": identity})
    except FileNotFoundError:  # it has ended since its name was read
        return None
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{lake.streams}/{identity}.json is not a file of a continuous run",
            cause=str(error),
            hint="delete it; no data depends on it",
        ) from error


def stop(root: str, stream: Stream) -> str:
    """Ask a run to stop, or remove the files of a dead one; return a sentence on which happened."""
    lake = Lake(root, stream.pipeline)
    if stream.is_dead:
        forget(lake, stream.id)
        return "gave no sign of life, so its entry was removed"
    ask_to_stop(lake, stream.id)
    return "stops after its current batch"


def ask_to_stop(lake: Lake, identity: str) -> None:
    """Ask a run to stop after its current batch."""
    durable.write(f"{lake.streams}/{identity}.stop", "")


def forget(lake: Lake, identity: str) -> None:
    """Delete the files of a run that has ended."""
    fs, folder = filesystems.open_store(lake.streams)
    for kind in ("json", "stop"):
        with suppress(FileNotFoundError):
            fs.rm_file(f"{folder}/{identity}.{kind}")


def find_stream(root: str, pipeline: str | None, identity: str) -> Stream:
    """Return the registration of the run with an id.

    Raises:
        UserError: no run has this id.
    """
    streams = list_streams(root, pipeline)
    for stream in streams:
        if stream.id == identity:
            return stream
    ids = ", ".join(stream.id for stream in streams)
    raise UserError(
        f"unknown continuous run {identity}", hint=f"running: {ids}" if ids else "no continuous run is registered"
    )

"""The process that keeps a Spark ready for the runs of a lake: driver, JVM, and what both have loaded.

``sluicegate run`` starts it and gives it one run after another; see ``launch.warm_spark``. It ends by itself when it
has been idle for some minutes, when the machine is short of memory, when a run comes that needs another Spark, and
after a run that failed in a way that may have left its JVM unsound. If a run's client goes, its whole process group
ends, as a job does whose command was killed: the tables' logs say where the next run continues.

It listens before it imports what a run needs.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from sluicegate.jobs.imported_files import ImportedFiles
from sluicegate.launch import warm_spark
from sluicegate.settings import Settings

# Seconds between two looks at the clock and the memory.
POLL_SECONDS = 1.0

# Seconds for which a client may take to send its request.
PATIENCE = 5.0

# Available memory below which it ends: the smaller of a gibibyte and a tenth of the machine's.
SHORT_BYTES = 2**30
SHORT_PART = 0.1

# Part of the open files that this process may have, above which it ends: Spark keeps a connection to it, and a thread,
# for each stream that called a function of it.
FILES_PART = 0.5

# Seconds within which the first run comes; without it, the command that started this process is gone.
FIRST_RUN_SECONDS = 20.0

# Line of /proc/meminfo with a size.
_SIZE = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)


@dataclass
class Run:
    """A run that a client waits for.

    Attributes:
        client: the connection.
        arguments: the command line of the job ``run``.
        channel: variables that give the job its channel.
        output: open file for what it prints.
        has_ended: set when it has; until then its client has to stay.
    """

    client: socket.socket
    arguments: list[str]
    channel: dict[str, str]
    output: int
    has_ended: threading.Event = field(default_factory=threading.Event)

    def watch_client(self) -> None:
        """End this process's group if the client goes before the run has ended; it sends nothing else."""
        with suppress(OSError):
            self.client.recv(1)
        if not self.has_ended.is_set():
            os.killpg(os.getpgrp(), signal.SIGTERM)

    def end(self, code: int) -> None:
        """Give the exit code to the client."""
        self.has_ended.set()
        with suppress(OSError):
            warm_spark.send(self.client, {"code": code})
        self.client.close()


class Listener:
    """Takes connections in a thread, and hands over one run at a time.

    Args:
        place: where to listen.
        fingerprint: that of the runs which this process can do.
        imported: files of the modules that these have imported.

    Attributes:
        runs: the run to do next; None to end.
    """

    def __init__(self, place: warm_spark.Place, fingerprint: str, imported: ImportedFiles) -> None:
        self._fingerprint, self._imported = fingerprint, imported
        self.runs: SimpleQueue[Run | None] = SimpleQueue()
        self._busy = threading.Lock()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        place.address.unlink(missing_ok=True)  # of one that was killed: this process has the lock
        former = os.umask(0o177)
        try:
            self._server.bind(str(place.address))
        finally:
            os.umask(former)
        self._server.listen()
        threading.Thread(target=self._listen, name="listener", daemon=True).start()

    def take_next(self) -> None:
        """Take another run; the one before has ended."""
        self._busy.release()

    def try_close(self) -> bool:
        """Take no further run; False if one has just come."""
        return self._busy.acquire(blocking=False)

    def close_when_idle(self) -> None:
        """Take no further run, and end, unless one is at work."""
        if self.try_close():
            self.runs.put(None)

    def _listen(self) -> None:
        while True:
            client, _ = self._server.accept()
            with suppress(OSError, ValueError):
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        """Answer a client's request, and hand over the run in it.

        Raises:
            OSError: the client is gone, or not of this user.
            ValueError: it does not send what a client sends.
        """
        client.settimeout(PATIENCE)
        if not warm_spark.is_of_this_user(client):
            client.close()
            return
        message, files = warm_spark.receive(client)
        if not message:  # the client only looked whether it listens
            client.close()
            return
        if not self._busy.acquire(blocking=False):
            _refuse(client, files, "busy")
            return
        is_other = message.get("fingerprint") != self._fingerprint  # or it is the request to stop
        if is_other or self._imported.have_changed():
            self.runs.put(None)
            _refuse(client, files, "other")
            return
        try:
            run = _accept_run(client, message, files)
        except BaseException:
            self._busy.release()
            raise
        threading.Thread(target=run.watch_client, name="client", daemon=True).start()
        self.runs.put(run)


def _accept_run(client: socket.socket, message: dict[str, object], files: list[int]) -> Run:
    arguments, channel = message.get("arguments"), message.get("channel")
    if not isinstance(arguments, list) or not isinstance(channel, dict) or len(files) != 1:
        _refuse(client, files, "incomplete")
        raise ValueError("a request without arguments, channel or output")
    warm_spark.send(client, {"pid": os.getpid()})
    client.settimeout(None)
    return Run(client, list(map(str, arguments)), channel, files[0])


def _refuse(client: socket.socket, files: list[int], reason: str) -> None:
    for file in files:
        os.close(file)
    with client:
        warm_spark.send(client, {"refused": reason})


def main(argv: list[str]) -> None:
    """Listen and run until it is time to end.

    Args:
        argv: lake, landing and master; fingerprint of the runs that it can do; minutes for which it may be idle.
    """
    lake, landing, master, fingerprint, minutes = argv
    place = warm_spark.Place.from_lake(lake)
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # another one was started at the same time
    imported = ImportedFiles()
    listener = Listener(place, fingerprint, imported)
    try:
        _serve(listener, imported, Settings.of(lake, landing, None, master), float(minutes) * 60)
    finally:
        place.address.unlink(missing_ok=True)


def _serve(listener: Listener, imported: ImportedFiles, settings: Settings, idle_seconds: float) -> None:
    from sluicegate.jobs.warm_driver import WarmDriver

    driver = WarmDriver(settings, listener.close_when_idle)
    idle_since, patience = time.monotonic(), min(idle_seconds, FIRST_RUN_SECONDS)
    while True:
        is_over = time.monotonic() - idle_since > patience or _is_short_of_memory()
        if is_over and listener.try_close():
            return
        try:
            run = listener.runs.get(timeout=POLL_SECONDS)
        except Empty:
            continue
        if run is None:
            return
        code = driver.run(run.arguments, run.channel, run.output)
        is_sound = driver.is_sound(code)
        imported.note()
        run.end(code)
        if not is_sound or has_many_files():
            return
        listener.take_next()
        idle_since, patience = time.monotonic(), idle_seconds


def has_many_files() -> bool:
    """Return whether this process has so many open files that a run may want for some."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/dev/fd")) > FILES_PART * soft_limit


def _is_short_of_memory() -> bool:
    """Return whether others need the memory of an idle Spark; never where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return False
    return is_short(text)


def is_short(memory: str) -> bool:
    """Return whether little memory is available, by the text of ``/proc/meminfo``.

    It is not where the text does not say how much is available, as on the first Windows Subsystem for Linux.

    Source: proc_meminfo(5), MemAvailable.
    """
    sizes = {name: int(kib) * 1024 for name, kib in _SIZE.findall(memory)}
    if not {"MemAvailable", "MemTotal"} <= sizes.keys():
        return False
    return sizes["MemAvailable"] < min(SHORT_BYTES, SHORT_PART * sizes["MemTotal"])


if __name__ == "__main__":
    main(sys.argv[1:])
    os.killpg(os.getpgrp(), signal.SIGTERM)  # the JVM, which removes its scratch, and this process

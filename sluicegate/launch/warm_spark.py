"""The Spark that a local run leaves ready for the next one: where it listens, and what it has to agree with.

It is one process for a lake and user, with the driver's Python and its JVM. It listens on a socket of mode 0600 in a
folder of mode 0700, and says its process's number. It serves one run at a time, and only runs that would start the same
Spark: same code, jars, settings, environment and working folder. Any other run starts a Spark of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluicegate.errors import UserError
from sluicegate.private_folders import is_private
from sluicegate.settings import PACKAGE, Settings
from sluicegate.spark import java, spark_submit

MINUTES = "SLUICEGATE_WARM"
"""Variable with the minutes for which a Spark stays ready after a run; 0 for none."""

# Minutes without the variable.
DEFAULT_MINUTES = 10.0

# Variables of terminals, shells, logins and make, and the minutes. No job depends on them, and each window has others.
# By their whole names, where variables of a job may begin so, as HISTORY_DAYS does.
_OF_TERMINALS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|PS\d|LINES|COLUMNS|COLORTERM|LS_COLORS|WINDOWID|STY|DISPLAY|WAYLAND_DISPLAY|GPG_TTY"
    r"|TERM|TERM_PROGRAM|TERM_PROGRAM_VERSION|TERM_SESSION_ID|TERMINAL_EMULATOR|TERMCAP|TERMINFO|TMUX|TMUX_PANE"
    r"|SSH_(CLIENT|CONNECTION|TTY|AUTH_SOCK|AGENT_PID|ASKPASS)|DBUS_SESSION_BUS_(ADDRESS|PID)|PROMPT_COMMAND"
    r"|MAKEFLAGS|MAKELEVEL|MAKEOVERRIDES|MAKE_TERM(OUT|ERR)|MFLAGS|SLUICEGATE_WARM"
    r"|HIST(FILE|SIZE|FILESIZE|CONTROL|IGNORE|TIMEFORMAT)|(SUDO|XDG_SESSION|VTE|KONSOLE|ITERM|VSCODE|GNOME_TERMINAL)_\w+"
)

# Variables of continuous integration and of Airflow's tasks: there, nobody waits for the next run.
_NOBODY_WAITS = ("CI", "AIRFLOW_CTX_DAG_ID")

# Bytes of the longest folder: an address has at most 107, and the socket's name takes 22 of them. Source: unix(7).
LONGEST_FOLDER = 85

# Bytes of the longest message of the protocol: a request with the names of all tables.
LONGEST_MESSAGE = 1_000_000


@dataclass(frozen=True)
class Place:
    """Where the warm Spark of a lake listens.

    Attributes:
        folder: folder of mode 0700 of this user.
        key: hash of the lake's address.
    """

    folder: Path
    key: str

    @classmethod
    def from_lake(cls, lake: str) -> Place:
        """Return the place for a lake, by its path or URI.

        Raises:
            OSError: there is no folder that only this user can write to.
        """
        return cls(_private_folder(), hashlib.sha256(lake.encode()).hexdigest()[:16])

    @property
    def address(self) -> Path:
        """The socket on which it listens."""
        return self.folder / f"{self.key}.sock"

    @property
    def lock(self) -> Path:
        """File that it holds a lock on until it ends."""
        return self.folder / f"{self.key}.lock"

    @property
    def log(self) -> Path:
        """File with what its JVM prints between runs."""
        return self.folder / f"{self.key}.log"

    def is_running(self) -> bool:
        """Return whether the Spark that listens there, or ends, is still running."""
        try:
            lock = os.open(self.lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def connection(self) -> socket.socket | None:
        """Connect to the Spark that listens there; None if none does."""
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(str(self.address))
        except OSError:
            client.close()
            return None
        if not is_of_this_user(client):
            client.close()
            return None
        return client


def _private_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"sluicegate-warm-{os.getuid()}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and is_private(runtime):
        folder = Path(runtime) / "sluicegate"
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        raise OSError(
            f"{folder} is too long for the address of a socket; set XDG_RUNTIME_DIR or TMPDIR to a shorter one"
        )
    folder.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        raise PermissionError(f"{folder} can be written to by others")
    return folder


def is_of_this_user(peer: socket.socket) -> bool:
    """Return whether the process at the other end is this user's; elsewhere the folder's mode decides.

    Source: unix(7), SO_PEERCRED.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())


def minutes() -> float:
    """Return the minutes for which a Spark stays ready after a run; 0 where it is off, in CI and in Airflow.

    Raises:
        UserError: the variable has another value than a number of minutes.
    """
    text = os.environ.get(MINUTES, "")
    if not text:
        if any(map(os.environ.get, _NOBODY_WAITS)):
            return 0.0
        return DEFAULT_MINUTES
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 24 * 60:
        raise UserError(f"{MINUTES} is {text!r}", hint="use a number of minutes from 0 to 1440; 0 turns it off")
    return value


def can_serve(job: str, settings: Settings) -> bool:
    """Return whether a warm Spark can run a job: a run on this machine, without the user's own Spark configuration."""
    return job == "run" and settings.master.startswith("local") and not os.environ.get("SPARK_CONF_DIR")


def fingerprint(settings: Settings) -> str:
    """Return a hash of all that a Spark cannot change once it has started; others need another Spark."""
    variables, conf = spark_submit.submit_env("run"), spark_submit.job_conf("run", settings)
    facts = {
        "python": sys.executable,
        "folder": [os.getcwd(), *_identity(Path.cwd())],
        "files": [_umask(), os.getegid()],
        "master": settings.master,
        "settings": conf,
        "environment": {name: variables[name] for name in sorted(variables) if not _OF_TERMINALS.fullmatch(name)},
        "code": list(_stats(_code())),
        "jars": list(_stats(map(Path, conf["spark.driver.extraClassPath"].split(os.pathsep)))),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _identity(folder: Path) -> tuple[int, int]:
    """Identify the folder of a path: a process that began in one which was removed is not in its successor."""
    facts = folder.stat()
    return facts.st_dev, facts.st_ino


def _umask() -> int:
    """Return the mode that new files of this process do not get: it can be read only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _code() -> Iterator[Path]:
    yield from PACKAGE.rglob("*.py")
    yield spark_submit.job_file("run")
    yield java.spark_home().parent  # whose time changes when packages are installed or removed


def _stats(files: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    for file in sorted(files):
        with suppress(OSError):
            facts = file.stat()
            yield str(file), facts.st_mtime_ns, facts.st_size


# --- the protocol ----------------------------------------------------------------------------------------------------


def send(peer: socket.socket, message: Mapping[str, object], files: Iterable[int] = ()) -> None:
    """Send one message, a line of JSON, and open files with it.

    Raises:
        OSError: the other end is gone.
    """
    data = json.dumps(message).encode() + b"\n"
    descriptors = list(files)
    if descriptors:
        sent = socket.send_fds(peer, [data], descriptors)
        data = data[sent:]
    if data:  # sending nothing fails where the other end has answered and closed
        peer.sendall(data)


def receive(peer: socket.socket) -> tuple[dict[str, object], list[int]]:
    """Receive one message and the files that came with it; an empty one if the other end has closed.

    Raises:
        OSError: the other end is gone.
        ValueError: it is not a message of this protocol.
    """
    data, files = b"", []
    while not data.endswith(b"\n"):
        part, descriptors, _, _ = socket.recv_fds(peer, 65536, 4)
        files += descriptors
        if not part:
            return {}, files
        data += part
        if len(data) > LONGEST_MESSAGE:
            raise ValueError("a message without an end")
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("a message that is not an object")
    return message, files

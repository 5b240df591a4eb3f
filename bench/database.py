"""Database server for one measurement: PostgreSQL where this machine has it, in a folder of its own.

It listens on no address, only on a socket in that folder, which nobody else can open.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "airflow"
STARTS_WITHIN = 60.0  # seconds
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Database:
    """A database server that runs.

    Attributes:
        pid: its first process.
        address: where Airflow finds it, as SQLAlchemy takes it.
    """

    pid: int
    address: str


def programs() -> dict[str, str]:
    """Paths of PostgreSQL's ``initdb`` and ``postgres``; empty where one is missing."""
    folders = os.environ.get("PATH", "")
    if config := shutil.which("pg_config"):
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        folders = os.pathsep.join([folders, said])
    found = {name: shutil.which(name, path=folders) for name in ("initdb", "postgres")}
    return {name: path for name, path in found.items() if path} if all(found.values()) else {}


@contextmanager
def postgres() -> Iterator[Database | None]:
    """A PostgreSQL as it is after its installation, with more connections; None where this machine has none.

    Raises:
        RuntimeError: it does not start.
    """
    there = programs()
    if not there:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        home, log = Path(folder), Path(folder) / "log"
        # It refuses to run as root.
        user = _other_user() if os.geteuid() == 0 else None
        if user is not None:
            os.chown(home, user.pw_uid, user.pw_gid)
        as_user = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        with log.open("wb") as output:
            made = [there["initdb"], "-D", str(home / "data"), "-U", USER, "--auth=trust", "-E", "UTF8", "--no-locale"]
            if subprocess.run(made, stdout=output, stderr=output, cwd=home, check=False, **as_user).returncode:  # type: ignore[call-overload]
                raise RuntimeError(f"PostgreSQL's initdb failed: {_last_lines(log)}")
            command = [there["postgres"], "-D", str(home / "data"), "-k", str(home),
                       "-c", "listen_addresses=", "-c", "max_connections=200"]  # fmt: skip
            server = subprocess.Popen(command, stdout=output, stderr=output, cwd=home, **as_user)  # type: ignore[call-overload]
        try:
            _wait(home, server, log)
            yield Database(server.pid, f"postgresql+psycopg2://{USER}@/postgres?host={home}")
        finally:
            server.send_signal(signal.SIGINT)  # with SIGTERM it would wait for its clients
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _other_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody")


def _wait(home: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until the server takes connections: then the last line of its own file says so."""
    until, state = time.monotonic() + STARTS_WITHIN, home / "data" / "postmaster.pid"
    while not (state.exists() and state.read_text().rstrip().endswith("ready")):
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"PostgreSQL did not start: {_last_lines(log)}")
        time.sleep(POLL_SECONDS)


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-5:])

"""Private folders below the temporary one: this user's alone, and removed by a later process if theirs was killed.

Whoever has one holds a lock on a file in it. The system lets go of that with the process, whatever ended it, also where
process numbers mean nothing: in another container, or after a restart of the machine.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PREFIX = "sluicegate-private-"

# File that its owner has locked.
IN_USE = ".in-use"


class PrivateFolder:
    """A new folder of mode 0700 that no other process removes before this one removes it or has ended; also a context.

    Attributes:
        path: the folder.

    Raises:
        OSError: there is no temporary folder that can be written to.
    """

    def __init__(self) -> None:
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))  # which makes it with mode 0700
            file = self.path / IN_USE
            try:
                self._lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # another process has just removed it, as one that is empty
                continue
            with suppress(OSError):  # a file system without locks, where nobody else gets one either
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            if file.exists():
                return
            os.close(self._lock)  # removed before it was locked

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def remove_abandoned_folders() -> None:
    """Remove the folders of this user whose processes are gone without having removed them."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and _own_folder_facts(entry.path) is not None:
                _remove_if_abandoned(entry.path)


def is_private(folder: str | Path) -> bool:
    """Return whether a folder is this user's and closed to others; not a link, which others could point elsewhere."""
    facts = _own_folder_facts(folder)
    return facts is not None and not facts.st_mode & 0o077


def _own_folder_facts(folder: str | Path) -> os.stat_result | None:
    """Return the facts of a folder, not of a link to one; None if it is not there or another user's."""
    try:
        facts = os.lstat(folder)
    except OSError:
        return None
    if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
        return facts
    return None


def _remove_if_abandoned(folder: str) -> None:
    try:
        lock = os.open(os.path.join(folder, IN_USE), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        with suppress(OSError):
            os.rmdir(folder)  # its process was killed as it began; one that is at work makes another
        return
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # in use
    finally:
        os.close(lock)

"""All files below a folder of the local disk: nothing that cannot be looked at stops it, and no link leads out of it.

Whoever may land files may land links, too. One that leads out of the folder would let them read whatever this process
may, so it is passed over. One that leads to another place in the folder is a second name of what lies there: its files
are found by it only where the definition does not let them in under their own names (a hidden folder of files that are
published by links), and each of them once, by the oldest link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# Path, size, and microseconds since 1970 UTC.
Entry = tuple[str, int, int]

Admits = Callable[[str], bool]
"""Whether a file with this name below the folder is one that is asked for."""

OUTSIDE = "it is a link that leads out of the landing folder: land the file itself, or name its folder as the path"
NOTHING = "it is a link to nothing"
NO_FILE = "it is neither a file nor a folder"
NO_TEXT = "its name is not UTF-8, so Spark cannot open it: give it another name"


def leads_out(path: str, root: str) -> bool:
    """Whether a path below a folder is by now one of another place: what was a file when it was found may be a link."""
    return not _lies_in(os.path.realpath(path), os.path.realpath(root))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lies_in(target: str, home: str) -> bool:
    return target == home or target.startswith(f"{home.rstrip('/')}/")


@dataclass
class Walk:
    """One look at a folder.

    Attributes:
        root: the folder.
        admits: which names are asked for.
        left: gets what is passed over, and why; a folder's name ends in ``/``.
    """

    root: str
    admits: Admits
    left: dict[str, str] = field(default_factory=dict)

    def files(self) -> Iterator[Entry]:
        """The files.

        Raises:
            FileNotFoundError: there is no such folder.
            OSError: the folder itself cannot be listed.
        """
        self._links: deque[str] = deque()
        for path, about in self._below(self.root, self.root):
            yield path, about.st_size, about.st_mtime_ns // 1000
        yield from self._linked()

    def _below(self, top: str, named: str) -> Iterator[tuple[str, os.stat_result]]:
        """The files of a folder and those below it, links left aside; ``named`` is how it is called."""
        folders = [top]
        while folders:
            folder = folders.pop()
            for entry in self._inside(folder):
                if not _is_text(entry.name):
                    # What would stand for it in the ledger may be the very name of another file.
                    of_folder = "/" if entry.is_dir(follow_symlinks=False) else ""
                    self.left[named + entry.path[len(top) :] + of_folder] = NO_TEXT
                    continue
                try:
                    if entry.is_symlink():
                        self._links.append(named + entry.path[len(top) :])
                        continue
                    about = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # moved away a moment ago
                except OSError as error:
                    self.left[named + entry.path[len(top) :]] = error.strerror or str(error)
                    continue
                if stat.S_ISREG(about.st_mode):
                    yield entry.path, about
                elif stat.S_ISDIR(about.st_mode):
                    folders.append(entry.path)
                else:
                    self.left[named + entry.path[len(top) :]] = NO_FILE

    def _inside(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                yield from entries
        except FileNotFoundError:
            if folder == self.root:
                raise  # any other was moved away since its name was read
        except NotADirectoryError as error:
            if folder == self.root:
                raise FileNotFoundError(errno.ENOENT, "it is not a folder", folder) from error
        except OSError as error:
            if folder == self.root:
                raise
            self.left[f"{folder}/"] = error.strerror or str(error)

    def _linked(self) -> Iterator[Entry]:
        """The files that links lead to, and that are not asked for under their own names."""
        home = os.path.realpath(self.root)
        taken: set[str] = set()
        self._links = deque(sorted(self._links, key=self._by_age))
        while self._links:
            link = self._links.popleft()
            target = os.path.realpath(link)
            if not _lies_in(target, home):
                self.left[link] = OUTSIDE
                continue
            try:
                about = os.stat(link)
            except OSError as error:
                nothing = error.errno in (errno.ENOENT, errno.ELOOP)
                self.left[link] = NOTHING if nothing else error.strerror or str(error)
                continue
            if stat.S_ISDIR(about.st_mode) and target not in taken:
                taken.add(target)
                found = [(path, seen) for path, seen in self._below(target, link)]
            else:
                found = [(target, about)] if stat.S_ISREG(about.st_mode) else []
            for path, seen in found:
                name = link + path[len(target) :]
                if self._wanted(name, path[len(home) :]) and path not in taken:
                    taken.add(path)
                    yield name, seen.st_size, seen.st_mtime_ns // 1000

    def _wanted(self, name: str, own: str) -> bool:
        return not self.admits(own.lstrip("/")) and self.admits(name[len(self.root) :].lstrip("/"))

    def _by_age(self, link: str) -> tuple[bool, int, str]:
        """Hidden links last; a younger one does not take a file's name from it."""
        hidden = any(part.startswith((".", "_")) for part in link[len(self.root) :].split("/"))
        try:
            return hidden, os.lstat(link).st_mtime_ns, link
        except OSError:
            return hidden, 0, link

"""List a local folder recursively; unreadable entries do not stop it, and links do not lead out of it.

Whoever may land files may land links, too. A link that leads out of the folder would expose whatever this process may
read, so it is skipped. A link within the folder is a second name: its files are listed under it only if the definition
does not admit their own names (as for a hidden folder whose files are published by links), and each only once, by the
oldest link.
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

# Predicate on the name of a file below the folder.
Admits = Callable[[str], bool]

OUTSIDE = "it is a link that leads out of the landing folder: land the file itself, or name its folder as the path"
NOTHING = "it is a broken link"
NO_FILE = "it is neither a file nor a folder"
NO_TEXT = "its name is not UTF-8, so Spark cannot open it: rename it"


def leads_out(path: str, root: str) -> bool:
    """Return whether a path below a folder now resolves outside of it: a listed file may have become a link."""
    return not _lies_in(os.path.realpath(path), os.path.realpath(root))


def reason_of(error: OSError) -> str:
    """Return the system's own words for an error, without number and path."""
    return error.strerror or str(error)


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
    """One recursive listing of a folder.

    Attributes:
        root: the folder.
        admits: predicate on names below the folder.
        skipped_paths: receives skipped entries with the reason; a folder's name ends in ``/``.
    """

    root: str
    admits: Admits
    skipped_paths: dict[str, str] = field(default_factory=dict)

    def files(self) -> Iterator[Entry]:
        """List the files.

        Raises:
            FileNotFoundError: the folder does not exist.
            OSError: the folder itself cannot be listed.
        """
        self._links: deque[str] = deque()
        for path, about in self._files_below(self.root, self.root):
            yield path, about.st_size, about.st_mtime_ns // 1000
        yield from self._linked_files()

    def _files_below(self, top: str, named: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the files in and below a folder, without links; ``named`` is the path by which they are reported."""
        folders = [top]
        while folders:
            folder = folders.pop()
            for entry in self._entries_inside(folder):
                if not _is_text(entry.name):
                    # Its replacement in UTF-8 could be the name of another file.
                    end = "/" if entry.is_dir(follow_symlinks=False) else ""
                    self.skipped_paths[named + entry.path[len(top) :] + end] = NO_TEXT
                    continue
                try:
                    if entry.is_symlink():
                        self._links.append(named + entry.path[len(top) :])
                        continue
                    about = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # moved since it was listed
                except OSError as error:
                    self.skipped_paths[named + entry.path[len(top) :]] = reason_of(error)
                    continue
                if stat.S_ISREG(about.st_mode):
                    yield entry.path, about
                elif stat.S_ISDIR(about.st_mode):
                    folders.append(entry.path)
                else:
                    self.skipped_paths[named + entry.path[len(top) :]] = NO_FILE

    def _entries_inside(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                yield from entries
        except OSError as error:
            if folder == self.root:
                if isinstance(error, NotADirectoryError):
                    raise FileNotFoundError(errno.ENOENT, "it is not a folder", folder) from error
                raise
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):  # else it was moved since it was listed
                self.skipped_paths[f"{folder}/"] = reason_of(error)

    def _linked_files(self) -> Iterator[Entry]:
        """Yield the files reached by links that are not admitted under their own names."""
        home = os.path.realpath(self.root)
        taken: set[str] = set()
        self._links = deque(sorted(self._links, key=self._link_order))
        while self._links:
            link = self._links.popleft()
            target = os.path.realpath(link)
            if not _lies_in(target, home):
                self.skipped_paths[link] = OUTSIDE
                continue
            try:
                about = os.stat(link)
            except OSError as error:
                self.skipped_paths[link] = reason_of(error)
                if error.errno in (errno.ENOENT, errno.ELOOP):
                    self.skipped_paths[link] = NOTHING
                continue
            if stat.S_ISDIR(about.st_mode) and target not in taken:
                taken.add(target)
                entries = list(self._files_below(target, link))
            elif stat.S_ISREG(about.st_mode):
                entries = [(target, about)]
            else:
                entries = []
            for path, entry in entries:
                name = link + path[len(target) :]
                if self._is_wanted(name, path[len(home) :]) and path not in taken:
                    taken.add(path)
                    yield name, entry.st_size, entry.st_mtime_ns // 1000

    def _is_wanted(self, name: str, relative: str) -> bool:
        return not self.admits(relative.lstrip("/")) and self.admits(name[len(self.root) :].lstrip("/"))

    def _link_order(self, link: str) -> tuple[bool, int, str]:
        """Sort key: hidden links last, then the oldest first, so that a younger link does not rename a file."""
        hidden = any(part.startswith((".", "_")) for part in link[len(self.root) :].split("/"))
        try:
            return hidden, os.lstat(link).st_mtime_ns, link
        except OSError:
            return hidden, 0, link

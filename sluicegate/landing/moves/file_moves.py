"""Move of a landed file to another address, on any store, without losing it: never over another file."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from sluicegate import _faults
from sluicegate.lake import layout
from sluicegate.landing.file_states import RemovalMode
from sluicegate.storage import durable, filesystems


class Changed(Exception):
    """The file was written again while it was being moved."""


def destination(file: Mapping[str, Any], target: str, taken: Container[str]) -> str | None:
    """Return where to move a file: ``target``, or a numbered name if another file is there; None if the file is gone.

    A kill may leave the file at both addresses or only at the new one. It is then recognised by its content or, if
    the original is gone, by its size and, on local disk, its modification time.
    """
    number = 0
    is_gone = (
        filesystems.file_facts(file["path"]) is None
    )  # checked first: if another run has moved it, the target exists
    while True:
        place = _numbered_path(target, number)
        number += 1
        size = _size(place)
        if size is None and is_gone:
            return None
        if place in taken:  # also by a file that is about to be moved there
            continue
        if size is None or (size == file["size"] and _is_same_content(file, place)):
            return place


def move(removal: dict[str, Any]) -> dict[str, Any]:
    """Move a file to its destination, never over another one; return its archive row, ``GONE`` if it is nowhere."""
    path, place = removal["path"], removal["place"]
    is_gone = filesystems.file_facts(path) is None
    size = _size(place)
    if size is None:
        if is_gone:
            return {**removal, "mode": RemovalMode.GONE, "place": None}
        _copy(path, place)
        _faults.point("clean.between_copy_and_removal")
        if not _is_whole(removal, place):
            fs, root = filesystems.open_store(place)
            fs.rm_file(root)
            raise Changed
    elif size != removal["size"] or not _is_same_content(removal, place):
        raise FileExistsError(errno.EEXIST, "another file exists there", place)
    _remove(removal)
    return removal


def _numbered_path(target: str, number: int) -> str:
    """Insert a number into a file name: ``a/b.json.gz``, then ``a/b.1.json.gz`` and so on."""
    folder, _, name = target.rpartition("/")
    stem, dot, suffix = name.partition(".")
    if number == 0:
        return target
    return f"{folder}/{stem}.{number}{dot}{suffix}"


def _size(path: str) -> int | None:
    facts = filesystems.file_facts(path)
    if facts is None:
        return None
    return facts[0]


def _remove(file: Mapping[str, Any]) -> None:
    if filesystems.file_facts(file["path"]) == (file["size"], file["modification_time"]):
        fs, root = filesystems.open_store(file["path"])
        fs.rm_file(root)


def _copy(path: str, place: str) -> None:
    """Copy a file atomically to another address; a local copy keeps its modification time."""
    if layout.is_local(path) and layout.is_local(place):
        target = Path(layout.local_path(place))
        missing = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if os.path.islink(path):
                raise OSError(errno.ELOOP, "a link cannot be archived")
            os.link(path, target)  # at once, and never over another file
        except FileExistsError:
            raise
        except OSError:  # another disk, or one without links
            # A hash: the file's own name may have the maximum length, and other tables may have files of that name.
            half = target.with_name(f".{hashlib.sha256(path.encode()).hexdigest()[:16]}.part")
            half.unlink(missing_ok=True)  # left by a killed run; may be a hard link to the archived file
            shutil.copy2(path, half)
            durable.sync(half)
            _name(half, target)
        for folder in {target.parent, *(folder_made.parent for folder_made in missing)}:
            durable.sync(folder)
        return
    (source_store, source), (away, root) = filesystems.open_store(path), filesystems.open_store(place)
    away.makedirs(away._parent(root), exist_ok=True)
    if type(source_store) is type(away) and source_store == away:
        source_store.cp_file(source, root)
    else:
        with source_store.open(source, "rb") as read, away.open(root, "wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
        if layout.is_local(place):
            durable.sync(Path(layout.local_path(place)))
            durable.sync(Path(layout.local_path(place)).parent)


def _name(half: Path, target: Path) -> None:
    """Give a file its final name, never over another file; without hard links this is check-then-rename, a race."""
    try:
        os.link(half, target)
    except FileExistsError:
        half.unlink()
        raise
    except OSError:
        half.rename(target)
        return
    half.unlink()


def _is_whole(file: Mapping[str, Any], place: str) -> bool:
    """Return whether the copy has the content that was read, by its facts and, if still there, the original's."""
    facts = (file["size"], file["modification_time"])
    if layout.is_local(place) and layout.is_local(file["path"]):
        return filesystems.file_facts(place) == facts
    return _size(place) == file["size"] and filesystems.file_facts(file["path"]) in (None, facts)


def _is_same_content(file: Mapping[str, Any], place: str) -> bool:
    if filesystems.file_facts(file["path"]) is not None:
        return filesystems.digest(file["path"]) == filesystems.digest(place)
    return not layout.is_local(place) or filesystems.file_facts(place) == (file["size"], file["modification_time"])

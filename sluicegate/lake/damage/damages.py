"""Detect damaged commits: log entries and data files that lost all or part of their content.

Both Spark and delta-rs read a log entry of 0 bytes as a commit without actions: its changes are silently lost. A Delta
writer never leaves such an entry, which appears under its name only when it is complete. So it is a trace of a power
cut, as is a data file that is shorter than the log states.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

# The actions of Delta's protocol; an entry without any of them is no commit.
ACTIONS = {"add", "remove", "cdc", "metaData", "protocol", "txn", "commitInfo", "domainMetadata"}

# A whole entry has more bytes than this; shorter ones are read, others are left to those who parse them.
SHORTEST = 48

# Longer entries, and their data files, are not looked at each time that a table is opened, but before a job writes.
LONGEST = 256 * 1024

ENTRY = re.compile(r"([0-9]{20})\.json")
CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint.*")

# First and last bytes of a Parquet file, the latter also if its footer is encrypted.
MAGIC = (b"PAR1", b"PARE")


@dataclass(frozen=True)
class Damage:
    """File of a table that differs from what was written.

    Attributes:
        file: path of the file.
        what: the damage, as a predicate whose subject is the file.
        version: version of the commit that wrote it; None if unknown.
    """

    file: str
    what: str
    version: int | None = None

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def log_of(table: Path) -> Path:
    return table / "_delta_log"


def entry_of(table: Path, version: int) -> Path:
    """Return the path of the log entry of a version."""
    return log_of(table) / f"{version:020d}.json"


def actions(lines: Iterable[str], left_out: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Parse the lines of a log entry.

    Args:
        lines: the lines.
        left_out: prefixes of lines that are not parsed.

    Raises:
        ValueError: a line is not an action, or the entry has none.
    """
    count = 0
    for line in lines:
        if not line.strip():
            continue
        if left_out and line.startswith(left_out):
            count += 1
            continue
        action = json.loads(line)
        if not isinstance(action, dict):
            raise ValueError(f"{line[:40]!r} is not an action of Delta's log")
        count += not ACTIONS.isdisjoint(action)
        yield action
    if not count:
        raise ValueError("it has no actions")


def newest_version(table: Path) -> int:
    """Return the newest version in a table's log; -1 if there is none."""
    version = max(checkpoint_version(table), 0)
    if not entry_of(table, version).exists():
        return max(_versions(os.listdir(log_of(table)), ENTRY), default=-1)
    while entry_of(table, version + 1).exists():
        version += 1
    return version


def _versions(names: Iterable[str], kind: re.Pattern[str]) -> set[int]:
    """Return the versions that files of a kind have in their names."""
    return {int(named[1]) for named in map(kind.fullmatch, names) if named}


def checkpoint_version(table: Path) -> int:
    """Return the version of the newest checkpoint by ``_last_checkpoint``; -1 if it is missing or damaged."""
    try:
        pointer = json.loads((log_of(table) / "_last_checkpoint").read_bytes())
        return int(pointer["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def checkpoint_damage(table: Path) -> Damage | None:
    """Return the damage of the newest checkpoint by ``_last_checkpoint``, if any.

    Its content is also in the earlier log entries, unless these were cleaned up.
    """
    version = checkpoint_version(table)
    if version < 0:
        return None
    file = log_of(table) / f"{version:020d}.checkpoint.parquet"
    if what := file_damage(log_of(table), file.name, None):
        return Damage(str(file), what, version)
    if not file.exists() and not checkpoints(table, version):
        return Damage(str(file), "is missing", version)
    return None


def checkpoints(table: Path, version: int) -> list[Path]:
    """Return the files of a version's checkpoint: one, or several parts."""
    names = sorted(os.listdir(log_of(table)))
    return [log_of(table) / name for name in names if name.startswith(f"{version:020d}.checkpoint.")]


def has_history(table: Path, end: int, without: int) -> bool:
    """Return whether the log is complete up to a version, from the last checkpoint before another version on.

    Args:
        table: the table's folder.
        end: the first version whose entry is not needed.
        without: the version whose checkpoint, and later ones, do not count.
    """
    names = os.listdir(log_of(table))
    base = max((version for version in _versions(names, CHECKPOINT) if version < without), default=-1)
    return _versions(names, ENTRY) >= {*range(base + 1, end)}


def gaps(table: Path) -> Iterator[Damage]:
    """Yield missing log entries: gaps, or the first ones without a checkpoint.

    Delta cleans up the oldest entries that a checkpoint covers, and none between others.
    """
    names = os.listdir(log_of(table))
    entries = _versions(names, ENTRY)
    if not entries:
        return
    first = min(min(entries), max(_versions(names, CHECKPOINT), default=-1) + 1)
    for version in sorted({*range(first, max(entries))} - entries):
        yield Damage(str(entry_of(table, version)), "is missing", version)


def log_damage(table: Path, newest: int) -> Damage | None:
    """Return the newest damaged entry of the log that readers would replay without noticing.

    Args:
        table: the table's folder.
        newest: the version.
    """
    oldest = checkpoint_version(table)
    for version in range(newest, min(oldest, newest), -1):
        entry = entry_of(table, version)
        try:
            size = entry.stat().st_size
        except FileNotFoundError:  # cleaned away, behind a checkpoint that is not the one of the pointer
            return None
        if size < SHORTEST and (damage := entry_damage(entry, version)):
            return damage
    return None


def entry_damage(entry: Path, version: int) -> Damage | None:
    """Return the damage of a log entry, if any."""
    try:
        for _ in read(entry):
            pass
    except ValueError as error:
        size = entry.stat().st_size
        what = "has 0 bytes"
        if size:
            what = f"has {size} bytes, and is not a valid commit: {error}"
        return Damage(str(entry), what, version)
    return None


def read(entry: Path) -> Iterator[dict[str, Any]]:
    """Yield the actions of a log entry.

    Raises:
        ValueError: the entry is not a valid commit.
    """
    with entry.open(encoding="utf-8") as lines:
        yield from actions(lines)


def commit_damage(table: Path, version: int, longest: int | None = None) -> Damage | None:
    """Return the damage of a commit, in its log entry or an added data file.

    Args:
        table: the table's folder.
        version: version of the commit.
        longest: bytes of an entry up to which its data files are checked; None to check all.

    Raises:
        FileNotFoundError: the log has no such entry.
    """
    entry = entry_of(table, version)
    if longest is not None and entry.stat().st_size > longest:
        return None
    try:
        written = [action[kind] for action in read(entry) for kind in ("add", "cdc") if kind in action]
    except ValueError:
        return entry_damage(entry, version)
    for file in written:
        if what := file_damage(table, file["path"], file.get("size")):
            return Damage(str(table / unquote(file["path"])), what, version)
    return None


def file_damage(table: Path, path: str, size: int | None, *, whole: bool = False) -> str:
    """Return the damage of a data file; empty if none.

    Args:
        table: the table's folder.
        path: path of the file in the log.
        size: its bytes by the log, if known.
        whole: whether the file must be complete. One of an older version may have been cleaned up.
    """
    file = table / unquote(path)
    if "://" in path:  # of a table that was cloned from another
        return ""
    try:
        with file.open("rb") as opened:  # NFS may have the size of another client's file wrong until it is opened
            stored = os.fstat(opened.fileno()).st_size
            if not stored:
                return "has 0 bytes"
            logged = stored if size is None else size
            if stored < logged:
                return f"has {stored:,} bytes of {logged:,}"
            if whole and stored > logged:
                return f"has {stored:,} bytes, but {logged:,} according to the log"
            if file.suffix == ".parquet" and not _has_magic(opened, stored):
                return "is an incomplete Parquet file: the magic bytes at its end are missing"
    except FileNotFoundError:
        if whole:
            return "is missing"
    return ""


def _has_magic(file: BinaryIO, size: int) -> bool:
    begins = file.read(4)
    file.seek(max(size - 4, 0))
    return begins in MAGIC and file.read(4) in MAGIC

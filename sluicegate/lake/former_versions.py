"""Delete a table's former versions if their content must no longer be readable: data, changes, log, statistics.

A run first commits a new table at the same address, so that readers find either the former or the new one, and then an
empty commit at which the log starts. After that, all files in the folder that do not belong to the new table are
deleted, the log entry before the start last: while it exists there may be others, and the next run starts over. Readers
of a former version lose its files, as by VACUUM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sluicegate import _faults
from sluicegate.lake import layout, log, tables
from sluicegate.lake.commits.commit_info import CommitInfo

if TYPE_CHECKING:
    from sluicegate.lake.table import Table

_LOG = "/_delta_log/"


def fact(*, begins: bool) -> dict[str, bool]:
    """Return the commit fact of a table that starts from scratch.

    Args:
        begins: whether the log starts with this commit.
    """
    return {CommitInfo.new_table.key: begins}


def are_left(uri: str, last: log.Commit | None) -> bool:
    """Return whether a run replaced a table and was stopped before it deleted the former versions.

    Args:
        uri: the table.
        last: the newest commit of ours.
    """
    if last is None or last.info.new_table is None:
        return False
    if not last.info.new_table:
        return True
    from sluicegate.storage import filesystems  # a run with nothing to do does without Arrow

    return filesystems.file_facts(log.commit_file(uri, last.version - 1)) is not None


def has_other_versions(table: Table, definition: Mapping[str, Any]) -> bool:
    """Return whether a table has versions by another or an unknown definition.

    Args:
        table: the table, which exists.
        definition: facts of the current definition in commits; an empty value is not compared.
    """
    if are_left(table.uri, table.last_own_commit):
        return True
    expected = {name: value for name, value in definition.items() if value}
    if table.delta is None:
        return True
    definitions = [
        {name: commit.ours.get(name) for name in expected} for commit in log.commits(table.delta) if commit.ours
    ]
    return not definitions or any(former != expected for former in definitions)


def delete(uri: str) -> int:
    """Delete all files in a table's folder that its newest version does not need.

    Args:
        uri: the table, whose newest commit is the empty one at which its log will start.

    Returns:
        the number of files.
    """
    table = tables.table_at(uri)
    version = table.version()
    table.create_checkpoint()
    _faults.point("copy.after_checkpoint")
    needed = set(map(_name, table.file_uris()))
    unneeded = [path for path in _files(uri) if _name(path) not in needed]
    data = [path for path in unneeded if _LOG not in path]
    _remove(data)
    _faults.point("copy.after_data")
    entries = [path for path in unneeded if _LOG in path and _is_before(_name(path), version)]
    last = _name(log.commit_file(uri, version - 1))
    _remove(path for path in entries if _name(path) != last)
    _faults.point("copy.after_log")
    _remove(path for path in entries if _name(path) == last)
    return len(data) + len(entries)


def _name(path: str) -> str:
    """Return the name of a file; for Hadoop's checksum file, the name of the checked file."""
    name = path.rpartition("/")[2]
    if name.startswith(".") and name.endswith(".crc"):
        return name[1:].removesuffix(".crc")
    return name


def _is_before(name: str, version: int) -> bool:
    """Return whether a log file is of an earlier version, or of none, as a part of a checkpoint."""
    number = name.partition(".")[0]
    if number.isdecimal():
        return int(number) < version
    return name != "_last_checkpoint"


def _files(uri: str) -> Iterator[str]:
    from sluicegate.storage import listings

    yield from listings.files(layout.address(uri))["path"].to_pylist()


def _remove(paths: Iterable[str]) -> None:
    from sluicegate.storage import filesystems

    for address in paths:
        fs, path = filesystems.open_store(address)
        fs.rm_file(path)

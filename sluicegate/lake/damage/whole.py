"""Check, each time that a local table is opened, that its newest commit is what was written.

It takes some tenths of a millisecond, and is made once for each commit that a process opens.
"""

from __future__ import annotations

from pathlib import Path

from sluicegate.errors import DamagedTable, Where
from sluicegate.lake import layout
from sluicegate.lake.damage import damages
from sluicegate.lake.damage.damages import Damage

RUN = (
    "run the pipeline that fills it: a run sets a damaged newest commit aside and repeats it from the table's source,"
    " and sets aside a damaged checkpoint that the log can replace; repair another program's table with that program"
)
BACKUP = (
    "restore this file from a backup of the lake, or by the disk's own recovery; do not delete the table's folder or"
    " the archive of landed files: they may have the only copy"
)

# Log entries that were whole when this process looked: path, inode and time of last change. They never change.
_whole: set[tuple[str, int, int]] = set()

# Of so many of them: a process that runs for weeks opens millions of commits.
REMEMBERED = 10_000


def demand_whole(uri: str, version: int) -> None:
    """Refuse a table if the commits that readers of a version replay are damaged.

    Raises:
        DamagedTable: a log entry, or a data file of the newest commit, is damaged.
    """
    if not layout.is_local(uri):  # an object store has a whole object or none
        return
    table = Path(layout.local_path(uri))
    try:
        entry = damages.entry_of(table, version)
        about = entry.stat()
    except FileNotFoundError:  # cleaned away, behind its checkpoint
        return
    stamp = str(entry), about.st_ino, about.st_mtime_ns
    if stamp in _whole:
        return
    if damage := damages.commit_damage(table, version, damages.LONGEST) or damages.log_damage(table, version):
        raise damaged_table_error(uri, damage)
    if len(_whole) >= REMEMBERED:
        _whole.clear()
    _whole.add(stamp)


def damaged_table_error(uri: str, damage: Damage) -> DamagedTable:
    """Return the error for a table with a damaged file."""
    table = Path(layout.local_path(uri))
    is_repaired = layout.is_local(uri) and damage.version is not None and _is_repaired(table, damage, damage.version)
    return DamagedTable(
        f"{table.name} cannot be read: one of its files is damaged or missing",
        where=Where(table=table.name, file=damage.file),
        cause=f"it {damage.what}, as after a power cut",
        hint=RUN if is_repaired else BACKUP,
    )


def _is_repaired(table: Path, damage: Damage, version: int) -> bool:
    """Return whether the next run sets the file aside; see ``set_aside``."""
    newest = damages.newest_version(table)
    if ".checkpoint" in Path(damage.file).name:
        return damages.has_history(table, newest + 1, version)
    return version == newest and damages.has_history(table, version, version)


def unreadable_log_error(uri: str) -> DamagedTable | None:
    """Return an error for a table whose log cannot be replayed because of a damaged entry or checkpoint."""
    table = Path(layout.local_path(uri))
    if damage := damages.checkpoint_damage(table):
        return damaged_table_error(uri, damage)
    newest = damages.newest_version(table)
    oldest = damages.checkpoint_version(table)
    for version in range(newest, oldest if oldest < newest else -1, -1):
        entry = damages.entry_of(table, version)
        if entry.exists() and (damage := damages.entry_damage(entry, version)):
            return damaged_table_error(uri, damage)
    return None

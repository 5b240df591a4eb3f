"""Find damaged files of tables, for a verification or to explain why a run could not read one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.errors import DamagedTable, SluicegateError
from sluicegate.lake import layout, tables
from sluicegate.lake.damage import checksums, damages, whole
from sluicegate.lake.damage.damages import Damage
from sluicegate.lake.damage.set_aside import local_tables


def damaged_files(table: Path) -> list[Damage]:
    """Return the damaged files among checkpoint, log entries since it and data files of the newest version.

    If the log cannot be replayed, its data files are unknown. A log without entries belongs to a table whose first
    write failed, and which does not exist yet.
    """
    if damage := damages.checkpoint_damage(table):
        return [damage]
    if damages.newest_version(table) < 0 and damages.checkpoint_version(table) < 0:
        return []
    if gaps := [*damages.gaps(table)]:
        return gaps
    files_damaged, actions = _log_damages(table)
    if files_damaged:
        return files_damaged
    try:
        opened = DeltaTable(str(table))
    except DeltaError as error:
        return [Damage(str(damages.log_of(table)), f"cannot be replayed: {str(error).splitlines()[0]}")]
    added = {action["add"]["path"]: version for version, action in reversed(actions) if "add" in action}
    for path, size in tables.statistics_rows(opened, "path", "size_bytes"):
        if fault := damages.file_damage(table, path, size, whole=True):
            files_damaged.append(Damage(str(table / unquote(path)), fault, added.get(path)))
    for version, action in actions:
        if "cdc" in action and (fault := damages.file_damage(table, action["cdc"]["path"], action["cdc"].get("size"))):
            files_damaged.append(Damage(str(table / unquote(action["cdc"]["path"])), fault, version))
    return files_damaged


def changed_files(table: Path) -> list[Damage]:
    """Return log entries and data files of the newest version that differ from Hadoop's checksums.

    All files are read. Files by delta-rs have no checksums.
    """
    paths = [*damages.log_of(table).glob("*.json")]
    try:
        opened = DeltaTable(str(table))
    except DeltaError:  # which is damage of another kind
        return []
    paths += [table / unquote(path) for (path,) in tables.statistics_rows(opened, "path") if "://" not in path]
    return [Damage(str(path), fault) for path in sorted(paths) if (fault := checksums.difference(path))]


def _log_damages(table: Path) -> tuple[list[Damage], list[tuple[int, dict[str, Any]]]]:
    """Return the damaged log entries since the checkpoint, and the actions of the others by version, newest first."""
    newest, oldest = damages.newest_version(table), damages.checkpoint_version(table)
    entries_damaged, actions = list[Damage](), list[tuple[int, dict[str, Any]]]()
    for version in range(newest, min(oldest, newest), -1):
        entry = damages.entry_of(table, version)
        if not entry.exists():
            break
        if damage := damages.entry_damage(entry, version):
            entries_damaged.append(damage)
        else:
            actions += [(version, action) for action in damages.read(entry)]
    return entries_damaged, actions


def cause_of(error: BaseException, uris: Iterable[str]) -> DamagedTable | None:
    """Return an error for the first damaged file of some tables, if it may be why a call failed."""
    if isinstance(error, DamagedTable):
        return None
    for uri in filter(layout.is_local, dict.fromkeys(uris)):
        table = Path(layout.local_path(uri))
        if damages.log_of(table).is_dir() and (damages_of_table := damaged_files(table)):
            return whole.damaged_table_error(uri, damages_of_table[0])
    return None


@contextmanager
def name_damaged_file(lake: layout.Lake) -> Iterator[None]:
    """Name the damaged file of a pipeline's tables in errors of other libraries, if there is one.

    Raises:
        DamagedTable: a file of a table is damaged.
    """
    try:
        yield
    except SluicegateError:
        raise
    except Exception as error:
        if (damage := cause_of(error, map(str, local_tables(lake)))) is not None:
            raise damage from error
        raise

"""Repair tables after a power cut: set damaged newest commits aside, so that the run repeats them.

A table without its newest commit is as it was before it, including its offset. So bronze reads that ledger batch again,
from landing or from the archive, silver and gold process the lost versions again, and landed files that the ledger lost
are new again. Nothing is deleted: the files are moved to ``_damaged`` in the table's folder.

Only for the holder of the pipeline's lock, on a local disk. A damaged commit followed by intact ones stays: these are
based on it, and opening the table reports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sluicegate.errors import DamagedTable, Where
from sluicegate.lake import layout, offsets, tables
from sluicegate.lake.damage import damages
from sluicegate.lake.damage.damages import Damage
from sluicegate.storage import durable

# Folders of a pipeline's tables, in the order in which they are looked through: the ledger's last, as whether it can
# lose a batch depends on what bronze has read.
FOLDERS = (*layout.LAYERS, "_state", "_schemas", "_ledger")

# Folder within a table's own for what was set aside; neither Spark nor delta-rs takes it for a part of the table.
ASIDE = "_damaged"


def set_aside_damaged(lake: layout.Lake, tell: Callable[[str], None]) -> None:
    """Set aside the damaged newest commits of a pipeline's tables, and report them.

    Args:
        lake: the lake; nothing is done on an object store, where objects are complete or absent.
        tell: receives a line for each commit.

    Raises:
        DamagedTable: the ledger lost a batch that bronze has read.
    """
    if not layout.is_local(lake.root):
        return
    for table in local_tables(lake):
        if damage := damages.checkpoint_damage(table):
            _set_checkpoint_aside(table, damage, tell)
        while (damage := _newest_damage(table)) is not None:
            version = damage.version or 0
            if not damages.has_history(table, version, version):
                break  # who opens it is told
            if table.parent.name == "_ledger":
                _demand_unread(lake, table, damage)
            place = _move(table, version)
            tell(f"{table.name}: {damage}, as after a power cut; its newest commit, version {version}, is set aside")
            tell(f"         in {place}{_next_step(table)}")


def _set_checkpoint_aside(table: Path, damage: Damage, tell: Callable[[str], None]) -> None:
    """Set a damaged checkpoint aside if the log can replace it."""
    version = damage.version or 0
    if damages.has_history(table, damages.newest_version(table) + 1, version):
        files = [*damages.checkpoints(table, version), *damages.log_of(table).glob("_last_checkpoint")]
        _move_files(table, [file.name for file in files])
        tell(f"{table.name}: {damage}, as after a power cut; this checkpoint is set aside, as the log has its content")


def local_tables(lake: layout.Lake) -> list[Path]:
    """Return the folders of all tables of a pipeline that are on a local disk, also of those that Spark does not write.

    Those that Spark writes, on any store, are those of ``fence.written_tables``.
    """
    if not layout.is_local(lake.root):
        return []
    home = Path(layout.local_path(lake.root)) / lake.pipeline
    folders = [table for name in FOLDERS if (home / name).is_dir() for table in sorted((home / name).iterdir())]
    return [table for table in (*folders, home / "_events") if damages.log_of(table).is_dir()]


def _newest_damage(table: Path) -> Damage | None:
    """Return the damage of a table's newest commit, if any."""
    version = damages.newest_version(table)
    if version < 0:
        return None
    return damages.commit_damage(table, version)


def _demand_unread(lake: layout.Lake, ledger: Path, damage: Damage) -> None:
    """Check that bronze has not read the lost batch of a ledger: it would read its rows twice.

    Raises:
        DamagedTable: bronze has read the batch.
    """
    name, version = ledger.name, damage.version or 0
    bronze = tables.delta_table(lake.table("bronze", name))
    if bronze is None:
        return
    if version > 0:
        app_id = offsets.app_id("bronze", name, tables.table_at(str(ledger), version=version - 1))
        offset = offsets.committed_offset(bronze, app_id, offsets.restore_history(bronze)).offset
        if offset is None or offset < version:
            return
    raise DamagedTable(
        f"the ledger of {name} lost a batch of files that {name} has already read",
        where=Where(table=name, file=damage.file),
        cause=f"it {damage.what}, as after a power cut",
        hint="restore this file from a backup of the lake. Without one, make sure that the files with `_chunk`"
        f" {version} are in landing (the archive may have them), and RESTORE {name} to the version before that:"
        " the next run then reads these files again",
    )


def _move(table: Path, version: int) -> Path:
    """Move all files of a commit out of the log, the entry last; return the new place of the entry."""
    log, entry, pointer = damages.log_of(table), damages.entry_of(table, version), "_last_checkpoint"
    # Checksums of Hadoop and of Delta are of this version, too: beside another commit they would be false.
    named = f"{version:020d}."
    with_it = [name for name in os.listdir(log) if name.lstrip(".").startswith(named) and name != entry.name]
    if damages.checkpoint_version(table) >= version:
        with_it = [name for name in (pointer, f".{pointer}.crc") if (log / name).exists()] + with_it
    return _move_files(table, [*with_it, entry.name])


def _move_files(table: Path, names: Sequence[str]) -> Path:
    """Move files out of the log in order; return the new place of the last."""
    log, aside = damages.log_of(table), table / ASIDE
    aside.mkdir(exist_ok=True)
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    for name in names:
        (log / name).rename(aside / f"{name}.{stamp}")
    for folder in (aside, log):
        durable.sync(folder)
    return aside / f"{names[-1]}.{stamp}"


def _next_step(table: Path) -> str:
    """Return what happens next to a commit that was set aside, with what a person has to do."""
    if table.name == "_events":
        return "; its rows in the history of runs are lost"
    if table.parent.name == "_ledger" and not table.name.endswith(("_outcome", "_archive")):
        by_hand = (
            "; a run repeats it from the files in landing, but not a `copy-into`, `reload` or `reset`: repeat these"
        )
        archived = f"`sluicegate reload {table.parents[1].name} {table.name} --archived`"
        return f"{by_hand}; {archived} reads files that `cleanSource` had moved"
    if table.parent.name == "_state" and table.name.endswith("_discarded"):
        return "; discard those records again"
    return "; a run repeats it"

"""Files that were moved from one folder to another within a landing folder, which are known and not read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import layout, tables
from sluicegate.landing import on_record
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.moves import archive, moved_files
from sluicegate.storage import filesystems
from sluicegate.storage.listings import FILES

# Name without folders, size and modification time of a file.
_Named = tuple[str, int, datetime]


def entries(
    lake: layout.Lake, name: str, ledger: DeltaTable, files: pa.Table, partitions: list[str], failed: Collection[str]
) -> pa.Table:
    """Return entries for new files that were read from another folder of the landing folder (``moved_files.ENTERED``).

    It is the same file if one file of the ledger, and no other new one, has its name, size and modification time, and
    is gone from where it was, though ``cleanSource`` has not taken it. The time has to have a fraction of a second:
    programs set whole ones, in which exports of several days or regions agree.

    Args:
        lake: the lake.
        name: the bronze table.
        ledger: its ledger.
        files: files that the ledger does not have.
        partitions: columns whose values are in the paths; a move to other values makes another file.
        failed: paths of files that could not be read.
    """
    files = files.filter(pc.not_equal(pc.subsecond(files["modification_time"]), 0.0))
    origins = _origins(ledger, files, partitions)
    if not origins:
        return moved_files.ENTERED.empty_table()
    files = files.filter(pc.is_in(files["path"], value_set=pa.array(sorted(origins), pa.string())))
    paths = pa.chunked_array([pa.array([origins[path] for path in files["path"].to_pylist()], pa.string())])
    last, entry = moved_files.newest_entries(ledger, paths)
    was = pa.table({"path": paths, "action": pc.take(last["action"], entry)})
    same = [pc.equal(files[fact], pc.take(last[fact], entry)) for fact in ("size", "modification_time")]
    selected = pc.and_(pc.and_(*same), pc.not_equal(was["action"], LedgerAction.DROP))
    selected = pc.and_(selected, moved_files.read_mask(lake, name, was, paths.combine_chunks(), failed))
    taken = archive.match_files(lake, name, ledger, files.set_column(0, "path", paths))["path"]
    selected = pc.and_(selected, pc.invert(pc.is_in(paths, value_set=taken.combine_chunks())))
    action = pc.if_else(pc.equal(was["action"], LedgerAction.SKIP), LedgerAction.SKIP, LedgerAction.MOVED)
    return files.append_column("action", action).filter(selected).cast(moved_files.ENTERED)


def _origins(ledger: DeltaTable, files: pa.Table, partitions: Collection[str]) -> dict[str, str]:
    """Return by path the only former path of each file that is gone from all places where the ledger has it."""
    if not files.num_rows:
        return {}
    times, span = files["modification_time"], pc.min_max(files["modification_time"])
    alike = (pc.field("modification_time") >= span["min"]) & (pc.field("modification_time") <= span["max"])
    alike &= pc.field("modification_time").isin(times.unique()) & pc.field("size").isin(files["size"].unique())
    former: dict[_Named, dict[str, str]] = {}
    for entry in tables.filter_rows(tables.dataset(ledger), alike, [*FILES.names, "action"]).to_pylist():
        former.setdefault(_name_and_facts(entry), {}).setdefault(entry["path"], entry["action"])
    if not former:
        return {}
    arrived, moved_away = Counter(map(_name_and_facts, files.to_pylist())), on_record.moved_away_paths(ledger)
    origins = {}
    for file in files.to_pylist():
        places = former.get(_name_and_facts(file), {})
        first = [path for path, action in places.items() if action != LedgerAction.MOVED and path not in moved_away]
        if len(first) != 1 or arrived[_name_and_facts(file)] > 1:
            continue
        if _values_in(file["path"], partitions) == _values_in(first[0], partitions) and all(map(_is_gone, places)):
            origins[file["path"]] = first[0]
    return origins


def _name_and_facts(file: Mapping[str, Any]) -> _Named:
    return file["path"].rpartition("/")[2], file["size"], file["modification_time"]


def _values_in(path: str, partitions: Collection[str]) -> set[str]:
    """Return the folders of a path that name the value of a partition column."""
    return {folder for folder in path.split("/")[:-1] if folder.partition("=")[0] in partitions and "=" in folder}


def _is_gone(path: str) -> bool:
    try:
        return filesystems.file_facts(path) is None
    except (OSError, ValueError, ImportError):  # nobody can tell
        return False

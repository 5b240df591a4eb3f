"""Former paths of files that were moved: with their landing folder, or from one folder within it to another.

A file of the new folder is the former one only if that is gone from where it was, or if both have the same content: two
exports of one job, of two regions say, may agree in name, size and time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.errors import LandingMissing, StoreUnreachable, Where
from sluicegate.lake import layout, tables
from sluicegate.lake.layout import Lake
from sluicegate.landing import ledger_index, status_log
from sluicegate.landing.file_names import relative_names
from sluicegate.landing.file_states import LedgerAction, RemovalMode
from sluicegate.landing.moves import archive
from sluicegate.storage import filesystems, store_errors
from sluicegate.storage.concurrent import map_concurrently
from sluicegate.storage.listings import FILES

if TYPE_CHECKING:
    from sluicegate.landing.folders import Home

# Size and modification time of a file.
Facts = tuple[int, datetime]

ENTERED = pa.schema([*FILES, pa.field("action", pa.string(), nullable=False)])


def aliases(ledger: DeltaTable | pa.Table, paths: Collection[str]) -> dict[str, str]:
    """Return the former path, which their rows may have, of files that were moved.

    Args:
        ledger: the ledger, or all of its entries.
        paths: the files.
    """
    if not paths:
        return {}
    return dict(_recorded_moves(ledger, pc.field("path").isin(pa.array(sorted(paths), pa.string()))))


def former_paths(ledger: DeltaTable | pa.Table) -> set[str]:
    """Return former paths of all files that were ever moved."""
    return {former for _, former in _recorded_moves(ledger, pc.scalar(True))}


def find_superseded(ledger: DeltaTable | pa.Table, landed: Collection[str]) -> set[str]:
    """Return paths of moved files that are not in landing, but for the last one of each file that is nowhere in it.

    Args:
        ledger: the ledger, or all of its entries.
        landed: paths of the files in landing.
    """
    moves: dict[str, list[str]] = {}
    for path, former in _recorded_moves(ledger, pc.scalar(True)):
        moves.setdefault(former, [former]).append(path)
    superseded_paths: set[str] = set()
    for paths in moves.values():
        missing_paths = [path for path in paths if path not in landed]
        superseded_paths.update(missing_paths if len(missing_paths) < len(paths) else missing_paths[:-1])
    return superseded_paths


def _recorded_moves(ledger: DeltaTable | pa.Table, where: pc.Expression) -> Iterator[tuple[str, str]]:
    """Yield the path and former path of each moved file, in the order in which they were moved."""
    moved = _facts(ledger, where & (pc.field("action") == LedgerAction.MOVED))
    if not moved.num_rows:
        return
    of_time = pc.field("modification_time").isin(moved["modification_time"].unique())
    alike = pc.field("size").isin(moved["size"].unique()) & of_time
    former: dict[tuple[int, object], list[str]] = {}
    # A skipped file that moves is skipped where it is then: what has moved was read.
    for row in _facts(ledger, alike & ~pc.field("action").isin([LedgerAction.MOVED, LedgerAction.SKIP])).to_pylist():
        former.setdefault((row["size"], row["modification_time"]), []).append(row["path"])
    for row in moved.sort_by("chunk").to_pylist():
        of_it = [path for path in former.get((row["size"], row["modification_time"]), ()) if path != row["path"]]
        best = max(of_it, key=lambda path: _count_common_parts(path, row["path"]), default="")
        if _count_common_parts(best, row["path"]):
            yield row["path"], best


def _facts(ledger: DeltaTable | pa.Table, where: pc.Expression) -> pa.Table:
    if isinstance(ledger, pa.Table):
        entries = ledger.filter(where)
    else:
        entries = tables.filter_rows(tables.dataset(ledger), where)
    return entries.select([*FILES.names, "chunk"])


def _count_common_parts(first: str, second: str) -> int:
    """Return the number of equal trailing components of two paths."""
    pairs = zip(reversed(first.split("/")), reversed(second.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def adopt_files(
    lake: Lake, name: str, ledger: DeltaTable, place: Home, files: pa.Table, failed: Collection[str]
) -> pa.Table:
    """Return entries for new files that the ledger has below a former landing folder (schema ``ENTERED``).

    It is the same file if name below the folder, size and modification time agree, and the former file is gone from
    where it was or has the same content: it was moved, or copied with its time. With another time it is read: if it was
    a copy its rows are duplicated, but if it was another file they would otherwise be lost.

    Args:
        lake: the lake.
        name: the bronze table.
        ledger: its ledger.
        place: the landing folder.
        files: files below it that are not in the ledger.
        failed: paths of files that could not be read.

    Raises:
        LandingMissing: a former folder cannot be looked into.
        StoreUnreachable: its store does not answer.
    """
    parts = [ENTERED.empty_table()]
    for former in place.former:
        if files.num_rows and not _is_nested(former, place.folder):
            entries = _entries_at_former(lake, name, ledger, former, place, files, failed)
            parts.append(entries)
            files = files.filter(pc.invert(pc.is_in(files["path"], value_set=entries["path"])))
    return pa.concat_tables(parts)


def _is_nested(first: str, second: str) -> bool:
    """Return whether one folder lies in the other, so that the ledger has their files under their own paths."""
    first, second = f"{first.rstrip('/')}/", f"{second.rstrip('/')}/"
    return first.startswith(second) or second.startswith(first)


def _entries_at_former(
    lake: Lake, name: str, ledger: DeltaTable, former: str, place: Home, files: pa.Table, failed: Collection[str]
) -> pa.Table:
    former_entries = _last_entries(ledger, former, place, files)
    paths = former_entries["path"]
    alike = pc.and_(
        pc.equal(former_entries["size"], files["size"]),
        pc.equal(former_entries["modification_time"], files["modification_time"]),
    )
    alike = pc.fill_null(pc.and_(alike, pc.not_equal(former_entries["action"], LedgerAction.DROP)), False)
    candidates = pa.array(paths.filter(alike).to_pylist(), pa.string())
    if not len(candidates):
        return ENTERED.empty_table()
    read = read_mask(lake, name, former_entries, candidates, failed)
    at_former = _stat_former(candidates.to_pylist(), former)
    # A waiting file is read from the former folder if it is still there, else from here.
    waiting = [path for path, is_at_former in at_former.items() if is_at_former and path not in failed]
    waits = pc.is_in(paths, value_set=pa.array(waiting, pa.string()))
    selected = pc.and_(alike, pc.or_(read, waits))
    recorded = former_entries.append_column("now", files["path"]).filter(selected)
    archived = {archive.facts_of(row): row for row in archive.match_files(lake, name, ledger, recorded).to_pylist()}
    try:
        same = _same_files(recorded, archived, at_former)
    except (OSError, ValueError, ImportError) as error:
        raise _store_error(error, former) from error
    selected = pc.and_(selected, pc.is_in(paths, value_set=pa.array(same, pa.string())))
    action = pc.if_else(pc.equal(former_entries["action"], LedgerAction.SKIP), LedgerAction.SKIP, LedgerAction.MOVED)
    entered = former_entries.set_column(0, "path", files["path"]).set_column(3, "action", action)
    return entered.filter(selected).cast(ENTERED)


def read_mask(lake: Lake, name: str, was: pa.Table, candidates: pa.Array, failed: Collection[str]) -> pa.ChunkedArray:
    """Return the mask of former files that have been read, or are left out for good.

    A file that failed without a row is neither: it can be read here without duplicates.
    """
    statuses = status_log.read(lake, name, ["path", "rows"], pc.field("path").isin(candidates))
    empty = pa.array(sorted({*failed} - {*statuses.filter(pc.field("rows") > 0)["path"].to_pylist()}), pa.string())
    read = pc.is_in(was["path"], value_set=statuses["path"].combine_chunks())
    read = pc.or_(read, pc.is_in(was["action"], value_set=pa.array([LedgerAction.SKIP, LedgerAction.MOVED])))
    return pc.and_(read, pc.invert(pc.is_in(was["path"], value_set=empty)))


def _last_entries(ledger: DeltaTable, former: str, place: Home, files: pa.Table) -> pa.Table:
    """Return paths that files would have in a former folder, with the newest entry of each.

    The entry is null where the ledger has none, or has a newer one of the file where it is now.
    """
    paths = pc.binary_join_element_wise(pa.scalar(former.rstrip("/")), relative_names(files, place.folder), "/")
    last, entry = newest_entries(ledger, paths)
    newest, newest_entry = newest_entries(ledger, files["path"])
    older = pc.fill_null(pc.less(pc.take(newest["chunk"], newest_entry), pc.take(last["chunk"], entry)), True)
    entry = pc.if_else(older, entry, None)
    return pa.table({"path": paths, **{c: pc.take(last[c], entry) for c in ("size", "modification_time", "action")}})


def newest_entries(ledger: DeltaTable, paths: pa.ChunkedArray) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return entries of a ledger, and the place among them of the newest entry of each path."""
    span = pc.min_max(paths).as_py()
    last = ledger_index.entries(ledger, span["min"], span["max"])
    return last, pc.index_in(paths, value_set=last["path"])  # the first of equal ones


def _same_files(
    recorded: pa.Table, archived: Mapping[archive.Facts, Mapping[str, Any]], at_former: Mapping[str, Facts | None]
) -> list[str]:
    """Return the former paths of files that are the same files as there.

    Args:
        recorded: entries of files below a former folder, each with its present path.
        archived: archive rows of the removed files.
        at_former: size and time of the file at each former path, None where there is none.

    Raises:
        OSError: a file cannot be read.
    """
    same, doubtful = [], []
    for row in recorded.to_pylist():
        path, facts, removal = row["path"], (row["size"], row["modification_time"]), archived.get(archive.facts_of(row))
        if at_former[path] == facts:
            doubtful.append((path, path, row["now"]))
        elif at_former[path] is None and removal is not None and removal["place"]:
            doubtful.append((path, removal["place"], row["now"]))
        elif at_former[path] is None and (removal is None or removal["mode"] != RemovalMode.DELETE):
            same.append(path)  # not what cleanSource deleted: nothing tells that this is a copy of it
    equal = map_concurrently(lambda files: _have_equal_content(*files[1:]), doubtful)
    return [*same, *(files[0] for files, is_equal in zip(doubtful, equal, strict=True) if is_equal)]


def _have_equal_content(former: str, current: str) -> bool:
    """Return whether two files have the same content; also if the former, once archived, is nowhere."""
    if filesystems.file_facts(former) is None:
        return True
    return filesystems.digest(former) == filesystems.digest(current)


def _stat_former(paths: list[str], folder: str) -> dict[str, Facts | None]:
    """Return size and time of the file at each path of a former folder, None where there is none."""
    try:
        return dict(zip(paths, map_concurrently(filesystems.file_facts, paths), strict=True))
    except (OSError, ValueError, ImportError) as error:
        failure = _store_error(error, folder)
        if isinstance(failure, LandingMissing) and not layout.is_local(folder):
            return dict.fromkeys(paths)  # a bucket that is gone, or that nobody may open any more
        raise failure from error


def _store_error(error: Exception, folder: str) -> LandingMissing | StoreUnreachable:
    """Return the error for former files that cannot be listed or read."""
    of_store = store_errors.translate_error(error)
    if isinstance(of_store, StoreUnreachable):
        return of_store
    return LandingMissing(
        f"the former landing folder {folder} cannot be listed",
        where=Where(file=getattr(error, "filename", None) or folder),
        cause=f"landed files have the names, sizes and times of files that were read from it ({error})",
        hint="make it readable, so that the contents can be compared, or move the folder away",
    )


def overwritten_entries(
    lake: Lake, name: str, ledger: DeltaTable, place: Home, files: pa.Table, moved: pa.Table
) -> pa.Table:
    """Return entries for files that were overwritten since their folder was moved (schema ``ENTERED``).

    They have the facts of the former files, so that what is read replaces the rows of these. A folder counts as moved,
    or copied, if most of the names that it has in common with the former one are of the same files; files without a
    record prove nothing. Else files of the same name are others, and no row is replaced.

    Args:
        lake: the lake.
        name: the bronze table.
        ledger: its ledger.
        place: the landing folder.
        files: files below it that the ledger does not have as they are.
        moved: entries for those that are known to have moved.
    """
    parts = [ENTERED.empty_table()]
    for former in place.former:
        if not files.num_rows or _is_nested(former, place.folder):
            continue
        was = _last_entries(ledger, former, place, files)
        unread = pc.is_in(was["action"], value_set=pa.array([LedgerAction.DROP, LedgerAction.SKIP]))
        read = pc.and_(pc.invert(unread), pc.is_valid(was["action"]))
        candidates = files.filter(read)
        if candidates.num_rows and _is_moved(lake, name, ledger, former, place, candidates, moved):
            facts = was.filter(read).set_column(0, "path", candidates["path"])
            actions = pa.repeat(pa.scalar(LedgerAction.MOVED), facts.num_rows)
            parts.append(facts.set_column(3, "action", actions).cast(ENTERED))
            files = files.filter(pc.invert(read))
    return pa.concat_tables(parts)


def _is_moved(
    lake: Lake, name: str, ledger: DeltaTable, former: str, place: Home, candidates: pa.Table, moved: pa.Table
) -> bool:
    """Return whether most names that two landing folders have in common are of files that were moved."""
    former_names = _actions_by_name(ledger_index.entries(ledger, *ledger_index.path_range(former)), former)
    present_names = _actions_by_name(ledger_index.entries(ledger, *ledger_index.path_range(place.folder)), place.folder)
    common = (former_names.keys() & present_names.keys()) | {*relative_names(candidates, place.folder).to_pylist()}
    actions = [*former_names.items(), *present_names.items()]
    moved_names = {base_name for base_name, actions_of_name in actions if LedgerAction.MOVED in actions_of_name}
    proved = (common & moved_names) | ({*relative_names(moved, place.folder).to_pylist()} & former_names.keys())
    paths_of = _paths(ledger, proved, [former, place.folder])
    mine = pc.field("path").isin(pa.array(sorted({path for paths in paths_of.values() for path in paths}), pa.string()))
    gave = {*status_log.read(lake, name, ["path"], mine & (pc.field("rows") > 0))["path"].to_pylist()}
    proved = {base_name for base_name in proved if gave & {*paths_of[base_name]}}
    return len(proved) > len(common - proved)


def _paths(ledger: DeltaTable, names: Iterable[str], folders: Sequence[str]) -> dict[str, list[str]]:
    """Return paths of names in some folders, and those that the ledger has for the same files."""
    roots = [folder.rstrip("/") for folder in folders]
    paths_of = {name: [f"{root}/{name}" for root in roots] for name in names}
    origins = aliases(ledger, [path for paths in paths_of.values() for path in paths])
    return {name: [*paths, *(origins[path] for path in paths if path in origins)] for name, paths in paths_of.items()}


def _actions_by_name(entries: pa.Table, folder: str) -> dict[str, set[str]]:
    """Return actions of the entries of each name below a folder."""
    actions: dict[str, set[str]] = {}
    for name, action in zip(relative_names(entries, folder).to_pylist(), entries["action"].to_pylist(), strict=True):
        actions.setdefault(name, set()).add(action)
    return actions

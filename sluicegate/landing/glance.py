"""A glance at a landing folder on local disk: whether the ledger has all of its files just as they lie there.

A run with nothing to do needs no more than that, and what ``discovery.discover`` does needs pyarrow, whose import takes
longer than such a run. Nothing is decided here: where a glance does not prove that nothing is new, discovery is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter

from arro3.core import DataType
from deltalake import DeltaTable

from sluicegate.definition import BronzeTable
from sluicegate.lake import layout, tables
from sluicegate.lake.table import Tables
from sluicegate.landing import folders, on_record
from sluicegate.landing.file_names import name_filter
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage import filesystems
from sluicegate.storage.local_files import Admits, Entry, Walk

# Most files of a folder, and of its ledger, that are looked at. As Python's objects more take longer than the import.
MOST = 10_000

COLUMNS = ["path", "size", "modification_time", "action", "chunk"]


def has_nothing_new(
    name: str, table: BronzeTable, lake: layout.Lake, opened: Tables | None = None, current_time: datetime | None = None
) -> bool:
    """Return whether ``discover`` would certainly find nothing new, changed, settling, refused, moved or failed.

    Args:
        name: the bronze table.
        table: its definition.
        lake: the lake that has its ledger.
        opened: table handles of the calling step.
        current_time: UTC time by which files have settled, by default the current time.
    """
    opened = opened or Tables()
    ledger, statuses = opened[lake.ledger(name)].delta, opened[lake.file_status(name)].delta
    if ledger is None or tables.rows(ledger) > MOST or not (statuses is None or on_record.has_no_failures(statuses)):
        return False
    place = folders.home(lake, name, table.path, opened)
    root = filesystems.to_local_path(place.folder)
    if root is None or place.only:
        return False
    admits = name_filter(table.pathGlobFilter)
    landed = _landed_files(root, admits)
    return landed is not None and not any(
        admits(path[len(root) :].lstrip("/"))
        for path in _doubtful_paths(landed, ledger, table.settleSeconds, current_time)
    )


def _landed_files(root: str, admits: Admits) -> list[Entry] | None:
    """Return files of a folder; None if they are too many, or something in it is passed over or cannot be read."""
    passed: dict[str, str] = {}
    try:
        files = list(islice(Walk(root, admits, passed).files(), MOST + 1))
    except OSError:
        return None
    if passed or len(files) > MOST:
        return None
    return files


def _doubtful_paths(
    landed: Iterable[Entry], ledger: DeltaTable, settle: float, current_time: datetime | None
) -> Iterable[str]:
    """Yield paths of files that differ from the ledger's entry, or that may still be in writing."""
    entries, clock = _newest_facts(ledger), (current_time or datetime.now(UTC)).timestamp()
    for path, size, microseconds in landed:
        time = filesystems.clamp_time(microseconds)
        if entries.get(path) != (size, time) or abs(time / 1e6 - clock) <= settle:
            yield path


def _newest_facts(ledger: DeltaTable) -> dict[str, tuple[int, int]]:
    """Return size and modification time of each file by its newest entry, except files whose rows were dropped."""
    rows = ledger.scan(COLUMNS).read_all()
    times = rows["modification_time"].cast(DataType.int64()).to_pylist()
    columns = (rows["chunk"], rows["path"], rows["size"], rows["action"])
    chunks, paths, sizes, actions = (column.to_pylist() for column in columns)
    newest: dict[str, tuple[int, int] | None] = {}
    entries = zip(chunks, paths, sizes, times, actions, strict=True)
    for _, path, size, time, action in sorted(entries, key=itemgetter(0)):
        if action == LedgerAction.DROP:
            newest[path] = None
        else:
            newest[path] = (size, time)
    return {path: facts for path, facts in newest.items() if facts is not None}

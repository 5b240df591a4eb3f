"""Former paths of files whose landing folder was moved."""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.storage.filesystems import FILES

# Action of an entry whose file the ledger has below a former landing folder, with that size and time; its rows stay.
MOVED = "moved"


def aliases(ledger: DeltaTable | pa.Table, paths: Collection[str]) -> dict[str, str]:
    """Former path, which their rows may have, of files that were moved with their landing folder.

    Args:
        ledger: the ledger, or all of its entries.
        paths: the files.
    """
    if not paths:
        return {}
    mine = pc.field("path").isin(pa.array(sorted(paths), pa.string()))
    moved = _facts(ledger, mine & (pc.field("action") == MOVED))
    if not moved.num_rows:
        return {}
    alike = pc.field("size").isin(moved["size"].unique()) & pc.field("modification_time").isin(
        moved["modification_time"].unique()
    )
    former: dict[tuple[int, object], list[str]] = {}
    for row in _facts(ledger, alike & (pc.field("action") != MOVED)).to_pylist():
        former.setdefault((row["size"], row["modification_time"]), []).append(row["path"])
    found = {}
    for row in moved.to_pylist():
        of_it = [path for path in former.get((row["size"], row["modification_time"]), ()) if path != row["path"]]
        best = max(of_it, key=lambda path: _common(path, row["path"]), default="")
        if _common(best, row["path"]):
            found[row["path"]] = best
    return found


def _facts(ledger: DeltaTable | pa.Table, where: pc.Expression) -> pa.Table:
    entries = ledger.filter(where) if isinstance(ledger, pa.Table) else tables.where(tables.dataset(ledger), where)
    return entries.select(FILES.names)


def _common(one: str, other: str) -> int:
    """Number of equal trailing components of two paths."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

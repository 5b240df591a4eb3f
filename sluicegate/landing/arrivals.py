"""Arrivals: generations of a file name that is used again for other content.

A ledger entry with action *read* begins an arrival; *replace* and *reset* renew it, and *drop* ends it. So when
``export.csv`` lands each day and is moved away once it is read, reading today's again does not touch yesterday's rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.landing import ledger as landing_ledger


def begun(ledger: DeltaTable, paths: set[str], chunk: int) -> dict[str, int]:
    """Ledger batch in which the last arrival of each path began, among entries before ``chunk``.

    Returns:
        batch by path, for paths with more than one arrival; all rows of the others belong to their only one.
    """
    wanted = pa.array(sorted(paths), pa.string())
    reading = (pc.field("action") == landing_ledger.READ) & (pc.field("chunk") < chunk) & pc.field("path").isin(wanted)
    found = tables.dataset(ledger).to_table(["path", "chunk"], filter=reading)
    counted = found.group_by("path").aggregate([("chunk", "max"), ("chunk", "count")])
    return {row["path"]: row["chunk_max"] for row in counted.to_pylist() if row["chunk_count"] > 1}

"""Which entries of the ledger speak of one and the same file, where several have landed under one name.

An entry that says *read* begins an arrival; entries that say *replace* or *reset* renew it, and *drop* ends it. So when
``export.csv`` lands each day and is moved away once it is read, reading today's again does not touch yesterday's rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.landing import ledger as landing_ledger


def begun(ledger: DeltaTable, paths: set[str], chunk: int) -> dict[str, int]:
    """Where the last arrival of each path begins, among entries before a chunk.

    Returns:
        the chunk of the entry that began it, for those paths that had another arrival before; of the others all rows
        are of their one arrival.
    """
    wanted = pa.array(sorted(paths), pa.string())
    reading = (pc.field("action") == landing_ledger.READ) & (pc.field("chunk") < chunk) & pc.field("path").isin(wanted)
    found = tables.dataset(ledger).to_table(["path", "chunk"], filter=reading)
    counted = found.group_by("path").aggregate([("chunk", "max"), ("chunk", "count")])
    return {row["path"]: row["chunk_max"] for row in counted.to_pylist() if row["chunk_count"] > 1}

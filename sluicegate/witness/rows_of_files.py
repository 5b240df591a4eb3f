"""Rows of a bronze table by the landed files that they were read from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.lake import layout

if TYPE_CHECKING:
    from sluicegate.witness.proved_files import Key


def rows_of_files(rows: Any, columns: list[str], entries: Collection[Key]) -> Iterator[pa.RecordBatch]:
    """Yield rows of some files alone; data files without rows of their ledger batches are not opened."""
    chunks, paths = sorted({chunk for chunk, _ in entries}), {path for _, path in entries}
    for batch in rows.to_batches(columns=columns, filter=pc.field("_chunk").isin(chunks)) if chunks else ():
        sources = batch.column("source_file").dictionary_encode()
        in_files = [layout.to_ledger_path(path or "") in paths for path in sources.dictionary.to_pylist()]
        mask = pc.take(pa.array(in_files, pa.bool_()), sources.indices)
        yield batch.filter(pc.fill_null(mask, False))


def split_by_file(batch: pa.RecordBatch) -> Iterator[tuple[tuple[int, str | None], pa.RecordBatch]]:
    """Yield parts of a sorted batch that are of one ledger batch and file."""
    chunks, paths = batch.column("_chunk"), batch.column("source_file")
    first = 0
    while first < batch.num_rows:
        key = chunks[first].as_py(), paths[first].as_py()
        remaining = batch.slice(first)
        same = pc.and_(pc.equal(remaining["_chunk"], chunks[first]), pc.equal(remaining["source_file"], paths[first]))
        count = pc.index(pc.fill_null(same, False), False).as_py()
        if count < 0:
            count = remaining.num_rows
        count = max(count, 1)
        yield key, remaining.slice(0, count)
        first += count

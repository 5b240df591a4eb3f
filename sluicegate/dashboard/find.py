"""Search over the tables and columns of pipelines, by name and comment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.dashboard.one_table import ColumnSummary, columns_of
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import SluicegateError
from sluicegate.lake import tables

MOST = 200
"""Results of a search, the best ones."""


@dataclass(frozen=True)
class Hit:
    """A table or column.

    Attributes:
        pipeline: its pipeline.
        layer: its layer.
        table: its table.
        column: the column; empty if the table itself is it.
        kind: type of the column.
        comment: what it is.
        place: how well it fits, 0 best: the name itself, its beginning, a part of it, its comment.
    """

    pipeline: str
    layer: str
    table: str
    column: str
    kind: str
    comment: str
    place: int


def search(source: Source, names: Sequence[str], text: str) -> tuple[Hit, ...]:
    """Search the names and comments of tables and columns, best match first; an empty text matches nothing."""
    words = text.strip().lower()
    if not words:
        return ()
    hits: list[Hit] = []
    for name in names:
        try:
            hits += _pipeline_hits(source, source.pipeline(name), words)
        except SluicegateError:  # its definition has mistakes, which the home says
            continue
    return tuple(sorted(hits, key=lambda hit: (hit.place, hit.pipeline, hit.table, hit.column))[:MOST])


def _pipeline_hits(source: Source, pipeline: Pipeline, words: str) -> Iterator[Hit]:
    lake = source.lake(pipeline)
    for layer in LAYERS:
        for name in pipeline.names(layer):
            if name in pipeline.deidentified_tables:
                about: Any = None
            else:
                about = pipeline.table(name)[1]
            comment = ""
            if about is not None:
                comment = about.comment
            if (place := _place(name, comment, words)) is not None:
                yield Hit(pipeline.name, layer, name, "", "", comment, place)
            for column in _columns(source, pipeline, lake.table(layer, name), name):
                if (place := _place(column.name, column.comment, words)) is not None:
                    yield Hit(pipeline.name, layer, name, column.name, column.kind, column.comment, place)


def _columns(source: Source, pipeline: Pipeline, uri: str, name: str) -> tuple[ColumnSummary, ...]:
    """Return the columns of a table, empty if it cannot be read."""
    try:
        table = source.table(uri)
        if table is None:
            return ()
        # The definition itself is kept with the result: its address in memory may be another one's later.
        version = (pipeline, tables.table_id(table), table.version())
        return source.remember((uri, "columns"), version, lambda: columns_of(pipeline, name, table))
    except SluicegateError:
        return ()


def _place(name: str, comment: str, words: str) -> int | None:
    low = name.lower()
    if low == words:
        return 0
    if low.startswith(words):
        return 1
    if words in low:
        return 2
    if words in comment.lower():
        return 3
    return None

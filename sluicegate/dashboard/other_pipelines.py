"""Tables of a lake by their addresses: the one that a bronze table reads, and the bronze tables that read one."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping

from sluicegate.dashboard.source import Answer, Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import SluicegateError
from sluicegate.lake import layout

Place = tuple[str, str, str]
"""Pipeline, layer and name of a table."""

Readers = Mapping[Place, tuple[tuple[str, str], ...]]
"""Pipeline and bronze table of all that read a table."""


def places(path: str) -> set[Place]:
    """Find the pipeline, layer and name of the table of a lake at an address, following symbolic links."""
    parts = [address.rstrip("/").split("/")[-3:] for address in _addresses(path)]
    return {(part[0], part[1], part[2]) for part in parts if len(part) == 3}


def _addresses(path: str) -> set[str]:
    address = layout.address(path)
    return {posixpath.normpath(address), os.path.realpath(address) if layout.is_local(path) else address}


def source_table(source: Source, pipeline: Pipeline, bronze: str) -> Place | None:
    """Return the table of this lake that a bronze table reads, None if it reads anything else."""
    table = pipeline.bronze[bronze]
    if table.format != "delta":
        return None
    names = source.names()
    for of, layer, name in places(table.path):
        if of in names and layer in LAYERS:
            uri = layout.Lake(pipeline.settings.lake, of).table(layer, name)
            if not _addresses(uri).isdisjoint(_addresses(table.path)):
                return of, layer, name
    return None


def readers(source: Source) -> Answer[Readers]:
    """Find the bronze tables that read tables of pipelines, among the definitions read so far."""
    return source.compute_soon("readers", lambda: _readers(source))


def _readers(source: Source) -> Readers:
    columns_by_place: dict[Place, tuple[tuple[str, str], ...]] = {}
    for name in source.names():
        for place, bronze in _read_places(source, name):
            columns_by_place[place] = (*columns_by_place.get(place, ()), (name, bronze))
    return columns_by_place


def _read_places(source: Source, name: str) -> Iterator[tuple[Place, str]]:
    try:
        pipeline = source.pipeline(name)
    except SluicegateError:  # its own page says what is wrong with it
        return
    for bronze in pipeline.bronze:
        place = source_table(source, pipeline, bronze)
        if place is not None:
            yield place, bronze

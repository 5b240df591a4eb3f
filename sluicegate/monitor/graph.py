"""Graph of a pipeline's tables and views, drawn in plain text: each with what it reads below it."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS


def reads(pipeline: Pipeline) -> dict[str, list[str]]:
    """Return the tables and views that each table and view reads, by name; those of bronze read none."""
    names = [*pipeline.views, *(name for layer in LAYERS for name in pipeline.names(layer))]
    return {name: pipeline.names_in(name) for name in names}


def graph_lines(pipeline: Pipeline) -> Iterator[str]:
    """Yield the lines of the graph: from the tables that no other reads, of the last layer first, down to bronze.

    A table is drawn once with what it reads; where it stands again, the line says so.
    """
    layers = {name: "view" for name in pipeline.views}
    layers |= {name: layer for layer in LAYERS for name in pipeline.names(layer)}
    graph, drawn_tables = reads(pipeline), set[str]()
    read_by_others = {read for of in graph.values() for read in of}

    def table_lines(name: str, branch: str, below: str) -> Iterator[str]:
        parts, line = graph[name], f"{layers[name]:<6}  {branch}{name}"
        if parts and name in drawn_tables:
            yield f"{line} (above)"
            return
        drawn_tables.add(name)
        yield line
        for read in parts[:-1]:
            yield from table_lines(read, f"{below}├─ ", f"{below}│  ")
        for read in parts[-1:]:
            yield from table_lines(read, f"{below}└─ ", f"{below}   ")

    for layer in reversed(LAYERS):
        for name in pipeline.names(layer):
            if name not in read_by_others:
                yield from table_lines(name, "", "")

"""Checks of what the queries of a definition read: unknown tables, wrong layers, views, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sluicegate.definition import graph
from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake
from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.pipeline.views import Views
from sluicegate.definition.tables.gold import GoldTable
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.table import Layer
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax


def view_findings(tables: DefinedTables, path: Path, query: Query) -> Iterator[LocatedMistake]:
    """Report a view that reads a stream, has faults in its SQL, or reads tables that it cannot."""
    if query.stream is not None:
        message = f"a view cannot be read as a stream: write {query.stream} without STREAM(…)"
        yield LocatedMistake("sql", path, message, sql_line=query.line_of(query.stream))
    else:
        yield from syntax_findings(path, query.table_objections())
    yield from syntax_findings(path, filter(None, [tables.views.faults.get(str(path[1]))]))
    yield from query_findings(tables, path, query)


def syntax_findings(path: Path, objections: Iterable[QuerySyntax]) -> Iterator[LocatedMistake]:
    """Report the mistakes of a query at its lines."""
    for objection in objections:
        yield LocatedMistake("sql", path, objection.message, sql_line=objection.line)


def query_findings(tables: DefinedTables, path: Path, query: Query) -> Iterator[LocatedMistake]:
    """Report tables and views that a query cannot read, by the names that it uses."""
    for read in query.tables:
        if read not in tables.views.names or read == query.stream:
            yield from source_findings(tables, path, read, query.line_of(read))
        elif path[0] == "silver" and (gold := [of for of in tables.views.tables(read) if of in tables.gold]):
            message = f"{read} is a view of the gold table {gold[0]}, which is built after silver"
            yield LocatedMistake("wrong-layer", path, message, f"move {path[1]} to gold", query.line_of(read))


def source_findings(tables: DefinedTables, path: Path, read: str, line: int | None) -> Iterator[LocatedMistake]:
    """Report a table that cannot be read: an unknown table, a view, or a gold table in silver."""
    reader, name = str(path[0]), path[1]
    layer = tables.layers.get(read)
    if read in tables.views.names:
        message = f"{read} is a view, which only a query can read"
        yield LocatedMistake("not-a-table", path, message, "read a table of the view", line)
    elif layer is None:
        refused_layer = {"silver": "gold"}.get(reader)
        names = [table for table, of in tables.layers.items() if of != refused_layer]
        if line is not None:
            names += tables.views.names
        readable = [readable_name for readable_name in names if readable_name != name]
        hint = suggest_or_list(read.rsplit(".", 1)[-1], readable, "known tables:")
        yield LocatedMistake("unknown-table", path, f"unknown table {read} in this pipeline", hint, line)
    elif layer == "gold" and reader == "silver":
        message = f"{read} is a gold table, which is built after silver: only bronze and silver tables can be read here"
        yield LocatedMistake("wrong-layer", path, message, f"move {name} to gold, where it can read {read}", line)


def cycles(
    views: Views, layer: Layer, tables: Mapping[str, SilverTable] | Mapping[str, GoldTable]
) -> Iterator[LocatedMistake]:
    """Report cycles of a layer's tables, also through views, each once, where its first table reads the next."""
    reads = {name: table.referenced_names for name, table in tables.items()}
    for cycle in graph.cycles({**reads, **views.reads}):
        name, read, *_ = (*cycle, cycle[0])
        if name not in views.reads:
            yield _cycle_mistake(cycle, *_place_of_reading(layer, name, tables[name], read), layer)


def cycles_of_views(views: Views) -> Iterator[LocatedMistake]:
    """Yield cycles of views alone."""
    for cycle in graph.cycles(views.reads):
        name, read, *_ = (*cycle, cycle[0])
        yield _cycle_mistake(cycle, ("views", name), views.written[name].line_of(read), "view")


def _cycle_mistake(cycle: Sequence[str], path: Path, line: int | None, kind: str) -> LocatedMistake:
    name, read, *_ = (*cycle, cycle[0])
    if name == read:
        hints = {"silver": "stream its source instead", "view": "read the tables of the view here"}
        hint = hints.get(kind, "read its source tables here")
        return LocatedMistake("cycle", path, f"{name} reads itself", hint, line)
    verb = {"view": "views depend on"}.get(kind, "tables wait for")
    message = f"{verb} each other: {' reads '.join([*cycle, name])}"
    return LocatedMistake(
        "cycle", path, message, f"break the cycle: let {name} read the sources of {read}, or the reverse", line
    )


def _place_of_reading(layer: Layer, name: str, table: SilverTable | GoldTable, read: str) -> tuple[Path, int | None]:
    """Return the path of the field by which a table reads another, and the line in its query, if that is one."""
    if isinstance(table, GoldTable):
        if table.written_query is None:
            return (layer, name, "reads", table.reads.index(read)), None
        return (layer, name, "sql"), table.written_query.line_of(read)
    for maker_path, maker in table.located_makers:
        place: Path = (layer, name, *maker_path)
        if maker.written_query is not None and read in maker.written_query.tables:
            return (*place, "sql"), maker.written_query.line_of(read)
        if maker.from_ == read:
            return (*place, "from"), None
    return (layer, name, "lookups"), None

"""Cross-table checks of a definition: unknown tables and columns, overlapping folders, cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluicegate.definition import graph, reader_options, streaming_query
from sluicegate.definition.apply_changes import END_AT, START_AT, TRACKED, ApplyChanges, ApplyChangesFromSnapshot
from sluicegate.definition.fields import RESERVED, nearest
from sluicegate.definition.gold import GoldTable
from sluicegate.definition.pipeline import BronzeTable
from sluicegate.definition.silver import SilverTable
from sluicegate.definition.table import Layer
from sluicegate.definition.yaml import Path
from sluicegate.sql.query import Query
from sluicegate.sql.tokens import QuerySyntax
from sluicegate.sql.types import REFUSED, REFUSED_IN_WORDS

Changes = ApplyChanges | ApplyChangesFromSnapshot

# Fields that are lists of names: a mistake is located at its item.
_LISTS = ("keys", "pii", "column_list", "except_column_list", *TRACKED)

# Columns that the engine adds to each bronze table and that queries may read.
_BRONZE_COLUMNS = ("_file_modification_time", "receipt_time", "source_file", "_rescued_data", "_corrupt_record")

# Columns that no query over whole tables is given (``ENGINE_COLUMNS`` of schema/columns.py).
_HIDDEN = ("_chunk", "_pos", "_sequence")


@dataclass(frozen=True)
class Finding:
    """A mistake at a path of the document, or at a line of the query there (``sql_line``, from 1)."""

    code: str
    path: Path
    message: str
    hint: str = ""
    sql_line: int | None = None


@dataclass
class Tables:
    """Valid tables of a definition, and the names of all.

    Attributes:
        bronze: bronze tables by name.
        silver: silver tables by name.
        gold: gold tables by name.
        layers: layer of each table of the document, so that one with a mistake is not reported as unknown, too.
    """

    bronze: dict[str, BronzeTable] = field(default_factory=dict)
    silver: dict[str, SilverTable] = field(default_factory=dict)
    gold: dict[str, GoldTable] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)

    def columns(self, name: str, seen: tuple[str, ...] = ()) -> list[str] | None:
        """Columns of a table if they are known without its data; else None."""
        if name in self.bronze:
            declared = self.bronze[name].declared
            return None if declared is None else [*declared, *_BRONZE_COLUMNS]
        table = self.silver.get(name)
        if table is None or name in seen:
            return None
        made = self.made(table, (*seen, name))
        if table.declared is None:
            return made
        if made is None and table.schemaEvolutionMode == "addNewColumns":
            return None
        named = {column.lower() for column in table.declared}
        others = [column for column in made or () if column.lower() not in named]
        if table.schemaEvolutionMode != "addNewColumns":
            # Engine columns are not part of the definition, so a declared schema keeps them.
            others = [column for column in others if column.lower() in RESERVED]
        return [*table.declared, *others]

    def made(self, table: SilverTable, seen: tuple[str, ...] = ()) -> list[str] | None:
        """Output columns of a silver table's transform; None if they are not known without its data."""
        if table.is_python:
            return None
        if table.from_ and table.changes:
            known = self.columns(table.from_, seen)
            added = [START_AT, END_AT] if table.changes.history else []
            return None if known is None else [*table.changes.selected(known), *added]
        return table.query.outputs if table.query else None


def findings(tables: Tables) -> Iterator[Finding]:
    """All mistakes across the tables."""
    for name, bronze in tables.bronze.items():
        yield from _options(("bronze", name, "options"), bronze)
        yield from _cleaning(name, bronze, tables.bronze)
    for name, silver in tables.silver.items():
        yield from _silver(tables, name, silver)
    for name, gold in tables.gold.items():
        yield from _gold(tables, name, gold)
    yield from _cycles("silver", tables.silver)
    yield from _cycles("gold", tables.gold)


def _options(path: Path, table: BronzeTable) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name, value in table.options.items():
        if problem := reader_options.problem(table.format, name, value):
            yield Finding(problem.code, (*path, name), problem.message, problem.hint)
        elif name.lower() in first:
            # To Spark they are one option, and which value wins is undefined.
            yield Finding("duplicate-key", (*path, name), f"{name} and {first[name.lower()]} are the same option")
        first.setdefault(name.lower(), name)


def _cleaning(name: str, table: BronzeTable, others: Mapping[str, BronzeTable]) -> Iterator[Finding]:
    """Files that one table moves or deletes must not be read by another, before or after."""
    if table.cleanSource == "OFF":
        return
    for other, there in others.items():
        to = table.cleanSourceMoveDestination
        if to is not None and (_within(to, there.path) or _within(there.path, to)):
            place = ("bronze", name, "cleanSourceMoveDestination")
            yield Finding("clean-source", place, f"{to} and the folder that {other} reads, {there.path}, overlap")
        if other != name and (_within(table.path, there.path) or _within(there.path, table.path)):
            place = ("bronze", name, "cleanSource")
            yield Finding("clean-source", place, f"{other} reads files of the same folder, {there.path}")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _silver(tables: Tables, name: str, table: SilverTable) -> Iterator[Finding]:
    path: Path = ("silver", name)
    if table.query is not None:
        yield from _objections((*path, "sql"), table.query.stream_objections(many=table.many))
        for read in table.query.tables:
            yield from _read(tables, (*path, "sql"), read, table.query.line_of(read))
        yield from _output_names((*path, "sql"), table.query)
    elif table.from_:
        yield from _read(tables, (*path, "from"), table.from_, None)
    yield from _lookups(tables, path, table)
    yield from _declared(tables, name, table)
    yield from _columns(tables, name, table)
    yield from _rule_names(path, table)
    yield from _rows(tables, path, table)


def _lookups(tables: Tables, path: Path, table: SilverTable) -> Iterator[Finding]:
    """Tables under ``lookups`` must be read, but not streamed; a Python transform reads exactly these."""
    others = [read for read in table.reads if read != table.stream]
    for lookup in table.lookups:
        place = (*path, "lookups", lookup)
        if lookup == table.stream:
            yield Finding("not-a-lookup", place, f"{lookup} is read record by record: it is no lookup", "take it away")
        elif table.is_python:
            yield from _read(tables, place, lookup, None)
        elif lookup not in others:
            hint = nearest(lookup, others) or (f"it joins {', '.join(others)}" if others else "it joins no table")
            yield Finding("not-a-lookup", place, f"{path[-1]} does not read {lookup}", hint)


def _declared(tables: Tables, name: str, table: SilverTable) -> Iterator[Finding]:
    """The transform must give each declared column, and with ``failOnNewColumns`` no other."""
    made, declared = tables.made(table, (name,)), table.declared
    if made is None or declared is None:
        return
    for column in declared:
        if column.lower() not in {other.lower() for other in made}:
            message = f"{name} declares {column}, and nothing makes it"
            yield Finding("unknown-column", ("silver", name, "schema"), message, instead(column, made))
    if table.schemaEvolutionMode == "failOnNewColumns" and table.query is not None:
        for column in made:
            if column.lower() not in {other.lower() for other in declared}:
                message = f"{column} is not in the schema of {name}, which fails on new columns"
                line = table.query.line_of_output(column)
                yield Finding("new-column", ("silver", name, "sql"), message, "declare it, or leave it out", line)


def _rule_names(path: Path, table: SilverTable) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for place, rule, expectation in table.rules:
        if expectation.unique and table.changes is not None:
            message = "unique does not go with apply_changes, whose rules are about records before they become rows"
            yield Finding("unique", (*path, place, rule), message, "put it on a silver table that reads this one")
        if rule in first:
            yield Finding("duplicate-name", (*path, place, rule), f"there is a rule {rule} in {first[rule]} already")
        first.setdefault(rule, place)


def _rows(tables: Tables, path: Path, table: SilverTable) -> Iterator[Finding]:
    """``rows: many`` and ``quarantine: record`` must have a meaning for the table."""
    if table.many and table.changes is not None:
        message = "apply_changes makes one row of a record at most, and rows: many goes with sql or python"
        yield Finding("rows", (*path, "rows"), message, "make the rows in a silver table that this one reads")
    if table.many and (before := _of_many(tables, table.stream)):
        message = f"a record of {before} gives many rows already, and {path[-1]} reads them one by one"
        yield Finding("rows", (*path, "rows"), message, f"make all rows in the query of {before}, or in gold")
    if table.quarantine == "row":
        return
    if not table.many:
        message = "quarantine: record is for rows: many: here a record is one row"
        yield Finding("quarantine", (*path, "quarantine"), message, "take it away, or write rows: many")
    for place, rule, expectation in table.rules:
        if expectation.unique:
            message = "unique is decided row by row, and does not go with quarantine: record"
            yield Finding("unique", (*path, place, rule), message, "put it on a silver table that reads this one")


def _of_many(tables: Tables, name: str) -> str:
    """The silver table with ``rows: many`` that a table is or is made of, row by row; empty if there is none."""
    seen: set[str] = set()
    while name in tables.silver and name not in seen:
        if tables.silver[name].many:
            return name
        seen.add(name)
        name = tables.silver[name].stream
    return ""


def _gold(tables: Tables, name: str, table: GoldTable) -> Iterator[Finding]:
    if table.is_python:
        for number, read in enumerate(table.reads):
            yield from _read(tables, ("gold", name, "reads", number), read, None)
    else:
        yield from _gold_query(tables, name, table)
    if table.refresh == "incremental" and (found := table.refresh_strategy()).kind == "whole":
        message = f"{name} cannot be kept up to date by what changes: {found.why}"
        yield Finding("refresh", ("gold", name, "refresh"), message, found.cheaper or "refresh: auto")


def _gold_query(tables: Tables, name: str, table: GoldTable) -> Iterator[Finding]:
    path: Path = ("gold", name, "sql")
    yield from _objections(path, table.query.table_objections())
    if not table.query.tables:
        yield Finding("reads-nothing", path, "the query reads no table", sql_line=1)
    for read in table.query.tables:
        yield from _read(tables, path, read, table.query.line_of(read))
    yield from _delta_names(path, table.query)
    yield from _names_for_readers(tables, name, table.query)
    for objection in streaming_query.objections(table) if table.mode else ():
        yield Finding("mode", ("gold", name, "mode"), objection.message, objection.hint)


def _objections(path: Path, objections: list[QuerySyntax]) -> Iterator[Finding]:
    for objection in objections:
        yield Finding("sql", path, objection.message, sql_line=objection.line)


def _read(tables: Tables, path: Path, read: str, line: int | None) -> Iterator[Finding]:
    """A table that is read must be one of this pipeline; silver reads bronze and silver, gold any."""
    reader, name = str(path[0]), path[1]
    layer = tables.layers.get(read)
    if layer is None:
        known = [one for one, of in tables.layers.items() if one != name and (reader == "gold" or of != "gold")]
        hint = nearest(read.rsplit(".", 1)[-1], known) or (f"there are {', '.join(known)}" if known else "")
        yield Finding("unknown-table", path, f"there is no table {read} in this pipeline", hint, line)
    elif layer == "gold" and reader == "silver":
        message = f"{read} is a gold table, which is made after silver: only bronze and silver tables can be read here"
        yield Finding("wrong-layer", path, message, f"put {name} into gold, where it can read {read}", line)


def _delta_names(path: Path, query: Query) -> Iterator[Finding]:
    for output in query.outputs or []:
        if REFUSED & set(output):
            message = f"Delta has no column {output}: it takes {REFUSED_IN_WORDS} in a name"
            yield Finding("name", path, message, "give it another, AS name", query.line_of_output(output))


def _names_for_readers(tables: Tables, name: str, query: Query) -> Iterator[Finding]:
    """Columns of a gold table that others of gold read must not have names that no reader is given."""
    readers = [reader for reader, table in tables.gold.items() if reader != name and name in table.reads]
    for output in (query.outputs or []) if readers else []:
        if output.lower() in _HIDDEN:
            message = f"{output} is a name of the engine's own, so {readers[0]} cannot read it"
            line = query.line_of_output(output)
            yield Finding("reserved-name", ("gold", name, "sql"), message, "give it another, AS name", line)


def _output_names(path: Path, query: Query) -> Iterator[Finding]:
    yield from _delta_names(path, query)
    for output in query.outputs or []:
        # Provenance may be passed through, but not computed: the quarantine has it, too.
        provenance = output in ("receipt_time", "source_file") and query.hands_on(output)
        if output.startswith("_") or (output.lower() in RESERVED and not provenance):
            message = f"{output} is a name of the engine's own, as are all that begin with _: give it another, AS name"
            yield Finding("reserved-name", path, message, sql_line=query.line_of_output(output))


def _columns(tables: Tables, name: str, table: SilverTable) -> Iterator[Finding]:
    """Columns named by a table's fields must exist, as far as its columns are known."""
    path: Path = ("silver", name)
    known = tables.columns(name)
    if known is None:
        return
    fields: dict[Path, list[str]] = {
        ("keys",): table.keys,
        ("event_time",): [table.event_time] if table.event_time else [],
        ("pii",): table.pii,
        ("deidentified",): list(table.deidentified or {}),
    }
    # sequence_by may also be a column of the record that the query does not select.
    record = tables.columns(table.stream) if table.sequence_by not in known else known
    if table.sequence_by and record is not None:
        fields["sequence_by",] = [] if table.sequence_by in record else [table.sequence_by]
    yield from _unknown(name, path, fields, known)
    if table.changes is None:
        yield from _expected(path, name, table, known)
    elif (source := tables.columns(table.stream)) is not None:
        yield from _changes(name, table, table.changes, source)
        # Expectations are evaluated on records, before they become rows, so on the source's columns.
        yield from _expected(path, table.stream, table, source)


def _unknown(name: str, path: Path, fields: Mapping[Path, list[str]], known: list[str]) -> Iterator[Finding]:
    """Names in ``fields``, by their paths below ``path``, that are not columns of table ``name``."""
    for at, names in fields.items():
        for number, column in enumerate(names):
            if column not in known:
                place = (*path, *at, number) if at[-1] in _LISTS else (*path, *at)
                place = (*place, column) if at[-1] == "deidentified" else place
                yield Finding("unknown-column", place, f"{name} has no column {column}", instead(column, known))


def _changes(name: str, table: SilverTable, changes: Changes, source: list[str]) -> Iterator[Finding]:
    """Source columns of ``apply_changes`` that do not exist, or that the table adds itself."""
    path: Path = ("silver", name, "apply_changes" if table.apply_changes else "apply_changes_from_snapshot")
    fields: dict[Path, list[str]] = {
        ("keys",): changes.keys,
        ("sequence_by",): [changes.sequence_by],
        ("track_history_column_list",): changes.track_history_column_list or [],
        ("track_history_except_column_list",): changes.track_history_except_column_list or [],
    }
    if table.apply_changes:
        fields["column_list",] = table.apply_changes.column_list or []
        fields["except_column_list",] = table.apply_changes.except_column_list or []
    yield from _unknown(table.stream, path, fields, source)
    lower = {column.lower() for column in source}
    for column in table.apply_changes.delete_columns if table.apply_changes else []:
        if column.lower() not in lower:
            message = f"{table.stream} has no column {column}"
            yield Finding("unknown-column", (*path, "apply_as_deletes"), message, instead(column, source))
    for column in (START_AT, END_AT) if changes.history else ():
        if column in changes.selected(source):
            message = f"{table.stream} has a column {column}, and {name} makes one of this name"
            yield Finding("reserved-name", (*path, "stored_as_scd_type"), message, "leave it out by except_column_list")


def _expected(path: Path, of: str, table: SilverTable, known: list[str]) -> Iterator[Finding]:
    """Columns of expectations must exist in the table that they are evaluated on."""
    lower = {column.lower() for column in known}
    for place, rule, expectation in table.rules:
        for column in expectation.columns:
            if column.lower() not in lower:
                message = f"{of} has no column {column}"
                yield Finding("unknown-column", (*path, place, rule), message, instead(column, known))


def instead(column: str, known: list[str]) -> str:
    """Suggestion for a column that there is not: the nearest name, else all names."""
    return nearest(column, known) or f"its columns are {', '.join(known)}"


def _cycles(layer: Layer, tables: Mapping[str, SilverTable] | Mapping[str, GoldTable]) -> Iterator[Finding]:
    """Cycles of the tables of a layer, each reported once, where its first table reads the next."""
    for found in graph.cycles({name: table.reads for name, table in tables.items()}):
        name, read = found[0], found[1] if len(found) > 1 else found[0]
        path, line = _place_of_reading(layer, name, tables[name], read)
        if name == read:
            hint = "a table is made of others: read those here" if layer == "gold" else "stream what it is made of"
            yield Finding("cycle", path, f"{name} reads itself", hint, line)
            continue
        message = f"tables wait for each other: {' reads '.join([*found, name])}"
        yield Finding("cycle", path, message, f"let {name} read what {read} is made of, or the other way round", line)


def _place_of_reading(layer: Layer, name: str, table: SilverTable | GoldTable, read: str) -> tuple[Path, int | None]:
    """Path of the field by which a table reads another, and the line in its query, if that is one."""
    if isinstance(table, GoldTable) and table.is_python:
        return (layer, name, "reads", table.reads.index(read)), None
    if isinstance(table, SilverTable) and table.query is None:
        return (layer, name, "from" if table.from_ == read else "lookups"), None
    query = table.query
    return (layer, name, "sql"), query.line_of(read) if query is not None else None

"""Column lineage of a pipeline: of each column of its tables the columns that it comes from. No JVM.

The queries tell it, read with the columns that their tables have by their logs and definitions. What a Python function
does is not known: all that it reads may be in all that it returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluicegate.definition import GoldTable, Layer, Pipeline, SilverTable
from sluicegate.definition.tables.apply_changes import END_AT, START_AT
from sluicegate.definition.tables.expectations import ExpectationAction
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.flow.flows import open_all_tables
from sluicegate.lake import layout
from sluicegate.lake.table import Tables
from sluicegate.schema.columns import ENGINE_COLUMNS, PROVENANCE, data_columns
from sluicegate.spark_sql.lineage import model, queries
from sluicegate.spark_sql.lineage.model import Columns, Lineage, Origins, SourceColumn, Use

QUARANTINE = "_quarantine"

_FILTER, _GROUP_BY, _SORT, _CONDITIONAL = (
    Use("FILTER"), Use("GROUP_BY"), Use("SORT"), Use("CONDITIONAL"),
)  # fmt: skip
_MASKED = Use("TRANSFORMATION", masked=True)


@dataclass(frozen=True)
class TableLineage:
    """Column lineage of a table.

    Attributes:
        layer: its layer.
        table: its name.
        columns: of each column where it comes from; of bronze nothing, as files are no table.
        rows: columns that decide which rows it has.
        reads: the tables that it is made of, also those of which no column is named, as by count(*).
        rest: tables of whose columns a star brings others, which are not known yet.
        complete: whether these are all of its columns.
        unsure: why its query does not tell; then each column may come from every column of what it reads.
    """

    layer: Layer
    table: str
    columns: Mapping[str, Origins] = field(default_factory=dict)
    rows: Origins = model.NONE
    reads: tuple[str, ...] = ()
    rest: frozenset[str] = frozenset()
    complete: bool = True
    unsure: str = ""

    def spell_column(self, column: str) -> str:
        """Return the column's name as the table has it; as it is given if it has none of that name."""
        return next((name for name in self.columns if name.lower() == column.lower()), column)


def lineage(pipeline: Pipeline, lake: layout.Lake, opened: Tables | None = None) -> dict[str, TableLineage]:
    """Return the lineage of all tables of a pipeline by name, each after those that it reads.

    Quarantines are there after their silver tables, and de-identified copies.

    Args:
        pipeline: the definition.
        lake: its lake.
        opened: handles of its tables, where some are open already.

    Raises:
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    return _Pipeline(pipeline, lake, open_all_tables(pipeline, lake) if opened is None else opened).tables()


class _Pipeline:
    """Reader of a pipeline's lineage, table after table."""

    def __init__(self, pipeline: Pipeline, lake: layout.Lake, opened: Tables) -> None:
        self.pipeline, self.at, self.opened = pipeline, lake, opened
        self.known: dict[str, Columns] = {}
        self.found: dict[str, TableLineage] = {}

    def tables(self) -> dict[str, TableLineage]:
        for name in self.pipeline.bronze:
            self._add(TableLineage("bronze", name), self._bronze_columns(name))
        for name in self.pipeline.in_order("silver"):
            self._silver(name)
        for name in self.pipeline.in_order("gold"):
            table = self.pipeline.gold[name]
            if table.sql:
                of_table = self._query_lineage(table.query.text, table.reads)
            else:
                of_table = self._python_lineage(table, table.reads)
            dropped = [rule for rule in table.expectations.values() if rule.action == ExpectationAction.DROP]
            rows = model.unite_origins(_used_origins(of_table, rule.columns, _FILTER) for rule in dropped)
            rows |= frozenset((SourceColumn(table.reads[0], column.lower()), _FILTER) for column in table.withWatermark)
            self._add(self._table("gold", name, replace(of_table, rows=of_table.rows | rows)))
        return self.found

    def _add(self, table: TableLineage, columns: Columns | None = None) -> None:
        """Take a table in, and what those that read it know of its columns."""
        if columns is None:
            hidden = ENGINE_COLUMNS if table.layer == "silver" else ()
            columns = Columns(tuple(table.columns), hidden, table.complete)
        elif not table.columns:
            table = replace(table, columns=dict.fromkeys(columns.names, model.NONE), complete=columns.complete)
        self.found[table.table], self.known[table.table] = table, columns

    def _stored_columns(self, layer: str, name: str) -> list[str]:
        """Return the columns that a table has by its log; none while it does not exist."""
        delta = self.opened[self.at.table(layer, name)].delta
        if delta is None:
            return []
        return [column.name for column in delta.schema().fields]

    def _bronze_columns(self, name: str) -> Columns:
        table, stored = self.pipeline.bronze[name], self._stored_columns("bronze", name)
        declared = list(table.declared_columns or table.hints)
        names = _distinct_names([*stored, *declared, *PROVENANCE])
        hidden = tuple(column for column in names if column in ENGINE_COLUMNS)
        return Columns(tuple(column for column in names if column not in hidden), hidden, complete=bool(stored))

    def _silver(self, name: str) -> None:
        table = self.pipeline.silver[name]
        transform = _unite_lineages([self._maker_lineage(table, maker) for maker in table.makers.values()])
        table_lineage = self._table("silver", name, transform)
        chosen = _change_lineage(table, table_lineage)
        rules = _rules(table, table_lineage, table.streams)
        self._add(replace(chosen, rows=chosen.rows | rules | _key_origins(table, table_lineage, table.streams)))
        self.found[f"{name}{QUARANTINE}"] = self._quarantine(name, table, table_lineage, rules)
        for copy, of in self.pipeline.deidentified_tables.items():
            if of == name:
                self._add(_deidentified_lineage(copy, table, self.found[name]))

    def _maker_lineage(self, table: SilverTable, maker: SilverTable | SilverFlow) -> Lineage:
        """Return the lineage of what a table, or one of its flows, makes."""
        if maker.query is not None:
            of_query = self._query_lineage(maker.query.text, maker.query.tables)
            first = getattr(maker, "first_branch", None)
            if first is not None and first.outputs:
                return _rename_columns(of_query, first.outputs)
            return of_query
        if maker.is_python:
            return self._python_lineage(table, [maker.stream, *table.lookups])
        of_source = self.known.get(maker.stream, Columns())
        names = data_columns(of_source.names)
        columns = {name: frozenset({(SourceColumn(maker.stream, name.lower()), model.IDENTITY)}) for name in names}
        return Lineage(columns, rest=frozenset() if of_source.complete else frozenset({maker.stream}))

    def _query_lineage(self, text: str, reads: Sequence[str]) -> Lineage:
        return queries.lineage(text, {name: self.known.get(name, Columns()) for name in reads})

    def _python_lineage(self, table: SilverTable | GoldTable, reads: Sequence[str]) -> Lineage:
        """Return the lineage of a function's result: as declared, and for all else every column that it reads."""
        anything = queries.unknown_lineage({name: Columns() for name in reads}, "a Python function computes it")
        declared = {column: frozenset(map(_parse_declared, sources)) for column, sources in table.lineage.items()}
        return replace(anything, columns={**declared, **anything.columns})

    def _table(self, layer: Layer, name: str, computed: Lineage) -> TableLineage:
        """Return the lineage of a table by that of its rows, with the columns of its log and its definition."""
        stored = [column for column in self._stored_columns(layer, name) if column not in ENGINE_COLUMNS]
        declared = list((self.pipeline.silver[name].declared_columns if layer == "silver" else None) or ())
        columns = dict(computed.columns)
        of_every = columns.pop(model.EVERY, model.NONE)
        named = set(map(str.lower, columns))
        for column in _distinct_names([*declared, *stored]):
            if column.lower() not in named:
                same_name = ((SourceColumn(table, column.lower()), model.IDENTITY) for table in computed.rest)
                columns[column] = of_every | frozenset(same_name)
        complete = not (computed.rest or computed.unsure) or bool(stored)
        unknown = computed.rest
        if stored:
            unknown = frozenset()
        reads = tuple(self.pipeline.reads(name))
        return TableLineage(layer, name, columns, computed.rows, reads, unknown, complete, computed.unsure)

    def _quarantine(self, name: str, table: SilverTable, table_lineage: TableLineage, rules: Origins) -> TableLineage:
        """Return the lineage of a quarantine: the rows as evaluated, the records, and the rules that they broke."""
        record = frozenset((SourceColumn(stream, model.EVERY), model.TRANSFORMATION) for stream in table.streams)
        broken = frozenset((source, _CONDITIONAL) for source, _ in rules)
        columns = {**table_lineage.columns, "_failed_expectations": broken, "_record": record}
        columns |= {column: model.NONE for column in ("_quarantined_at", "source_file") if column not in columns}
        return replace(table_lineage, table=f"{name}{QUARANTINE}", columns=columns, rows=table_lineage.rows | rules)


def _parse_declared(text: str) -> tuple[SourceColumn, Use]:
    table, _, column = text.lower().partition(".")
    return SourceColumn(table, column), model.TRANSFORMATION


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names without those that differ from one before only by their case."""
    names_of_columns: dict[str, str] = {}
    for name in names:
        names_of_columns.setdefault(name.lower(), name)
    return list(names_of_columns.values())


def _unite_lineages(parts: Sequence[Lineage]) -> Lineage:
    """Return the lineage of rows that several flows make, with columns of one name together."""
    columns: dict[str, Origins] = {}
    names: dict[str, str] = {}
    for part in parts:
        for name, origins in part.columns.items():
            name = names.setdefault(name.lower(), name)
            columns[name] = columns.get(name, model.NONE) | origins
    of_every = columns.get(model.EVERY, model.NONE)
    if of_every and len(parts) > 1:  # a column that one flow makes may be in what another one makes
        columns = {name: origins | of_every for name, origins in columns.items()}
    unknown = frozenset[str]().union(*(part.rest for part in parts))
    unsure = next((part.unsure for part in parts if part.unsure), "")
    return Lineage(columns, model.unite_origins(part.rows for part in parts), unknown, unsure)


def _rename_columns(lineage_of_query: Lineage, names: Sequence[str]) -> Lineage:
    """Return the same with the names that the first branch of a UNION ALL gives to its columns."""
    if lineage_of_query.unsure:
        return lineage_of_query
    if lineage_of_query.rest or len(names) != len(lineage_of_query.columns):
        return replace(lineage_of_query, columns={model.EVERY: model.unite_origins(lineage_of_query.columns.values())})
    return replace(lineage_of_query, columns=dict(zip(names, lineage_of_query.columns.values(), strict=True)))


def _used_origins(of_table: Lineage | TableLineage, names: list[str], use: Use, streams: Sequence[str] = ()) -> Origins:
    """Return the origins of what uses columns of a table, or else columns of the record that a row is made of."""
    by_name = {name.lower(): origins for name, origins in of_table.columns.items()}
    parts = [model.NONE]
    for name in names:
        of_record = frozenset((SourceColumn(stream, name.lower()), model.IDENTITY) for stream in streams)
        parts.append(model.apply_use(use, by_name.get(name.lower(), by_name.get(model.EVERY, of_record))))
    return model.unite_origins(parts)


def _rules(table: SilverTable, of_table: TableLineage, streams: Sequence[str]) -> Origins:
    """Return the columns by which rules decide whether a row is in the table."""
    removing = (ExpectationAction.DROP, ExpectationAction.QUARANTINE)
    rules = (rule for rule in table.expectations.values() if rule.action in removing)
    return model.unite_origins(_used_origins(of_table, rule.columns, _FILTER, streams) for rule in rules)


def _key_origins(table: SilverTable, of_table: TableLineage, streams: Sequence[str]) -> Origins:
    """Return the columns that decide which of several records with the same keys is a row."""
    of = table.changes or table
    sequence = [*filter(None, [of.sequence_by])]
    origins = _used_origins(of_table, of.keys, _GROUP_BY, streams) | _used_origins(of_table, sequence, _SORT, streams)
    deletes = []
    if table.apply_changes:
        deletes = table.apply_changes.delete_columns
    return origins | _used_origins(of_table, deletes, _FILTER, streams)


def _change_lineage(table: SilverTable, of_table: TableLineage) -> TableLineage:
    """Return the lineage of a table of changes: the chosen columns, and of each version when it began and ended."""
    changes = table.changes
    if changes is None:
        return of_table
    columns = {name: of_table.columns[name] for name in changes.selected_columns(list(of_table.columns))}
    if changes.has_history:
        untracked = changes.track_history_except_column_list or ()
        tracked = changes.track_history_column_list or [name for name in columns if name not in untracked]
        sequence = _used_origins(of_table, [changes.sequence_by], model.TRANSFORMATION, table.streams)
        sequence |= _used_origins(of_table, tracked, _CONDITIONAL)
        columns |= {START_AT: sequence, END_AT: sequence}
    return replace(of_table, columns=columns)


def _deidentified_lineage(name: str, table: SilverTable, of: TableLineage) -> TableLineage:
    treated = {column.lower(): treatment for column, treatment in (table.deidentified or {}).items()}
    columns = {}
    for column in of.columns:
        treatment = treated.get(column.lower())
        if treatment != "drop":
            use = model.IDENTITY if treatment is None else _MASKED
            columns[column] = frozenset({(SourceColumn(of.table, column.lower()), use)})
    unknown = frozenset() if of.complete else frozenset({of.table})
    return replace(of, table=name, columns=columns, rows=model.NONE, reads=(of.table,), rest=unknown, unsure="")

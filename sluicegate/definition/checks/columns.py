"""Cross-table checks of a definition: unknown columns, overlapping folders; what is read is in reads.py."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import product

from sluicegate.definition.checks import reads as read_checks
from sluicegate.definition.checks import streaming_query
from sluicegate.definition.checks.flows import flow_findings
from sluicegate.definition.checks.known_tables import (
    DefinedTables,
    LocatedMistake,
    missing_columns,
    suggest_columns,
    unknown_columns,
)
from sluicegate.definition.checks.sequences import sequence_findings
from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.pipeline.model import BronzeTable
from sluicegate.definition.tables import reader_options
from sluicegate.definition.tables.apply_changes import TRACKED, ApplyChanges, ApplyChangesFromSnapshot
from sluicegate.definition.tables.described import Described
from sluicegate.definition.tables.gold import GoldTable
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.definition.tables.table import Layer
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql import engine_columns
from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.types import REFUSED, REFUSED_IN_WORDS

Changes = ApplyChanges | ApplyChangesFromSnapshot

# Fields that are lists of names: a mistake is located at its item.
_LISTS = ("keys", "pii", "column_list", "except_column_list", *TRACKED)

# Fields by columns: a mistake is located at its key.
_BY_COLUMN = ("deidentified", "column_comments")

# Columns that no query over whole tables is given (``ENGINE_COLUMNS`` of schema/columns.py).
_HIDDEN = ("_chunk", "_pos", "_sequence", "_record_row", "_record_flow")


def findings(tables: DefinedTables) -> Iterator[LocatedMistake]:
    """Yield all mistakes across the tables."""
    for name, bronze in tables.bronze.items():
        yield from _option_findings(("bronze", name, "options"), bronze)
        yield from _cleaning_findings(name, bronze, tables.bronze)
        yield from _comment_findings("bronze", name, bronze, tables.columns(name))
    for name, view in tables.views.written.items():
        yield from read_checks.view_findings(tables, ("views", name), view)
    for name, silver in tables.silver.items():
        yield from _silver_findings(tables, name, silver)
    for name, gold in tables.gold.items():
        yield from _gold_findings(tables, name, gold)
        yield from _comment_findings("gold", name, gold, gold.outputs)
    yield from read_checks.cycles_of_views(tables.views)
    yield from read_checks.cycles(tables.views, "silver", tables.silver)
    yield from read_checks.cycles(tables.views, "gold", tables.gold)


def _option_findings(path: Path, table: BronzeTable) -> Iterator[LocatedMistake]:
    first: dict[str, str] = {}
    for name, value in table.options.items():
        if problem := reader_options.check_option(table.format, name, value):
            yield LocatedMistake(problem.code, (*path, name), problem.message, problem.hint)
        elif name.lower() in first:
            # To Spark they are one option, and which value wins is undefined.
            message = f"{name} and {first[name.lower()]} are the same option"
            yield LocatedMistake("duplicate-key", (*path, name), message)
        first.setdefault(name.lower(), name)


def _cleaning_findings(name: str, table: BronzeTable, tables: Mapping[str, BronzeTable]) -> Iterator[LocatedMistake]:
    """Report files that one table moves or deletes and another reads, before or after."""
    if table.cleanSource == "OFF":
        return
    for other, other_table in tables.items():
        to = table.cleanSourceMoveDestination
        if to is not None and (_is_within(to, other_table.path) or _is_within(other_table.path, to)):
            place = ("bronze", name, "cleanSourceMoveDestination")
            yield LocatedMistake(
                "clean-source", place, f"{to} and the folder that {other} reads, {other_table.path}, overlap"
            )
        if other != name and (_is_within(table.path, other_table.path) or _is_within(other_table.path, table.path)):
            place = ("bronze", name, "cleanSource")
            yield LocatedMistake("clean-source", place, f"{other} also reads the folder {other_table.path}")


def _is_within(path: str, folder: str) -> bool:
    path, folder = _resolve_address(path), _resolve_address(folder)
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _resolve_address(address: str) -> str:
    """Return an address with the links of a local path resolved, and ``s3://`` spelled as Spark does."""
    if address.startswith("/"):
        return os.path.realpath(address)
    return address.replace("s3://", "s3a://", 1)


def _silver_findings(tables: DefinedTables, name: str, table: SilverTable) -> Iterator[LocatedMistake]:
    path: Path = ("silver", name)
    for maker_path, maker in table.located_makers:
        yield from _maker_findings(tables, (*path, *maker_path), maker, many=table.gives_many_rows)
    yield from flow_findings(tables, name, table)
    yield from _lookup_findings(tables, path, table)
    yield from _declared_column_findings(tables, name, table)
    yield from _column_findings(tables, name, table)
    yield from sequence_findings(tables, name, table)
    yield from _unique_rules(path, table)
    yield from _row_findings(tables, path, table)


def _maker_findings(
    tables: DefinedTables, path: Path, maker: SilverTable | SilverFlow, *, many: bool
) -> Iterator[LocatedMistake]:
    if maker.query is not None:
        by_place = isinstance(maker, SilverFlow) and maker.first_branch is not None
        objections = maker.query.stream_objections(many=many, by_place=by_place)
        yield from read_checks.syntax_findings((*path, "sql"), objections)
        yield from read_checks.query_findings(tables, (*path, "sql"), maker.written_query or maker.query)
        if not by_place:
            yield from _output_names((*path, "sql"), maker.query)
    elif maker.from_:
        yield from read_checks.source_findings(tables, (*path, "from"), maker.from_, None)


def _lookup_findings(tables: DefinedTables, path: Path, table: SilverTable) -> Iterator[LocatedMistake]:
    """Report ``lookups`` that are streamed or not joined; a Python transform reads exactly the tables listed there."""
    joined = table.lookup_tables
    for lookup in table.lookups:
        place = (*path, "lookups", lookup)
        if lookup in table.streams and (not table.flows_or_branches or lookup not in joined):
            yield LocatedMistake(
                "not-a-lookup", place, f"{lookup} is read as a stream, so it cannot be a lookup", "remove it"
            )
        elif table.runs_python:
            yield from read_checks.source_findings(tables, place, lookup, None)
        elif lookup not in joined:
            hint = suggest_or_list(lookup, joined, "its lookups:", "it joins no lookup")
            yield LocatedMistake("not-a-lookup", place, f"{path[-1]} does not join {lookup}", hint)


def _declared_column_findings(tables: DefinedTables, name: str, table: SilverTable) -> Iterator[LocatedMistake]:
    """Report declared columns that the transform does not return, and with ``failOnNewColumns`` any others."""
    outputs, declared = tables.output_columns(table, (name,)), table.declared_columns
    if outputs is None or declared is None:
        return
    for column in missing_columns(declared, outputs):
        message = f"{name} declares {column}, but its query does not return it"
        yield LocatedMistake("unknown-column", ("silver", name, "schema"), message, suggest_columns(column, outputs))
    if table.schemaEvolutionMode != "failOnNewColumns" or table.changes is not None:
        return
    for maker_path, maker in table.located_makers:
        if maker.query is None:
            continue
        place: Path = ("silver", name, *maker_path, "sql")
        for column in missing_columns(tables.maker_columns(maker) or (), declared):
            message = f"{column} is not in the schema of {name}, whose schemaEvolutionMode fails on new columns"
            hint = "add it to the schema, or remove it from the query"
            yield LocatedMistake("new-column", place, message, hint, maker.query.line_of_output(column))


def _unique_rules(path: Path, table: SilverTable) -> Iterator[LocatedMistake]:
    """Report ``unique`` rules that cannot be combined with ``apply_changes`` or ``quarantine: record``."""
    reasons = []
    if table.changes is not None:
        reasons = [
            "unique cannot be combined with apply_changes, which checks records before they are merged into rows"
        ]
    if table.quarantine == "record":
        reasons += ["unique is evaluated for each row and cannot be combined with quarantine: record"]
    unique_rules = [(*path, place, rule) for place, rule, expectation in table.rules if expectation.unique]
    for rule_path, reason in product(unique_rules, reasons):
        yield LocatedMistake("unique", rule_path, reason, "move the rule to a silver table that reads this one")


def _row_findings(tables: DefinedTables, path: Path, table: SilverTable) -> Iterator[LocatedMistake]:
    """Report ``rows: many`` and ``quarantine: record`` where they have no meaning for the table."""
    if not table.gives_many_rows:
        if table.quarantine == "record":
            message = "quarantine: record requires rows: many"
            yield LocatedMistake("quarantine", (*path, "quarantine"), message, "remove it, or set rows: many")
        return
    if table.changes is not None:
        message = "rows: many requires sql or python: apply_changes returns at most one row for each record"
        hint = "split the records in a silver table that this one reads"
        yield LocatedMistake("rows", (*path, "rows"), message, hint)
    for before in filter(None, (_table_of_many_rows(tables, stream) for stream in table.streams)):
        message = f"rows: many twice: {before} already returns many rows for each record, and {path[-1]} reads {before}"
        hint = f"return all rows in the query of {before}, or move this step to gold"
        yield LocatedMistake("rows", (*path, "rows"), message, hint)


def _table_of_many_rows(tables: DefinedTables, name: str) -> str:
    """Return the table itself or a table of its rows that has ``rows: many``, empty if there is none."""
    visited: set[str] = set()
    pending = [name]
    while pending:
        name = pending.pop(0)
        if name not in tables.silver or name in visited:
            continue
        if tables.silver[name].gives_many_rows:
            return name
        visited.add(name)
        pending += tables.silver[name].streams
    return ""


def _gold_findings(tables: DefinedTables, name: str, table: GoldTable) -> Iterator[LocatedMistake]:
    if table.is_python:
        for number, read in enumerate(table.reads):
            yield from read_checks.source_findings(tables, ("gold", name, "reads", number), read, None)
    else:
        yield from _gold_query(tables, name, table)
    if table.refresh == "incremental" and (strategy := table.refresh_strategy()).kind == "whole":
        message = f"{name} cannot be refreshed incrementally: {strategy.why}"
        yield LocatedMistake("refresh", ("gold", name, "refresh"), message, strategy.cheaper or "refresh: auto")


def _gold_query(tables: DefinedTables, name: str, table: GoldTable) -> Iterator[LocatedMistake]:
    path: Path = ("gold", name, "sql")
    yield from read_checks.syntax_findings(path, table.query.table_objections())
    if not table.query.tables:
        yield LocatedMistake("reads-nothing", path, "the query does not read any table", sql_line=1)
    yield from read_checks.query_findings(tables, path, table.written_query or table.query)
    yield from _delta_names(path, table.query)
    yield from _names_for_readers(tables, name, table.query)
    for objection in streaming_query.objections(table) if table.mode else ():
        yield LocatedMistake("mode", ("gold", name, "mode"), objection.message, objection.hint)


def _delta_names(path: Path, query: Query) -> Iterator[LocatedMistake]:
    for output in query.outputs or []:
        if REFUSED & set(output):
            message = f"invalid column name {output}: Delta does not allow {REFUSED_IN_WORDS}"
            yield LocatedMistake("name", path, message, "rename it with AS", query.line_of_output(output))


def _names_for_readers(tables: DefinedTables, name: str, query: Query) -> Iterator[LocatedMistake]:
    """Report columns of a gold table by whose names other gold tables cannot read them."""
    reader = next((reader for reader, table in tables.gold.items() if reader != name and name in table.reads), "")
    for output in query.outputs or []:
        if engine_columns.is_working(output) or (reader and output.lower() in _HIDDEN):
            message = f"{output} is a reserved name, so {reader or name} cannot read it"
            line = query.line_of_output(output)
            yield LocatedMistake("reserved-name", ("gold", name, "sql"), message, "rename it with AS", line)


def _output_names(path: Path, query: Query) -> Iterator[LocatedMistake]:
    yield from _delta_names(path, query)
    for output in query.outputs or []:
        # Provenance may be passed through, but not computed: the quarantine has it, too.
        provenance = output in ("receipt_time", "source_file") and query.is_passed_through(output)
        if output.startswith("_") or (output.lower() in RESERVED and not provenance):
            message = f"{output} is reserved, as all names that start with _: rename it with AS"
            yield LocatedMistake("reserved-name", path, message, sql_line=query.line_of_output(output))


def _column_findings(tables: DefinedTables, name: str, table: SilverTable) -> Iterator[LocatedMistake]:
    """Yield columns named by a table's fields must exist, as far as its columns are known."""
    path: Path = ("silver", name)
    columns = tables.columns(name)
    if columns is None:
        return
    fields: dict[Path, list[str]] = {
        ("keys",): table.keys,
        ("event_time",): [*filter(None, [table.event_time])],
        ("pii",): table.pii,
        ("deidentified",): list(table.deidentified or {}),
        ("column_comments",): list(table.column_comments),
    }
    record = tables.columns(table.stream)
    # sequence_by may also be a column of the record that the query does not select.
    if table.sequence_by and not table.flows_or_branches and record is not None and table.sequence_by not in record:
        fields["sequence_by",] = [table.sequence_by]
    yield from _unknown_columns(name, path, fields, columns)
    if table.changes is None:
        yield from _expectation_findings(path, name, table, columns)
        return
    of = table.stream
    if table.flows_or_branches:
        of = name
    source = tables.evaluated_columns(table)
    if source is None:
        return
    yield from _change_findings(name, of, table, table.changes, source)
    # Expectations are evaluated on records, before they become rows, so on the source's columns.
    yield from _expectation_findings(path, of, table, source)


def _comment_findings(layer: Layer, name: str, table: Described, columns: list[str] | None) -> Iterator[LocatedMistake]:
    yield from _unknown_columns(name, (layer, name), {("column_comments",): list(table.column_comments)}, columns)


def _unknown_columns(
    name: str, path: Path, fields: Mapping[Path, list[str]], columns: list[str] | None
) -> Iterator[LocatedMistake]:
    """Report names in ``fields``, by their paths below ``path``, that are not columns of a table with known columns."""
    if columns is None:
        return
    for field_path, names in fields.items():
        for number, column in enumerate(names):
            if column not in columns:
                place = (*path, *field_path)
                if field_path[-1] in _LISTS:
                    place = (*place, number)
                if field_path[-1] in _BY_COLUMN:
                    place = (*place, column)
                yield LocatedMistake(
                    "unknown-column", place, f"unknown column {column} of {name}", suggest_columns(column, columns)
                )


def _change_findings(
    name: str, of: str, table: SilverTable, changes: Changes, source: list[str]
) -> Iterator[LocatedMistake]:
    """Yield source columns of ``apply_changes`` that do not exist, or that the table adds itself."""
    path: Path = ("silver", name, *table.changes_path)
    fields: dict[Path, list[str]] = {(field,): getattr(changes, field, None) or [] for field in _LISTS}
    yield from _unknown_columns(of, path, fields | {("sequence_by",): [changes.sequence_by]}, source)
    yield from unknown_columns((*path, "apply_as_deletes"), of, changes.delete_columns, source)
    selected = changes.selected_columns(source)
    place = (*path, "stored_as_scd_type")
    for column in filter(selected.__contains__, changes.added_columns):
        message = f"{of} already has a column {column}, which {name} adds"
        yield LocatedMistake("reserved-name", place, message, "exclude it with except_column_list")


def _expectation_findings(path: Path, of: str, table: SilverTable, columns: list[str]) -> Iterator[LocatedMistake]:
    """Report columns of expectations that are not in the table on which they are evaluated."""
    for place, rule, expectation in table.rules:
        yield from unknown_columns((*path, place, rule), of, expectation.columns, columns)

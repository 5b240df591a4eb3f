"""Checks of rules: what a layer has of them, columns and tables that exist, and no cycle by what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product

from sluicegate.definition import graph
from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake, unknown_columns
from sluicegate.definition.checks.reads import syntax_findings
from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.definition.tables.column_names import normalize_name, unnormalized_fault
from sluicegate.definition.tables.expectations import Expectation, ExpectationAction
from sluicegate.definition.tables.gold import GoldTable
from sluicegate.definition.tables.ruled import Ruled
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.table import LAYERS, Layer
from sluicegate.definition.tables.table_rules import TableRule
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql.engine_columns import RESERVED

# What a layer may do with a row that breaks an expectation, and what to write in place of anything else.
_ACTIONS: dict[Layer, tuple[set[ExpectationAction], str, str]] = {
    "bronze": (
        {ExpectationAction.WARN, ExpectationAction.FAIL},
        "bronze stores every record unchanged: use expect or expect_or_fail there",
        "use expect, or move the rule to the silver table that reads this one",
    ),
    "gold": (
        {ExpectationAction.WARN, ExpectationAction.FAIL, ExpectationAction.DROP},
        "gold has no quarantine, because a row comes from many records: use expect, expect_or_drop or expect_or_fail",
        "use expect_or_drop, or move the rule to the silver table that this one reads",
    ),
}

_Made = Mapping[str, BronzeTable] | Mapping[str, SilverTable] | Mapping[str, GoldTable]


def findings(tables: DefinedTables) -> Iterator[LocatedMistake]:
    """Yield all mistakes in rules, except in silver's expectations, which are checked with its fields."""
    layers: tuple[tuple[Layer, _Made], ...] = (
        ("bronze", tables.bronze), ("silver", tables.silver), ("gold", tables.gold),
    )  # fmt: skip
    for layer, tables_of_layer in layers:
        for name, table in tables_of_layer.items():
            path: Path = (layer, name)
            if layer != "silver":
                yield from _expectation_findings(path, table, layer, _columns(tables, name))
            yield from _duplicate_rules(path, table)
            yield from _table_rules(tables, path, table)
        yield from _cycles(layer, tables_of_layer)


def _columns(tables: DefinedTables, name: str) -> list[str] | None:
    """Return columns of a table, if they are known without its data."""
    if name not in tables.gold:
        return tables.columns(name)
    return tables.gold[name].outputs


# --- expectations ----------------------------------------------------------------------------------------------------


def _expectation_findings(
    path: Path, table: Ruled, layer: Layer, columns: Sequence[str] | None
) -> Iterator[LocatedMistake]:
    for place, rule, expectation in table.rules:
        rule_path = (*path, place, rule)
        yield from _layer_findings(rule_path, expectation, layer)
        if not expectation.unique:
            yield from unknown_columns(rule_path, str(path[-1]), expectation.columns, columns)
            yield from _unnormalized_names(rule_path, table, expectation.columns, columns)


def _layer_findings(path: Path, expectation: Expectation, layer: Layer) -> Iterator[LocatedMistake]:
    allowed, message, hint = _ACTIONS[layer]
    if expectation.action not in allowed:
        yield LocatedMistake("not-allowed", path, message, hint)
    elif (
        layer == "gold"
        and expectation.action == ExpectationAction.DROP
        and (expectation.warn_above or expectation.fail_above)
    ):
        message = "a threshold needs all rows of a gold table, but rows that former runs dropped are not stored"
        yield LocatedMistake("threshold", path, message, "use expect, or drop rows in silver")
    elif expectation.unique:
        message = f"an expectation of a {layer} table evaluates single rows, but unique needs the whole table"
        hint = f"write expect_table: {{{path[-1]}: {{unique: [{', '.join(expectation.unique)}]}}}}"
        yield LocatedMistake("unique", path, message, hint)


def _unnormalized_names(
    path: Path, table: Ruled, columns: Sequence[str], schema: Sequence[str] | None
) -> Iterator[LocatedMistake]:
    """Report names that ``columnNames: normalized`` rules out in a bronze table, as they would be NULL for ever."""
    if schema is not None or not isinstance(table, BronzeTable) or not table.normalizes:
        return
    for column in columns:
        if column.lower() not in {*RESERVED, normalize_name(column)}:
            yield LocatedMistake("name", path, *unnormalized_fault(column))


def _duplicate_rules(path: Path, table: Ruled) -> Iterator[LocatedMistake]:
    of_rows = ((place, rule) for place, rule, _ in table.rules)
    first: dict[str, str] = {}
    for place, rule in (*of_rows, *product(["expect_table"], table.expect_table)):
        if first.setdefault(rule, place) != place:
            message = f"duplicate rule {rule} (also in {first[rule]})"
            yield LocatedMistake("duplicate-name", (*path, place, rule), message)


# --- rules about the whole table -------------------------------------------------------------------------------------


def _table_rules(tables: DefinedTables, path: Path, table: Ruled) -> Iterator[LocatedMistake]:
    name, columns = str(path[1]), _columns(tables, str(path[1]))
    for rule_name, rule in table.expect_table.items():
        rule_path = (*path, "expect_table", rule_name)
        yield from unknown_columns(rule_path, name, rule.columns, columns)
        yield from _unnormalized_names(rule_path, table, rule.columns, columns)
        if rule.sql is not None:
            yield from syntax_findings((*rule_path, "sql"), rule.query.table_objections())
        for read in rule.referenced_names(name):
            yield from _source_findings(tables, rule_path, rule, read)


def _source_findings(tables: DefinedTables, path: Path, rule: TableRule, read: str) -> Iterator[LocatedMistake]:
    """Report a table that a rule reads from a later layer, or that lacks the columns of a foreign key."""
    before = LAYERS[: LAYERS.index(path[0]) + 1]
    readable = [table for table, of in tables.layers.items() if of in before]
    layer, place, line = tables.layers.get(read), (*path, "references"), None
    if rule.sql is not None:
        place, line = (*path, "sql"), rule.written_query.line_of(read)
        readable += tables.views.names
    if read in tables.views.names:
        yield from _view_findings(tables, place, read, line, before)
    elif layer is None:
        hint = suggest_or_list(read, readable, "known tables:")
        yield LocatedMistake("unknown-table", place, f"unknown table {read} in this pipeline", hint, line)
    elif layer not in before:
        message = f"{read} is a {layer} table, which is built after {path[0]}"
        yield LocatedMistake("wrong-layer", place, message, f"move the rule to a {layer} table", line)
    elif rule.references is not None:
        table, columns = rule.foreign_key_target
        yield from unknown_columns(place, table, columns, _columns(tables, table))


def _view_findings(
    tables: DefinedTables, place: Path, view: str, line: int | None, before: Sequence[Layer]
) -> Iterator[LocatedMistake]:
    """Report a view in a rule that reads tables of a later layer, or that a foreign key refers to."""
    if line is None:
        message = f"{view} is a view, but a foreign key must reference a table"
        yield LocatedMistake("not-a-table", place, message, "reference a table of the view, or write the rule as sql")
    for read in tables.views.tables(view):
        layer = tables.layers.get(read)
        if layer not in (None, *before):
            message = f"{view} is a view of {read}, a {layer} table, which is built after {before[-1]}"
            yield LocatedMistake("wrong-layer", place, message, f"move the rule to a {layer} table", line)


def _cycles(layer: Layer, tables: _Made) -> Iterator[LocatedMistake]:
    """Report tables that wait for each other because of rules; cycles of queries are checked elsewhere."""
    reads = {name: [] if isinstance(table, BronzeTable) else table.reads for name, table in tables.items()}
    if any(graph.cycles(reads)):
        return
    for cycle in graph.cycles({name: [*reads[name], *table.rules_read(name)] for name, table in tables.items()}):
        steps = pairwise([*cycle, cycle[0]])
        name, read = next((name, read) for name, read in steps if read not in reads[name])
        rule = next(
            rule_name for rule_name, table_rule in tables[name].expect_table.items() if read in table_rule.reads(name)
        )
        message = f"tables wait for each other: {' reads '.join([*cycle, cycle[0]])}, with what their rules read"
        yield LocatedMistake("cycle", (layer, name, "expect_table", rule), message, f"remove the rule from {name}")

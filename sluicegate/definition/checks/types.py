"""Checks of keys and rules by the types of their columns, as far as a schema in the definition has them.

Where only data or Spark tells a type, a run checks the same (``frames/column_types.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.table_rules import TableRule
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql import ddl


def findings(tables: DefinedTables) -> Iterator[LocatedMistake]:
    """Report keys, sequences and rules over columns whose values Spark does not compare."""
    for name, bronze in tables.bronze.items():
        yield from _whole_table(("bronze", name), bronze.expect_table, bronze.declared_columns or {})
    for name, table in tables.silver.items():
        path: Path = ("silver", name)
        types = _types(tables, table)
        keyed, keyed_path = table.changes or table, (*path, *table.changes_path)
        yield from _incomparable_columns((*keyed_path, "keys"), keyed.keys, types)
        yield from _incomparable_columns((*keyed_path, "sequence_by"), filter(None, [keyed.sequence_by]), types)
        for place, rule, expectation in table.rules:
            yield from _incomparable_columns((*path, place, rule), expectation.unique, types)
        yield from _whole_table(path, table.expect_table, types)


def _types(tables: DefinedTables, table: SilverTable) -> dict[str, str]:
    """Return the column types that a silver table declares, or those of the table whose rows it takes."""
    if table.declared_columns is not None:
        return table.declared_columns
    source = tables.bronze.get(table.from_ or "")
    if source is not None and not table.is_python:
        return source.declared_columns or {}
    return {}


def _whole_table(path: Path, rules: Mapping[str, TableRule], types: Mapping[str, str]) -> Iterator[LocatedMistake]:
    for name, rule in rules.items():
        yield from _incomparable_columns((*path, "expect_table", name), rule.unique or rule.foreign_key or (), types)


def _incomparable_columns(
    field_path: Path, columns: Iterable[str], types: Mapping[str, str]
) -> Iterator[LocatedMistake]:
    kinds = {name.lower(): kind for name, kind in types.items()}
    for column in columns:
        kind = kinds.get(column.lower())
        if kind is not None and not ddl.is_compared(kind):
            message = f"{column} has type {kind}, which Spark cannot compare"
            hint = "use a column derived from it, for example with to_json or map_entries"
            yield LocatedMistake("not-comparable", field_path, message, hint)

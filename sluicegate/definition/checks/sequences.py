"""Sequences that are text which nobody has given a type: as text 10 comes before 9, so the older record would win.

Bronze reads CSV, JSON and XML as text unless the definition says otherwise. A column that is called STRING there, or
cast to it, is the user's own word: the texts of ISO times, of log positions of one length and of ULIDs sort as what
they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake, missing_columns
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.definition.tables.kafka import COLUMNS
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.spark_sql.engine_columns import OF_BRONZE

# Formats of files that have no types of their own.
_TEXT = ("csv", "json", "xml", "text", "kafka")


def sequence_findings(tables: DefinedTables, name: str, table: SilverTable) -> Iterator[LocatedMistake]:
    """Report a table whose records are ordered by text without a type."""
    column = (table.changes or table).sequence_by
    if column is None or _is_declared(table, column):
        return
    for maker in table.makers.values():
        text = _text_of_maker(tables, maker, column, (name,))
        if text is None:
            continue
        of, field = text
        message = (
            f"{name} is ordered by {field} of {of}, which has no declared type: compared as text, 10 sorts before 9, "
            "and an older record would win"
        )
        place = "schemaHints" if tables.bronze[of].declared_columns is None else "schema"
        hint = (
            f"declare its type in the {place} of {of}, for example {field} BIGINT or {field} TIMESTAMP, or write "
            f"CAST({field} AS BIGINT) AS {field} in a query; {field} STRING, if its text sorts in the right order"
        )
        yield LocatedMistake("untyped-sequence", ("silver", name, *table.changes_path, "sequence_by"), message, hint)
        return


def _text_of_maker(
    tables: DefinedTables, maker: SilverTable | SilverFlow, column: str, visited: tuple[str, ...]
) -> tuple[str, str] | None:
    """Return the bronze table and its untyped text column that a column copies, None if it copies none."""
    if maker.is_python:
        return None
    field = column if maker.query is None else maker.query.streamed_column(column)
    return None if field is None else _text_of_table(tables, maker.stream, field, visited)


def _text_of_table(tables: DefinedTables, name: str, column: str, visited: tuple[str, ...]) -> tuple[str, str] | None:
    bronze, silver = tables.bronze.get(name), tables.silver.get(name)
    if bronze is not None:
        if _is_untyped(bronze, column):
            return (name, column)
        return None
    if silver is None or name in visited or _is_declared(silver, column):
        return None
    texts = (_text_of_maker(tables, maker, column, (*visited, name)) for maker in silver.makers.values())
    return next(filter(None, texts), None)


def _is_untyped(bronze: BronzeTable, column: str) -> bool:
    if bronze.format not in _TEXT or bronze.inferColumnTypes:
        return False
    if bronze.declared_columns is not None:  # which has a type for all but these
        return column in bronze.partitionColumns and column not in bronze.declared_columns
    typed = (*bronze.hints, *OF_BRONZE, *(COLUMNS if bronze.kafka is not None else ()))
    return bool(missing_columns([column], typed))


def _is_declared(table: SilverTable, column: str) -> bool:
    return not missing_columns([column], table.declared_columns or ())

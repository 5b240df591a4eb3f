"""Checks of the flows of a silver table: each must give the columns by which the table knows its rows."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake, missing_columns, suggest_columns
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.definition.yaml import Path


def flow_findings(tables: DefinedTables, name: str, table: SilverTable) -> Iterator[LocatedMistake]:
    """Yield mistakes of a table that only one with several flows can have."""
    if (
        table.flows_or_branches and table.apply_changes_from_snapshot is not None
    ):  # flows are refused by the model itself
        yield LocatedMistake("one-of", ("silver", name, "sql"), "apply_changes_from_snapshot reads one table")
    for flow, maker in table.flows_or_branches.items():
        if not table.flows:
            yield from _branch_findings(("silver", name, "sql"), maker)
        columns = tables.maker_columns(maker, (name,))
        if columns is None:
            continue
        record = columns
        if table.sequence_by:
            # It may also be a column of the record that the query does not select.
            record = tables.columns(maker.stream) or [table.sequence_by]
        for field_path, column in _required_columns(table):
            in_record = column == table.sequence_by and column in record
            if missing_columns([column], columns) and not in_record:
                message = f"the flow {flow} does not return {column}, which every record of {name} needs"
                path = ("silver", name, *field_path)
                yield LocatedMistake("unknown-column", path, message, suggest_columns(column, columns))


def _branch_findings(place: Path, maker: SilverFlow) -> Iterator[LocatedMistake]:
    """Report a branch of a UNION ALL with ``*``, or with another number of columns than the first."""
    if maker.query is None:
        return
    outputs, first = maker.query.outputs, (maker.first_branch or maker.query).outputs
    if outputs is None:
        message = "UNION ALL matches columns by position, and * leaves their order open"
        hint = "list the columns, or use `flows`, which match columns by name"
        yield LocatedMistake("union", place, message, hint, maker.query.first_line)
    if outputs is not None and first is not None and len(outputs) != len(first):
        message = f"this branch of UNION ALL returns {len(outputs)} columns, but the first returns {len(first)}"
        hint = "add NULL for the missing columns, or use `flows`, which match columns by name"
        yield LocatedMistake("union", place, message, hint, maker.query.first_line)


def _required_columns(table: SilverTable) -> Iterator[tuple[Path, str]]:
    """Yield columns that each flow must give, with the field that names them."""
    keyed = table.apply_changes or table
    for number, column in enumerate(keyed.keys):
        yield (*table.changes_path, "keys", number), column
    if keyed.sequence_by:
        yield (*table.changes_path, "sequence_by"), keyed.sequence_by

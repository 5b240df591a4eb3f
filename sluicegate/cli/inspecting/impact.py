"""``sluicegate plan --impact``: what depends on a column."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sluicegate import api
from sluicegate.cli.options import show_json, show_table
from sluicegate.console import say

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline


def show_impact(definition: Pipeline, column: str, *, as_json: bool) -> None:
    """Print what depends on a column.

    Args:
        definition: the pipeline.
        column: the column, as ``table.column``.
        as_json: whether to print JSON.
    """
    impact = api.impact(definition, column)
    if as_json:
        show_json({"pipeline": definition.name, **asdict(impact)})
        return
    name = f"{impact.table}.{impact.column}"
    if not impact.affected:
        say(f"{definition.name}: nothing depends on {name}")
    else:
        say(f"{definition.name}: dependents of {name}", "")
        rows = [
            [
                column_use.layer,
                column_use.table,
                column_use.column,
                ", ".join(column_use.how).lower().replace("_", " "),
                ", ".join(column_use.of),
            ]
            for column_use in impact.affected
        ]
        show_table(["layer", "table", "column", "how", "of"], rows)
    if impact.named_by:
        say("", "named in the definition by:", *(f"  {column_use}" for column_use in impact.named_by))
    for table, reason in impact.unsure.items():
        say("", f"{table}: {reason}, so any column that it reads may affect it")

"""What depends on a column, as ``sluicegate plan --impact`` shows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sluicegate import api
from sluicegate.cli.options import show_json, show_table
from sluicegate.console import say

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline


def show_impact(definition: Pipeline, column: str, *, as_json: bool) -> None:
    """Prints what depends on a column.

    Args:
        definition: the pipeline.
        column: the column, as ``table.column``.
        as_json: whether for programs.
    """
    found = api.impact(definition, column)
    if as_json:
        show_json({"pipeline": definition.name, **asdict(found)})
        return
    name = f"{found.table}.{found.column}"
    if not found.affected:
        say(f"{definition.name}: nothing depends on {name}")
    else:
        say(f"{definition.name}: what depends on {name}", "")
        rows = [
            [one.layer, one.table, one.column, ", ".join(one.how).lower().replace("_", " "), ", ".join(one.of)]
            for one in found.affected
        ]
        show_table(["layer", "table", "column", "how", "of"], rows)
    if found.named_by:
        say("", "named in the definition by:", *(f"  {one}" for one in found.named_by))
    for table, why in found.unsure.items():
        say("", f"{table}: {why}, so all that it reads may be in it")

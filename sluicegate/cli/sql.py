"""``sluicegate sql``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.cli.options import (
    JsonOption,
    LakeOption,
    PipelinesOption,
    show_json,
    show_table,
)
from sluicegate.errors import DefinitionError
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT in Spark's SQL over pipeline.table or database.table.")],
    lake: LakeOption = None,
    pipelines: PipelinesOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many rows.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Ask the tables, as of any version, without a JVM.

    Example: sluicegate sql "SELECT * FROM heart_rate.daily_patient_avg ORDER BY date LIMIT 5"
    """
    from sluicegate.tools.sqlshell import shell

    settings = Settings.of(lake, None, pipelines)
    result = shell.query(query, _readable_definitions(settings), settings)
    if as_json:
        show_json(result.to_pylist())
        return
    shown = result.slice(0, limit).to_pylist()
    show_table(result.column_names, [list(row.values()) for row in shown])
    more = f", the first {limit:,} of them shown" if result.num_rows > limit else ""
    print(f"\n{result.num_rows:,} {'row' if result.num_rows == 1 else 'rows'}{more}")


def _readable_definitions(settings: Settings) -> dict[str, Pipeline]:
    """All pipelines but those with mistakes, of which a line tells: they keep nobody from the tables of others."""
    from sluicegate import definition

    known = {}
    for name in definition.names(settings.pipelines):
        try:
            known[name] = definition.load(name, settings)
        except DefinitionError as error:
            print(f"warning: the tables of {name} are not known here: {error.message}", file=sys.stderr)
    return known

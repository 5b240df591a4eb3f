"""``sluicegate sql``."""

from __future__ import annotations

from typing import Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, show_json, show_table, with_settings
from sluicegate.console import say, warn
from sluicegate.settings import Settings


@with_settings("lake", "pipelines", "target")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT in Spark's SQL over pipeline.table or database.table.")],
    *,
    settings: Settings,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many rows.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Query the tables, as of any version, without a JVM.

    Example: sluicegate sql "SELECT * FROM heart_rate.daily_patient_avg ORDER BY date LIMIT 5"
    """
    from sluicegate.tools import arrow_values
    from sluicegate.tools.sqlshell import shell

    known, wrong = api.readable_definitions(settings)
    for name, error in wrong.items():
        warn(f"warning: the tables of {name} are not known here: {error.message}")
    result = shell.query(query, known, settings)
    if as_json:
        show_json([dict(zip(result.column_names, row, strict=True)) for row in arrow_values.rows(result)])
        return
    show_table(result.column_names, arrow_values.rows(result.slice(0, limit)))
    more = f", the first {limit:,} of them shown" if result.num_rows > limit else ""
    say("", f"{result.num_rows:,} {'row' if result.num_rows == 1 else 'rows'}{more}")

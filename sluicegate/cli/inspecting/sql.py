"""``sluicegate sql``."""

from __future__ import annotations

import gc
import sys
from datetime import datetime
from importlib import import_module
from typing import Annotated, Any

import typer

from sluicegate.cli import optional_packages
from sluicegate.cli.options import JsonOption, pass_settings, show_json, show_table
from sluicegate.console import quantity, say, warn
from sluicegate.settings import Settings

# What a query imports besides DuckDB.
_PACKAGES = (
    "pyarrow.dataset", "sqlglot.optimizer.annotate_types",
    "sluicegate.definition.reading.loader", "sluicegate.lake.tables", "sluicegate.tools.arrow_values",
)  # fmt: skip


@pass_settings("lake", "pipelines", "target")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT in Spark's SQL over pipeline.table or database.table.")],
    *,
    settings: Settings,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most this many rows.")] = 100,
    engine_columns: Annotated[
        bool, typer.Option("--engine-columns", help="Also show the engine's columns that * selects.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Query the tables, as of any version, without a JVM.

    The engine's columns, such as _chunk and _pos, are shown if the query names them, or with --engine-columns.

    Example: sluicegate sql "SELECT * FROM heart_rate.daily_patient_avg ORDER BY date LIMIT 5"
    """
    with optional_packages.absent():
        _load_packages()
        _show_rows(query, settings, limit, engine_columns=engine_columns, as_json=as_json)


def _load_packages() -> None:
    """Import what a query needs, and exclude it from garbage collection when the process ends.

    Collecting them takes longer than a query. DuckDB, imported later, is not exempt: it reports objects left over.
    """
    if "duckdb" in sys.modules:
        return
    for module in _PACKAGES:
        import_module(module)
    gc.freeze()


def _show_rows(query: str, settings: Settings, limit: int, *, engine_columns: bool, as_json: bool) -> None:
    from sluicegate.tools import arrow_values
    from sluicegate.tools.sqlshell import shell
    from sluicegate.tools.sqlshell.definitions import definitions_of_tables

    definitions, wrong = definitions_of_tables(shell.table_names(query), settings)
    for name, error in wrong.items():
        warn(f"warning: the tables of {name} are unknown: {error.message}")
    result = shell.query(query, definitions, settings)
    if not engine_columns:
        result = shell.drop_engine_columns(result, query)
    if as_json:
        show_json([dict(zip(result.column_names, row, strict=True)) for row in arrow_values.rows(result)])
        return
    rows = arrow_values.rows(result.slice(0, limit))
    show_table(result.column_names, [list(map(_pasteable_value, row)) for row in rows])
    more = f", the first {limit:,} of them shown" if result.num_rows > limit else ""
    say("", f"{quantity(result.num_rows, 'row')}{more}")


def _pasteable_value(value: Any) -> Any:
    """Return a value as SQL accepts it: a time with its fractions, a number without separators."""
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        if value.microsecond:
            return f"{text}.{value.microsecond:06}".rstrip("0")
        return text
    if isinstance(value, int):
        return str(value)
    return value

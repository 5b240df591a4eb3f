"""The commands that show what a bronze table knows of its files and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, loaded, show_json, show_table, with_settings
from sluicegate.console import say
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Pipeline


@with_settings("lake", "landing", "pipelines", "target")
def files(
    pipeline: PipelineName,
    table: Annotated[
        str | None, typer.Argument(help="Name of a bronze table. All of the pipeline by default.", show_default=False)
    ] = None,
    states: Annotated[list[str] | None, typer.Option("--state", help="Only files in this state; repeatable.")] = None,
    newest: Annotated[int | None, typer.Option("--newest", min=1, help="Only so many files, the last ones.")] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show the ledger: each landed file, its chunk, when it was ingested, and how many rows it gave.

    Of a table that reads a Delta table: the versions that each run took. Of one that reads Kafka: ranges of offsets.

    Example: sluicegate files heart_rate --state failed
    """
    definition = loaded(pipeline, settings)
    tables = [table] if table is not None else list(definition.bronze)
    listed = {name: _entries(definition, name, states or (), newest) for name in tables}
    if as_json:
        every = [{"table": name, **entry} for name, entries in listed.items() for entry in entries]
        show_json(every if table is None else listed[table])
        return
    for name, entries in listed.items():
        if table is None and not entries:
            continue
        if table is None:
            say(f"{name}:")
        _show(definition.bronze[name], entries)
        if table is None:
            say("")
    if table is None and not any(listed.values()):
        say("no files" + (f" in state {' or '.join(states)}" if states else ""))


def _entries(definition: Pipeline, table: str, states: Sequence[str], newest: int | None) -> list[dict[str, Any]]:
    """Entries of a table's ledger, as they are shown."""
    entries = api.files(definition, table, states=states, newest=newest).to_pylist()
    source = definition.bronze[table]
    return entries if source.of_files or source.kafka is not None else [_of_versions(entry) for entry in entries]


def _show(source: BronzeTable, entries: Sequence[dict[str, Any]]) -> None:
    numbers = ["size", "chunk", "rows", "corrupt", "rescued", "version"]
    columns = ["state", "path", "modification_time", *numbers, "ingested", "error"]
    columns += ["place"] if any(entry.get("place") for entry in entries) else []
    show_table(columns, [[entry.get(c) for c in columns] for entry in entries], right=numbers)
    if source.kafka is not None:
        gaps = sum(entry["size"] - entry["rows"] for entry in entries if entry["state"] == "ingested")
        said = f"; {gaps:,} offsets without a record (compacted, or ends of transactions)" if gaps else ""
        say("", f"{len(entries):,} ranges of offsets{said}")
        return
    empty = sum(entry["state"] == "ingested" and entry["rows"] == 0 for entry in entries) if source.of_files else 0
    said = f", {empty:,} of them without records" if empty else ""
    skipped = sum(entry["state"] == "skipped" for entry in entries)
    said += f", {skipped:,} of them skipped" if skipped else ""
    say("", f"{len(entries):,} {'files' if source.of_files else 'runs'}{said}")


def _of_versions(entry: dict[str, Any]) -> dict[str, Any]:
    """What there is to say of a run's versions of a Delta table, and of those that wait: they are no files."""
    known = ["chunk", "state"] if entry["state"] == "waiting" else ["chunk", "rows", "version", "ingested", "state"]
    return {column: entry[column] for column in ["path", *known]}


@with_settings("lake", "landing", "pipelines", "target")
def schema(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show the columns that a bronze table has had over time, and the version and time of each change.

    Example: sluicegate schema heart_rate recordings_bronze
    """
    from sluicegate.definition.pipeline import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.schema import history

    definition = loaded(pipeline, settings)
    bronze_table(definition, table)
    found = history.versions(Lake(definition.settings.lake, definition.name), table)
    if as_json:
        show_json(found)
        return
    show_table(["version", "since", "changes"], [[row["version"], row["since"], row["changes"]] for row in found])
    for name, kind in (found[-1]["columns"] if found else {}).items():
        say(f"  {name} {kind}")

"""``sluicegate files`` and ``sluicegate schema``: the ledger and the columns of bronze tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, PipelineName, load_definition, pass_settings, show_json, show_table
from sluicegate.console import say
from sluicegate.landing.file_states import FileStatus
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Pipeline


@pass_settings("lake", "landing", "pipelines", "target")
def files(
    pipeline: PipelineName,
    table: Annotated[
        str | None, typer.Argument(help="Name of a bronze table; all of the pipeline by default.", show_default=False)
    ] = None,
    states: Annotated[list[str], typer.Option("--state", help="Only files in this state; repeatable.")] = NONE,
    newest: Annotated[
        int | None, typer.Option("--newest", min=1, help="Show at most this many files, the newest.")
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show the ledger: each landed file with its ledger batch (chunk), ingestion time and row count.

    For a Delta source: the versions that each run processed. For Kafka: ranges of offsets.

    Example: sluicegate files heart_rate --state failed
    """
    definition = load_definition(pipeline, settings)
    if table is not None:
        entries = _entries(definition, table, states, newest)
        if as_json:
            show_json(entries)
        else:
            _show(definition.bronze[table], entries)
        return
    ledgers = {name: _entries(definition, name, states, newest) for name in definition.bronze}
    if as_json:
        show_json([{"table": name, **entry} for name, entries in ledgers.items() for entry in entries])
        return
    _show_all(definition, ledgers, states)


def _show_all(definition: Pipeline, ledgers: Mapping[str, list[dict[str, Any]]], states: Sequence[str]) -> None:
    """Print the ledgers of all tables that have entries."""
    for name, entries in ledgers.items():
        if entries:
            say(f"{name}:")
            _show(definition.bronze[name], entries)
            say("")
    if any(ledgers.values()):
        return
    if states:
        say(f"no files in state {' or '.join(states)}")
    else:
        say("no files")


def _entries(definition: Pipeline, table: str, states: Sequence[str], newest: int | None) -> list[dict[str, Any]]:
    """Return the entries of a table's ledger as rows to print."""
    entries = api.files(definition, table, states=states, newest=newest).to_pylist()
    source = definition.bronze[table]
    return entries if source.reads_files or source.kafka is not None else list(map(_version_entry, entries))


def _show(source: BronzeTable, entries: Sequence[dict[str, Any]]) -> None:
    numbers = ["size", "chunk", "rows", "corrupt", "rescued", "version"]
    columns = ["state", "path", "modification_time", *numbers, "ingested", "error"]
    if any(entry.get("place") for entry in entries):
        columns.append("place")
    show_table(columns, [list(map(entry.get, columns)) for entry in entries], right=numbers)
    if source.kafka is not None:
        say("", _sum_of_ranges(entries))
    else:
        say("", _sum_of_files(source, entries))


def _sum_of_ranges(entries: Sequence[dict[str, Any]]) -> str:
    gaps = sum(entry["size"] - entry["rows"] for entry in entries if entry["state"] == FileStatus.INGESTED)
    text = f"{len(entries):,} ranges of offsets"
    if gaps:
        text += f"; {gaps:,} offsets without a record (compacted, or transaction markers)"
    return text


def _sum_of_files(source: BronzeTable, entries: Sequence[dict[str, Any]]) -> str:
    skipped = sum(entry["state"] == FileStatus.SKIPPED for entry in entries)
    empty = 0
    noun = "runs"
    if source.reads_files:
        empty = sum(entry["state"] == FileStatus.INGESTED and entry["rows"] == 0 for entry in entries)
        noun = "files"
    text = f"{len(entries):,} {noun}"
    if empty:
        text += f", {empty:,} without records"
    if skipped:
        text += f", {skipped:,} skipped"
    return text


def _version_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that apply to versions of a Delta table: they have no size or modification time."""
    if entry["state"] == FileStatus.WAITING:
        fields = ["chunk", "state"]
    else:
        fields = ["chunk", "rows", "version", "ingested", "state"]
    return {column: entry[column] for column in ["path", *fields]}


@pass_settings("lake", "landing", "pipelines", "target")
def schema(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show how the columns of a bronze table changed, and the version and time of each change.

    Example: sluicegate schema heart_rate recordings_bronze
    """
    from sluicegate.definition.pipeline.model import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.schema import history

    definition = load_definition(pipeline, settings)
    bronze_table(definition, table)
    versions = history.versions(Lake(definition.settings.lake, definition.name), table)
    if as_json:
        show_json(versions)
        return
    show_table(["version", "since", "changes"], [[row["version"], row["since"], row["changes"]] for row in versions])
    for name, kind in (versions[-1]["columns"] if versions else {}).items():
        say(f"  {name} {kind}")

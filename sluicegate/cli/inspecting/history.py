"""``sluicegate history``: the event log, with what each commit of a run did."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, load_definition, pass_settings, show_json, show_table
from sluicegate.console import human_bytes, quantity, say, sparkline
from sluicegate.settings import Settings

_NUMBERS = ["version", "read", "written", "quarantined", "dropped", "duplicates"]
_OF_MANY = ["rows", "no rows"]
_SECONDS = ["estimated s", "took s"]
_OF_GOLD = ["groups", "bytes written", "per byte changed"]


@pass_settings("lake", "pipelines", "target")
def history(
    pipeline: PipelineName,
    table: Annotated[str | None, typer.Argument(help="Name of a table; all of the pipeline by default.")] = None,
    newest: Annotated[int, typer.Option("--newest", min=1, help="Show at most this many commits, the newest.")] = 20,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show the event log: the rows of each commit, and for gold also its groups, bytes and cost.

    For tables with several rows for each record, also their total, and the number of records without a row.

    A gold batch uses the technique with the lowest estimated cost; `--json` also has the estimates of the
    others.

    Example: sluicegate history heart_rate daily_patient_avg
    """
    rows = api.history(load_definition(pipeline, settings), table, newest=newest).to_pylist()
    events = [event | {"details": json.loads(event["details"])} for event in rows]
    if as_json:
        show_json(events)
        return
    of_gold = []
    if any(event["layer"] == "gold" for event in events):
        of_gold = [*_OF_GOLD, "by", *_SECONDS]
    of_many = []
    if any("no_rows" in event["details"] for event in events):
        of_many = _OF_MANY
    columns = ["time", "layer", "table", *_NUMBERS[:2], *of_many, *_NUMBERS[2:], *of_gold, "mode", "why"]
    show_table(columns, [_row(event, columns) for event in events], right=[*_NUMBERS, *_OF_MANY, *_OF_GOLD, *_SECONDS])
    say("", quantity(len(events), "commit"))
    if trends := _trends(events):
        say("", "rows written, the latest commit last:", *(f"  {line}" for line in trends))


def _trends(events: list[dict[str, Any]]) -> list[str]:
    """Return a line of bars for each table with several commits: the rows that each commit wrote."""
    counts: dict[str, list[int]] = {}
    for event in events:
        counts.setdefault(event["table"], []).append(event["written"] or 0)
    several = {table: counts_of_table for table, counts_of_table in counts.items() if len(counts_of_table) > 1}
    wide = max(map(len, several), default=0)
    return [
        f"{table:<{wide}}  {sparkline(counts_of_table)}  {min(counts_of_table):,} to {max(counts_of_table):,}"
        for table, counts_of_table in several.items()
    ]


def _row(event: dict[str, Any], columns: list[str]) -> list[Any]:
    details = event["details"]
    # Of a bronze commit it is the size of its files.
    bytes_ = details.get("bytes") or {} if event["layer"] == "gold" else {}
    written, cost = bytes_.get("written"), details.get("cost") or {}
    shown = {
        **event, "why": details.get("why"), "groups": details.get("groups"),
        "bytes written": None if written is None else human_bytes(written),
        "per byte changed": bytes_.get("written_per_byte_changed"),
        "by": cost.get("technique"), "estimated s": cost.get("estimated"), "took s": cost.get("seconds"),
    }  # fmt: skip
    if "no_rows" in details:
        shown |= {"rows": details["rows"], "no rows": details["no_rows"]}
    return list(map(shown.get, columns))

"""``doc_md`` of DAGs and tasks, from the definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluicegate.definition import LAYERS

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, GoldTable, Layer, Pipeline, SilverTable

_RUNS = """\
**What a run does.** Scheduled, by hand or for an asset: it takes in what is new. A backfill reprocesses its data
interval, by event time. *Trigger* shows a form with more: an interval, some tables, a number of files, a full
refresh."""

CHECK = """\
Says in its log what the run is to do, and refuses what makes no sense. A full refresh waits here until a person
approves it."""
WAIT = """\
Passes when files have landed that no run has read, when a Delta source has new versions, or when a killed run left
work. Half-written files do not count. Ends as *skipped* when nothing comes. Its result tells how many files of how many
bytes wait."""
MAINTENANCE = """\
Puts small files of the tables together, and deletes files that no version of the last days needs. Rows stay as they
are. Starts Spark only if there is something to gain, and never meets a run of the pipeline."""
VERIFY = """\
Proves with Spark that files, records and gold are right: each gold query is run over the versions of what it reads
that its table was made from, and the rows are compared. Fails with the rows that differ, by key, and the command that
mends them. Never meets a run of the pipeline."""
CATALOG = """\
Enters tables that are new into the catalog, so that `spark-sql` finds them by their names. Starts Spark only if there
is one."""

RECONCILIATION = """\
Proves that every file and record that was taken in is in exactly one place, and fails if not; also if a table is behind
that this run should have brought up to date. Its result tells the rows of each table, and how many broke which rule in
this run."""


def of_dag(pipeline: Pipeline) -> str:
    """``doc_md`` of a pipeline's DAG."""
    parts = [pipeline.description] if pipeline.description else []
    for layer in LAYERS:
        if getattr(pipeline, layer):
            parts.append("\n".join([f"**{layer.capitalize()}**", "", *_tables(pipeline, layer)]))
    return "\n\n".join([*parts, _RUNS])


def of_layer(pipeline: Pipeline, layer: Layer) -> str:
    """``doc_md`` of the task of a layer."""
    what = {
        "bronze": "Reads files that have landed, each once, and keeps every record as it came.",
        "silver": "Evaluates each record by the rules of its table, joins lookups, and keeps one row for each key.",
        "gold": "Brings tables up to what changed in those that they read.",
    }[layer]
    tried = "Starts Spark only if there is something to do. A retry goes on where the last commit ended."
    return "\n".join([what, "", *_tables(pipeline, layer), "", tried])


def of_run(pipeline: Pipeline) -> str:
    """``doc_md`` of the task that runs all layers."""
    layers = [layer for layer in LAYERS if getattr(pipeline, layer)]
    said = f"Runs {', '.join(layers)}, one after another in one Spark; one that fails stops the next."
    parts = [f"**{layer.capitalize()}.** {of_layer(pipeline, layer)}" for layer in layers]
    return "\n\n".join([said, *parts])


def _tables(pipeline: Pipeline, layer: Layer) -> Iterator[str]:
    """Lines for the tables: what each reads, and how."""
    for name in pipeline.names(layer):
        comment = "" if name in pipeline.deidentified_tables else pipeline.table(name)[1].comment
        yield f"- `{name}`: {_table(pipeline, layer, name)}" + (f". {comment}" if comment else "")


def _table(pipeline: Pipeline, layer: Layer, name: str) -> str:
    if layer == "bronze":
        source = pipeline.bronze[name]
        return f"{source.format} of `{source.path}`{_rules(source)}"
    if layer == "gold":
        return f"from {_names(pipeline.gold[name].reads)}{_rules(pipeline.gold[name])}"
    if of := pipeline.deidentified_tables.get(name):
        return f"the rows of `{of}`, de-identified"
    table = pipeline.silver[name]
    others = table.joined
    text = f"from {_names(table.streams)}" + (f", joined with {_names(others)}" if others else "")
    keys = table.changes.keys if table.changes else table.keys
    text += f"; one row for each {_names(keys)}" if keys and not (table.changes and table.changes.history) else ""
    text += "; many rows of a record" if table.many else ""
    return text + _rules(table)


def _rules(table: BronzeTable | SilverTable | GoldTable) -> str:
    names = [*table.expectations, *table.expect_table]
    return f"; rules: {_names(names)}" if names else ""


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

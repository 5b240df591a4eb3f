"""``doc_md`` of DAGs and tasks, from the definition."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.airflow.markdown import escape_markdown
from sluicegate.definition import LAYERS, BronzeTable, GoldTable, Layer, Pipeline, SilverTable

_RUNS = """\
**What a run does.** Scheduled, triggered by hand or by an asset: it ingests new data. A backfill also reprocesses its
data interval, by event time. The form of *Trigger* has more: an interval, some tables, a number of files, a full
refresh."""

CHECK = """\
Logs what the run will do, and rejects contradictory requests. A full refresh waits here for approval."""
WAIT = """\
Succeeds when new files have landed, when a Delta source has new versions, or when a killed run left work. Files that
are still being written do not count. Ends as *skipped* if nothing arrives in time. Its result has the number and size
of the waiting files."""
MAINTENANCE = """\
Compacts small files of the tables (OPTIMIZE), and deletes files that no recent version needs (VACUUM). Rows do not
change. Starts Spark only if that gains something, and never works at the same time as a run of the pipeline."""
VERIFY = """\
Verifies files, records and values: reads landed files again, and evaluates silver and gold again with Spark. Without a
`sample` in the definition it compares what came or changed since the last verification, and all of a table once a week;
the param `whole` compares all. Fails with what differs, and the command that repairs it. Never works at the same time
as a run of the pipeline."""
ALERTS = """\
Compares freshness, volume, backlog and rates of rules with the limits of the definition, whether runs start or not.
Fails for what is beyond a limit `fail` and was not reported yet; is *skipped* while that stays. Starts no Spark."""
CATALOG = """\
Registers new tables in the catalog, so that `spark-sql` finds them by name. Starts Spark only if there is a new
table."""

RECONCILIATION = """\
Reconciles files and records: fails unless each one is in exactly one place, and also if a table is behind that this run
should have updated. Its result has the number of rows of each table, and of violations of each rule in this run."""


def describe_dag(pipeline: Pipeline) -> str:
    """Write ``doc_md`` of a pipeline's DAG."""
    parts = []
    if pipeline.description:
        parts = [escape_markdown(pipeline.description, keep="\n")]
    for layer in LAYERS:
        if getattr(pipeline, layer):
            parts.append("\n".join([f"**{layer.capitalize()}**", "", *_tables(pipeline, layer)]))
    return "\n\n".join([*parts, _RUNS])


def describe_layer(pipeline: Pipeline, layer: Layer) -> str:
    """Write ``doc_md`` of the task of a layer."""
    purposes = {
        "bronze": "Reads landed files, each exactly once, and stores every record unchanged.",
        "silver": "Evaluates the rules of each table, joins lookups, and keeps one row for each key.",
        "gold": "Refreshes tables from the changes of their source tables.",
    }[layer]
    tried = "Starts Spark only if there is work. A retry continues after the last commit."
    return "\n".join([purposes, "", *_tables(pipeline, layer), "", tried])


def describe_run(pipeline: Pipeline) -> str:
    """Write ``doc_md`` of the task that runs all layers."""
    layers = [layer for layer in LAYERS if getattr(pipeline, layer)]
    sentence = f"Runs {', '.join(layers)}, one after another in one Spark. If one fails, the following ones do not run."
    parts = [f"**{layer.capitalize()}.** {describe_layer(pipeline, layer)}" for layer in layers]
    return "\n\n".join([sentence, *parts])


def _tables(pipeline: Pipeline, layer: Layer) -> Iterator[str]:
    """Yield a line for each table: its sources, and how it reads them."""
    for name in pipeline.names(layer):
        comment = ""
        if name not in pipeline.deidentified_tables:
            comment = pipeline.table(name)[1].comment
        yield f"- `{name}`: {_table(pipeline, layer, name)}" + (f". {escape_markdown(comment)}" if comment else "")


def _table(pipeline: Pipeline, layer: Layer, name: str) -> str:
    if layer == "bronze":
        source = pipeline.bronze[name]
        return f"{source.format} of `{escape_markdown(source.path)}`{_rules(source)}"
    if layer == "gold":
        return f"from {_names(pipeline.gold[name].reads)}{_rules(pipeline.gold[name])}"
    if of := pipeline.deidentified_tables.get(name):
        return f"the rows of `{of}`, de-identified"
    table = pipeline.silver[name]
    lookups = table.lookup_tables
    text = f"from {_names(table.streams)}" + (f", joined with {_names(lookups)}" if lookups else "")
    keys = table.keys
    if table.changes:
        keys = table.changes.keys
    if keys and not (table.changes and table.changes.has_history):
        text += f"; one row for each {_names(keys)}"
    if table.gives_many_rows:
        text += "; several rows for each record"
    return text + _rules(table)


def _rules(table: BronzeTable | SilverTable | GoldTable) -> str:
    names = [*table.expectations, *table.expect_table]
    if names:
        return f"; rules: {_names(names)}"
    return ""


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

"""``sluicegate show``: the Lakehouse page for a terminal, and the page's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.cli.options import JsonOption, PipelineName, load_definition, pass_settings, show_json, show_table
from sluicegate.console import human_bytes, quantity, say
from sluicegate.errors import UserError
from sluicegate.settings import Settings
from sluicegate.storage import aws
from sluicegate.storage.store_errors import translate_errors

if TYPE_CHECKING:
    from sluicegate.dashboard.batches import Balance
    from sluicegate.dashboard.days import DayDetails
    from sluicegate.dashboard.find import Hit
    from sluicegate.dashboard.flow_graph import Graph
    from sluicegate.dashboard.one_table import TableDetails
    from sluicegate.dashboard.overview import Line
    from sluicegate.dashboard.quarantined import QuarantineDetails
    from sluicegate.dashboard.run_details import RunDetails
    from sluicegate.dashboard.runs import PipelineRun
    from sluicegate.dashboard.source import Source
    from sluicegate.definition import Pipeline

_ENDS = ["written", "quarantined", "dropped", "duplicates"]


@pass_settings("lake", "landing", "pipelines", "target")
def show(
    pipeline: Annotated[str | None, PipelineName.__metadata__[0]] = None,
    table: Annotated[str | None, typer.Argument(help="Name of a table; with --days, a silver table.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="One run, by its id or its key.")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="The runs of the pipeline.")] = False,
    days: Annotated[bool, typer.Option("--days", help="Rows by event time, and the reprocessed days.")] = False,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="The quarantine of a silver table.")] = False,
    rule: Annotated[
        str | None, typer.Option("--rule", help="With --quarantine: only records that broke this rule.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="With a table: show sample rows, with personal data masked.")
    ] = False,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Tables and columns, by name and comment.")
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show the Lakehouse page in the terminal: all pipelines, the graph of one, or one of its tables. No JVM.

    Without PIPELINE, all are shown, failing ones first. `sluicegate files` lists the files of a bronze table.

    Example: sluicegate show heart_rate recordings_enriched --quarantine
    """
    from sluicegate.dashboard import as_json as views_json

    options = {"--run": run is not None, "--runs": runs, "--days": days, "--quarantine": quarantine,
             "--search": search is not None}  # fmt: skip
    chosen = [name for name, is_given in options.items() if is_given]
    kind = _choose_page(chosen, pipeline, table, rule=rule, rows=rows)
    view = _view(kind, pipeline, table, settings, {"run": run, "rule": rule, "rows": rows, "search": search})
    if as_json:
        show_json(views_json.facts(view))
        return
    _PRINTED[kind](view)


def _choose_page(
    chosen: Sequence[str], pipeline: str | None, table: str | None, *, rule: str | None, rows: bool
) -> str:
    """Return the page that the options select.

    Raises:
        UserError: the options select two pages, or contradict the page.
    """
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} exclude each other", hint="use one of them")
    if chosen:
        kind = chosen[0].lstrip("-")
    elif table:
        kind = "table"
    elif pipeline:
        kind = "graph"
    else:
        kind = "home"
    if kind in ("run", "runs", "days", "quarantine") and pipeline is None:
        raise UserError(f"--{kind} requires a pipeline", hint="name it: sluicegate show PIPELINE --{kind}")
    if kind == "quarantine" and table is None:
        raise UserError(
            "--quarantine requires a silver table", hint="name it: sluicegate show PIPELINE TABLE --quarantine"
        )
    if kind in ("run", "runs", "search") and table is not None:
        raise UserError(f"--{kind} does not take a table", hint=f"omit {table}")
    if rule is not None and kind != "quarantine":
        raise UserError("--rule requires --quarantine", hint="add it, or omit --rule")
    if rows and kind not in ("table", "quarantine"):
        raise UserError("--rows requires a table", hint="name a table, or omit --rows")
    return kind


@aws.brief_requests()
@translate_errors()
def _view(kind: str, name: str | None, table: str | None, settings: Settings, more: dict[str, Any]) -> Any:
    from sluicegate.dashboard import batches, find, overview
    from sluicegate.dashboard import runs as of_runs
    from sluicegate.dashboard.source import Source

    definition = None
    if name is not None:
        definition = load_definition(name, settings)
    source = Source(settings if definition is None else definition.settings, patience=None)
    if kind == "search":
        return find.search(source, source.names() if name is None else [name], more["search"])
    if definition is None:
        return overview.overview(source, source.names(), {})
    if kind == "runs":
        return of_runs.group_batches(batches.newest_batches(source, definition))
    return _pipeline_view(kind, source, definition, table, more)


def _pipeline_view(kind: str, source: Source, definition: Pipeline, table: str | None, more: dict[str, Any]) -> Any:
    from sluicegate.dashboard import days, flow_graph, one_table, quarantined, run_details
    from sluicegate.monitor import event_log

    event_log.demand_table(definition, table)
    if kind == "graph":
        return flow_graph.graph(source, definition, ())
    if kind == "run":
        return run_details.find_run(source, definition, more["run"])
    if kind == "days":
        return days.day_details(source, definition, table)
    if table is None:
        raise AssertionError(kind)
    if kind == "quarantine":
        return quarantined.quarantine_details(source, definition, table, more["rule"] or "", rows=more["rows"])
    return one_table.table_details(source, definition, table, rows=more["rows"], readable=source.names())


def _home(lines: Sequence[Line]) -> None:
    shown = [
        [line.name, line.state, line.sentence, line.fresh, line.backlog.files or None, line.quarantined or None]
        for line in lines
    ]
    show_table(
        ["pipeline", "state", "", "fresh (UTC)", "files wait", "quarantined"], shown, ["files wait", "quarantined"]
    )
    for entry in lines:
        for mistake in entry.mistakes:
            say(f"{entry.name}: {mistake}")
    _show_count(lines, "pipeline")


def _graph(view: Graph) -> None:
    columns = ["layer", "table", "state", "rows", "changed (UTC)", "read", *_ENDS, "how", "seconds"]
    shown = [
        [node.kind, node.table, node.state, node.rows, node.changed, *_balance(node.balance), node.technique,
         _seconds_text(node.seconds)]
        for node in view.nodes if node.kind not in ("landing", "view")
    ]  # fmt: skip
    show_table(columns, shown, ["rows", "read", *_ENDS, "seconds"])
    for node in view.nodes:
        if node.sentence:
            say(f"{node.name}: {node.sentence}")
    say("", f"as of the run {view.run.key}" if view.run is not None else "it has not run yet")
    say(view.backlog.error or view.backlog.sentence)


def _table(view: TableDetails) -> None:
    say(f"{view.layer} {view.name}{f': {view.comment}' if view.comment else ''}")
    size = f"{view.rows:,} rows, version {view.version}, {human_bytes(view.bytes)} in {view.files:,} files"
    say(view.problem or (size if view.exists else "not created yet"))
    show_table(
        ["column", "type", "computed from", "comment"],
        [[column.name, column.kind, ", ".join(f"{link.table}.{link.column}" for link in column.reads), column.comment]
         for column in view.columns],
    )  # fmt: skip
    if view.rules:
        rules = [[rule.name, rule.text, rule.action, rule.passed, rule.failed] for rule in view.rules]
        show_table(["rule", "condition", "action", "passed", "failed"], rules, ["passed", "failed"])
    last = [
        [batch.time, batch.version, batch.mode, *_balance(batch.balance), batch.run_id] for batch in view.history[-10:]
    ]
    show_table(["time (UTC)", "version", "mode", "read", *_ENDS, "run"], last, ["version", "read", *_ENDS])
    if view.sample is not None:
        show_table(view.sample.columns, view.sample.rows)


def _quarantine(view: QuarantineDetails) -> None:
    shown = [[reason.rule, reason.text, reason.records, reason.first, reason.last] for reason in view.reasons or ()]
    show_table(["rule", "condition", "records", "first (UTC)", "last (UTC)"], shown, ["records"])
    for example in view.examples or ():
        discarded = ""
        if example.discarded is not None:
            discarded = f"  discarded by {example.by}: {example.note}"
        say("", f"{', '.join(example.rules)}  {example.file}{discarded}", f"  {example.record}")
    say("", f"{view.records:,} records in quarantine, {view.discarded:,} discarded")
    for discard in view.discards:
        records = f"{discard.records:,} records: {discard.note}"
        say(f"  discarded by {discard.by}, {discard.time:%Y-%m-%d %H:%M:%S} UTC, {records}")


def _runs(runs_shown: Sequence[PipelineRun]) -> None:
    shown = [
        [item.key, item.state, item.kind, item.began, _seconds_text(item.seconds), item.entered, item.quarantined]
        for item in runs_shown
    ]
    columns = ["run", "state", "kind", "began (UTC)", "seconds", "rows into bronze", "quarantined"]
    show_table(columns, shown, columns[4:])
    _show_count(runs_shown, "run")


def _run(view: RunDetails) -> None:
    say(f"{view.run.key}: {view.run.kind}, {view.run.state}")
    shown = [
        [table.layer, table.table, *_balance(table.balance), table.usual, table.batches[-1].technique,
         _seconds_text(table.seconds), table.differs] for table in view.tables
    ]  # fmt: skip
    columns = ["layer", "table", "read", *_ENDS, "usually written", "how", "seconds", "why"]
    show_table(columns, shown, ["read", *_ENDS, "usually written", "seconds"])


def _days(view: DayDetails) -> None:
    if not view.table:
        say(f"no silver table with an event_time; tables of {view.pipeline}: {', '.join(view.tables) or 'none'}")
        return
    shown = [[str(day.day), day.rows, day.rebuilt, day.run] for day in view.days or ()]
    show_table(["day (UTC)", "rows", "rebuilt (UTC)", "run"], shown, ["rows"])
    say("", f"{view.table} by {view.column}; {view.unknown:,} rows without a day")


def _search(hits: Sequence[Hit]) -> None:
    shown = [[hit.pipeline, hit.layer, hit.table, hit.column, hit.kind, hit.comment] for hit in hits]
    show_table(["pipeline", "layer", "table", "column", "type", "comment"], shown)
    _show_count(hits, "hit")


_PRINTED: dict[str, Any] = {"home": _home, "graph": _graph, "table": _table, "quarantine": _quarantine, "runs": _runs,
                            "run": _run, "days": _days, "search": _search}  # fmt: skip


def _balance(balance: Balance | None) -> Iterable[int | None]:
    """Return both sides of the reconciliation; empty for a table that the run did not change."""
    if balance is None:
        return [None] * 5
    return [balance.read, *(getattr(balance, name) for name in _ENDS)]


def _seconds_text(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds:.1f}"


def _show_count(items: Sequence[Any], noun: str) -> None:
    say("", quantity(len(items), noun))

"""``sluicegate streams``, and the loop of ``sluicegate run --continuous``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, pass_settings, printer, show_json, show_table
from sluicegate.console import quantity, say
from sluicegate.errors import JobFailed, PipelineMissing, UserError
from sluicegate.flow import report
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.monitor.metrics import Registry
    from sluicegate.monitor.streams import Stream

EVERY = "10 seconds"


def run_continuously(
    pipeline: str,
    settings: Settings,
    layer: str | None,
    every: str | None,
    *,
    as_json: bool,
    metrics: tuple[str, int] | None = None,
) -> None:
    """Run continuously until stopped, and print one line for each batch.

    Args:
        pipeline: name of the pipeline.
        settings: paths and Spark settings.
        layer: only this layer; None for all.
        every: polling interval; None for ``EVERY``.
        as_json: whether to print a line of JSON for each batch.
        metrics: address and port of the metrics server; None for no metrics.
    """
    from sluicegate.launch import continuous, metrics_server
    from sluicegate.monitor.metrics import Registry

    definition = api.load(pipeline, settings)
    registry = Registry()
    with metrics_server.serve_metrics(registry, metrics[1], metrics[0]) if metrics else nullcontext() as port:
        tell = printer(as_json)
        if metrics:
            tell(f"metrics at http://{metrics[0]}:{port}/metrics")
        continuous.start(
            definition, definition.settings, layer, every or EVERY, tell, _batch_handler(as_json, registry)
        )


def _batch_handler(as_json: bool, registry: Registry) -> Callable[[str], None]:
    """Return the function that counts the batches of a run by their messages, and prints them as JSON if requested."""
    from sluicegate.monitor.metrics import batch_samples

    def take_batch(message: str) -> None:
        try:
            facts = report.facts_of(report.BATCH, message)
        except JobFailed:  # the next one is none the worse for it
            return
        if facts is None:
            return
        registry.add(batch_samples(facts))
        if as_json:
            say(json.dumps(facts))

    return take_batch


@pass_settings("lake")
def streams(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="PIPELINE", help="Only continuous runs of this pipeline.")
    ] = None,
    stop: Annotated[list[str], typer.Option("--stop", metavar="ID", help="Stop this one; repeatable.")] = NONE,
    stop_all: Annotated[bool, typer.Option("--stop-all", help="Stop all of them.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """List the continuous runs of the lake, or stop them after their current batch. No JVM.

    Stopping a run that has died removes its entry; its tables are intact.

    Example: sluicegate streams heart_rate --stop-all
    """
    from sluicegate.definition.fields import name_fault
    from sluicegate.monitor.streams import find_stream, list_streams

    if pipeline is not None and name_fault(pipeline):
        raise PipelineMissing(f"{pipeline!r} is not a valid pipeline name")
    if stop and stop_all:
        raise UserError("--stop and --stop-all exclude each other", hint="use one of them")
    if stop_all:
        _stop(settings.lake, list_streams(settings.lake, pipeline), as_json=as_json)
    elif stop:
        _stop(settings.lake, [find_stream(settings.lake, pipeline, run_id) for run_id in stop], as_json=as_json)
    elif as_json:
        show_json(list(map(asdict, list_streams(settings.lake, pipeline))))
    else:
        _show(list_streams(settings.lake, pipeline))


def _stop(lake: str, runs: Iterable[Stream], *, as_json: bool) -> None:
    from sluicegate.monitor import streams

    stopped = [{"pipeline": run.pipeline, "id": run.id, "done": streams.stop(lake, run)} for run in runs]
    if as_json:
        show_json(stopped)
        return
    if not stopped:
        say("no continuous runs")
    for run in stopped:
        say(f"{run['pipeline']} {run['id']} {run['done']}")


def _show(runs: Sequence[Stream]) -> None:
    columns = ["pipeline", "id", "state", "since", "every", "layer", "batches", "rows", "last_batch", "host", "pid"]
    rows = []
    for run in runs:
        values = asdict(run)
        if run.state == "no sign of life":
            values["state"] += f" since {run.beat}"
        values["pid"] = str(run.pid)
        rows.append([values[column] for column in columns])
    show_table([column.replace("_", " ") for column in columns], rows, right=["batches", "rows"])
    say("", quantity(len(runs), "continuous run"))

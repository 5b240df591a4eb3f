"""``sluicegate run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from sluicegate import api
from sluicegate.cli import optional_packages
from sluicegate.cli.options import JsonOption, PipelineName, pass_settings, printer, show_json
from sluicegate.cli.running import streams
from sluicegate.errors import UserError
from sluicegate.launch.run_mode import RunMode
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import Layer, Pipeline
    from sluicegate.launch.request import Request


@pass_settings("lake", "landing", "pipelines", "master", "target")
def run(
    pipeline: PipelineName,
    layer: Annotated[str | None, typer.Option("--layer", help="Only this layer: bronze, silver or gold.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Reprocess records with this event time (UTC) or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Reprocess records before this event time (exclusive).")
    ] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Keep running in one Spark until Ctrl-C.")] = False,
    every: Annotated[
        str | None, typer.Option("--every", help="Polling interval, for example 4s; 10s by default.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65535, help="With --continuous: port that serves Prometheus metrics."
        ),
    ] = None,
    metrics_host: Annotated[
        str | None, typer.Option("--metrics-host", help="Address that serves metrics; 127.0.0.1 by default.")
    ] = None,
    full_refresh: Annotated[
        str | None,
        typer.Option(
            "--full-refresh",
            help="Fully refresh these tables, given as a,b, and the tables computed from them."
            " Not for bronze tables that read files.",
        ),
    ] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="Start Spark for this run only, and leave none ready for the next one.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Process new landed files through bronze, silver and gold in one Spark, without Airflow.

    Example: sluicegate run heart_rate --from 2024-03-01 --to 2024-03-02
    """
    if metrics_host is not None and metrics_port is None:
        raise UserError("--metrics-host requires --metrics-port")
    if continuous and not (since or until or full_refresh):
        metrics = _metrics_address(metrics_host, metrics_port)
        return streams.run_continuously(pipeline, settings, layer, every, as_json=as_json, metrics=metrics)
    if metrics_port is not None:
        raise UserError("--metrics-port requires --continuous", hint="in Airflow, use Airflow's own metrics")
    if continuous or every:
        raise UserError("--every requires --continuous, and neither takes an interval or a full refresh")
    with optional_packages.absent():  # the jobs, which may need them, are other processes
        definition = api.load(pipeline, settings)
        request = _request(definition, since, until, full_refresh or "")
        only = cast("Layer | None", layer)  # whether there is such a layer is asked there
        reports = api.run(
            definition,
            layer=only,
            interval=request.interval,
            full_refresh=request.tables if request.mode == RunMode.FULL_REFRESH else None,
            tell=printer(as_json),
            warm_minutes=0.0 if cold else None,
        )
    if as_json:
        show_json([report.as_dict() for report in reports])


def _metrics_address(host: str | None, port: int | None) -> tuple[str, int] | None:
    if port is None:
        return None
    return host or "127.0.0.1", port


def _request(definition: Pipeline, since: str | None, until: str | None, full_refresh: str) -> Request:
    """Return the request of a run that ends; ``full_refresh`` has table names separated by commas."""
    from sluicegate.launch.request import Request

    mode = RunMode.INCREMENTAL
    if full_refresh:
        mode = RunMode.FULL_REFRESH
    elif since or until:
        mode = RunMode.INTERVAL
    names = list(filter(None, map(str.strip, full_refresh.split(","))))
    return Request.from_arguments(definition, mode, since, until, names)

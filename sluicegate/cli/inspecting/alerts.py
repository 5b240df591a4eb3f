"""``sluicegate alerts``."""

from __future__ import annotations

from dataclasses import asdict

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, pass_settings, show_json, show_table
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "target")
def alerts(pipeline: PipelineName, *, settings: Settings, as_json: JsonOption = False) -> None:
    """Check the limits under `alerts`: freshness, volume, backlog, rates of rules.

    The exit code is 3 if something exceeds a limit `fail`. Nothing is written, and Spark is not started.

    Example: sluicegate alerts heart_rate
    """
    from sluicegate.monitor.alerts import alerts_error

    definition = api.load(pipeline, settings)
    exceeded = api.alerts(definition)
    if as_json:
        show_json(
            {
                "pipeline": definition.name,
                "alerts": [{**asdict(alert), "sentence": alert.sentence} for alert in exceeded],
            }
        )
    elif not exceeded:
        say(f"{definition.name} has no alerts in its definition")
    else:
        rows = [[alert.level, alert.kind, alert.table, alert.rule, alert.found, alert.limit] for alert in exceeded]
        show_table(["level", "kind", "table", "rule", "found", "limit"], rows)
    if (error := alerts_error(exceeded)) is not None:
        if as_json:
            raise SystemExit(error.exit_code)
        say("")
        raise error

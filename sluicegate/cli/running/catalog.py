"""``sluicegate catalog``."""

from __future__ import annotations

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, pass_settings, printer, show_json
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "master", "target")
def catalog(pipeline: PipelineName, *, settings: Settings, as_json: JsonOption = False) -> None:
    """Register all tables of a pipeline in the catalog again (a run registers only new ones).

    Example: sluicegate catalog heart_rate
    """
    from sluicegate.launch import submit

    definition = api.load(pipeline, settings)
    reports = submit.submit("catalog", pipeline, definition.settings, submit.run_info(), printer(as_json))
    if as_json:
        show_json({"entered": reports.notes})

"""``sluicegate doctor``."""

from __future__ import annotations

from dataclasses import asdict

import typer

from sluicegate.cli.options import JsonOption, pass_settings, show_json
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "target")
def doctor(*, settings: Settings, as_json: JsonOption = False) -> None:
    """Check Python, Java, Spark, jars and folders, and say what to do. Exit code 2 if something is missing.

    Example: sluicegate doctor
    """
    from sluicegate.tools.project.doctor import checks

    results = checks(settings)
    if as_json:
        show_json({"checks": [asdict(result) for result in results]})
    else:
        for result in results:
            say(f"{result.state:9} {result.name:10} {result.fact}")
            if result.remedy:
                say(f"{'':21}{result.remedy}")
    if any(result.state == "missing" for result in results):
        raise typer.Exit(2)

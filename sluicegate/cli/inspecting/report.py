"""``sluicegate report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, pass_settings
from sluicegate.console import say
from sluicegate.errors import UserError
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "target")
def report(
    pipeline: PipelineName,
    run: Annotated[str | None, typer.Argument(help="Id of a run, as shown by history; the newest by default.")] = None,
    out: Annotated[str | None, typer.Option("--out", help="The file; PIPELINE-report.html by default.")] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Include sample rows of each table, with personal data masked.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Write the Lakehouse pages of a pipeline and one of its runs into one self-contained HTML file.

    Example: sluicegate report heart_rate --out report.html
    """
    from sluicegate.airflow.page import report as page_report
    from sluicegate.dashboard import as_json as views_json

    page = page_report.create_report(api.load(pipeline, settings), run, rows=rows)
    if as_json:
        say(views_json.text(page))
        return
    file = Path(out or f"{pipeline}-report.html")
    try:
        file.write_text(page_report.as_html(page), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the report cannot be written to {file}", cause=str(error), hint="choose another --out"
        ) from None
    say(str(file))

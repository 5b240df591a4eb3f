"""``sluicegate skip``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, ask, printer, show_json, with_settings
from sluicegate.console import say, warn
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.landing.chosen.skip import SkipPreview


@with_settings("lake", "landing", "pipelines", "target")
def skip(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    listed: Annotated[
        str, typer.Argument(metavar="LIST", help="The files: text with a path on each line, CSV, JSON or Parquet.")
    ],
    column: Annotated[
        str | None,
        typer.Option(
            "--column", help="Column of the list that has the paths; path or file_path, or the only one, if not given."
        ),
    ] = None,
    from_prefix: Annotated[
        list[str] | None,
        typer.Option("--from-prefix", help="What paths of the list begin with, as dbfs:/mnt; repeatable."),
    ] = None,
    to_prefix: Annotated[
        list[str] | None, typer.Option("--to-prefix", help="What that folder is called here, as s3://lake; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, and show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Enter files that another pipeline has read into the ledger as skipped, so that no run reads them.

    The list is SELECT path FROM cloud_files_state('CHECKPOINT') of an Auto Loader stream that was stopped, or the
    column in which the old table has kept _metadata.file_path. The next run reads what is not in the list. It asks for
    confirmation, and starts no Spark.

    Example: sluicegate skip heart_rate recordings_bronze read-before.csv --from-prefix dbfs:/mnt --to-prefix s3://lake
    """
    confirmed: list[SkipPreview] = []

    def confirm(preview: SkipPreview) -> bool:
        confirmed.append(preview)
        _show(preview, as_json=as_json, dry_run=dry_run)
        if dry_run or not preview.files.num_rows:
            return False
        if not yes:
            ask("enter them as skipped?", "an entry of skipped files", on_stderr=as_json)
        return True

    entered = api.skip(
        api.load(pipeline, settings), table, listed, column=column, from_prefix=from_prefix or (),
        to_prefix=to_prefix or (), confirm=confirm, tell=printer(as_json, quiet=True),
    )  # fmt: skip
    if as_json:
        show_json(confirmed[0].facts() | {"entered": entered})


def _show(preview: SkipPreview, *, as_json: bool, dry_run: bool) -> None:
    """What is about to be done; stdout is for JSON if that is printed, which says the same of a dry run."""
    for line in preview.sentences():
        if not as_json:
            say(line)
        elif not dry_run:
            warn(line)

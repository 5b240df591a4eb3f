"""``sluicegate skip``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, PipelineName, ask, pass_settings, printer, show_json, show_preview
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.landing.chosen.skip import SkipPreview


@pass_settings("lake", "landing", "pipelines", "target")
def skip(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    listed: Annotated[
        str, typer.Argument(metavar="LIST", help="The files: text with a path on each line, CSV, JSON or Parquet.")
    ],
    column: Annotated[
        str | None,
        typer.Option(
            "--column", help="Column of the list with the paths; by default path, file_path, or the only column."
        ),
    ] = None,
    from_prefix: Annotated[
        list[str], typer.Option("--from-prefix", help="Prefix of the paths in the list, as dbfs:/mnt; repeatable.")
    ] = NONE,
    to_prefix: Annotated[
        list[str], typer.Option("--to-prefix", help="Prefix to replace it with, as s3://lake; repeatable.")
    ] = NONE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without writing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Enter files that another pipeline has read into the ledger as skipped, so that no run reads them.

    The list is SELECT path FROM cloud_files_state('CHECKPOINT') of an Auto Loader stream that was stopped, or the
    column of the old table with _metadata.file_path. The next run reads files that are not in the list. It asks for
    confirmation. Spark is not started.

    Example: sluicegate skip heart_rate recordings_bronze read-before.csv --from-prefix dbfs:/mnt --to-prefix s3://lake
    """
    confirmed: list[SkipPreview] = []

    def confirm(preview: SkipPreview) -> bool:
        confirmed.append(preview)
        show_preview(preview.sentences(), as_json=as_json, dry_run=dry_run)
        if dry_run or not preview.files.num_rows:
            return False
        if not yes:
            ask("enter these files as skipped?", "a skip", on_stderr=as_json)
        return True

    entered = api.skip(
        api.load(pipeline, settings), table, listed, column=column, from_prefix=from_prefix,
        to_prefix=to_prefix, confirm=confirm, tell=printer(as_json, quiet=True),
    )  # fmt: skip
    if as_json:
        show_json(confirmed[0].facts() | {"entered": entered})

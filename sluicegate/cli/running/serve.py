"""``sluicegate serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluicegate.cli.options import PLACES
from sluicegate.console import say
from sluicegate.settings import Settings, resolve_settings


def serve(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; the default allows connections from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 for any free port.")] = 15002,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            help="File of the token that clients must present; created if missing."
            " [env: SLUICEGATE_CONNECT_TOKEN_FILE; default: ~/.sluicegate/connect-token]",
        ),
    ] = None,
    lake: Annotated[str | None, PLACES["lake"]] = None,
    landing: Annotated[str | None, PLACES["landing"]] = None,
    master: Annotated[str | None, PLACES["master"]] = None,
) -> None:
    """Run a Spark Connect server with the settings of the jobs, until Ctrl-C; commands use it with --remote.

    Lake and landing only decide whether it must read S3; one server runs all pipelines.

    Example: sluicegate serve --port 15002
    """
    from sluicegate.launch import spark_server

    flags = {"lake": lake, "landing": landing, "master": master}
    resolved = resolve_settings(flags)
    resolved.export()
    spark_server.serve(
        Settings.from_resolved(flags, resolved), host, port, Path(token_file).expanduser() if token_file else None, say
    )

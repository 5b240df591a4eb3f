"""Console output: lines for people, counts of files and sizes in words."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


# Beginnings of the lines from which a task in Airflow links to Spark's UI and event log.
PAGE = "Spark's page:"
LOGGED = "in Spark's event log:"

# Files that Docker and Podman put into each container.
_OF_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def say(line: str) -> None:
    """Print one line and flush it: job output is followed live."""
    sys.stdout.write(f"{line}\n")  # one write: tables run concurrently
    sys.stdout.flush()


def silent(_line: str) -> None:
    """Take a line for people, and leave it: what is given for ``say`` where nobody listens."""


def say_where(context: SparkContext) -> None:
    """Print the address of Spark's UI and the id in its event log, whichever is on; by default both are off."""
    if page := ui_address(context.uiWebUrl, context.master or "", context.applicationId):
        say(f"{PAGE} {page}")
    if context.getConf().get("spark.eventLog.enabled") == "true":
        say(f"{LOGGED} {context.applicationId}")


def ui_address(own: str | None, master: str, application: str) -> str:
    """Address at which people can open Spark's UI; empty if it is off, or nobody could.

    Args:
        own: address that Spark has for it: the driver's host, whose name in a container means nothing outside.
        master: Spark's master.
        application: its id there.
    """
    front = os.environ.get("SLUICEGATE_SPARK_UI", "").rstrip("/")
    if own and front and master.startswith("spark://"):
        return f"{front}/proxy/{application}/"
    if "KUBERNETES_SERVICE_HOST" not in os.environ and not any(file.exists() for file in _OF_CONTAINERS):
        return own or ""
    return own or "" if os.environ.get("SPARK_PUBLIC_DNS") else ""


def files(count: int) -> str:
    """Format a number of files."""
    return "1 file" if count == 1 else f"{count:,} files"


def human_bytes(size: float) -> str:
    """Format a size in bytes with a decimal unit, up to TB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"

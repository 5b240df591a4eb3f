"""Lines for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


# Where Spark shows the job, as far as it does: by these lines a task in Airflow links there.
PAGE = "Spark's page:"
LOGGED = "in Spark's event log:"


def say(line: str) -> None:
    """Prints one line for people, at once (job output is followed live)."""
    sys.stdout.write(f"{line}\n")  # in one piece: tables are filled side by side
    sys.stdout.flush()


def say_where(context: SparkContext) -> None:
    """Says where Spark shows this job: its page and its event log, whichever is on. By default neither is."""
    if context.uiWebUrl:
        say(f"{PAGE} {context.uiWebUrl}")
    if context.getConf().get("spark.eventLog.enabled") == "true":
        say(f"{LOGGED} {context.applicationId}")


def files(count: int) -> str:
    """A number of files in words."""
    return "1 file" if count == 1 else f"{count:,} files"


def human_bytes(size: float) -> str:
    """A size in bytes with the unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"

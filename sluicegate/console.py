"""Console output: lines for people, with nothing in them that a terminal obeys, counts of files and sizes in words."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sluicegate import channel
from sluicegate.escapes import escape_text

if TYPE_CHECKING:
    from pyspark import SparkContext


# Kinds of the messages from which a task in Airflow links to Spark's UI and event log (see ``channel``).
PAGE = "SLUICEGATE_SPARK_PAGE"
LOGGED = "SLUICEGATE_EVENT_LOG"

# Files that Docker and Podman put into each container.
_OF_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))


# Seconds of the rest of some work from which on it is said how long that takes.
LONG = 30.0

_BARS = " ▁▂▃▄▅▆▇█"


def say(*lines: str) -> None:
    """Print lines and flush them: job output is followed live. A break in a line is escaped as well."""
    _write(sys.stdout, lines)


def warn(*lines: str) -> None:
    """Print lines to stderr, as ``say`` does."""
    _write(sys.stderr, lines)


def _write(file: TextIO, lines: Iterable[str]) -> None:
    file.write("".join(f"{escape_text(line)}\n" for line in lines))  # one write: tables run concurrently
    file.flush()


def program(folder: Path | None = None) -> str:
    """Return ``sluicegate`` as a person can type it in a folder: by its name where PATH has this one, else by its path.

    A checkout whose environment is not activated has it in ``.venv/bin``, and a shell finds none or another one.

    Args:
        folder: the folder; by default the working directory.
    """
    folder = folder or Path.cwd()
    script = Path(sys.executable).with_name("sluicegate")  # the script of this environment, however this process began
    if not script.exists():
        return "sluicegate"
    script_on_path = shutil.which("sluicegate")
    if script_on_path and os.path.samefile(script_on_path, script):
        return "sluicegate"
    if not script.is_relative_to(folder):
        return shlex.quote(str(script))
    below = str(script.relative_to(folder))
    return shlex.quote(below if "/" in below else f"./{below}")


def ignore_line(_line: str) -> None:
    """Take a line for people, and leave it: what is given for ``say`` where nobody listens."""


def say_where(context: SparkContext) -> None:
    """Print the address of Spark's UI and the id in its event log, whichever is on.

    With a local master both are off by default.
    """
    if page := ui_address(context.uiWebUrl, context.master or "", context.applicationId):
        say_and_send(PAGE, "Spark's page: ", page)
    if context.getConf().get("spark.eventLog.enabled") == "true":
        say_and_send(LOGGED, "in Spark's event log: ", context.applicationId)


def say_and_send(kind: str, words: str, fact: str) -> None:
    """Print words and a fact for people, and send the fact to the parent, if the job has one that listens."""
    if channel.is_attached():
        channel.send(kind, json.dumps(fact))
    say(f"{words}{fact}")


def ui_address(driver_address: str | None, master: str, application: str) -> str:
    """Return the address at which people can open Spark's UI; empty if it is off, or nobody could.

    Args:
        driver_address: address that Spark has for it: the driver's host, whose name in a container means nothing
            outside.
        master: Spark's master.
        application: its id there.
    """
    front = os.environ.get("SLUICEGATE_SPARK_UI", "").rstrip("/")
    if driver_address and front and master.startswith("spark://"):
        return f"{front}/proxy/{application}/"
    in_container = "KUBERNETES_SERVICE_HOST" in os.environ or any(file.exists() for file in _OF_CONTAINERS)
    if in_container and not os.environ.get("SPARK_PUBLIC_DNS"):
        return ""
    return driver_address or ""


def files(count: int) -> str:
    """Format a number of files."""
    return quantity(count, "file")


def quantity(count: int, noun: str) -> str:
    """Format a number of things: ``1 row``, ``2,500 rows``."""
    return f"{count:,} {inflect(count, noun, f'{noun}s')}"


def inflect(count: int, singular: str, plural: str) -> str:
    """Choose the form of a word that goes with a number of things."""
    if count == 1:
        return singular
    return plural


def time_left(took: float, done_units: float, remaining_units: float) -> str:
    """Say how long the rest takes at this pace, as ``, about 3 minutes left``; empty where it is not ``LONG``.

    Args:
        took: seconds so far.
        done_units: how much was done in them, in any unit.
        remaining_units: how much is left, in the same unit.
    """
    seconds = 0.0
    if done_units > 0:
        seconds = took / done_units * remaining_units
    if seconds < LONG:
        return ""
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * length:
            return f", about {seconds / length:,.0f} {unit}s left"
    return f", about {seconds:,.0f} seconds left"


def sparkline(values: Sequence[float]) -> str:
    """Draw bars of one line, the highest for the greatest value; a zero has none."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[0] if value <= 0 else _BARS[1 + int(value / top * (len(_BARS) - 2))] for value in values)


def human_bytes(size: float) -> str:
    """Format a size in bytes with a decimal unit, up to TB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            if unit == "B":
                return f"{size:.0f} {unit}"
            return f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"

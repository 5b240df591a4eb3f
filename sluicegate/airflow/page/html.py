"""Pages as HTML: the templates, and how numbers, sizes and times are written in them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sluicegate.airflow.page import bars, graph_layout
from sluicegate.airflow.page.addresses import Addresses
from sluicegate.console import human_bytes
from sluicegate.dashboard import techniques
from sluicegate.escapes import escape_text

FOLDER = Path(__file__).resolve().parent

STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
          "icon.svg": "image/svg+xml", "icon-dark.svg": "image/svg+xml"}  # fmt: skip
"""Files that pages are shown with, each with its media type."""

# Words of states, each with the shape that it is shown with besides its colour, and the colour.
_SHAPES = {
    "skipped": ("○", "none"), "paused": ("◆", "warn"), "never started": ("○", "none"),
    "not started": ("○", "none"), "not run": ("○", "none"),
    "fine": ("●", "good"), "success": ("●", "good"), "committed": ("●", "good"), "up to date": ("●", "good"),
    "ingested": ("●", "good"), "archived": ("●", "good"), "written": ("●", "good"),
    "unchanged": ("○", "none"), "running": ("◐", "busy"), "queued": ("○", "busy"),
    "waiting": ("○", "busy"), "being read": ("○", "busy"), "settling": ("○", "busy"), "behind": ("◇", "busy"),
    "late": ("◆", "warn"), "waits": ("○", "busy"),
    "as its last run left it": ("○", "none"),
    "failed files": ("▲", "bad"), "failed": ("▲", "bad"), "upstream_failed": ("○", "none"), "broken": ("▲", "bad"),
    "mistakes": ("▲", "bad"), "changed": ("◆", "warn"), "refused": ("◆", "warn"), "up_for_retry": ("◆", "warn"),
}  # fmt: skip

# Units of time, each with the next smaller one.
_SPANS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def number(value: float | None) -> str:
    """Format a number with separators, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}"


def size(value: float | None) -> str:
    """Format a size in bytes."""
    if value is None:
        return "–"
    return human_bytes(value)


def moment(value: datetime | None) -> str:
    """Format a time in UTC, to the second."""
    if value is None:
        return "–"
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def seconds(value: float | None) -> str:
    """Format a duration in its two largest units."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.1f} s"
    unit, name, smaller, smaller_name = next(span for span in _SPANS if value >= span[0])
    return f"{value // unit:.0f} {name} {value % unit // smaller:.0f} {smaller_name}"


def percent(value: float | None) -> str:
    """Format a share, and never write 100 % for less than all."""
    if value is None:
        return "–"
    if 0.9 < value < 1:
        shown = f"{value:.2%}"
    else:
        shown = f"{value:.0%}"
    if shown == "100.00%":
        return "> 99.99%"
    return shown


def time_since(value: datetime | None, time: datetime) -> str:
    """Format the time that has passed since a time."""
    if value is None:
        return "never"
    past = (time - value).total_seconds()
    if past < 60:
        return "just now"
    return next(f"{past // unit:.0f} {name} ago" for unit, name, *_ in _SPANS if past >= unit)


def shape(state: str) -> tuple[str, str]:
    """Return shape and colour of a state."""
    return _SHAPES.get(state, ("○", "none"))


def _escape_value(value: Any) -> Any:
    """Escape a value for a template, and remove characters that would reorder the text behind it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_text(value, keep="\n\t")
    return value


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=_escape_value,
    )  # fmt: skip
    shown: dict[str, Callable[..., str]] = {"number": number, "size": size, "moment": moment, "seconds": seconds,
                                            "percent": percent, "ago": time_since, "shell": shlex.quote,
                                            "word": techniques.word}  # fmt: skip
    environment.filters.update(shown)
    environment.globals.update(
        shape=shape, bars=bars, placed=graph_layout.place_graph, differs=techniques.difference_reason
    )
    return environment


ENVIRONMENT = _environment()


def page(template: str, addresses: Addresses, **view: Any) -> str:
    """Render a page.

    Args:
        template: name of its template, without ``.html``.
        addresses: addresses of other pages.
        view: values for the template.
    """
    common = {
        "at": addresses, "now": datetime.now(UTC), "pipeline": None, "tab": "", "live": "", "tag": "", "query": "",
        "table": None,
        "no_rows": "You cannot see rows here: that requires the permission to read the logs of its tasks.",
    }  # fmt: skip
    return ENVIRONMENT.get_template(f"{template}.html").render(common | view)


def static(name: str) -> str:
    """Read a style sheet or script."""
    return (FOLDER / "static" / name).read_text(encoding="utf-8")

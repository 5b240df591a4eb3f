"""Interval literals (``10 minutes``, ``1 hour 30 minutes``, short ``4s``), and the current time as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Units of https://spark.apache.org/docs/latest/sql-ref-literals.html#interval-literal, and common abbreviations.
_UNITS = {
    "milliseconds": ("millisecond", "milliseconds", "ms"),
    "seconds": ("second", "seconds", "sec", "secs", "s"),
    "minutes": ("minute", "minutes", "min", "mins", "m"),
    "hours": ("hour", "hours", "h"),
    "days": ("day", "days", "d"),
    "weeks": ("week", "weeks", "w"),
}
_OF_WORD = {word: unit for unit, words in _UNITS.items() for word in words}
_PART = re.compile(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*([a-z]+)")


def time_span(text: str) -> timedelta:
    """Parse an interval literal.

    Args:
        text: numbers, each with its unit, optionally after ``interval``. Seconds may have a fraction.

    Raises:
        ValueError: it is not an interval; months and years are refused, since they differ in length.
    """
    remaining_text = re.sub(r"^\s*interval\b", "", text.lower()).rstrip()
    if not remaining_text:
        raise ValueError(text)
    length = timedelta()
    while remaining_text:
        part = _PART.match(remaining_text)
        if part is None or part[2] not in _OF_WORD:
            raise ValueError(text)
        unit = _OF_WORD[part[2]]
        if "." in part[1] and unit != "seconds":
            raise ValueError(text)
        length += timedelta(**{unit: float(part[1])})
        remaining_text = remaining_text[part.end() :]
    return length


def format_span(span: timedelta) -> str:
    """Format a time span in the largest unit of which it is a whole number, as ``36 hours``."""
    seconds = span.total_seconds()
    for unit, length in {"day": 86_400, "hour": 3_600, "minute": 60}.items():
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds:g} seconds"


def utc_now() -> str:
    """Return the current time as ISO 8601, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Texts that Spark casts to some value although they are of no type: silver would have another value, and no error."""

from __future__ import annotations

import re
from datetime import date

from sluicegate.tools.scaffold.readings import BLANKS, TIMES, Kind

# What Spark casts to a number besides what is one here: 007, +1, .5, 1d, NaN, and a lone point to 0. It would be other
# values, and no error.
_CAST_TO_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d*)(?:e[+-]?\d+)?[df]?|nan|inf|infinity|0x[\da-f.]+p.*)", re.I)
_CAST_TO_BOOLEAN = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}
_DAY = re.compile(r"[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})([ T].*)?)?)?", re.DOTALL)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?!\d))?)?.*", re.DOTALL)


def is_cast(kind: Kind, pattern: str, text: str) -> bool:
    """Whether Spark may cast a text that does not fit to some value, so that silver would have another one."""
    if kind == "BOOLEAN":
        return text.lower() in _CAST_TO_BOOLEAN
    if kind not in TIMES or "AS DECIMAL" in pattern:
        text = _replace(pattern, text).strip(BLANKS)
        return _CAST_TO_NUMBER.fullmatch(text) is not None
    if "timestamp_millis" in pattern:
        return _CAST_TO_NUMBER.fullmatch(text) is not None
    if pattern.startswith("to_"):
        return False  # only texts of that form
    return _is_cast_to_time(text, day_only=kind == "DATE")


def _replace(pattern: str, text: str) -> str:
    """A text as it is before the cast, once the pattern has taken away from it what people write in numbers."""
    for unwritten in re.findall(r"regexp_replace\(.*?, '([^']*)', ''\)", pattern):
        text = re.sub(unwritten, "", text)
    if re.search(r"\breplace\(", pattern):
        text = text.replace(",", ".")
    return text


def _is_cast_to_time(text: str, *, day_only: bool) -> bool:
    if not (day := _DAY.fullmatch(text)):
        return not day_only and re.match(r"T\d|\d{1,2}:\d", text) is not None
    year, month, number, time_text = day.groups()
    try:
        date(min(int(year), 9999), int(month or 1), int(number or 1))
    except ValueError:
        return False
    if day_only or not (time_text or "").strip():
        return True
    clock = _CLOCK.fullmatch(time_text[1:].strip())
    return clock is not None and all(
        int(part or 0) < most for part, most in zip(clock.groups(), (24, 60, 60), strict=True)
    )

"""Instants of landed times, in microseconds since 1970 UTC, in whatever year."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

_TIME = re.compile(
    r"\s*([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?\s*(\S.*?)?)?\s*"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_EPOCH = datetime.fromtimestamp(0, UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
DAY = 86_400_000_000

# Years after which the Gregorian calendar is the same again, and their days.
CYCLE = 400
CYCLE_DAYS = 146_097


class Moment(int):
    """A landed time, in microseconds since 1970 UTC."""

    __slots__ = ()


# A landed time that depends on the reader's calendar.
UNSURE = Moment(-(2**80))


def microseconds(value: Any) -> int | None:
    """Return microseconds since 1970 UTC of a landed time; None if it is none that Python can tell."""
    if isinstance(value, Moment):
        if value == UNSURE:
            return None
        return int(value)
    if type(value) is str:  # not a number of JSON, which is none
        return _parse_moment(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        return int((value - _EPOCH) // MICROSECOND)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * DAY
    return None


@lru_cache(maxsize=65536)
def _parse_moment(text: str) -> int | None:
    parts = _TIME.fullmatch(text)
    if parts is None:
        return None
    local = _local(parts)
    if local is None:
        return None
    zone = parts[8] or "Z"
    if zone in ("Z", "UTC", "GMT"):
        return local
    if offset := _OFFSET.fullmatch(zone):
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        return local - int(f"{offset[1]}1") * (hours * 3600 + minutes * 60 + seconds) * SECOND
    return _to_utc(local, zone)


def _local(parts: re.Match[str]) -> int | None:
    """Return microseconds since 1970 in the zone of a time; None if there is no such day, or no such time of a day."""
    year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
    fraction = (parts[7] or "").ljust(9, "0")
    if int(fraction[6:]):
        return None
    # Python has no other years than 1 to 9999, but the calendar is the same again every 400 years.
    cycles, year_of_cycle = divmod(year, CYCLE)
    try:
        time = datetime(CYCLE + year_of_cycle, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return (cycles - 1) * CYCLE_DAYS * DAY + (time - _EPOCH) // MICROSECOND + int(fraction[:6])


def _to_utc(local: int, zone: str) -> int | None:
    try:
        time = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(microseconds=local)
        return (time.astimezone(UTC) - _EPOCH) // MICROSECOND
    except (OSError, ValueError, OverflowError, KeyError):  # the last of a name that is not known
        return None

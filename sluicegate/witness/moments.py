"""Instants of landed times, in microseconds since 1970 UTC, in whatever year."""

from __future__ import annotations

import re
from calendar import monthrange
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
DAY = 86_400_000_000


class Moment(int):
    """A landed time, in microseconds since 1970 UTC."""

    __slots__ = ()


UNSURE = Moment(-(2**80))
"""A landed time that depends on the reader's calendar."""


def microseconds(value: Any) -> int | None:
    """Microseconds since 1970 UTC of a landed time; None if it is none that Python can tell."""
    if isinstance(value, Moment):
        if value == UNSURE:
            return None
        return int(value)
    if type(value) is str:  # not a number of JSON, which is none
        return _parse_moment(value)
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * DAY
    return None


@lru_cache(maxsize=65536)
def _parse_moment(text: str) -> int | None:
    parts = _TIME.fullmatch(text)
    local = None
    if parts is not None:
        local = _local(parts)
    if parts is None or local is None:
        return None
    zone = parts[8] or "Z"
    if zone in ("Z", "UTC", "GMT"):
        return local
    if offset := _OFFSET.fullmatch(zone):
        return local - _zone_offset(*offset.groups())
    return _to_utc(local, zone)


def _local(parts: re.Match[str]) -> int | None:
    """Microseconds since 1970 in the zone of a time; None if there is no such day, or no such time of a day."""
    year, month, day = (int(part) for part in parts.groups()[:3])
    hour, minute, second = (int(part or 0) for part in parts.groups()[3:6])
    if not (1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    if hour >= 24 or minute >= 60 or second >= 60:
        return None
    fraction = (parts[7] or "").ljust(9, "0")
    if int(fraction[6:]):
        return None
    seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000 + int(fraction[:6])


def _zone_offset(sign: str, hours: str, minutes: str | None, seconds: str | None) -> int:
    """Microseconds by which a zone is ahead of UTC."""
    span = (int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)) * 1_000_000
    if sign == "+":
        return span
    return -span


def _to_utc(local: int, zone: str) -> int | None:
    try:
        there = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(microseconds=local)
        return (there.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except (OSError, ValueError, OverflowError, KeyError):  # the last of a name that is not known
        return None


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a day of the Gregorian calendar, in whatever year."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468

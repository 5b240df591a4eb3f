"""Which value a column of a type has of a landed one: Python's own reading, without Spark.

``of`` gives the stored value and whether a part of the landed one is lost by it. Landed values are Python's, as pyarrow
and json give them; the text of a CSV cell and of a JSON number is a ``Token``.
"""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

MIDNIGHT = re.compile(r"[+-]?\d{4,}-\d\d?-\d\d?")
TRUTH = {"true": True, "t": True, "yes": True, "y": True, "false": False, "f": False, "no": False, "n": False}


class Token(str):
    """Text of a value whose type is not certain: a cell of CSV, or a number of JSON."""


class Object(dict[str, Any]):
    """Object of JSON, whose text a STRING holds."""


class Array(list[Any]):
    """Array of JSON, whose text a STRING holds."""


class Entries(dict[str, Any]):
    """Map of a format that has maps, which no struct holds."""


class Padded(Token):
    """Text of a format without types, in a column whose type the definition names: zeros in front say nothing."""


LOST = (None, True)


def of(kind: pa.DataType, value: Any) -> tuple[Any, bool]:
    """The value that a column of a type has of a landed one, and whether a part of it is lost."""
    if value is None:
        return None, False
    if pa.types.is_struct(kind):
        has_fields = isinstance(value, dict) and not isinstance(value, Entries)
        return _of_struct(kind, value) if has_fields else LOST
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not isinstance(value, list):
            return LOST
        parts = [of(kind.value_type, part) for part in value]
        return [stored for stored, _ in parts], any(lost for _, lost in parts)
    if pa.types.is_map(kind):
        return _of_map(kind, value)
    if isinstance(value, (dict, list)):
        of_json = isinstance(value, (Object, Array)) and pa.types.is_string(kind)
        return (value, False) if of_json else LOST
    stored = _text(kind, value) if isinstance(value, str) else _typed(kind, value)
    return LOST if stored is None else (stored, False)


def lacks(kind: pa.DataType, value: Any) -> bool:
    """Whether a column of a type lacks a part of a landed value for which it has a place."""
    types = pa.types
    if value is None:
        return False
    if types.is_struct(kind):
        if not isinstance(value, dict) or isinstance(value, Entries):
            return True
        return any(lacks(kind[n].type, value.get(kind[n].name)) for n in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind):
        return not isinstance(value, list) or any(lacks(kind.value_type, part) for part in value)
    if types.is_map(kind):
        has_entries = isinstance(value, (Entries, Object))
        return not has_entries or any(lacks(kind.item_type, item) for item in value.values())
    return of(kind, value)[1]


def _of_struct(kind: pa.StructType, value: dict[str, Any]) -> tuple[Any, bool]:
    names = {kind[n].name for n in range(kind.num_fields)}
    parts = {kind[n].name: of(kind[n].type, value.get(kind[n].name)) for n in range(kind.num_fields)}
    extra = any(inner is not None for name, inner in value.items() if name not in names)
    return {name: stored for name, (stored, _) in parts.items()}, extra or any(lost for _, lost in parts.values())


def _of_map(kind: pa.MapType, value: Any) -> tuple[Any, bool]:
    if not isinstance(value, (Entries, Object)):  # a struct of a format that has maps besides is another kind
        return LOST
    entries = list(value.items())
    parts = [(key, of(kind.item_type, item)) for key, item in entries]
    return [(key, stored) for key, (stored, _) in parts], any(lost for _, (_, lost) in parts)


def _typed(kind: pa.DataType, value: Any) -> Any:
    """Stored value of a typed one that is held exactly, or None."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return value  # its text, which ``same`` compares
    if isinstance(value, bool) or types.is_boolean(kind):
        return value if isinstance(value, bool) and types.is_boolean(kind) else None
    if isinstance(value, (int, float, Decimal)):
        return _number(kind, value)
    return _time(kind, value)


def _number(kind: pa.DataType, value: int | float | Decimal) -> Any:
    types = pa.types
    if isinstance(value, float) and not math.isfinite(value):
        return value if types.is_floating(kind) else None
    if types.is_integer(kind):
        whole = value == int(value) and -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1)
        return int(value) if whole else None
    if types.is_floating(kind):
        try:
            stored = as_binary(kind, value)
        except OverflowError:
            return None
        return stored if math.isfinite(stored) and Decimal(stored) == Decimal(value) else None
    if types.is_decimal(kind):
        # Of a binary number the digits that are printed of it.
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return number if _fits_decimal(kind, number) else None
    return None


def as_binary(kind: pa.DataType, value: Any) -> float:
    """The nearest FLOAT or DOUBLE."""
    number = float(value)
    return float(struct.unpack("<f", struct.pack("<f", number))[0]) if kind.bit_width == 32 else number


def _fits_decimal(kind: pa.DataType, number: Decimal) -> bool:
    digits, exponent = significant(number)
    return -exponent <= kind.scale and digits + exponent <= kind.precision - kind.scale


def significant(number: Decimal) -> tuple[int, int]:
    """How many digits a number has without zeros at its ends, and the power of ten of the last."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    return len(short), exponent + len(text) - len(short) if short else 0


def _time(kind: pa.DataType, value: Any) -> Any:
    types = pa.types
    moment = value if isinstance(value, datetime) else None
    if isinstance(value, date) and moment is None:
        moment = datetime(value.year, value.month, value.day)
    if moment is None:
        return None
    moment = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if types.is_date(kind):
        return moment.date() if moment == datetime(moment.year, moment.month, moment.day) else None
    if types.is_timestamp(kind):
        return moment.replace(tzinfo=UTC) if kind.tz else moment
    return None


def _text(kind: pa.DataType, text: str) -> Any:
    """Stored value of a text that denotes one that is held exactly, or None."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return str(text)
    if types.is_boolean(kind):
        return TRUTH.get(text.strip().lower())
    if types.is_date(kind) or types.is_timestamp(kind):
        return _time_of(kind, text)
    if re.match(r"\s*[+-]?0\d", text) and not isinstance(text, Padded):
        return None
    if types.is_integer(kind):
        return _number(kind, int(text)) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    if types.is_decimal(kind):
        return number if number.is_finite() and _fits_decimal(kind, number) else None
    return _binary_of(kind, number)


def _binary_of(kind: pa.DataType, number: Decimal) -> Any:
    """A DOUBLE that gives back the number, or was printed with as many digits as are printed of one."""
    if not number.is_finite():
        return float(number)
    try:
        stored = as_binary(kind, number)
    except OverflowError:
        return None
    if math.isinf(stored) or (stored == 0 and number != 0):
        return None
    most, skips = (9, 2**24) if kind.bit_width == 32 else (17, 2**53)
    written_out = number.as_tuple().exponent <= 0  # type: ignore[operator]
    if abs(stored) >= skips and written_out:
        return stored if Decimal(stored) == number else None
    return stored if significant(number)[0] <= most else None


def _time_of(kind: pa.DataType, text: str) -> Any:
    if not MIDNIGHT.match(text.strip()):
        return None
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:[.](\d+))?)?(Z|[+-]\d\d:\d\d)?", text.strip()
    )
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    if fraction and fraction[6:].strip("0"):
        return None
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00:00'}{zone or ''}".replace("Z", "+00:00"))
    except ValueError:
        return None
    moment += timedelta(microseconds=int((fraction or "0")[:6].ljust(6, "0")))
    if moment.tzinfo and moment.utcoffset() and not (pa.types.is_timestamp(kind) and kind.tz):
        return None
    return _time(kind, moment)


def same(stored: Any, expected: Any) -> bool:
    """Whether a stored value is the expected one; where that is to be text, whether the text denotes it."""
    if isinstance(stored, str) and isinstance(expected, (Object, Array)):
        return of_json(stored) == expected
    if isinstance(expected, dict):
        return isinstance(stored, dict) and all(same(stored.get(name), inner) for name, inner in expected.items())
    if isinstance(expected, (list, tuple)):
        alike = isinstance(stored, (list, tuple)) and len(stored) == len(expected)
        return alike and all(map(same, stored, expected))
    if stored is None or expected is None:
        return stored is expected
    if isinstance(stored, str) and not isinstance(expected, str):
        return denotes(stored, expected)
    if isinstance(expected, float):
        return isinstance(stored, float) and (stored == expected or (math.isnan(stored) and math.isnan(expected)))
    if isinstance(expected, bool) or isinstance(stored, bool):
        return stored is expected
    return bool(stored == expected)


def denotes(text: str, value: Any) -> bool:
    """Whether a text is that of a value."""
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, float):
        number = float(text)
        near = number == value or as_binary(pa.float32(), number) == value
        return near or (math.isnan(number) and math.isnan(value))
    if isinstance(value, (int, Decimal)):
        return Decimal(text) == value
    if isinstance(value, datetime):
        return datetime.fromisoformat(text).replace(tzinfo=None) == value.replace(tzinfo=None)
    if isinstance(value, date):
        return text == value.isoformat()
    return text == str(value)


def of_json(text: str) -> Any:
    """Python's own reading of a JSON text, with the texts of its numbers."""
    return _marked(json.loads(text, parse_float=Token, parse_int=Token, parse_constant=Token))


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return Object({name: _marked(inner) for name, inner in value.items()})
    return Array(map(_marked, value)) if isinstance(value, list) else value

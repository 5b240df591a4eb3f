"""Comparison of a landed value with what a table holds of it, by the type of the column.

Nothing is converted as the engine does it. A stored value is right if the landed one denotes it: the same number,
the same instant, the same text. Where Python has no word for a landed value, the answer is None: it cannot be said.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from sluicegate.witness.json_text import Number, parse_json
from sluicegate.witness.moments import DAY, Moment, microseconds

# Whether a value is the landed one; None if that cannot be said.
Verdict = bool | None

# Compares a landed value with a stored one; the third says that parts of it may lie in the rescued data instead.
Comparer = Callable[[Any, Any, bool], Verdict]

_LISTS = (pa.ListType, pa.LargeListType)

TRUE, FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}

# Digits of a printed DOUBLE at most, and the number from which on not every whole number is one.
PRINTED_DIGITS = 17
SKIPS_FROM = 2.0**53


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with whole numbers in the place of times, which Python has of the years 1 to 9999 only."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    if isinstance(kind, _LISTS):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    return kind


def comparer(kind: pa.DataType) -> Comparer:
    """Comparer of the values of a column; times are stored as microseconds or days since 1970, as in ``plain_type``."""
    if pa.types.is_struct(kind):
        return _struct_comparer({field.name: comparer(field.type) for field in kind})
    if isinstance(kind, _LISTS):
        return _list_comparer(comparer(kind.value_type))
    if pa.types.is_map(kind):
        return _map_comparer(comparer(kind.key_type), comparer(kind.item_type))
    if kind == pa.float32():
        return _single
    if pa.types.is_floating(kind):
        return _double
    return next((compared for is_of, compared in _ATOMIC if is_of(kind)), _unknown)


def _unknown(*_: Any) -> Verdict:
    return None


def is_nothing(value: Any) -> bool:
    """Return whether a landed value has nothing that could be lost: NULL, or an object of nothing else."""
    return value is None or (isinstance(value, Mapping) and all(map(is_nothing, value.values())))


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, str):
        value = value.strip()
    elif type(value) is float:
        value = repr(value)
    try:
        return Decimal(value)
    except (InvalidOperation, ValueError, TypeError):
        return None


def _is_same_decimal(landed: Any, stored: Any) -> bool:
    number = _decimal(landed)
    return number is not None and number == _decimal(stored)


# What is stored in the place of what is no text: its bytes or its escape, or marks of it.
_NO_TEXT = r"(?:\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|[?\ufffd\ud800-\udfff])*"


def compare_text(landed: str, stored: str) -> Verdict:
    """Compare texts; which character ends a line within a value is not compared."""
    if landed == stored:
        return True
    if "\r" in landed + stored and _lines(landed) == _lines(stored):
        return True
    # Halves of surrogate pairs, and bytes that are no text, are what no table can hold; what is between them is.
    parts = re.split("[\ud800-\udfff]+", landed)
    if len(parts) > 1 and re.fullmatch(_NO_TEXT.join(map(re.escape, parts)), stored):
        return None
    return False


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _text(landed: Any, stored: Any, part: bool) -> Verdict:
    if type(landed) is str:
        return compare_text(landed, stored)
    if isinstance(landed, bytes):
        # Twelve bytes may be Parquet's INTERVAL, whose months, days and milliseconds a text has.
        if len(landed) == 12 and stored.startswith("P"):
            return landed == stored.encode() or None
        return bool(landed == stored.encode())
    if isinstance(landed, (Mapping, list)):
        try:
            return compare_shown(landed, parse_json(stored))
        except ValueError:
            return False
    return compare_shown(landed, stored)


def _boolean(landed: Any, stored: Any, part: bool) -> Verdict:
    if isinstance(landed, bool):
        return bool(landed == stored)
    if not isinstance(landed, str):
        return False
    word = landed.strip().lower()
    if word in TRUE:
        return bool(stored)
    return word in FALSE and not stored


def _exact_number(landed: Any, stored: Any, part: bool) -> Verdict:
    if isinstance(landed, (bool, Mapping, list)):
        return False
    if isinstance(landed, (date, bytes, Moment)):
        return None
    return _is_same_decimal(landed, stored)


def _double(landed: Any, stored: Any, part: bool) -> Verdict:
    """Compare with a DOUBLE, which is the landed number and not only the nearest one to it; see ``_is_denoted``."""
    try:
        number = float(landed)
    except OverflowError:
        return None
    except (ValueError, TypeError):
        return False
    if math.isnan(number) or math.isnan(stored):
        return math.isnan(number) and math.isnan(stored)
    return number == stored and (isinstance(landed, float) or _is_denoted(landed, stored))


def _is_denoted(landed: Any, nearest: float) -> bool:
    """Return whether a number is what its nearest DOUBLE is printed as, or has no more digits than a printed one.

    From 2^53 on, where not every whole number is a DOUBLE, one without an exponent has to be the very number.
    """
    number = _decimal(landed)
    if number is None or not number.is_finite():
        return True
    if math.isinf(nearest) or number in (Decimal(nearest), Decimal(repr(nearest))):
        return not math.isinf(nearest)
    if nearest == 0 or (abs(nearest) >= SKIPS_FROM and "e" not in str(landed).lower()):
        return False
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits) <= PRINTED_DIGITS


def _single(landed: Any, stored: Any, part: bool) -> Verdict:
    try:
        number = float(landed)
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return None
    except (ValueError, TypeError):
        return False
    if rounded == stored or (math.isnan(number) and math.isnan(stored)):
        return True
    if math.isclose(number, stored, rel_tol=2**-23):
        return None
    return False


def _day(landed: Any, stored: Any, part: bool) -> Verdict:
    return _moment(landed, stored * DAY, part)


def _moment(landed: Any, stored: Any, part: bool) -> Verdict:
    moment = microseconds(landed)
    if moment is None:
        return None
    return bool(moment == stored)


def _bytes(landed: Any, stored: Any, part: bool) -> Verdict:
    if isinstance(landed, bytes):
        return bool(landed == stored)
    if isinstance(landed, str) and landed.encode() == stored:
        return True
    return None


def _struct_comparer(parts: Mapping[str, Comparer]) -> Comparer:
    def compare(landed: Any, stored: Any, part: bool) -> Verdict:
        landed = _decode_json(landed)
        if not isinstance(landed, Mapping):
            return False
        if not part and any(not is_nothing(value) for name, value in landed.items() if name not in parts):
            return False
        return _combine_verdicts(
            compare_cell(landed.get(name), stored[name], compared, part) for name, compared in parts.items()
        )

    return compare


def _list_comparer(element: Comparer) -> Comparer:
    def compare(landed: Any, stored: Any, part: bool) -> Verdict:
        landed = _decode_json(landed)
        if not isinstance(landed, list) or len(landed) != len(stored):
            return False
        return _combine_verdicts(compare_cell(*items, element, part) for items in zip(landed, stored, strict=True))

    return compare


def _map_comparer(key: Comparer, item: Comparer) -> Comparer:
    def compare(landed: Any, stored: Any, part: bool) -> Verdict:
        landed = _decode_json(landed)
        if isinstance(landed, Mapping):
            landed = list(landed.items())
        if not isinstance(landed, list) or len(landed) != len(stored):
            return False
        by_name = {}
        if all(isinstance(name, str) for name, _ in landed):
            by_name = dict(landed)
        verdicts: list[Verdict] = []
        for name, value in stored:
            if name in by_name:
                verdicts.append(compare_cell(by_name[name], value, item, part))
                continue
            alike_items = [candidate for k, candidate in landed if compare_cell(k, name, key, part) is True]
            verdicts.append(bool(alike_items) and compare_cell(alike_items[0], value, item, part))
        return _combine_verdicts(verdicts)

    return compare


def _decode_json(landed: Any) -> Any:
    """Return a landed text that is JSON, as what it says."""
    if type(landed) is not str:
        return landed
    try:
        return parse_json(landed)
    except ValueError:
        return landed


def _combine_verdicts(verdicts: Iterable[Verdict]) -> Verdict:
    """False if one is, else None if one is."""
    combined: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        combined = combined and verdict
    return combined


def compare_cell(landed: Any, stored: Any, compared: Comparer, part: bool) -> Verdict:
    """Compare two values of which either may be NULL."""
    if stored is None:
        return part or is_nothing(landed)
    if landed is None:
        return None if compared is _unknown else False  # a VARIANT has a NULL of its own
    if is_nothing(landed) and isinstance(stored, Mapping):
        return all(value is None for value in stored.values()) or compared(landed, stored, part)
    return compared(landed, stored, part)


def compare_shown(landed: Any, shown: Any) -> Verdict:
    """Compare a landed value with the text or JSON that was made of it, as in ``_rescued_data``."""
    return next((compared(landed, shown) for kinds, compared in _SHOWN if isinstance(landed, kinds)), None)


def _shown_float(landed: float, shown: Any) -> Verdict:
    """Compare a float; a FLOAT is shown with fewer digits than the same DOUBLE."""
    if not isinstance(shown, str):
        return False
    return _double(shown, landed, False) or _single(shown, landed, False) is True


def _shown_bytes(landed: bytes, shown: Any) -> Verdict:
    return isinstance(shown, str) and (_is_same_bytes(landed, shown) or shown.encode() == landed)


def _shown_moment(landed: Any, shown: Any) -> Verdict:
    instant, written = microseconds(landed), microseconds(shown)
    if instant is None or written is None:
        return None
    return instant == written


def _shown_boolean(landed: bool, shown: Any) -> Verdict:
    return shown is landed or (isinstance(shown, str) and shown.lower() == str(landed).lower())


def _shown_number(landed: Any, shown: Any) -> Verdict:
    same = isinstance(shown, str) and (str(shown) == str(landed) or _is_same_decimal(landed, shown))
    return same or _are_same_doubles(landed, shown)


def _shown_text(landed: str, shown: Any) -> Verdict:
    if isinstance(shown, str):
        return compare_text(landed, str(shown))
    return str(shown).lower() == landed.lower()


def _are_same_doubles(landed: Any, shown: Any) -> Verdict:
    """Return whether numbers are the same doubles, which is as near as some JSON has them."""
    try:
        same = isinstance(shown, str) and float(landed) == float(shown)
    except (ValueError, OverflowError):
        return False
    if same:
        return None
    return False


def _shown_mapping(landed: Mapping[str, Any], shown: Any) -> Verdict:
    parts = _decode_json(shown)
    if not isinstance(parts, Mapping):
        return False
    return _combine_verdicts(_compare_part(landed.get(name), parts.get(name)) for name in {*landed, *parts})


def _shown_list(landed: list[Any], shown: Any) -> Verdict:
    parts = _decode_json(shown)
    if isinstance(parts, Mapping):  # a map, of which Arrow has pairs
        return None
    if not isinstance(parts, list) or len(landed) != len(parts):
        return False
    return _combine_verdicts(_compare_part(*items) for items in zip(landed, parts, strict=True))


def _compare_part(landed: Any, shown: Any) -> Verdict:
    if is_nothing(landed) or shown is None:
        return is_nothing(landed) and is_nothing(shown)
    return compare_shown(landed, shown)


def _is_same_bytes(landed: bytes, shown: str) -> bool:
    try:
        return base64.b64decode(shown, validate=True) == landed
    except ValueError:
        return False


_ATOMIC: list[tuple[Callable[[pa.DataType], bool], Comparer]] = [
    (pa.types.is_string, _text), (pa.types.is_large_string, _text), (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _exact_number), (pa.types.is_decimal, _exact_number), (pa.types.is_date, _day),
    (pa.types.is_timestamp, _moment), (pa.types.is_binary, _bytes), (pa.types.is_large_binary, _bytes),
]  # fmt: skip

# Comparison with what is shown, of values of some kinds: the first that a value is of counts.
_SHOWN: list[tuple[type | tuple[type, ...], Callable[[Any, Any], Verdict]]] = [
    (float, _shown_float), (bytes, _shown_bytes), ((date, datetime, Moment), _shown_moment), (bool, _shown_boolean),
    ((Number, int, Decimal), _shown_number), (str, _shown_text), (Mapping, _shown_mapping), (list, _shown_list),
]  # fmt: skip

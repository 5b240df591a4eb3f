"""Values of a case and of a table in one common form in which equal ones are equal, and their display.

The table's column determines the type of an expected value: ``2024-05-01`` is a text, a date or a midnight. One that
does not fit that type is a mistake in the case, not a difference between tables.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import pyarrow as pa

# Value in the common form: hashable, and equal to what means the same.
Value = Any


class Unfit(Exception):
    """Raised for an expected value that does not fit the column: one sentence and a hint (may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class FieldValues(NamedTuple):
    """Struct or map: its names or keys with their values, in the type's order or sorted."""

    pairs: tuple[tuple[Any, Value], ...]


class _NotANumber:
    """NaN that is equal to itself."""

    def __repr__(self) -> str:
        return "NaN"


NAN = _NotANumber()


def table_value(value: Any, kind: pa.DataType) -> Value:
    """Convert a table's value to the common form, from its Python value by Arrow."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return _number(value)
    if pa.types.is_struct(kind):
        return FieldValues(tuple((field.name, table_value(value.get(field.name), field.type)) for field in kind))
    if pa.types.is_map(kind):
        pairs = [(table_value(key, kind.key_type), table_value(item, kind.item_type)) for key, item in value]
        return FieldValues(tuple(sorted(pairs, key=repr)))
    if _is_list(kind):
        return tuple(table_value(element, kind.value_type) for element in value)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return value.astimezone(UTC)
    return value


def case_value(value: Any, kind: pa.DataType, *, text: bool = False) -> Value:
    """Convert an expected value to the common form, as one of a column.

    Args:
        value: value from YAML or CSV text.
        kind: type of the column.
        text: True for CSV text, in which numbers and nested values are texts too.

    Raises:
        Unfit: it does not fit that type.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or _is_list(kind):
        return _nested_value(_from_json(value, kind) if text else value, kind)
    for fits, convert in _PLAIN:
        if fits(kind):
            try:
                return convert(value, kind)
            except (ValueError, TypeError, KeyError, InvalidOperation, OverflowError, struct.error):
                raise _unfit(value, kind) from None
    raise Unfit(f"values of type {kind} cannot be compared", "omit the column")


def _nested_value(value: Any, kind: pa.DataType) -> Value:
    if _is_list(kind):
        if not isinstance(value, list):
            raise _unfit(value, kind)
        return tuple(case_value(item, kind.value_type) for item in value)
    if not isinstance(value, Mapping):
        raise _unfit(value, kind)
    if pa.types.is_map(kind):
        pairs = [
            (case_value(key, kind.key_type, text=True), case_value(item, kind.item_type)) for key, item in value.items()
        ]
        return FieldValues(tuple(sorted(pairs, key=repr)))
    names = [field.name for field in kind]
    for name in value:
        if name not in names:
            raise Unfit(f"unknown field {name}", f"its fields: {', '.join(names)}")
    return FieldValues(tuple((field.name, case_value(value.get(field.name), field.type)) for field in kind))


def _from_json(value: Any, kind: pa.DataType) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        raise Unfit(f"a nested value in CSV text must be JSON, not {value}") from None


def _is_list(kind: pa.DataType) -> bool:
    return isinstance(kind, (pa.ListType, pa.LargeListType, pa.FixedSizeListType))


def _number(value: float) -> Value:
    return NAN if value != value else value + 0.0  # -0.0 becomes 0.0


def _boolean(value: Any, _kind: pa.DataType) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[value]


def _whole_number(value: Any, _kind: pa.DataType) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        _refuse()
    return int(value)


def _double(value: Any, kind: pa.DataType) -> Value:
    if isinstance(value, bool):
        _refuse()
    number = float(value)
    return _number(struct.unpack("f", struct.pack("f", number))[0] if pa.types.is_float32(kind) else number)


def _decimal(value: Any, _kind: pa.DataType) -> Decimal:
    number = Decimal(str(value))  # which refuses true and false
    return number if number.is_finite() else _refuse()


def _text(value: Any, _kind: pa.DataType) -> str:
    if not isinstance(value, str):
        shown = display_value(value)
        raise Unfit(f"the column holds strings, but {shown} is not one", f'put it in quotes: "{shown}"')
    return value


def _moment(value: Any, kind: pa.DataType) -> datetime:
    moment = datetime.fromisoformat(value)
    if kind.tz is None:
        return moment if moment.tzinfo is None else _refuse()
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _refuse() -> Any:
    raise ValueError


_PLAIN: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Value]]] = [
    (pa.types.is_boolean, _boolean), (pa.types.is_integer, _whole_number), (pa.types.is_floating, _double),
    (pa.types.is_decimal, _decimal), (pa.types.is_string, _text), (pa.types.is_large_string, _text),
    (pa.types.is_string_view, _text), (pa.types.is_timestamp, _moment),
    (pa.types.is_date, lambda value, _kind: date.fromisoformat(value)),
    (pa.types.is_binary, lambda value, _kind: value.encode()),
    (pa.types.is_large_binary, lambda value, _kind: value.encode()),
]  # fmt: skip

_WORDS: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_boolean, "true or false"), (pa.types.is_integer, "whole numbers"), (pa.types.is_floating, "numbers"),
    (pa.types.is_decimal, "decimal numbers"), (pa.types.is_timestamp, "timestamps such as 2024-05-01 12:00:00,"),
    (pa.types.is_date, "dates such as 2024-05-01,"), (_is_list, "lists"), (pa.types.is_struct, "{field: value}"),
    (pa.types.is_map, "{key: value}"),
]  # fmt: skip


def _unfit(value: Any, kind: pa.DataType) -> Unfit:
    words = next((words for fits, words in _WORDS if fits(kind)), str(kind))
    return Unfit(f"expected {words} got {display_value(value)}")


def is_close(first: Value, second: Value, tolerance: float) -> bool:
    """Return whether values are equal or, as numbers with a fraction (also nested), differ by the tolerance at most."""
    if first == second:
        return True
    if isinstance(first, (float, Decimal)) and isinstance(second, type(first)):
        # Compared as decimals, not in binary: 0.1 and 0.2 differ by 0.1.
        return abs(Decimal(str(first)) - Decimal(str(second))) <= Decimal(str(tolerance))
    if isinstance(first, FieldValues) and isinstance(second, FieldValues):
        return is_close(first.pairs, second.pairs, tolerance)
    if type(first) is tuple and type(second) is tuple and len(first) == len(second):
        return all(is_close(a, b, tolerance) for a, b in zip(first, second, strict=True))
    return False


def display_value(value: Value) -> str:
    """Display a value, and quote a text that could be mistaken for another value."""
    match value:
        case None:
            return "NULL"
        case str():
            if _is_plain(value):
                return value
            return json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case FieldValues():
            return _display_fields(value.pairs)
        case Mapping():
            return _display_fields(value.items())
        case tuple() | list():
            return "[" + ", ".join(map(display_value, value)) + "]"
        case bytes():
            return value.decode(errors="replace")
    return str(value)


def _display_fields(fields: Iterable[tuple[Any, Any]]) -> str:
    return "{" + ", ".join(f"{name}: {display_value(value)}" for name, value in fields) + "}"


def _is_plain(text: str) -> bool:
    """Return whether a text cannot be taken for anything but itself without quotes."""
    return bool(text) and text == text.strip() and text.isprintable() and text not in ("NULL", "NaN")

"""Values as silver will have them: cast by the type of their column, as Spark does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.infer_types import InferredType, trim_blanks
from sluicegate.tools.scaffold.near_types import is_cast


class _Unfit:
    """Value that does not fit its type."""


UNFIT = _Unfit()

# As Spark casts a text: 38 digits, a half rounded away from zero. Python's own has 28, and rounds a half to even.
_DECIMAL = Context(prec=38, rounding=ROUND_HALF_UP)


def caster(column: NewColumn, *, typed: bool) -> Callable[[Any], Any]:
    """Function that casts a value as silver will; ``UNFIT`` for one that does not fit, which is quarantined."""
    if typed:
        return lambda value: value
    cast = _cast(column)
    nothing = {*column.inferred_type.nothing, ""}

    def cast_value(value: Any) -> Any:
        if value is None or isinstance(value, (dict, list)):
            return None
        if isinstance(value, bool):
            text = str(value).lower()
        else:
            text = str(value)
        if text in nothing:
            return None
        try:
            return cast(text)
        except (ValueError, OverflowError, InvalidOperation):
            return UNFIT

    return cast_value


def _cast(column: NewColumn) -> Callable[[str], Any]:
    pattern = column.inferred_type.pattern
    if scale := re.search(r"AS DECIMAL\(\d+, (\d+)\)", pattern):
        step = Decimal(1).scaleb(-int(scale[1]))
        return lambda text: _DECIMAL.add(Decimal(trim_blanks(text)).quantize(step, context=_DECIMAL), Decimal(0))
    if "AS DOUBLE) AS TIMESTAMP" in pattern:
        return lambda text: int(float(trim_blanks(text)) * 1_000_000)
    if column.inferred_type.kind == "BIGINT" or "timestamp_millis" in pattern:
        return _parse_integer
    if column.inferred_type.kind == "DATE":
        return lambda text: date.fromisoformat(trim_blanks(text)[:10])
    if column.inferred_type.kind in ("DOUBLE", "BOOLEAN"):
        return lambda text: _check_castable(column.inferred_type, text)
    return _time if column.inferred_type.kind == "TIMESTAMP" else lambda text: text


def _check_castable(column_type: InferredType, text: str) -> str:
    """Text that Spark casts. Which ones give one value is not asked: no key is made of them."""
    if not is_cast(column_type, trim_blanks(text)):
        raise ValueError(text)
    return text


def _parse_integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", trim_blanks(text)):
        raise ValueError(text)
    return int(text)


def _time(text: str) -> timedelta:
    time = datetime.fromisoformat(trim_blanks(text))
    if not time.tzinfo:
        time = time.replace(tzinfo=UTC)
    return time - datetime(1970, 1, 1, tzinfo=UTC)

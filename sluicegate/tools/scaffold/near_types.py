"""Types that nearly all values of a column have. Silver quarantines the records of the others, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from sluicegate.tools.scaffold import infer_types
from sluicegate.tools.scaffold.infer_types import (
    NOTHING,
    NUMBERS,
    TIMES,
    InferredType,
    Misfits,
    kind_of_text,
    trim_blanks,
)
from sluicegate.tools.scaffold.nearly import has_few_exceptions

MOST_MISFITS = 10
"""Most different values that may not fit: more of them are no mistakes, but another kind of value, as ``12a`` is."""

# What Spark casts to a number besides what is one here: 007, +1, .5, 1d, NaN, and a lone point to 0. It would be other
# values, and no error.
_CAST_TO_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d*)(?:e[+-]?\d+)?[df]?|nan|inf|infinity|0x[\da-f.]+p.*)", re.I)
_CAST_TO_BOOLEAN = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}
_DAY = re.compile(r"[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})([ T].*)?)?)?", re.DOTALL)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?!\d))?)?.*", re.DOTALL)


def infer_near_type(name: str, values: Sequence[Any], place: Callable[[int], str], *, commas: bool) -> InferredType:
    """Type of a column of texts: that of all its values, else that of nearly all, else text.

    Args:
        name: the column's name, which distinguishes times from numbers.
        values: its values: text, bool, list, dict or None.
        place: says where in the files the value of a number in ``values`` is.
        commas: whether a comma may stand for a decimal point.
    """
    of_all = infer_types.infer_type(name, values, commas=commas)
    if of_all.kind != "STRING" or any(isinstance(value, (list, dict)) for value in values):
        return of_all
    texts = [infer_types.as_text(value) for value in values]
    # A word for nothing with blanks around it is a misfit as any other: silver compares whole texts.
    full = {n: text for n, text in enumerate(texts) if text is not None and text not in NOTHING}
    misfits = _misfits(full, commas=commas)
    if not misfits:
        return of_all
    fitting = [None if n in misfits else value for n, value in enumerate(values)]
    nearly = infer_types.infer_type(name, fitting, commas=commas)
    if nearly.kind == "STRING" or any(is_cast(nearly, trim_blanks(text)) for text in misfits.values()):
        return of_all
    first, text = next(iter(misfits.items()))
    return replace(nearly, is_guess=True, misfits=Misfits(len(misfits), len(full), text, place(first)))


def _misfits(texts: Mapping[int, str], *, commas: bool) -> dict[int, str]:
    """Texts, by their numbers, that do not fit the first type that nearly all others fit; empty without such a type."""
    for fits in _classes(commas=commas):
        misfits = {n: text for n, text in texts.items() if not fits(trim_blanks(text))}
        if has_few_exceptions(len(misfits), len(texts)) and len(set(misfits.values())) <= MOST_MISFITS:
            return misfits
    return {}


def _classes(*, commas: bool) -> Iterator[Callable[[str], bool]]:
    """Tests of one text, each for values that can be of one type."""
    yield lambda text: kind_of_text(text) in NUMBERS
    yield lambda text: kind_of_text(text) in TIMES
    yield lambda text: kind_of_text(text) == "BOOLEAN"
    if commas:
        yield infer_types.has_decimal_comma


def is_cast(column_type: InferredType, text: str) -> bool:
    """Whether Spark may cast a text that does not fit to some value, so that silver would have another one."""
    if column_type.kind == "BOOLEAN":
        return text.lower() in _CAST_TO_BOOLEAN
    if "AS DOUBLE" in column_type.pattern or column_type.kind not in TIMES:
        if "replace(" in column_type.pattern:
            text = text.replace(",", ".")
        return _CAST_TO_NUMBER.fullmatch(text) is not None
    if "timestamp_millis" in column_type.pattern:
        return _CAST_TO_NUMBER.fullmatch(text) is not None
    return _is_cast_to_time(text, day_only=column_type.kind == "DATE")


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

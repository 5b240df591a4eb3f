"""Type inference for a column's values, and the SQL that casts their texts to that type."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sluicegate.tools.scaffold.nearly import ENOUGH

Kind = Literal["BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "TIMESTAMP", "STRING", "NESTED", "OTHER"]

NUMBERS: tuple[Kind, ...] = ("BIGINT", "DOUBLE", "DECIMAL")
TIMES: tuple[Kind, ...] = ("DATE", "TIMESTAMP")

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"-?(?:0|[1-9][0-9]*),[0-9]+")
_DATE = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-]\d\d:\d\d)?")
_OTHER_DATE = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}(?:[ T].*)?")

_BLANKS = "".join(map(chr, range(33))) + "\x7f"

# What people write for NULL. Only these words ever get into the generated SQL.
NOTHING = ("", "NA", "N/A", "n/a", "NULL", "null", "None", "-", "?")

# Digits that a DOUBLE keeps, that a BIGINT always holds, and that a DECIMAL has.
_EXACT, _LONG, _MOST = 15, 18, 38

# Epoch seconds from 1990 to 2100; milliseconds are a thousand times that.
_EPOCH = (631_152_000, 4_102_444_800)
_TIME_WORDS = {"time", "timestamp", "ts", "date", "datetime", "epoch", "at", "created", "updated", "modified"}
_TEXT_WORDS = {"phone", "mobile", "fax", "tel", "telephone", "zip", "zipcode", "postcode", "postal", "plz", "iban"}


@dataclass(frozen=True)
class Misfits:
    """Values that do not fit the type that nearly all of a column's sampled values have.

    Attributes:
        count: their number.
        among: the number of all values of the sample, those that stand for NULL left out.
        example: the first of them. It is for people who have the files, and for nothing that is written.
        place: where that one is, as ``record 7 of orders.csv``.
    """

    count: int
    among: int
    example: str
    place: str


@dataclass(frozen=True)
class InferredType:
    """Type of a column's values.

    Attributes:
        kind: the type that silver gives them.
        pattern: SQL that casts the column to it, with ``{}`` for the column.
        nothing: words among the values that stand for NULL.
        remark: what a reader should know about it (may be empty).
        is_guess: whether the values alone do not determine it.
        misfits: values of the sample that do not fit it, if there are some.
    """

    kind: Kind
    pattern: str = "{}"
    nothing: tuple[str, ...] = ()
    remark: str = ""
    is_guess: bool = False
    misfits: Misfits | None = None


def trim_blanks(text: str) -> str:
    """A text without what Spark's casts take away around it: blanks and control characters of ASCII, and no others.

    ``UTF8String.trimAll`` of Spark 4.2: a no-break space is part of the value, and ``5`` with one behind it no number.
    """
    return text.strip(_BLANKS)


def words(name: str) -> list[str]:
    """Words of a name in lower case: those of ``orderId`` and ``order_id`` are the same."""
    return [word for word in re.split(r"[\W_]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()) if word]


def kind_of_text(text: str) -> Kind:
    """Type of one text."""
    if _WHOLE.fullmatch(text):
        if len(text.lstrip("-")) <= _LONG:
            return "BIGINT"
        if len(text) <= _MOST:
            return "DECIMAL"
        return "STRING"
    if _NUMBER.fullmatch(text):
        return _kind_of_fraction(text)
    if _DATE.fullmatch(text) or _TIME.fullmatch(text):
        return _kind_of_time(text)
    if text.lower() in ("true", "false"):
        return "BOOLEAN"
    return "STRING"


def _kind_of_fraction(text: str) -> Kind:
    if _fits_double(text):
        return "DOUBLE"
    if "e" in text.lower() or len(text) > _MOST:
        return "STRING"
    return "DECIMAL"


def _fits_double(text: str) -> bool:
    """Whether a DOUBLE keeps the number: its digits are few, or are what programs write for that DOUBLE.

    Python, Java and JavaScript write the shortest digits that give the DOUBLE back, and C's ``%.17g`` writes 17.
    """
    number, double = Decimal(text), float(text)
    if not math.isfinite(double):
        return False
    if len("".join(map(str, number.as_tuple().digits)).strip("0")) <= _EXACT:
        return True
    return number in (Decimal(repr(double)), Decimal(f"{double:.17g}"))


def _kind_of_time(text: str) -> Kind:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return "STRING"
    if len(text) == 10:
        return "DATE"
    return "TIMESTAMP"


def infer_type(name: str, values: Sequence[Any], *, commas: bool) -> InferredType:
    """Type of a column of texts.

    Args:
        name: the column's name, which distinguishes times from numbers.
        values: its values: text, bool, list, dict or None.
        commas: whether a comma may stand for a decimal point.
    """
    present = [value for value in values if value is not None]
    if any(isinstance(value, (list, dict)) for value in present):
        return _nested_type(present)
    texts = [str(as_text(value)) for value in present]
    full = [trim_blanks(text) for text in texts if trim_blanks(text) not in NOTHING]
    if not full:
        return InferredType("STRING", remark="no value was seen")
    of_full = _type_of_texts(name, full, commas=commas)
    if of_full.kind == "STRING" or len(full) == len(texts):
        return of_full
    return _type_with_nulls(of_full, {text for text in texts if trim_blanks(text) in NOTHING}, len(full))


def _type_with_nulls(column_type: InferredType, nulls: set[str], values: int) -> InferredType:
    """A type with the words that stand for NULL beside so many values; text where that is unlikely."""
    if not nulls <= set(NOTHING) or (len(nulls) > 2 and values < ENOUGH):
        return InferredType("STRING", remark="numbers or times with several words for nothing among them")
    words_for_null = " or ".join(repr(word) for word in sorted(nulls))
    remark = "; ".join(filter(None, [column_type.remark, f"{words_for_null} is taken for NULL"]))
    return InferredType(column_type.kind, column_type.pattern, tuple(sorted(nulls)), remark, is_guess=True)


def _nested_type(values: Sequence[Any]) -> InferredType:
    """Type of values of which some are lists or objects."""
    if len({type(value) for value in values}) > 1:
        return InferredType("STRING", remark="values of several shapes: JSON as text")
    return InferredType("NESTED")


def as_text(value: Any) -> str | None:
    """Text that Spark reads for a value of a file."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def has_decimal_comma(text: str) -> bool:
    """Whether a text is a whole number, or one with a decimal comma."""
    return bool(_COMMA.fullmatch(text) or _WHOLE.fullmatch(text))


def is_other_date(text: str) -> bool:
    """Whether a text looks like a date that is not written as CAST reads it."""
    return _OTHER_DATE.fullmatch(text) is not None


def _type_of_texts(name: str, texts: Sequence[str], *, commas: bool) -> InferredType:
    kinds = {kind_of_text(text) for text in texts}
    if kinds <= set(NUMBERS) and not (_TEXT_WORDS & set(words(name))):
        return _number(name, texts, kinds)
    if kinds <= set(TIMES):
        return _time(texts, kinds)
    if kinds == {"BOOLEAN"}:
        return InferredType("BOOLEAN", "CAST({} AS BOOLEAN)")
    if all(map(has_decimal_comma, texts)):
        return _decimal_comma_type(texts, commas=commas)
    if all(map(is_other_date, texts)) and not kinds <= set(NUMBERS):
        return InferredType("STRING", remark="looks like a date, but not as year-month-day: CAST does not read it")
    if all(text.isdigit() for text in texts) and any(re.fullmatch(r"0[0-9]+", text) for text in texts):
        return InferredType("STRING", remark="text, as a number would lose the zeros in front")
    return InferredType("STRING")


def _time(texts: Sequence[str], kinds: set[Kind]) -> InferredType:
    if kinds == {"DATE"}:
        return InferredType("DATE", "CAST({} AS DATE)")
    zoned = all(re.search(r"(?:Z|[+-]\d\d:\d\d)$", text) for text in texts)
    return InferredType("TIMESTAMP", "CAST({} AS TIMESTAMP)", remark="" if zoned else "times are in UTC")


def _decimal_comma_type(texts: Sequence[str], *, commas: bool) -> InferredType:
    thousands = all(len(text.rpartition(",")[2]) == 3 for text in texts if "," in text)
    if thousands or not commas:
        return InferredType("STRING", remark="a comma in numbers may be a decimal point or not: text")
    return InferredType("DOUBLE", "CAST(replace({}, ',', '.') AS DOUBLE)", remark="with a decimal comma", is_guess=True)


def _number(name: str, texts: Sequence[str], kinds: set[Kind]) -> InferredType:
    if "DECIMAL" not in kinds and _TIME_WORDS & set(words(name)):
        low, high = min(map(float, texts)), max(map(float, texts))
        if _EPOCH[0] <= low and high <= _EPOCH[1]:
            pattern = "CAST(CAST({} AS DOUBLE) AS TIMESTAMP)"
            return InferredType("TIMESTAMP", pattern, remark="taken for seconds since 1970", is_guess=True)
        if kinds == {"BIGINT"} and _EPOCH[0] * 1000 <= low and high <= _EPOCH[1] * 1000:
            pattern = "timestamp_millis(CAST({} AS BIGINT))"
            return InferredType("TIMESTAMP", pattern, remark="taken for milliseconds since 1970", is_guess=True)
    if "DECIMAL" in kinds:
        return _decimal(texts)
    kind: Kind = "DOUBLE"
    if kinds == {"BIGINT"}:
        kind = "BIGINT"
    return InferredType(kind, f"CAST({{}} AS {kind})")


def _decimal(texts: Sequence[str]) -> InferredType:
    parts = [text.lstrip("-").partition(".") for text in texts]
    scale = max(len(fraction) for _, _, fraction in parts)
    if any("e" in text.lower() for text in texts) or max(len(whole) for whole, _, _ in parts) + scale > _MOST:
        return InferredType("STRING", remark="numbers with more digits than a number keeps: text")
    return InferredType("DECIMAL", f"CAST({{}} AS DECIMAL({_MOST}, {scale}))", remark="more digits than a DOUBLE keeps")

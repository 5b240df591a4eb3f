"""Fit text to a type: the value that the text denotes, or nothing if the type cannot hold all of it.

Spark's casts round, cut, shift and complete values: a third decimal place, a time of day, another zone, the month of a
bare year. Here such text has no value. A DOUBLE holds what Python and Java print of it: at most 17 significant digits,
and of integers from 2^53 on only the exact number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluicegate.schema.same_numbers import same_number

# Reader option with the text format of a type.
FORMATS = {"timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat", "date": "dateformat"}

# A time of at most this many characters has at most six fractional digits.
_SHORT = 21

# A day that is written out, alone and as the beginning of a time; Spark completes a bare year or month.
_DAY = r"^\s*[+-]?[0-9]+-[0-9]{1,2}-[0-9]{1,2}\s*$"
_BEGINS_WITH_DAY = r"^\s*[+-]?[0-9]+-[0-9]{1,2}-[0-9]{1,2}"

# Characters of a time format that stand for a zone, and the zone that the lake has.
_ZONES, _UTC = frozenset("VzOXxZ"), r"(?i)(Z|UTC|GMT|[+-]00(:?00)?)\s*$"

# A time with a zone behind it.
_WITH_ZONE = r"^\s*[+-]?[0-9]+-[0-9]+-[0-9]+[T ][0-9]++(?::[0-9]++(?::[0-9]++(?:[.][0-9]*+)?+)?+)?+\s*+\S"

# Text that stands for itself in a time format, and digits of a second that reach below a microsecond, with what is
# before them.
_QUOTED, _FRACTION = re.compile(r"'[^']*'"), re.compile(r"([A-RT-Za-z]*|.)\[?S{7,}", re.DOTALL)

# What makes a number of a text for Java alone: 7d and 5F are periods and codes, and 0x1p3 is hexadecimal. The first
# search is all that most texts need.
_JAVA_LETTERS, _OF_JAVA = "[dDfFxX]", r"[xX]|[0-9.][dDfF][\x00-\x20]*$"

# A number without an exponent, and one that is not zero.
_PLAIN, _NOT_ZERO = r"^\s*[+-]?[0-9]*[.]?[0-9]*\s*$", r"^[^eE]*[1-9]"

# A number that begins with a zero of its own, as postal codes do.
_PADDED = r"^\s*[+-]?0[0-9]"

# Digits of a fraction that a binary type gives back, and the number from which on it skips whole numbers.
_BINARY = {"float": (9, 2.0**24), "double": (17, 2.0**53)}


@dataclass(frozen=True)
class Fitted:
    """Value in its type, and what was lost.

    Attributes:
        value: the exact value; NULL if the type cannot hold it; within a nested value, only that part.
        lost: condition, never NULL, that the type cannot hold all of the value; None if it always can.
    """

    value: Expression
    lost: Expression | None


def fit_text(raw: Expression, target: T.DataType, options: Mapping[str, str]) -> Fitted:
    """Fit a text; numbers may begin with zeros.

    Args:
        raw: the text.
        target: an atomic type.
        options: reader options by lower-case name.
    """
    if isinstance(target, T.StringType):
        return Fitted(raw, None)
    value = _value(raw, target, options)
    return Fitted(value, raw.isNotNull() & value.isNull())


def fit_unpadded(raw: Expression, target: T.DataType, options: Mapping[str, str]) -> Fitted:
    """Fit a text as ``fit_text`` does, but treat 007 as text: the format has numbers of its own."""
    if not isinstance(target, T.NumericType):
        return fit_text(raw, target, options)
    # The comparison spares nearly all texts the search.
    padded = (raw < "1") & raw.rlike(_PADDED)
    value = fit_text(F.when(~padded, raw), target, options).value
    return Fitted(value, raw.isNotNull() & value.isNull())


def _value(raw: Expression, target: T.DataType, options: Mapping[str, str]) -> Expression:
    pattern, zone = options.get(FORMATS.get(target.typeName(), "")), options.get("timezone")
    if pattern is not None:
        return _parse_by_pattern(raw, target, pattern, zone)
    value = raw.try_cast(target)
    match target:
        case T.BooleanType():  # as for Spark's readers, a digit is a number
            return F.when(~F.trim(raw).isin("0", "1"), value)
        case T.DecimalType():
            return F.when(_is_ascii(raw) & ~_has_digits_behind(raw, target.scale), value)
        case T.FloatType() | T.DoubleType():
            return F.when(~_differs(raw, value, target), value)
        case T.DateType():
            return F.when(raw.rlike(_DAY) | (raw.rlike(_BEGINS_WITH_DAY) & _is_midnight(raw, value)), value)
        case T.TimestampType():  # a time of day alone would become one of today
            if zone is not None:
                value = F.when(raw.rlike(_WITH_ZONE), value).otherwise(F.to_utc_timestamp(value, zone))
            return F.when(raw.rlike(_BEGINS_WITH_DAY) & ~_has_nanoseconds(raw), value)
        case T.TimestampNTZType():  # the session's zone is UTC; another one would be dropped
            instant = raw.try_cast("timestamp").try_cast("timestamp_ntz")
            return F.when(raw.rlike(_BEGINS_WITH_DAY) & (instant == value) & ~_has_nanoseconds(raw), value)
        case T.VariantType():
            return F.try_parse_json(raw)
    return value


def _parse_by_pattern(raw: Expression, target: T.DataType, pattern: str, zone: str | None) -> Expression:
    """Parse a text by the definition's format; what the format omits is the definition's decision.

    Args:
        raw: the text.
        target: DATE, TIMESTAMP or TIMESTAMP_NTZ.
        pattern: the format.
        zone: zone of times without one; None for the lake's zone.
    """
    instant = F.try_to_timestamp(raw, F.lit(pattern))
    value = instant.try_cast(target)
    if isinstance(target, T.DateType):
        return F.when(value.try_cast("timestamp") == instant, value)
    has_zone = bool(_ZONES & set(_QUOTED.sub("", pattern)))
    if isinstance(target, T.TimestampNTZType) and has_zone:
        value = F.when(raw.rlike(_UTC), value)
    if isinstance(target, T.TimestampType) and zone is not None and not has_zone:
        value = F.to_utc_timestamp(value, zone)
    below = _below_microseconds(pattern)
    if below is None:
        return value
    return F.when(~raw.rlike(below), value)


def _below_microseconds(pattern: str) -> str | None:
    """Return a regex for texts of a time format with digits below a microsecond; None if it never has any."""
    # Of a quoted separator the text alone.
    fraction = _FRACTION.search(pattern.replace("'", ""))
    if fraction is None:
        return None
    before = fraction[1]
    if not before or before.isalpha():  # digits without a separator: two for hours, say, by HH
        return rf"(?<![0-9])[0-9]{{{len(before) + 6}}}[0-9]*[1-9]"
    return rf"{_escape_character(before)}[0-9]{{6}}[0-9]*[1-9]"


def _escape_character(character: str) -> str:
    """Return Java's regex for a character that is not a letter."""
    if character not in "[]^\\":
        return f"[{character}]"
    return f"\\{character}"


def _has_nanoseconds(raw: Expression) -> Expression:
    return (F.length(raw) > _SHORT) & raw.rlike(r"[.][0-9]{6}[0-9]*[1-9]")


def _is_midnight(raw: Expression, day: Expression) -> Expression:
    """Return whether a text is midnight of a day, in no other zone than UTC."""
    local, instant = raw.try_cast("timestamp_ntz"), raw.try_cast("timestamp").try_cast("timestamp_ntz")
    midnight = day.try_cast("timestamp_ntz")
    return (local == midnight) & (instant == midnight) & ~_has_nanoseconds(raw)


def _is_ascii(raw: Expression) -> Expression:
    """Return whether a text is ASCII only; Java also reads the digits of other scripts."""
    return F.octet_length(raw) == F.length(raw)


def _has_digits_behind(raw: Expression, scale: int) -> Expression:
    """Return whether a number has non-zero digits beyond ``scale`` decimal places."""
    written_out = raw.rlike(rf"[.][0-9]{{{scale}}}[0-9]*[1-9]")
    return F.when(raw.rlike("[eE]"), F.coalesce(_decimal_places(raw) > scale, F.lit(True))).otherwise(written_out)


def _decimal_places(raw: Expression) -> Expression:
    """Return the decimal places of a number with an exponent, without trailing zeros; NULL beyond any type."""
    exponent = F.regexp_extract(raw, "[eE]([+-]?[0-9]+)", 1).try_cast("int")
    whole = F.regexp_extract(raw, "([0-9]*)[.eE]", 1)
    fraction = F.regexp_extract(raw, "[.]([0-9]*?)0*[eE]", 1)
    zeros = F.length(F.regexp_extract(whole, "(0*)$", 1))
    places = F.when(fraction != "", F.length(fraction)).otherwise(-zeros)
    return F.when(raw.rlike(_NOT_ZERO), places - exponent).otherwise(0)


def _differs(raw: Expression, value: Expression, target: T.DataType) -> Expression:
    """Return whether a FLOAT or DOUBLE differs from a text beyond the digits that a printed one omits."""
    digits, skips = _BINARY[target.simpleString()]
    infinite = (F.abs(value) == F.lit(float("inf"))) & raw.rlike("[0-9]")
    vanished = (value == 0) & raw.rlike(_NOT_ZERO)
    longer = (F.length(raw) > digits) & raw.rlike(rf"^[^1-9eE]*[1-9](?:[.]?[0-9]){{{digits - 1}}}[0-9.]*[1-9]")
    # With two decimal places, which no binary number of that size has.
    exact = T.DecimalType(38, 2)
    number = raw.try_cast(exact)
    printed = F.coalesce(number == value.try_cast(exact), F.lit(False))
    great = (F.abs(value) >= F.lit(skips)) & ~infinite & raw.rlike(_PLAIN)
    whole = ~(printed | same_number(value, number)) | _has_digits_behind(raw, exact.scale)
    of_java = raw.rlike(_JAVA_LETTERS) & raw.rlike(_OF_JAVA)
    return of_java | infinite | vanished | F.when(great, whole).otherwise(longer)

"""Expressions for Parquet types that Spark lacks, from their stored numbers and bytes.

What each stands for: https://github.com/apache/parquet-format/blob/master/LogicalTypes.md
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

_SECOND = 1_000_000_000


def microseconds(stored: Expression) -> Expression:
    """Convert nanoseconds to a TIMESTAMP if they are whole microseconds."""
    return F.timestamp_micros(_div(stored, 1000))


def nanoseconds(stored: Expression, zone: str) -> Expression:
    """Format nanoseconds since 1970 with nine digits and a zone."""
    below = F.pmod(stored, F.lit(_SECOND))
    # Not the difference first: the least of all would be out of range.
    seconds = _div(stored, _SECOND) - F.when((stored < 0) & (below != 0), 1).otherwise(0)
    text = F.date_format(F.timestamp_seconds(seconds), "yyyy-MM-dd'T'HH:mm:ss")
    return F.concat(text, F.lit("."), _pad_digits(below, 9), F.lit(zone))


def time(stored: Expression, digits: int) -> Expression:
    """Format a time of day, such as ``23:59:59.999``.

    Args:
        stored: milliseconds, microseconds or nanoseconds. Negative values, which are not a time of day, stay numbers.
        digits: digits of the fraction of a second.
    """
    value, second = stored.cast("bigint"), 10**digits
    parts = [(3600 * second, 1 << 31), (60 * second, 60), (second, 60)]
    clock = [_pad_digits(F.pmod(_div(value, unit), F.lit(top)), 2) for unit, top in parts]
    text = F.concat(F.concat_ws(":", *clock), F.lit("."), _pad_digits(F.pmod(value, F.lit(second)), digits))
    return F.when(value < 0, value.cast("string")).otherwise(text)


def float16(stored: Expression) -> Expression:
    """Return the FLOAT of the two bytes of a number of half precision (IEEE 754), the lower first."""
    bits = _from_little_endian(stored, 0, 2)
    exponent, fraction = F.pmod(_div(bits, 1 << 10), F.lit(32)), F.pmod(bits, F.lit(1 << 10)).cast("double")
    size = (
        F.when((exponent == 31) & (fraction != 0), F.lit(float("nan")))
        .when(exponent == 31, F.lit(float("inf")))
        .when(exponent == 0, fraction * F.lit(2.0**-24))
        .otherwise((1 + fraction / 1024) * F.pow(F.lit(2.0), exponent - 15))
    )
    return F.when(bits >= 1 << 15, -size).otherwise(size).cast("float")


def uuid(stored: Expression) -> Expression:
    """Format the sixteen bytes of a UUID."""
    digits = F.lower(F.hex(stored))
    places = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    text = F.concat_ws("-", *[F.substring(digits, at, size) for at, size in places])
    return F.when(stored.isNotNull(), text)


def interval(stored: Expression) -> Expression:
    """Format months, days and milliseconds, such as ``P1M2DT3.004S``."""
    months, days, millis = (_from_little_endian(stored, at, 4) for at in (0, 4, 8))
    seconds = F.concat(_div(millis, 1000).cast("string"), F.lit("."), _pad_digits(F.pmod(millis, F.lit(1000)), 3))
    return F.concat(
        F.lit("P"), months.cast("string"), F.lit("M"), days.cast("string"), F.lit("DT"), seconds, F.lit("S")
    )


def decimal(stored: Expression, scale: int) -> Expression:
    """Format a decimal from its big-endian two's complement.

    Uses Python, as no Spark number has as many digits; so it cannot be used in functions of lists and maps.

    Args:
        stored: its bytes.
        scale: number of digits after the decimal point.
    """

    def digits(value: bytes | None) -> str | None:
        if value is None:
            return None
        number = int.from_bytes(value, "big", signed=True)
        sign, text = "-" if number < 0 else "", str(abs(number)).rjust(scale + 1, "0")
        if not scale:
            return sign + text
        return f"{sign}{text[:-scale]}.{text[-scale:]}"

    # A nested function is pickled by value, so executors need not import this module for it.
    return F.udf(digits, "string", useArrow=False)(stored)


def _from_little_endian(stored: Expression, at: int, size: int) -> Expression:
    """Convert little-endian bytes to a number."""
    digits = F.hex(stored)
    # Bytes at their places in the text, the last first.
    places = [2 * (at + offset) + 1 for offset in reversed(range(size))]
    return F.conv(F.concat(*[F.substring(digits, place, 2) for place in places]), 16, 10).cast("bigint")


def _div(number: Expression, by: int) -> Expression:
    """Divide a BIGINT, truncating towards zero."""
    return F.call_function("div", number, F.lit(by).cast("bigint"))


def _pad_digits(number: Expression, digits: int) -> Expression:
    """Format a non-negative number with at least the given number of digits."""
    text = number.cast("string")
    return F.when(F.length(text) >= digits, text).otherwise(F.lpad(text, digits, "0"))

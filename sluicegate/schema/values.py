"""Conversion of values: cast to the column's type, or rescue what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate.sql.types import UNNAMED

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

    from sluicegate.schema.evolution import Column


# Reader option with the text format of a type.
FORMATS = {"timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat", "date": "dateformat"}

# JSON times as exact as in a table; Spark's default truncates them to milliseconds.
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

# A time of at most this many characters has at most six fractional digits.
_SHORT = 21

# A whole number without an exponent, and a number that is not zero.
_WHOLE, _NOT_ZERO = r"^\s*[+-]?[0-9]+([.]0*)?\s*$", r"^[^eE]*[1-9]"

# Corrupt-record column of from_json, for texts that do not fit.
MISFIT = "_sluicegate_misfit"


@dataclass(frozen=True)
class Value:
    """A field's value as it is read, and its conversion.

    Attributes:
        column: mapping of the field to a column.
        raw: the value as it is read.
        options: reader options by lower-case name.
    """

    column: Column
    raw: Expression
    options: Mapping[str, str]

    @property
    def typed(self) -> Expression:
        """The value as the column's type; NULL if it does not fit, or if the cast would invent a value."""
        from pyspark.sql import functions as F

        match self.column.conversion:
            case "native":
                return self.raw
            case "convert":
                return self.raw.try_cast(self.column.type)
            case "reshape":
                return self._parsed(F.to_json(F.struct(self.raw.alias("v")), MICROSECONDS))["v"]
            case "json" | "exact_json":
                # Wrapped in an object, since from_json does not take every type at the top level.
                return self._parsed(self._wrapped)["v"]
        if self._pattern is not None:
            return F.try_to_timestamp(self.raw, F.lit(self._pattern)).try_cast(self.column.type)
        return self._said(self.raw.try_cast(self.column.type))

    @property
    def _pattern(self) -> str | None:
        return self.options.get(FORMATS.get(self.column.type.typeName(), ""))

    def _said(self, value: Expression) -> Expression:
        """Result of the cast, or NULL if Spark would invent a value.

        A time of day alone would become one of today, a number that is too great infinity, and a TIMESTAMP_NTZ from a
        text with another zone than UTC its local time, as if there were no zone.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.types import DoubleType, FloatType, TimestampNTZType, TimestampType

        match self.column.type:
            case TimestampType():
                return F.when(self.raw.try_cast("timestamp_ntz").isNotNull(), value)
            case TimestampNTZType():  # the session's zone is UTC
                return F.when(self.raw.try_cast("timestamp").try_cast("timestamp_ntz") == value, value)
            case FloatType() | DoubleType():
                infinite = (F.abs(value) == F.lit(float("inf"))) & self.raw.rlike("[0-9]")
                return F.when(~infinite, value)
        return value

    @property
    def shown(self) -> Expression:
        """The value as it is rescued."""
        return self.raw

    @property
    def lost(self) -> Expression | None:
        """Condition that the column loses a part of the value; None if it never does."""
        from pyspark.sql import functions as F

        there = self.raw.isNotNull()
        match self.column.conversion if self.column.name else "none":
            case "native":
                return None
            case "cast":
                return there & (self.typed.isNull() | self._truncated)
            case "exact_json":
                return there & (self.typed.isNull() | self._parsed(self._wrapped)[MISFIT].isNotNull())
            case "convert":  # a number may come out rounded, too
                return there & ~self.typed.try_cast(self.column.read).eqNullSafe(self.raw)
            case "reshape":
                before, after = (F.to_json(F.struct(v.alias("v")), MICROSECONDS) for v in (self.raw, self.typed))
                return there & ~before.eqNullSafe(after)
        return there

    @property
    def _truncated(self) -> Expression:
        """Whether the cast truncated the value: digits of a number or of a second, or the time of a day.

        Rounding of the fraction of a FLOAT or DOUBLE is accepted: it was measured. An integer that it cannot represent
        becomes another integer, perhaps somebody else's id.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.types import DateType, DecimalType, DoubleType, FloatType, TimestampNTZType, TimestampType

        match self.column.type:
            case DecimalType() as kind:
                return self._digits_behind(kind.scale)
            case TimestampType() | TimestampNTZType() if self._pattern is None or "SSSSSSS" in self._pattern:
                return (F.length(self.raw) > _SHORT) & self.raw.rlike(r"[.][0-9]{6}[0-9]*[1-9]")
            case DateType() if self._pattern is None:
                time = self.raw.try_cast("timestamp_ntz")
                return time.isNotNull() & ~time.eqNullSafe(self.typed.cast("timestamp_ntz"))
            case FloatType() | DoubleType() as kind:
                value, exactly = self.typed, 2**24 if isinstance(kind, FloatType) else 2**53
                whole = DecimalType(38, 0)
                other = ~F.coalesce(self.raw.try_cast(whole) == value.try_cast(whole), F.lit(False))
                great = (F.abs(value) >= F.lit(float(exactly))) & self.raw.rlike(_WHOLE) & other
                return great | ((value == 0) & self.raw.rlike(_NOT_ZERO))
        return F.lit(False)

    def _digits_behind(self, scale: int) -> Expression:
        """Whether a number has non-zero digits beyond ``scale`` decimal places."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import DecimalType

        finer = DecimalType(38, min(scale + 10, 38))
        written_out = ~self.raw.try_cast(finer).eqNullSafe(self.typed.try_cast(finer))
        plain = self.raw.rlike(rf"[.][0-9]{{{scale}}}[0-9]*[1-9]")
        return F.when(self.raw.rlike("[eE]"), written_out).otherwise(plain)

    @property
    def _wrapped(self) -> Expression:
        from pyspark.sql import functions as F

        return F.concat(F.lit('{"v":'), self.raw, F.lit("}"))

    def _parsed(self, text: Expression) -> Expression:
        """Parse a JSON text: field ``v`` as the column's type, and the text in ``MISFIT`` if it does not fit."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        schema = StructType([StructField("v", self.column.type), StructField(MISFIT, StringType())])
        return F.from_json(text, schema, {**MICROSECONDS, "columnNameOfCorruptRecord": MISFIT})


def rescued(values: Sequence[Value], about: Expression) -> Expression:
    """``_rescued_data``: JSON of the values that do not fit, with their file's path; NULL if all fit."""
    from pyspark.sql import functions as F

    lost = [(value, fails) for value in values if (fails := value.lost) is not None]
    if not lost:
        return F.lit(None).cast("string")
    fields = ["" if value.column.field == UNNAMED else value.column.field for value, _ in lost]
    raw_values = [F.when(fails, value.shown).alias(field) for field, (value, fails) in zip(fields, lost, strict=True)]
    any_fails = reduce(lambda a, b: a | b, [fails for _, fails in lost])
    return F.when(any_fails, F.to_json(F.struct(*raw_values, about["file_path"].alias("_file_path")), MICROSECONDS))


def from_path(name: str, about: Expression) -> Expression:
    """Hive partition value: ``name=value`` in the path of a record's file; NULL if there is none."""
    from pyspark.sql import functions as F

    # Spark gives the path as a URI, and Hive's folder names are percent-encoded once more.
    found = F.regexp_extract(about["file_path"], f"/{name}=([^/]*)/", 1)
    for _ in range(2):
        found = F.coalesce(F.try_url_decode(F.replace(found, F.lit("+"), F.lit("%2B"))), found)
    return F.when(~found.isin("", "__HIVE_DEFAULT_PARTITION__"), found)


def exact_digits(columns: Sequence[Column]) -> bool:
    """Whether the exact digits of numbers matter: not if every column is a number, a time or a boolean.

    Spark fetches the digits of each number from the start of its document, which makes reading one large multi-line
    array quadratic (20 times slower at 1 MB). A double's shortest text casts to the very same double.
    """
    from pyspark.sql.types import AtomicType, DecimalType, StringType

    kinds = [column.type if column.name else None for column in columns]
    return any(not isinstance(kind, AtomicType) or isinstance(kind, (StringType, DecimalType)) for kind in kinds)

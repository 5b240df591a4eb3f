"""What is made of each value that is read: a column's, or rescued data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate.sql.types import UNNAMED

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

    from sluicegate.schema.evolution import Column


# The reader option that says how the texts of a type look.
FORMATS = {"timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat", "date": "dateformat"}

# Times in JSON as exact as they are in a table; by default Spark cuts them to milliseconds.
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

# A time with no more letters has no more than six digits of a second.
_SHORT = 21

# A whole number without an exponent, and a number that is not zero.
_WHOLE, _NOT_ZERO = r"^\s*[+-]?[0-9]+([.]0*)?\s*$", r"^[^eE]*[1-9]"

# Where a text goes that does not fit.
MISFIT = "_sluicegate_misfit"


@dataclass(frozen=True)
class Value:
    """A field's value as it is read, and what is made of it.

    Attributes:
        column: what becomes of the field.
        raw: the value.
        options: the reader's options by their names in small letters.
    """

    column: Column
    raw: Expression
    options: Mapping[str, str]

    @property
    def typed(self) -> Expression:
        """The value as the column's type; NULL where it does not fit, or would become one that was never said."""
        from pyspark.sql import functions as F

        match self.column.conversion:
            case "native":
                return self.raw
            case "convert":
                return self.raw.try_cast(self.column.type)
            case "reshape":
                return self._parsed(F.to_json(F.struct(self.raw.alias("v")), MICROSECONDS))["v"]
            case "json" | "exact_json":
                # In an object of its own, since not every type is one that from_json takes by itself.
                return self._parsed(self._wrapped)["v"]
        if self._pattern is not None:
            return F.try_to_timestamp(self.raw, F.lit(self._pattern)).try_cast(self.column.type)
        return self._said(self.raw.try_cast(self.column.type))

    @property
    def _pattern(self) -> str | None:
        return self.options.get(FORMATS.get(self.column.type.typeName(), ""))

    def _said(self, value: Expression) -> Expression:
        """What the cast makes of the text, without what it would make up.

        A time of day alone would become one of today, a number that is too great infinity, and of a text with another
        zone than UTC a TIMESTAMP_NTZ would be its local time, as if the zone did not stand there.
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
    def lost(self) -> Expression | None:
        """When the column does not have all of the value; None if it always has."""
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
        """Whether the cast has left out a part of the value: digits of a number or of a second, or the time of a day.

        Behind its point a FLOAT or DOUBLE has as many digits as it holds: what it rounds there was measured. A whole
        number that it does not hold is another one, perhaps somebody else's.
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
        """Whether a number has digits behind so many decimal places."""
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
        """The field ``v`` of a JSON text as the column's type, and the text where it does not fit."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        schema = StructType([StructField("v", self.column.type), StructField(MISFIT, StringType())])
        return F.from_json(text, schema, {**MICROSECONDS, "columnNameOfCorruptRecord": MISFIT})


def rescued(values: Sequence[Value], about: Expression) -> Expression:
    """JSON of the values that did not fit, and of the file that they are in; NULL when all did."""
    from pyspark.sql import functions as F

    lost = [(value, fails) for value in values if (fails := value.lost) is not None]
    if not lost:
        return F.lit(None).cast("string")
    fields = ["" if value.column.field == UNNAMED else value.column.field for value, _ in lost]
    raw_values = [F.when(fails, value.raw).alias(field) for field, (value, fails) in zip(fields, lost, strict=True)]
    any_fails = reduce(lambda a, b: a | b, [fails for _, fails in lost])
    return F.when(any_fails, F.to_json(F.struct(*raw_values, about["file_path"].alias("_file_path")), MICROSECONDS))


def from_path(name: str, about: Expression) -> Expression:
    """The value of a ``name=value`` folder in the path of a record's file; NULL where there is none."""
    from pyspark.sql import functions as F

    # Spark gives the path as a URI, and Hive's way of writing folders escapes what it does not like once more.
    found = F.regexp_extract(about["file_path"], f"/{name}=([^/]*)/", 1)
    for _ in range(2):
        found = F.coalesce(F.try_url_decode(F.replace(found, F.lit("+"), F.lit("%2B"))), found)
    return F.when(~found.isin("", "__HIVE_DEFAULT_PARTITION__"), found)


def exact_digits(columns: Sequence[Column]) -> bool:
    """Whether a number's own digits matter: not where every value becomes a number, a time or a boolean anyway.

    Spark fetches the digits of each number from the start of its document, which makes the reading of one large
    multi-line array quadratic (20 times slower at 1 MB). A double's shortest text casts to the very same double.
    """
    from pyspark.sql.types import AtomicType, DecimalType, StringType

    kinds = [column.type if column.name else None for column in columns]
    return any(not isinstance(kind, AtomicType) or isinstance(kind, (StringType, DecimalType)) for kind in kinds)

"""What is made of each value that is read: a column's, or rescued data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate.data_types import UNNAMED

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

    from sluicegate.schema import Column

# The reader option that says how the texts of a type look.
FORMATS = {"timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat", "date": "dateformat"}

# Times in JSON as exact as they are in a table; by default Spark cuts them to milliseconds.
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

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
        """The value as the column's type; NULL where it does not fit."""
        from pyspark.sql import functions as F

        match self.column.way:
            case "native":
                return self.raw
            case "convert":
                return self.raw.try_cast(self.column.type)
            case "reshape":
                return self._parsed(F.to_json(F.struct(self.raw.alias("v")), MICROSECONDS))["v"]
            case "json" | "exact_json":
                # In an object of its own, since not every type is one that from_json takes by itself.
                return self._parsed(self._wrapped)["v"]
        pattern = self.options.get(FORMATS.get(self.column.type.typeName(), ""))
        if pattern is not None:
            return F.try_to_timestamp(self.raw, F.lit(pattern)).try_cast(self.column.type)
        return self.raw.try_cast(self.column.type)

    @property
    def lost(self) -> Expression | None:
        """When the column does not have all of the value; None if it always has."""
        from pyspark.sql import functions as F

        there = self.raw.isNotNull()
        match self.column.way if self.column.name else "none":
            case "native":
                return None
            case "cast":
                return there & (self.typed.isNull() | self._cut)
            case "exact_json":
                return there & (self.typed.isNull() | self._parsed(self._wrapped)[MISFIT].isNotNull())
            case "convert":  # a number may come out rounded, too
                return there & ~self.typed.try_cast(self.column.read).eqNullSafe(self.raw)
            case "reshape":
                before, after = (F.to_json(F.struct(v.alias("v")), MICROSECONDS) for v in (self.raw, self.typed))
                return there & ~before.eqNullSafe(after)
        return there

    @property
    def _cut(self) -> Expression:
        """Whether the cast has left out a part of the value: digits of a decimal, or the time of a day."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import DateType, DecimalType

        kind = self.column.type
        if isinstance(kind, DecimalType):
            finer = DecimalType(38, min(kind.scale + 10, 38))
            return ~self.raw.try_cast(finer).eqNullSafe(self.typed.cast(finer))
        if isinstance(kind, DateType) and "dateformat" not in self.options:
            time = self.raw.try_cast("timestamp_ntz")
            return time.isNotNull() & ~time.eqNullSafe(self.typed.cast("timestamp_ntz"))
        return F.lit(False)

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
    kept = [F.when(fails, value.raw).alias(field) for field, (value, fails) in zip(fields, lost, strict=True)]
    any_fails = reduce(lambda a, b: a | b, [fails for _, fails in lost])
    return F.when(any_fails, F.to_json(F.struct(*kept, about["file_path"].alias("_file_path")), MICROSECONDS))


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


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

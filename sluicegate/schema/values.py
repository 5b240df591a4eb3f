"""Convert landed values: into the column, or into the rescued data with NULL in the column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, DecimalType, StringType

from sluicegate.schema import json_values, text_values, typed_values
from sluicegate.schema.evolution import Column
from sluicegate.schema.text_values import Fitted
from sluicegate.spark_sql.engine_columns import working_column
from sluicegate.spark_sql.types import UNNAMED

# JSON times as exact as in a table; Spark's default truncates them to milliseconds.
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True)
class Value:
    """Value of a field as read, and its conversion.

    Attributes:
        column: mapping of the field to a column.
        raw: the value as read.
        options: reader options by lower-case name.
    """

    column: Column
    raw: Expression
    options: Mapping[str, str]

    @property
    def typed_value(self) -> Expression:
        """Value in the column's type; NULL, in whole or in part, where the type cannot hold it."""
        return self._fit_result.value

    @property
    def rescued_form(self) -> Expression:
        """Value in its rescued form."""
        return typed_values.to_printable(self.raw, self.column.read)

    @property
    def loss(self) -> Expression | None:
        """Condition that the column loses a part of the value; None if it never does."""
        if self.column.name is not None:
            return self._fit_result.lost
        return self.raw.isNotNull()

    @property
    def json(self) -> json_values.LandedJson:
        """A nested value's JSON text, with the type that it is to have."""
        return json_values.LandedJson(self.raw, self.column.type, self.column.shape or self.column.read, self.options)

    @cached_property
    def _fit_result(self) -> Fitted:
        column = self.column
        match column.conversion:
            case "cast":
                return text_values.fit_text(self.raw, column.type, self.options)
            case "token":
                return text_values.fit_unpadded(self.raw, column.type, self.options)
            case "json":
                return json_values.fitted_result(json_values.fit(self.json))
            case "typed":
                texts = typed_values.TypedTexts(self.options)
                return typed_values.fit_value(self.raw, column.read, column.type, texts)
        return Fitted(self.raw, None)


@dataclass(frozen=True)
class FittedValue(Value):
    """Nested JSON value whose conversion is a column of its frame, from ``json_values.fit``."""

    fit: Expression

    @cached_property
    def _fit_result(self) -> Fitted:
        return json_values.fitted_result(self.fit)


def add_json_fits(frame: DataFrame, values: Sequence[Value]) -> tuple[DataFrame, list[Value]]:
    """Convert nested values of JSON in columns of their own.

    Their conversion is long, and is asked for three times: by the column and by the rescued data twice. Spark does not
    put it in the place of a column that is used more than once.

    Args:
        frame: the records as read.
        values: the values of their fields.
    """
    texts: dict[str, json_values.LandedJson] = {}
    prepared: list[Value] = []
    for value in values:
        if value.column.name is None or value.column.conversion != "json":
            prepared.append(value)
            continue
        name = working_column(f"fit_{len(texts)}")
        texts[name] = value.json
        prepared.append(FittedValue(value.column, value.raw, value.options, F.col(name)))
    return (json_values.add_fits(frame, texts) if texts else frame), prepared


def rescued_json(values: Sequence[Value], about: Expression) -> Expression:
    """Return ``_rescued_data``: JSON of the values that do not fit, with their file's path; NULL if all fit."""
    lost = [(value, fails) for value in values if (fails := value.loss) is not None]
    if not lost:
        return F.lit(None).cast("string")
    fields = ["" if value.column.field == UNNAMED else value.column.field for value, _ in lost]
    raw_values = [F.when(fails, v.rescued_form).alias(field) for field, (v, fails) in zip(fields, lost, strict=True)]
    any_fails = reduce(lambda a, b: a | b, [fails for _, fails in lost])
    return F.when(any_fails, F.to_json(F.struct(*raw_values, about["file_path"].alias("_file_path")), MICROSECONDS))


def path_value(name: str, about: Expression) -> Expression:
    """Return the hive partition value: ``name=value`` in the path of a record's file; NULL if there is none."""
    # Spark gives the path as a URI, and Hive's folder names are percent-encoded once more.
    partition_value = F.regexp_extract(about["file_path"], f"/{name}=([^/]*)/", 1)
    for _ in range(2):
        escaped = F.replace(partition_value, F.lit("+"), F.lit("%2B"))
        partition_value = F.coalesce(F.try_url_decode(escaped), partition_value)
    return F.when(~partition_value.isin("", "__HIVE_DEFAULT_PARTITION__"), partition_value)


def exact_digits(columns: Sequence[Column]) -> bool:
    """Return whether the exact digits of numbers matter: not if every column is a number, a time or a boolean.

    Spark fetches the digits of each number from the start of its document, which makes reading one large multi-line
    array quadratic (20 times slower at 1 MB). A double's shortest text casts to the very same double.
    """
    kinds = [column.type if column.name else None for column in columns]
    return any(not isinstance(kind, AtomicType) or isinstance(kind, (StringType, DecimalType)) for kind in kinds)

"""Check types of columns: comparable values in keys and rules, and a type for each part in any table.

Both are asked of a frame's schema, so nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluicegate.errors import QueryError, Where
from sluicegate.spark_sql import types
from sluicegate.spark_sql.identifiers import quote_name

# Types that need no question.
_PLAIN = (T.BinaryType, T.BooleanType, T.DateType, T.NumericType, T.StringType, T.TimestampNTZType, T.TimestampType)

HINT = "compare its parts or its text as columns: in the query, use to_json(…) of a variant or map_entries(…) of a map"


def demand_compared(rows: DataFrame, columns: Iterable[str], subject: str, table: str, place: str) -> None:
    """Check that Spark can compare the values of columns: no maps, no variants, no value that contains them.

    Args:
        rows: the rows; a column that they lack is skipped.
        columns: names of columns, in any case.
        subject: what compares the columns, for the message.
        table: name of the table.
        place: the field or rule that names the columns.

    Raises:
        QueryError: Spark cannot compare a column.
    """
    fields = {field.name.lower(): field for field in rows.schema}
    for column in columns:
        field = fields.get(column.lower())
        if field is None or isinstance(field.dataType, _PLAIN):
            continue
        value = F.col(quote_name(field.name))
        try:
            _ = rows.select(F.greatest(value, value), F.xxhash64(value)).schema
        except AnalysisException as error:
            kind = field.dataType.simpleString()
            raise QueryError(
                f"{subject} of {table} compares {column}, which is {kind}: Spark does not compare such values",
                where=Where(table=table),
                hint=HINT,
                at=place,
            ) from error


def demand_typed(rows: DataFrame, columns: Iterable[str], table: str, place: str, file: str | None = None) -> None:
    """Check that no column has an untyped part, as of a NULL or an empty array.

    Delta omits such a part from its files, or refuses it, and readers then find other columns than the log has. A
    column that is entirely NULL is allowed: it gets its type from the first value.

    Args:
        rows: the rows.
        columns: the columns to check.
        table: name of the table.
        place: the field of the table that computes them.
        file: file of the query, if any.

    Raises:
        QueryError: a column has an untyped part.
    """
    for column in columns:
        kind = rows.schema[column].dataType
        if not isinstance(kind, T.NullType) and types.has_void(kind):
            raise QueryError(
                f"column {column} of {table} has the type {kind.simpleString()}: a NULL or an empty array or map "
                f"in it has no type",
                where=Where(table=table, file=file),
                hint="cast it, as in CAST(NULL AS STRING) or CAST(array() AS ARRAY<STRING>)",
                at=place,
            )

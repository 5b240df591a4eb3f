"""Columns that Spark compares: not maps, variants, and what has one in it. Keys and rules `unique` need such."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from sluicegate.errors import QueryError, Where
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Types that need no question.
_PLAIN = (BinaryType, BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType)

HINT = (
    "compare columns of its parts, or of its text: in the query, to_json(…) of a variant or map_entries(…) of a map is "
    "such a column"
)


def demand(rows: DataFrame, columns: Iterable[str], what: str, table: str, at: str) -> None:
    """Checks that Spark compares the values of columns, by its own word on their types. Nothing is executed.

    Args:
        rows: the rows; a column that they do not have is passed over.
        columns: names of columns, in any case.
        what: what needs it, for the message.
        table: name of the table.
        at: the field or rule that names the columns.

    Raises:
        QueryError: it does not.
    """
    there = {field.name.lower(): field for field in rows.schema}
    for column in columns:
        field = there.get(column.lower())
        if field is None or isinstance(field.dataType, _PLAIN):
            continue
        value = F.col(quoted(field.name))
        try:
            _ = rows.select(F.greatest(value, value), F.xxhash64(value)).schema
        except AnalysisException as error:
            kind = field.dataType.simpleString().upper()
            raise QueryError(
                f"{what} of {table} compares {column}, which is {kind}: Spark does not compare such values",
                where=Where(table=table),
                hint=HINT,
                at=at,
            ) from error

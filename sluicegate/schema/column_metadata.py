"""Set metadata of a frame's columns, which Delta stores with the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sluicegate.spark_sql.identifiers import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


def set_metadata(frame: DataFrame, of: Callable[[StructField], Mapping[str, Any] | None]) -> DataFrame:
    """Return the frame with other metadata of some columns.

    Args:
        frame: the frame.
        of: returns the complete new metadata of a column; None to keep it.
    """
    metadata_of_columns = list(map(of, frame.schema))
    if all(metadata is None for metadata in metadata_of_columns):
        return frame
    from pyspark.sql import functions as F

    def column(name: str, metadata: Mapping[str, Any] | None) -> Column:
        if metadata is None:
            return F.col(quote_name(name))
        return F.col(quote_name(name)).alias(name, metadata=dict(metadata))

    return frame.select(*map(column, frame.columns, metadata_of_columns))

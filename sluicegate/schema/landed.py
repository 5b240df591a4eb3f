"""Landed names of renamed columns, kept in the column's comment and metadata.

By the metadata a column belongs to one field for ever, so that another field of the same normalized name is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluicegate.lake.table_description import LANDED
from sluicegate.schema.column_metadata import set_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType


def landed_names(schema: StructType) -> dict[str, str]:
    """Return the recorded landed names by column."""
    return {field.name: str(field.metadata[LANDED]) for field in schema if LANDED in field.metadata}


def record_landed_names(frame: DataFrame, landed: Mapping[str, str]) -> DataFrame:
    """Record landed names in a frame's columns, with a comment where the name differs.

    Args:
        frame: the frame.
        landed: landed names by columns.
    """
    if not landed:
        return frame

    def metadata(column: StructField) -> dict[str, Any] | None:
        field = landed.get(column.name)
        if field is None:
            return None
        comment = {}
        if field != column.name:
            comment = {"comment": field}
        return {**comment, **column.metadata, LANDED: field}

    return set_metadata(frame, metadata)

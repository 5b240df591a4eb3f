"""Landed names of columns that are called otherwise: kept with the column, as its comment and in its metadata.

By the metadata a column belongs to one field for ever, so that another field of the same normalized name is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluicegate.lake.table_description import LANDED
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def landed_names(schema: StructType) -> dict[str, str]:
    """Landed names by columns, of those that have one on record."""
    return {field.name: str(field.metadata[LANDED]) for field in schema if LANDED in field.metadata}


def with_landed(frame: DataFrame, landed: Mapping[str, str]) -> DataFrame:
    """A frame whose columns have their landed names on record, with a comment where that is another name.

    Args:
        frame: the frame.
        landed: landed names by columns.
    """
    if not landed:
        return frame
    from pyspark.sql import functions as F

    def column(name: str, metadata: Mapping[str, Any]) -> Column:
        found, field = F.col(quoted(name)), landed.get(name)
        if field is None:
            return found
        comment = {} if field == name else {"comment": field}
        return found.alias(name, metadata={**comment, **metadata, LANDED: field})

    return frame.select(*[column(one.name, one.metadata) for one in frame.schema])

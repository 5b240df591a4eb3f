"""Type that a column is widened to where its table is rewritten, so that any type of Delta's list may follow another.

``types.wider`` is of what Delta widens by itself, as rows are added.
https://docs.delta.io/latest/delta-type-widening.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.sql.types import common, wider

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def widened(known: DataType, found: DataType) -> DataType:
    """The type that holds both where Delta can widen a column to it, else ``known``; fields of ``known`` one by one."""
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        DoubleType,
        FloatType,
        IntegralType,
        LongType,
        MapType,
        StructField,
        StructType,
    )

    match known, found:
        case StructType(), StructType():
            inner = {field.name: field.dataType for field in found}
            fields = [StructField(f.name, widened(f.dataType, inner.get(f.name, f.dataType))) for f in known]
            return StructType(fields)
        case ArrayType(), ArrayType():
            return ArrayType(widened(known.elementType, found.elementType))
        case MapType(), MapType():
            return MapType(widened(known.keyType, found.keyType), widened(known.valueType, found.valueType))
        case (LongType(), FloatType()) | (FloatType(), LongType()):
            return known
        case (IntegralType(), FloatType()) | (FloatType(), IntegralType()):
            return DoubleType()
        case ((IntegralType() | DecimalType()), _):
            both = common(known, found)
            return wider(known, found) if both is None or not isinstance(both, (DecimalType, DoubleType)) else both
    return wider(known, found)

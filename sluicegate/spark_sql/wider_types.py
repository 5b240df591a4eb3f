"""Type that a column is widened to where its table is rewritten, so that any type of Delta's list may follow another.

``types.wider`` is of what Delta widens by itself, as rows are added.
https://docs.delta.io/latest/delta-type-widening.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.spark_sql.types import common_type, wider_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def widen_type(existing: DataType, added: DataType) -> DataType:
    """Return the type for both that Delta can widen a column to, else ``existing``; fields are widened one by one."""
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

    match existing, added:
        case StructType(), StructType():
            inner = {field.name: field.dataType for field in added}
            fields = [StructField(f.name, widen_type(f.dataType, inner.get(f.name, f.dataType))) for f in existing]
            return StructType(fields)
        case ArrayType(), ArrayType():
            return ArrayType(widen_type(existing.elementType, added.elementType))
        case MapType(), MapType():
            return MapType(widen_type(existing.keyType, added.keyType), widen_type(existing.valueType, added.valueType))
        case (LongType(), FloatType()) | (FloatType(), LongType()):
            return existing
        case (IntegralType(), FloatType()) | (FloatType(), IntegralType()):
            return DoubleType()
        case ((IntegralType() | DecimalType()), _):
            both = common_type(existing, added)
            if isinstance(both, (DecimalType, DoubleType)):
                return both
    return wider_type(existing, added)

"""Parts of Spark data types: their names, and what there is among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField


def is_text(kind: DataType) -> bool:
    """Return whether it is STRING."""
    return kind.typeName() == "string"


def is_void(kind: DataType) -> bool:
    """Return whether it is Spark's type of NULL literals."""
    return kind.typeName() == "void"


def walk(kind: DataType) -> Iterator[DataType]:
    """Yield a type and the types of all of its parts, at any depth."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    parts: list[DataType] = []
    match kind:
        case StructType():
            parts = [field.dataType for field in kind]
        case ArrayType():
            parts = [kind.elementType]
        case MapType():
            parts = [kind.keyType, kind.valueType]
    yield kind
    for part in parts:
        yield from walk(part)


def _inner_fields(kind: DataType) -> list[StructField]:
    """Return the fields inside of a type, at any depth; an element or a value has no name."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            return [inner for field in kind for inner in (field, *_inner_fields(field.dataType))]
        case ArrayType():
            return [StructField("", kind.elementType), *_inner_fields(kind.elementType)]
        case MapType():
            return [StructField("", kind.valueType), *_inner_fields(kind.valueType)]
    return []


def inner_names(kind: DataType) -> list[str]:
    """Return the names of the fields inside of a type that are not text, at any depth."""
    return [field.name for field in _inner_fields(kind) if field.name and not is_text(field.dataType)]


def has_double(kind: DataType) -> bool:
    """Return whether a type is or contains DOUBLE."""
    return "double" in {kind.typeName(), *(field.dataType.typeName() for field in _inner_fields(kind))}


def has_variant(kind: DataType) -> bool:
    """Return whether a type is or contains VARIANT."""
    return "variant" in {part.typeName() for part in walk(kind)}


def has_typed_map(kind: DataType) -> bool:
    """Return whether a type is or contains a map of values that are not text."""
    from pyspark.sql.types import MapType

    return any(isinstance(part, MapType) and not is_text(part.valueType) for part in walk(kind))

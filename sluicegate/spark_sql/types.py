"""Comparison, merging, widening and mapping of Spark data types, without tables or definitions.

PySpark is imported when it is needed, as the command line may load this module without a session.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.type_parts import is_text, is_void, walk

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# Name of a nameless JSON field while it is read: another one in each process, so that nothing that lands can have it.
UNNAMED = f"_sluicegate_unnamed_{secrets.token_hex(8)}"

# Characters that Delta refuses in column names (special in Parquet), the backtick, which it does not escape when it
# replaces rows of a table with a change data feed (INVALID_ATTRIBUTE_NAME_SYNTAX: packedData.…), and NUL, with which
# Arrow reads no table.
REFUSED = frozenset(" ,;{}()\n\t=`\0")
REFUSED_IN_WORDS = "blanks or any of ,;{}()=`"


def merge(existing: DataType, added: DataType) -> DataType:
    """Merge the new fields of ``added`` into ``existing``; if types conflict, ``existing`` wins."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match existing, added:
        case ArrayType(), ArrayType():
            return ArrayType(merge(existing.elementType, added.elementType))
        case MapType(), MapType():
            return MapType(existing.keyType, merge(existing.valueType, added.valueType))
        case StructType(), StructType():
            inner = {field.name: field.dataType for field in added}
            fields = [StructField(f.name, merge(f.dataType, inner.get(f.name, f.dataType))) for f in existing]
            have = {field.name.lower() for field in existing}
            further = (field for field in added if field.name.lower() not in have)
            return StructType([*fields, *(field for field in further if has_valid_names(StructType([field])))])
    return existing


def columns_of(schema: StructType) -> list[tuple[str, str]]:
    """Return the columns of a table with their types, without nullability, for comparison."""
    return [(field.name, field.dataType.simpleString()) for field in schema]


def can_hold(target: DataType, source: DataType) -> bool:
    """Return whether every field of type ``source`` has a place when it is read as ``target``."""
    from pyspark.sql.types import AtomicType

    return _is_contained(target, source, lambda target, source: isinstance(target, AtomicType))


def can_read(target: DataType, source: DataType) -> bool:
    """Return whether Spark's JSON reader reads all values of type ``source`` as ``target``, with the result of a cast.

    A single value that it cannot read would make the whole record corrupt.
    """
    return _is_contained(target, source, _can_read_leaf)


def _can_read_leaf(target: DataType, source: DataType) -> bool:
    from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, VariantType

    if isinstance(target, (StringType, VariantType)):
        return True
    if isinstance(target, DoubleType):  # a decimal is an integer that does not fit 64 bits
        return isinstance(source, (LongType, DoubleType))
    return isinstance(target, (LongType, BooleanType)) and target == source


def _is_contained(target: DataType, source: DataType, leaf: Callable[[DataType, DataType], bool]) -> bool:
    """Return whether ``target`` has a place for all of ``source``; ``leaf`` decides where they are not nested alike."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match target, source:
        case StructType(), StructType():
            inner = {field.name: field.dataType for field in target}
            return inner.keys() >= set(source.names) and all(
                _is_contained(inner[field.name], field.dataType, leaf) for field in source
            )
        case ArrayType(), ArrayType():
            return _is_contained(target.elementType, source.elementType, leaf)
        case MapType(), StructType():
            # Spark's readers make texts of the keys, whatever type they are to have.
            return is_text(target.keyType) and all(
                _is_contained(target.valueType, field.dataType, leaf) for field in source
            )
    return leaf(target, source)


def is_small_whole(kind: DataType) -> bool:
    """Return whether it is an integer type of fewer than the 64 bits that Spark's JSON reader infers."""
    return kind.simpleString() in ("tinyint", "smallint", "int")


def _map_types(
    kind: DataType, leaf: Callable[[DataType], DataType], name: Callable[[str], str] = lambda name: name
) -> DataType:
    """Map the leaf types and field names of a type."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            return StructType([StructField(name(field.name), _map_types(field.dataType, leaf, name)) for field in kind])
        case ArrayType():
            return ArrayType(_map_types(kind.elementType, leaf, name))
        case MapType():
            return MapType(_map_types(kind.keyType, leaf, name), _map_types(kind.valueType, leaf, name))
    return leaf(kind)


def as_text(kind: DataType) -> DataType:
    """Replace all leaf types by STRING; VARIANT stays."""
    from pyspark.sql.types import StringType, VariantType

    return _map_types(kind, lambda kind: kind if isinstance(kind, VariantType) else StringType())


def drop_lengths(kind: DataType) -> DataType:
    """Replace CHAR and VARCHAR by STRING: a length is a rule, and rules are silver's."""
    from pyspark.sql.types import CharType, StringType, VarcharType

    return _map_types(kind, lambda kind: StringType() if isinstance(kind, (CharType, VarcharType)) else kind)


def as_ddl(kind: DataType) -> str:
    """Write a type as text for a cast.

    Spark Connect's client would send a type object with a collation by name.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            return f"struct<{', '.join(f'{quote_name(field.name)}: {as_ddl(field.dataType)}' for field in kind)}>"
        case ArrayType():
            return f"array<{as_ddl(kind.elementType)}>"
        case MapType():
            return f"map<{as_ddl(kind.keyType)}, {as_ddl(kind.valueType)}>"
    return kind.simpleString()


def has_void(kind: DataType) -> bool:
    """Return whether a type is or contains the type of NULL literals."""
    return any(map(is_void, walk(kind)))


def restore_empty_names(kind: DataType) -> DataType:
    """Restore the empty name of nameless fields, as in the files."""
    return _map_types(kind, lambda kind: kind, lambda name: "" if name == UNNAMED else name)


def merge_duplicate_fields(kind: DataType) -> DataType:
    """Merge duplicate fields of an inferred JSON type into one, of a type for all their values."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    if isinstance(kind, ArrayType):
        return ArrayType(merge_duplicate_fields(kind.elementType))
    if not isinstance(kind, StructType):
        return kind
    kinds: dict[str, DataType] = {}
    for field in kind:
        kinds[field.name] = _inferred_type(kinds.get(field.name, field.dataType), field.dataType)
    return StructType([StructField(name, merge_duplicate_fields(merged_type)) for name, merged_type in kinds.items()])


def _inferred_type(first: DataType, second: DataType) -> DataType:
    """Return the common type of two types, as Spark's JSON inference has it."""
    from pyspark.sql.types import ArrayType, DoubleType, NullType, NumericType, StringType, StructType

    if first == second:
        return first
    match first, second:
        case _, NullType():
            return first
        case NullType(), _:
            return second
        case ArrayType(), ArrayType():
            return ArrayType(_inferred_type(first.elementType, second.elementType))
        case StructType(), StructType():
            return merge_duplicate_fields(StructType([*first, *second]))
        case NumericType(), NumericType():
            return DoubleType()
    return StringType()


def has_valid_names(kind: DataType) -> bool:
    """Return whether Delta accepts all field names of a type."""
    from pyspark.sql.types import StructType

    return all(_are_valid(part.names) for part in walk(kind) if isinstance(part, StructType))


def _are_valid(names: Sequence[str]) -> bool:
    different = {name.lower() for name in names}
    return len(different) == len(names) and "" not in different and REFUSED.isdisjoint("".join(names))


def apply_hint(kind: DataType | None, path: tuple[str, ...], hint: DataType) -> DataType:
    """Apply a hint to a nested field of a type; a type without fields is replaced."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if not path:
        return hint
    name, *below = path
    inner = tuple(below)
    match kind, name:
        case MapType(), "key":
            return MapType(apply_hint(kind.keyType, inner, hint), kind.valueType)
        case MapType(), "value":
            return MapType(kind.keyType, apply_hint(kind.valueType, inner, hint))
        case ArrayType(), "element":
            return ArrayType(apply_hint(kind.elementType, inner, hint))
        case StructType(), _:
            fields = list(kind)
        case _, "element":
            return ArrayType(apply_hint(None, inner, hint))
        case _:
            fields = []
    for place, field in enumerate(fields):
        if field.name.lower() == name.lower():
            fields[place] = StructField(field.name, apply_hint(field.dataType, inner, hint))
            return StructType(fields)
    return StructType([*fields, StructField(name, apply_hint(None, inner, hint))])


# Types that Delta widens a column to, by the type that it has.
_WIDER = {
    "tinyint": ("smallint", "int", "bigint"), "smallint": ("int", "bigint"), "int": ("bigint",),
    "float": ("double",), "date": ("timestamp_ntz",),
}  # fmt: skip


def wider_type(existing: DataType, added: DataType) -> DataType:
    """Return the wider of two types if Delta widens a column to it by schema evolution, else ``existing``.

    https://docs.delta.io/latest/delta-type-widening.html
    """
    if added.simpleString() in _WIDER.get(existing.simpleString(), ()):
        return added
    return existing


# Digits that a decimal can have.
MOST_DIGITS = 38

# Digits of the whole numbers of a type, and those that a type of numbers with a point holds without a loss.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_EXACT = {"float": ("tinyint", "smallint"), "double": ("tinyint", "smallint", "int", "float")}


def common_type(first: DataType, second: DataType) -> DataType | None:
    """Return the type that certainly holds all values of both without loss, None if there is none."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    if first.simpleString() == second.simpleString():
        return first
    match first, second:
        case _, NullType():
            return first
        case NullType(), _:
            return second
        case StructType(), StructType():
            return _common_fields(first, second)
        case ArrayType(), ArrayType():
            element = common_type(first.elementType, second.elementType)
            if element is None:
                return None
            return ArrayType(element)
        case MapType(), MapType():
            value = common_type(first.valueType, second.valueType)
            if value is None or first.keyType.simpleString() != second.keyType.simpleString():
                return None
            return MapType(first.keyType, value)
    if wider_type(first, second) != wider_type(second, first):
        return _common_number(first, second)
    return wider_type(first, second)


def _common_fields(first: StructType, second: StructType) -> DataType | None:
    from pyspark.sql.types import StructField, StructType

    theirs = {field.name.lower(): field for field in second}
    common_fields: list[StructField] = []
    for field in first:
        kind = common_type(field.dataType, theirs.pop(field.name.lower(), field).dataType)
        if kind is None:
            return None
        common_fields.append(StructField(field.name, kind))
    return StructType([*common_fields, *theirs.values()])


def _common_number(first: DataType, second: DataType) -> DataType | None:
    """Return a type for numbers of two kinds: a decimal with room for both, or a double or float that holds both."""
    from pyspark.sql.types import DecimalType

    for kind, other in ((first, second), (second, first)):
        if other.simpleString() in _EXACT.get(kind.simpleString(), ()):
            return kind
    whole, point = 0, 0
    for kind in (first, second):
        if isinstance(kind, DecimalType):
            digits, scale = kind.precision, kind.scale
        elif kind.simpleString() in _DIGITS:
            digits, scale = _DIGITS[kind.simpleString()], 0
        else:
            return None
        whole, point = max(whole, digits - scale), max(point, scale)
    if whole + point > MOST_DIGITS:
        return None
    return DecimalType(whole + point, point)


def types_agree(actual: DataType, declared: DataType) -> bool:
    """Return whether a column's type agrees with the definition's; nested types may have additional fields."""
    parts = _common_parts(actual, declared)
    if parts is None:
        return actual == declared
    return all(types_agree(actual_part, declared_part) for _, actual_part, declared_part in parts)


@dataclass(frozen=True)
class TypeDifference:
    """First part of a value in which two types differ.

    Attributes:
        path: names of fields down to it; ``element``, ``key`` and ``value`` within arrays and maps.
        held: its type where it is stored.
        made: its type where it is made.
    """

    path: tuple[str, ...]
    held: DataType
    made: DataType

    def sentence(self, column: str) -> str:
        """Return what differs, in words."""
        name = ".".join((column, *self.path))
        stored_name, value_name = (kind.simpleString().upper() for kind in (self.held, self.made))
        return f"{name} changes from {stored_name} to {value_name}"


def differences(stored_type: DataType, value_type: DataType) -> Iterator[TypeDifference]:
    """Yield the parts in which values of a type would have to be converted to be stored in another.

    Fields are matched by name, in any order and case. A field of only one type is no difference: it is added, or NULL.
    Nor is a NULL without a type, whether a part may be NULL, or a collation.

    Args:
        stored_type: the type that is stored.
        value_type: the type of the values.
    """
    parts = _common_parts(stored_type, value_type)
    if parts is None and not _are_alike(stored_type, value_type):
        yield TypeDifference((), stored_type, value_type)
    for name, stored_part, value_part in parts or ():
        for difference in differences(stored_part, value_part):
            yield TypeDifference((name, *difference.path), difference.held, difference.made)


def _common_parts(stored_type: DataType, value_type: DataType) -> list[tuple[str, DataType, DataType]] | None:
    """Return the parts of two types nested alike, each with its name and both of its types; else None."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match stored_type, value_type:
        case StructType(), StructType():
            fields = {field.name.lower(): field.dataType for field in stored_type}
            return [(f.name, fields[f.name.lower()], f.dataType) for f in value_type if f.name.lower() in fields]
        case ArrayType(), ArrayType():
            return [("element", stored_type.elementType, value_type.elementType)]
        case MapType(), MapType():
            return [
                ("key", stored_type.keyType, value_type.keyType),
                ("value", stored_type.valueType, value_type.valueType),
            ]
    return None


def _are_alike(stored_type: DataType, value_type: DataType) -> bool:
    """Return whether a value needs no conversion: a collation or a length changes no text that is stored."""
    from pyspark.sql.types import CharType, NullType, StringType, VarcharType

    match stored_type, value_type:
        case (NullType(), _) | (_, NullType()):
            return True
        case ((CharType() | StringType() | VarcharType()), (CharType() | StringType() | VarcharType())):
            return True
    return stored_type == value_type


def has_odd_parts(kind: DataType) -> bool:
    """Return whether a type is or contains a map or a variant, which Spark does not compare."""
    from pyspark.sql.types import MapType, VariantType

    return any(isinstance(part, (MapType, VariantType)) for part in walk(kind))

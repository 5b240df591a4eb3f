"""Find columns whose landed value was rescued because it does not fit, not because its field is new.

``_rescued_data`` has both under their landed names. A field is a misfit if its column lacks the value: an atomic column
is NULL, or differs as rows of former versions may; in a nested one, a landed leaf is NULL or absent. A new field within
a nested one is rescued with the whole landed value, while all leaves that fit are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, AtomicType, BinaryType, DataType, MapType, StringType, StructType

from sluicegate.schema.evolution import Column
from sluicegate.schema.values import Value
from sluicegate.spark_sql.identifiers import literal
from sluicegate.spark_sql.types import as_ddl

# A JSON object by its names, and an array, with each value as text: a text as it is, anything else as JSON.
_MEMBERS = "MAP<STRING, STRING>"
_ELEMENTS = "ARRAY<STRING>"

# Member of every rescued data with the path of the record's file, which a field may be called, too.
_FILE_PATH = "_file_path"

# A map as ``typed_values.to_printable`` writes one whose keys no JSON object can have; keys come in their order.
_ENTRIES = "ARRAY<STRUCT<value: STRING>>"


@dataclass(frozen=True)
class StoredColumn:
    """A column of bronze.

    Attributes:
        type: its type.
        value: SQL of its value in a row.
        landed: landed name of the field.
    """

    type: DataType
    value: str
    landed: str


def misfits(columns: Mapping[str, StoredColumn], rescued: Expression, *, any_case: bool) -> Expression:
    """Array of the texts whose columns lack their landed value, in the order of the rescued fields.

    For a row without rescued data the result is NULL, and nothing else is evaluated.

    Args:
        columns: columns by the text that the array has for them.
        rescued: ``_rescued_data``.
        any_case: whether a field's name in another case is the same name; see ``readerCaseSensitive``.
    """
    members = F.map_entries(F.from_json(rescued, _MEMBERS))
    if any(column.landed.lower() == _FILE_PATH for column in columns.values()):
        paths = F.size(F.filter(members, lambda member: member["key"] == _FILE_PATH))
        members = F.filter(members, lambda member: (member["key"] != _FILE_PATH) | (paths > 1))
    of_each = F.transform(members, lambda member: _misfit(columns, member["key"], member["value"], any_case=any_case))
    return F.when(rescued.isNotNull(), F.array_distinct(F.filter(of_each, lambda text: text.isNotNull())))


def _misfit(columns: Mapping[str, StoredColumn], name: Expression, text: Expression, *, any_case: bool) -> Expression:
    """Text of the column that a rescued member belongs to and whose value does not fit; NULL if there is none."""
    by_type: dict[str, dict[str, StoredColumn]] = {}
    for of_column, column in columns.items():
        by_type.setdefault(column.type.json(), {})[of_column] = column
    # One CASE over maps of the columns of a type: expressions for each column of a wide table would take seconds.
    case = F.when(F.lit(False), F.lit(None).cast("string"))
    for columns_of_type in by_type.values():
        kind = next(iter(columns_of_type.values())).type
        landed = {column.landed: of_column for of_column, column in columns_of_type.items()}
        fields = _map(landed)
        value = F.try_element_at(_values(columns_of_type, lower=False), name)
        case = case.when(_has_field(fields, name) & _lacks(text, value, kind), F.try_element_at(fields, name))
        if any_case:
            # Beside a field of the very name the same name in another case is a field of its own, whatever its value;
            # in a record that has only the latter, it is the value that the column lacks.
            fields = _map({field.lower(): of_column for field, of_column in landed.items()})
            named = F.try_element_at(_map({field.lower(): field for field in landed}), F.lower(name)) == name
            value = F.try_element_at(_values(columns_of_type, lower=True), F.lower(name))
            lacks = _has_field(fields, F.lower(name)) & ~named & value.isNull()
            case = case.when(lacks, F.try_element_at(fields, F.lower(name)))
    return case


def _has_field(fields: Expression, name: Expression) -> Expression:
    return F.map_contains_key(fields, name)


def _map(texts: Mapping[str, str]) -> Expression:
    return F.expr(f"map({', '.join(f'{literal(key)}, {literal(text)}' for key, text in texts.items())})")


def _values(columns: Mapping[str, StoredColumn], *, lower: bool) -> Expression:
    """Map of the stored values of columns of one type, by the names of their fields."""
    values = {column.landed.lower() if lower else column.landed: column.value for column in columns.values()}
    return F.expr(f"map({', '.join(f'{literal(field)}, {value}' for field, value in values.items())})")


def _lacks(text: Expression, value: Expression, kind: DataType) -> Expression:
    """Return whether a top-level column lacks a landed value, given as text."""
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return _lacks_leaf(text, value, kind)
    return value.isNull() | _differs(text, value, kind)


def _differs(text: Expression, value: Expression, kind: DataType) -> Expression:
    """Return whether a stored value differs from the landed one, as former versions cut or rounded values."""
    if not _is_comparable(kind):
        return F.lit(False)
    landed = Value(Column("", StringType(), "value", kind, "cast"), text, {})
    if landed.loss is None:
        lost = F.lit(False)
    else:
        lost = F.coalesce(landed.loss, F.lit(False))
    return lost | ~landed.typed_value.eqNullSafe(value)


def _is_comparable(kind: DataType) -> bool:
    """Return whether a landed text can be compared with the type's value; text of bytes is an encoding."""
    return isinstance(kind, AtomicType) and kind.typeName() not in ("binary", "variant", "string")


def _lacks_leaf(text: Expression, value: Expression, kind: DataType) -> Expression:
    """Return whether a landed leaf, in JSON text, is NULL or absent in the stored value."""
    match kind:
        case StructType():
            return _lacks_member(text, value, kind)
        case ArrayType():
            inner = kind.elementType
            elements = F.from_json(text, _ELEMENTS)
            stored = F.coalesce(value, F.array().cast(as_ddl(kind)))
            pairs = F.zip_with(elements, stored, lambda item, stored_item: _lacks_leaf(item, stored_item, inner))
            return _lacks_part(text, elements, F.exists(pairs, lambda lacks: lacks))
        case MapType():
            return _lacks_map_value(text, value, kind)
    return text.isNotNull() & value.isNull()


def _lacks_member(text: Expression, value: Expression, kind: StructType) -> Expression:
    members = F.from_json(text, _MEMBERS)
    parts = [_lacks_leaf(members[field.name], value.getField(field.name), field.dataType) for field in kind]
    return _lacks_part(text, members, reduce(or_, parts, F.lit(False)))


def _lacks_map_value(text: Expression, value: Expression, kind: MapType) -> Expression:
    if not isinstance(kind.keyType, AtomicType):
        return _lacks_entry(text, value, kind)
    members = F.from_json(text, _MEMBERS)

    def lacks(member: Expression) -> Expression:
        key = member["key"]
        if isinstance(kind.keyType, BinaryType):
            key = F.try_to_binary(key, F.lit("base64"))
        return _lacks_leaf(member["value"], F.try_element_at(value, key.try_cast(kind.keyType)), kind.valueType)

    whole = value.isNull() & (F.size(members) > 0)
    return _lacks_part(text, members, whole | F.exists(F.map_entries(members), lacks))


def _lacks_entry(text: Expression, value: Expression, kind: MapType) -> Expression:
    """Return ``_lacks_map_value`` for keys that are not text in JSON."""
    entries = F.from_json(text, _ENTRIES)
    items = F.coalesce(F.map_values(value), F.array().cast(as_ddl(ArrayType(kind.valueType))))
    landed = F.transform(entries, lambda entry: entry["value"])
    pairs = F.zip_with(landed, items, lambda value, stored_value: _lacks_leaf(value, stored_value, kind.valueType))
    # An object, as former versions wrote such a map, does not say which keys it had.
    whole = text.startswith("{") | (value.isNull() & (F.size(entries) > 0))
    return _lacks_part(text, entries, whole | F.exists(pairs, lambda lacks: lacks))


def _lacks_part(text: Expression, parts: Expression, lacks: Expression) -> Expression:
    """Return ``lacks`` for a part; true if the text has another kind, false if nothing landed."""
    return (
        F.when(text.isNull(), F.lit(False)).when(parts.isNull(), F.lit(True)).otherwise(F.coalesce(lacks, F.lit(False)))
    )

"""Compare values by type, never by a text form: has a row changed, and which group does it belong to?

Spark compares most types exactly, but not MAP and VARIANT at all, doubles and collated strings loosely (0.0 and -0.0,
``a`` and ``A``), and structs only with the same fields in the same order. Here a value gets a form that Spark can
compare: equal only if the values are identical. A text form is not enough: JSON has milliseconds and no types. Nor is a
64-bit hash, which collides: Spark's is the same for ('a', NULL) and (NULL, 'a').
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from sluicegate.frames.difference.variants import canonical
from sluicegate.spark_sql import types

if TYPE_CHECKING:
    from pyspark.sql import Column

_Form = Callable[["Column"], "Column"]


def exact(value: Column, kind: DataType) -> Column:
    """Return a form of a value that Spark can compare (``<=>``), group and sort: equal only if identical.

    NULL is NULL and NaN is NaN; 0.0 is not -0.0, as a full refresh would write the one and not the other. A map's
    entries have no order, and neither have a variant's names.

    Args:
        value: the value.
        kind: its type.
    """
    return _whole(value, kind, _exact(kind))


def ordered(value: Column, kind: DataType) -> Column:
    """Return a form by which Spark sorts a value in a lasting order: ``exact``, with structs by field name.

    A struct sorts by the order of its fields, and by their names once it has a field for which ``exact`` needs that (a
    double, a map); a new field is NULL in all former values.

    Args:
        value: the value.
        kind: its type.
    """
    return _whole(value, kind, _ordered(kind))


def sorts_as_it_is(kind: DataType) -> bool:
    """Return whether ``ordered`` leaves values of a type unchanged."""
    return _ordered(kind) is _as_it_is


def together(stored: Column, stored_kind: DataType, expected: Column, expected_kind: DataType) -> tuple[Column, Column]:
    """Return stored and expected values in the form of ``exact``, though their types may differ.

    Fields of structs are matched by name; a field that only one side has is NULL in the other. Values of two types are
    compared in a type that holds all values of both; if there is none, only NULL equals NULL. They are never cast to
    the stored type: 12.50 is not the 12 that an INT has.

    Args:
        stored: the stored value.
        stored_kind: its type.
        expected: the expected value.
        expected_kind: that one's type.
    """
    if _alike(stored_kind, expected_kind):
        return exact(stored, stored_kind), exact(expected, stored_kind)
    stored_form, expected_form = _both(stored_kind, expected_kind)
    stored = _whole(stored, stored_kind, stored_form)
    expected = _whole(expected, expected_kind, expected_form)
    if has_variants(stored_kind) == has_variants(expected_kind):
        return stored, expected
    if has_variants(stored_kind):
        return stored, _with_none(expected)
    return _with_none(stored), expected


def grouped(value: Column, kind: DataType) -> Column:
    """Return a form of a value that Spark can compare and join by, equal where GROUP BY finds one group.

    That is Spark's own equality (0.0 is -0.0, also in a map, and a collation counts), with a map by its entries,
    whatever their order. For joins and MERGE by a key, with ``eqNullSafe``, and for whether records of a history agree.

    Args:
        value: the value.
        kind: its type; a VARIANT, by which nothing can be grouped, is compared by ``exact``.
    """
    return _whole(value, kind, _grouped(kind))


def is_plain(kind: DataType) -> bool:
    """Return whether ``grouped`` leaves values of a type unchanged."""
    return not _has(kind, lambda leaf: isinstance(leaf, VariantType), maps=True)


def is_loose(kind: DataType) -> bool:
    """Return whether values of a type can differ although they are equal as keys."""
    return _has(kind, _is_loose)


def has_variants(kind: DataType) -> bool:
    """Return whether a type is, or contains, a VARIANT."""
    return _has(kind, lambda leaf: isinstance(leaf, VariantType))


def _has_structs(kind: DataType) -> TypeGuard[ArrayType | MapType | StructType]:
    match kind:
        case ArrayType():
            return _has_structs(kind.elementType)
        case MapType():
            return _has_structs(kind.keyType) or _has_structs(kind.valueType)
    return isinstance(kind, StructType)


def _has(kind: DataType, leaf: Callable[[DataType], bool], *, maps: bool = False) -> bool:
    match kind:
        case StructType():
            return any(_has(field.dataType, leaf, maps=maps) for field in kind)
        case ArrayType():
            return _has(kind.elementType, leaf, maps=maps)
        case MapType():
            return maps or _has(kind.keyType, leaf) or _has(kind.valueType, leaf)
    return leaf(kind)


def _is_loose(kind: DataType) -> bool:
    return isinstance(kind, (FloatType, DoubleType)) or _is_collated(kind)


def _is_collated(kind: DataType) -> bool:
    return isinstance(kind, StringType) and kind.collation != "UTF8_BINARY"


# --- one type ---------------------------------------------------------------------------------------------------------


def _exact(kind: DataType) -> _Form:
    if not _has(kind, lambda leaf: _is_loose(leaf) or isinstance(leaf, VariantType), maps=True):
        return _as_it_is
    match kind:
        case ArrayType(elementType=FloatType() | DoubleType()):
            zero = F.lit(0).cast(kind.elementType)
            return lambda values: _with(values, F.when(F.array_contains(values, zero), F.transform(values, _minus)))
        case ArrayType() | MapType() | StructType():
            return _nested(kind, _exact)
        case FloatType() | DoubleType():
            return lambda value: _with(value, _minus(value))
        case StringType():
            return lambda value: F.collate(value, "UTF8_BINARY")
    return _is_there


def _ordered(kind: DataType) -> _Form:
    if _has_structs(kind):
        return _nested(kind, _ordered)
    return _exact(kind)


def _grouped(kind: DataType) -> _Form:
    if is_plain(kind):
        return _as_it_is
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return _nested(kind, _grouped)
    return _is_there


def _nested(kind: ArrayType | MapType | StructType, form: Callable[[DataType], _Form]) -> _Form:
    """Return the form of a nested value, from the forms of its parts."""
    if isinstance(kind, ArrayType):
        return _each(form(kind.elementType))
    if isinstance(kind, MapType):
        return _entries(form(kind.keyType), form(kind.valueType))
    return _fields([(field.name, form(field.dataType)) for field in _in_order(kind)])


def _as_it_is(value: Column) -> Column:
    return value


def _is_there(value: Column) -> Column:
    """Return a placeholder of a variant, which keeps only NULL; the value is compared apart (see ``_whole``)."""
    return value.isNotNull()


def _with(value: Column, more: Column) -> Column:
    return F.struct(value.alias("value"), more.alias("more"))


def _minus(value: Column) -> Column:
    """Return whether a zero is -0.0, which Spark takes for 0.0; NULL for any other number."""
    return F.when(value == 0, F.startswith(value.cast("string"), F.lit("-")))


def _each(form: _Form) -> _Form:
    return lambda values: F.transform(values, lambda item: form(item))


def _entries(key: _Form, value: _Form) -> _Form:
    def entry(pair: Column) -> Column:
        return F.struct(key(pair.getField("key")).alias("key"), value(pair.getField("value")).alias("value"))

    return lambda entries: F.sort_array(F.transform(F.map_entries(entries), entry))


def _fields(forms: list[tuple[str | None, _Form]]) -> _Form:
    """Return the form of a struct from its fields; the form of a missing field gets NULL."""

    def field_of(value: Column, name: str | None) -> Column:
        if name is None:
            return F.lit(None)
        return value.getField(name)

    def struct(value: Column) -> Column:
        fields = [form(field_of(value, name)).alias(f"f{number}") for number, (name, form) in enumerate(forms)]
        return F.when(value.isNotNull(), F.struct(*fields, F.lit(0)))

    return struct


def _in_order(kind: StructType) -> list[StructField]:
    return sorted(kind, key=lambda field: (field.name.lower(), field.name))


# --- two types --------------------------------------------------------------------------------------------------------


def _alike(kind: DataType, other: DataType) -> bool:
    """Return whether types are equal except for nullability."""
    return kind.simpleString() == other.simpleString()


def _both(stored: DataType, expected: DataType) -> tuple[_Form, _Form]:
    """Return the forms, of one type, in which values of two types are compared."""
    if _alike(stored, expected):
        return _exact(stored), _exact(stored)
    match stored, expected:
        case StructType(), StructType():
            return _both_structs(stored, expected)
        case ArrayType(), ArrayType():
            stored_form, expected_form = _both(stored.elementType, expected.elementType)
            return _each(stored_form), _each(expected_form)
        case MapType(), MapType():
            keys = _both(stored.keyType, expected.keyType)
            values = _both(stored.valueType, expected.valueType)
            return _entries(keys[0], values[0]), _entries(keys[1], values[1])
    nested = (ArrayType, MapType, StructType, VariantType)
    if isinstance(stored, nested) or isinstance(expected, nested):  # only NULL can be the same
        return _if_present(1), _if_present(2)
    wide = types.common(stored, expected)
    if wide is None:
        return _if_present(1), _if_present(2)
    form, kind = _exact(wide), types.as_ddl(wide)
    return lambda value: form(value.cast(kind)), lambda value: form(value.cast(kind))


def _if_present(number: int) -> _Form:
    """Return a form that never equals a value of another number; NULL equals NULL."""
    return lambda value: F.when(value.isNotNull(), number)


def _both_structs(stored: StructType, expected: StructType) -> tuple[_Form, _Form]:
    stored_fields, expected_fields = ({field.name.lower(): field for field in kind} for kind in (stored, expected))
    stored_forms: list[tuple[str | None, _Form]] = []
    expected_forms: list[tuple[str | None, _Form]] = []
    for name in sorted({*stored_fields, *expected_fields}):
        field, other = stored_fields.get(name), expected_fields.get(name)
        if field and other:
            forms = _both(field.dataType, other.dataType)
            stored_forms.append((field.name, forms[0]))
            expected_forms.append((other.name, forms[1]))
        elif field:
            stored_forms.append((field.name, _exact(field.dataType)))
            expected_forms.append((None, _absent(field.dataType)))
        elif other:
            stored_forms.append((None, _absent(other.dataType)))
            expected_forms.append((other.name, _exact(other.dataType)))
    return _fields(stored_forms), _fields(expected_forms)


def _absent(kind: DataType) -> _Form:
    """Return the form of an absent field."""
    form = _exact(kind)
    return lambda _: form(F.lit(None).cast(kind))


# --- variants ---------------------------------------------------------------------------------------------------------


def _whole(value: Column, kind: DataType, form: _Form) -> Column:
    """Return the form of a value with its variants apart: no UDF can be called for parts of a value."""
    if not has_variants(kind):
        return form(value)
    return F.struct(form(value).alias("form"), canonical(_variants(value, kind)).alias("variants"))


def _with_none(form: Column) -> Column:
    return F.struct(form.alias("form"), F.array().cast("array<binary>").alias("variants"))


def _variants(value: Column, kind: DataType) -> Column:
    """Return all variants in a value, in an order that does not depend on that of a map or of fields."""
    nothing = F.array().cast("array<variant>")
    match kind:
        case VariantType():
            return F.array(value)
        case ArrayType() if has_variants(kind):
            variants = F.flatten(F.transform(value, lambda item: _variants(item, kind.elementType)))
        case MapType() if has_variants(kind):
            keys = F.sort_array(F.map_keys(value))
            variants = F.flatten(F.transform(keys, lambda key: _variants(value[key], kind.valueType)))
        case StructType() if has_variants(kind):
            fields = [field for field in _in_order(kind) if has_variants(field.dataType)]
            variants = F.concat(*[_variants(value.getField(field.name), field.dataType) for field in fields])
        case _:
            return nothing
    return F.coalesce(variants, nothing)

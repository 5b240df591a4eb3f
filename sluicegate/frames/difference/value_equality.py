"""Compare values by type, never by a text form: has a row changed, and which group does it belong to?

Spark compares most types exactly, but not MAP and VARIANT at all, doubles and collated strings loosely (0.0 and -0.0,
``a`` and ``A``), and structs only with the same fields in the same order. Here a value gets a form that Spark can
compare: equal only if the values are identical. A text form is not enough: JSON has milliseconds and no types. Nor is a
64-bit hash, which collides: Spark's is the same for ('a', NULL) and (NULL, 'a').
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluicegate.frames.difference.variants import canonical_bytes
from sluicegate.spark_sql import types
from sluicegate.spark_sql.type_parts import has_variant, walk

_Form = Callable[["Column"], "Column"]


def exact_form(value: Column, kind: T.DataType) -> Column:
    """Return a form of a value that Spark can compare (``<=>``), group and sort: equal only if identical.

    NULL is NULL and NaN is NaN; 0.0 is not -0.0, as a full refresh would write the one and not the other. A map's
    entries have no order, and neither have a variant's names.

    Args:
        value: the value.
        kind: its type.
    """
    return _apply_form(value, kind, _exact_form(kind))


def sortable_form(value: Column, kind: T.DataType) -> Column:
    """Return a form by which Spark sorts a value in a lasting order: ``exact_form``, with structs by field name.

    A struct sorts by the order of its fields, and by their names once it has a field (a double, a map) for which
    ``exact_form`` needs that; a new field is NULL in all former values.

    Args:
        value: the value.
        kind: its type.
    """
    return _apply_form(value, kind, _sortable_form(kind))


def is_sortable(kind: T.DataType) -> bool:
    """Return whether ``sortable_form`` leaves values of a type unchanged."""
    return _sortable_form(kind) is _identity_form


def comparable_forms(
    stored: Column, stored_kind: T.DataType, expected: Column, expected_kind: T.DataType
) -> tuple[Column, Column]:
    """Return stored and expected values in the form of ``exact_form``, though their types may differ.

    Fields of structs are matched by name; a field that only one side has is NULL in the other. Values of two types are
    compared in a type that holds all values of both; if there is none, only NULL equals NULL. They are never cast to
    the stored type: 12.50 is not the 12 that an INT has.

    Args:
        stored: the stored value.
        stored_kind: its type.
        expected: the expected value.
        expected_kind: that one's type.
    """
    if _are_same_types(stored_kind, expected_kind):
        return exact_form(stored, stored_kind), exact_form(expected, stored_kind)
    stored_form, expected_form = _common_forms(stored_kind, expected_kind)
    stored = _apply_form(stored, stored_kind, stored_form)
    expected = _apply_form(expected, expected_kind, expected_form)
    if has_variant(stored_kind) == has_variant(expected_kind):
        return stored, expected
    if has_variant(stored_kind):
        return stored, _add_no_variants(expected)
    return _add_no_variants(stored), expected


def group_form(value: Column, kind: T.DataType) -> Column:
    """Return a form of a value that Spark can compare and join by, equal where GROUP BY finds one group.

    That is Spark's own equality (0.0 is -0.0, also in a map, and a collation counts), with a map by its entries,
    whatever their order. For joins and MERGE by a key, with ``eqNullSafe``, and for whether records of a history agree.

    Args:
        value: the value.
        kind: its type; a VARIANT, by which nothing can be grouped, is compared by ``exact_form``.
    """
    return _apply_form(value, kind, _group_form(kind))


def is_plain(kind: T.DataType) -> bool:
    """Return whether ``group_form`` leaves values of a type unchanged."""
    return not types.has_odd_parts(kind)


def is_loose(kind: T.DataType) -> bool:
    """Return whether values of a type can differ although they are equal as keys."""
    return any(map(_is_loose, walk(kind)))


def _has_structs(kind: T.DataType) -> TypeGuard[T.ArrayType | T.MapType | T.StructType]:
    return any(isinstance(part, T.StructType) for part in walk(kind))


def _is_loose(kind: T.DataType) -> bool:
    if isinstance(kind, T.StringType):
        return kind.collation != "UTF8_BINARY"
    return isinstance(kind, (T.FloatType, T.DoubleType))


# --- one type ---------------------------------------------------------------------------------------------------------


def _exact_form(kind: T.DataType) -> _Form:
    if is_plain(kind) and not is_loose(kind):
        return _identity_form
    match kind:
        case T.ArrayType(elementType=T.FloatType() | T.DoubleType()):
            zero = F.lit(0).cast(kind.elementType)
            return lambda values: _pair(
                values, F.when(F.array_contains(values, zero), F.transform(values, _is_negative_zero))
            )
        case T.ArrayType() | T.MapType() | T.StructType():
            return _nested_form(kind, _exact_form)
        case T.FloatType() | T.DoubleType():
            return lambda value: _pair(value, _is_negative_zero(value))
        case T.StringType():
            return lambda value: F.collate(value, "UTF8_BINARY")
    return _presence_form


def _sortable_form(kind: T.DataType) -> _Form:
    if _has_structs(kind):
        return _nested_form(kind, _sortable_form)
    return _exact_form(kind)


def _group_form(kind: T.DataType) -> _Form:
    if is_plain(kind):
        return _identity_form
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        return _nested_form(kind, _group_form)
    return _presence_form


def _nested_form(kind: T.ArrayType | T.MapType | T.StructType, form: Callable[[T.DataType], _Form]) -> _Form:
    """Return the form of a nested value, from the forms of its parts."""
    if isinstance(kind, T.ArrayType):
        return _array_form(form(kind.elementType))
    if isinstance(kind, T.MapType):
        return _map_form(form(kind.keyType), form(kind.valueType))
    return _struct_form([(field.name, form(field.dataType)) for field in _sorted_fields(kind)])


def _identity_form(value: Column) -> Column:
    return value


def _presence_form(value: Column) -> Column:
    """Return a placeholder of a variant, which keeps only NULL; the value is compared apart (see ``_apply_form``)."""
    return value.isNotNull()


def _pair(value: Column, more: Column) -> Column:
    return F.struct(value.alias("value"), more.alias("more"))


def _is_negative_zero(value: Column) -> Column:
    """Return whether a zero is -0.0, which Spark takes for 0.0; NULL for any other number."""
    return F.when(value == 0, F.startswith(value.cast("string"), F.lit("-")))


def _array_form(form: _Form) -> _Form:
    return lambda values: F.transform(values, lambda item: form(item))


def _map_form(key: _Form, value: _Form) -> _Form:
    def entry(pair: Column) -> Column:
        return F.struct(key(pair.getField("key")).alias("key"), value(pair.getField("value")).alias("value"))

    return lambda entries: F.sort_array(F.transform(F.map_entries(entries), entry))


def _struct_form(forms: list[tuple[str | None, _Form]]) -> _Form:
    """Return the form of a struct from its fields; the form of a missing field gets NULL."""

    def field_of(value: Column, name: str | None) -> Column:
        if name is None:
            return F.lit(None)
        return value.getField(name)

    def struct(value: Column) -> Column:
        fields = [form(field_of(value, name)).alias(f"f{number}") for number, (name, form) in enumerate(forms)]
        return F.when(value.isNotNull(), F.struct(*fields, F.lit(0)))

    return struct


def _sorted_fields(kind: T.StructType) -> list[T.StructField]:
    return sorted(kind, key=lambda field: (field.name.lower(), field.name))


# --- two types --------------------------------------------------------------------------------------------------------


def _are_same_types(kind: T.DataType, other: T.DataType) -> bool:
    """Return whether types are equal except for nullability."""
    return kind.simpleString() == other.simpleString()


def _common_forms(stored: T.DataType, expected: T.DataType) -> tuple[_Form, _Form]:
    """Return the forms, of one type, in which values of two types are compared."""
    if _are_same_types(stored, expected):
        return _exact_form(stored), _exact_form(stored)
    match stored, expected:
        case T.StructType(), T.StructType():
            return _common_struct_forms(stored, expected)
        case T.ArrayType(), T.ArrayType():
            stored_form, expected_form = _common_forms(stored.elementType, expected.elementType)
            return _array_form(stored_form), _array_form(expected_form)
        case T.MapType(), T.MapType():
            keys = _common_forms(stored.keyType, expected.keyType)
            values = _common_forms(stored.valueType, expected.valueType)
            return _map_form(keys[0], values[0]), _map_form(keys[1], values[1])
    nested = (T.ArrayType, T.MapType, T.StructType, T.VariantType)
    if isinstance(stored, nested) or isinstance(expected, nested):  # only NULL can be the same
        return _unequal_form(1), _unequal_form(2)
    wide = types.common_type(stored, expected)
    if wide is None:
        return _unequal_form(1), _unequal_form(2)
    form, kind = _exact_form(wide), types.as_ddl(wide)
    return lambda value: form(value.cast(kind)), lambda value: form(value.cast(kind))


def _unequal_form(number: int) -> _Form:
    """Return a form that never equals a value of another number; NULL equals NULL."""
    return lambda value: F.when(value.isNotNull(), number)


def _common_struct_forms(stored: T.StructType, expected: T.StructType) -> tuple[_Form, _Form]:
    stored_fields, expected_fields = ({field.name.lower(): field for field in kind} for kind in (stored, expected))
    stored_forms: list[tuple[str | None, _Form]] = []
    expected_forms: list[tuple[str | None, _Form]] = []
    for name in sorted({*stored_fields, *expected_fields}):
        field, other = stored_fields.get(name), expected_fields.get(name)
        if field and other:
            forms = _common_forms(field.dataType, other.dataType)
            stored_forms.append((field.name, forms[0]))
            expected_forms.append((other.name, forms[1]))
        elif field:
            stored_forms.append((field.name, _exact_form(field.dataType)))
            expected_forms.append((None, _absent_form(field.dataType)))
        elif other:
            stored_forms.append((None, _absent_form(other.dataType)))
            expected_forms.append((other.name, _exact_form(other.dataType)))
    return _struct_form(stored_forms), _struct_form(expected_forms)


def _absent_form(kind: T.DataType) -> _Form:
    """Return the form of an absent field."""
    form = _exact_form(kind)
    return lambda _: form(F.lit(None).cast(kind))


# --- variants ---------------------------------------------------------------------------------------------------------


def _apply_form(value: Column, kind: T.DataType, form: _Form) -> Column:
    """Return the form of a value with its variants apart: no UDF can be called for parts of a value."""
    if not has_variant(kind):
        return form(value)
    return F.struct(form(value).alias("form"), canonical_bytes(_variants(value, kind)).alias("variants"))


def _add_no_variants(form: Column) -> Column:
    return F.struct(form.alias("form"), F.array().cast("array<binary>").alias("variants"))


def _variants(value: Column, kind: T.DataType) -> Column:
    """Return all variants in a value, in an order that does not depend on that of a map or of fields."""
    nothing = F.array().cast("array<variant>")
    if not has_variant(kind):
        return nothing
    match kind:
        case T.ArrayType():
            variants = F.flatten(F.transform(value, lambda item: _variants(item, kind.elementType)))
        case T.MapType():
            keys = F.sort_array(F.map_keys(value))
            variants = F.flatten(F.transform(keys, lambda key: _variants(value[key], kind.valueType)))
        case T.StructType():
            fields = [field for field in _sorted_fields(kind) if has_variant(field.dataType)]
            variants = F.concat(*[_variants(value.getField(field.name), field.dataType) for field in fields])
        case _:
            return F.array(value)
    return F.coalesce(variants, nothing)

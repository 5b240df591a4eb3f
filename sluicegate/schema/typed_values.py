"""Fit a typed value to another type: the one comparison of landed values with those in tables.

A value fits if the other type can return it: integers and decimals digit by digit, a DOUBLE as a decimal by its printed
digits, times in UTC. Numbers, booleans and times are of different kinds, and are not converted to each other. Structs
are compared field by field, by name; of a nested value, the parts that fit are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluicegate.schema import text_values
from sluicegate.schema.same_numbers import same_number
from sluicegate.schema.text_values import Fitted
from sluicegate.spark_sql.types import common_type

# Fits a text to a type that is no STRING.
OfText = Callable[["Expression", T.DataType], Fitted]

# Bits of the whole numbers of a type, without that of the sign.
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


@dataclass(frozen=True)
class TypedTexts:
    """Conversion of text among typed values: none becomes a struct, array or map, whatever it looks like.

    Attributes:
        options: reader options by lower-case name.
    """

    options: Mapping[str, str]

    def __call__(self, raw: Expression, target: T.DataType) -> Fitted:
        if not isinstance(target, T.AtomicType):
            return fit_nothing(raw, target)
        return text_values.fit_unpadded(raw, target, self.options)


# Texts as they are among typed values of formats that have no options of times.
_PLAIN_TEXTS = TypedTexts({})


def fit_value(raw: Expression, source: T.DataType, target: T.DataType, of_text: OfText = _PLAIN_TEXTS) -> Fitted:
    """Fit a value of one type to another.

    Args:
        raw: the value.
        source: its type.
        target: the target type.
        of_text: conversion of a text, also within a nested value.
    """
    if isinstance(of_text, TypedTexts) and source.simpleString() == target.simpleString():
        return Fitted(raw, None)
    if isinstance(source, T.NullType):
        return Fitted(_null(target), None)
    if isinstance(source, T.StringType):
        return of_text(raw, target)
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        return _struct(raw, source, target, of_text)
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return _array(raw, source, target, of_text)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        return _map(raw, source, target, of_text)
    variants = T.VariantType in (type(source), type(target))
    if variants or not (isinstance(source, T.AtomicType) and isinstance(target, T.AtomicType)):
        return _variant(raw, source, target)
    return _atomic(raw, source, target)


def fit_nothing(raw: Expression, target: T.DataType) -> Fitted:
    """Return the result for a value of another kind: nothing fits."""
    return Fitted(_null(target), raw.isNotNull())


def _null(target: T.DataType) -> Expression:
    return F.lit(None).cast(target)


def _atomic(raw: Expression, source: T.DataType, target: T.DataType) -> Fitted:
    times = ("date", "timestamp", "timestamp_ntz")
    numbers = isinstance(source, T.NumericType) and isinstance(target, T.NumericType)
    if not (numbers or isinstance(target, T.StringType) or {source.typeName(), target.typeName()} <= {*times}):
        return fit_nothing(raw, target)
    value = raw.try_cast(target)
    if numbers:
        return _number(raw, value, source, target)
    if isinstance(source, T.BooleanType) or (isinstance(source, T.DateType) and isinstance(target, T.TimestampNTZType)):
        return Fitted(value, None)
    fits = value.try_cast(source).eqNullSafe(raw)
    if isinstance(source, T.BinaryType):
        fits &= F.coalesce(F.is_valid_utf8(value), F.lit(True))
    return Fitted(F.when(fits, value), ~fits)


def _number(raw: Expression, value: Expression, source: T.DataType, target: T.DataType) -> Fitted:
    """Fit a number; a cast saturates at the bounds of a type, and a cast back may hide it."""
    if common_type(target, source) == target:
        return Fitted(value, None)
    if isinstance(source, T.DecimalType) and _is_binary(target):
        fits = raw.isNull() | same_number(value, raw)
        return Fitted(F.when(fits, value), ~fits)
    fits = value.try_cast(source).eqNullSafe(raw)
    if _is_binary(target) and source.simpleString() in _BITS:
        fits &= F.coalesce(value < F.lit(2.0 ** _BITS[source.simpleString()]), F.lit(True))
    elif _is_binary(source) and target.simpleString() in _BITS:
        fits &= F.coalesce(raw.cast("double") < F.lit(2.0 ** _BITS[target.simpleString()]), F.lit(True))
    return Fitted(F.when(fits, value), ~fits)


def _is_binary(kind: T.DataType) -> bool:
    return kind.simpleString() in ("float", "double")


def _variant(raw: Expression, source: T.DataType, target: T.DataType) -> Fitted:
    """Fit any value to a VARIANT; no value of another kind fits one, and no VARIANT another type."""
    if not isinstance(target, T.VariantType):
        return fit_nothing(raw, target)
    if isinstance(source, T.AtomicType):
        value = raw.try_cast(target)
        return Fitted(value, raw.isNotNull() & value.isNull())
    return Fitted(F.to_variant_object(raw), None)


def _struct(raw: Expression, source: T.StructType, target: T.StructType, of_text: OfText) -> Fitted:
    landed = {field.name: field.dataType for field in source}
    values, losses = [], []
    for field in target:
        kind = landed.pop(field.name, None)
        if kind is None:
            values.append(_null(field.dataType).alias(field.name))
            continue
        part = fit_value(raw.getField(field.name), kind, field.dataType, of_text)
        values.append(part.value.alias(field.name))
        losses.append(part.lost)
    losses += [raw.getField(name).isNotNull() for name in landed]
    return Fitted(F.when(raw.isNotNull(), F.struct(*values)), any_of(losses))


def _array(raw: Expression, source: T.ArrayType, target: T.ArrayType, of_text: OfText) -> Fitted:
    def element(raw_element: Expression) -> Fitted:
        return fit_value(raw_element, source.elementType, target.elementType, of_text)

    value = F.transform(raw, lambda raw_element: element(raw_element).value)
    return Fitted(value, _exists(raw, element))


def _map(raw: Expression, source: T.MapType, target: T.MapType, of_text: OfText) -> Fitted:
    """Fit a map; it is lost as a whole if a key does not fit, as it cannot be NULL, or if two keys become equal."""

    def key(raw_key: Expression) -> Fitted:
        return fit_value(raw_key, source.keyType, target.keyType, of_text)

    def item(raw_value: Expression) -> Fitted:
        return fit_value(raw_value, source.valueType, target.valueType, of_text)

    value = F.transform_values(raw, lambda _, raw_value: item(raw_value).value)
    lost_keys, lost = _exists(F.map_keys(raw), key), _exists(F.map_values(raw), item)
    if source.keyType.simpleString() != target.keyType.simpleString():
        value = F.transform_keys(value, lambda raw_key, _: key(raw_key).value)
    if isinstance(source.keyType, T.StringType) and not isinstance(target.keyType, T.StringType):
        lost_keys = any_of([lost_keys, _has_equal_keys(F.transform(F.map_keys(raw), lambda k: key(k).value))])
    if lost_keys is not None:
        value = F.when(~lost_keys, value)
    return Fitted(value, any_of([lost_keys, lost]))


def _has_equal_keys(keys: Expression) -> Expression:
    """Return whether text keys of a map become equal, as ``1.0`` and ``1.00``; Spark refuses such a map."""
    return F.coalesce(F.size(F.array_distinct(keys)) < F.size(keys), F.lit(False))


def _exists(parts: Expression, fit: Callable[[Expression], Fitted]) -> Expression | None:
    """Return the condition that a part of an array does not fit; None if all parts always do."""
    losses: list[Expression | None] = []

    def is_lost(part: Expression) -> Expression:
        lost = fit(part).lost
        losses.append(lost)
        if lost is None:
            return F.lit(False)
        return lost

    # The function is called at once, and just once: a type of many levels would be gone through again at each.
    condition = F.coalesce(F.exists(parts, is_lost), F.lit(False))
    if losses[-1] is None:
        return None
    return condition


def any_of(losses: list[Expression | None]) -> Expression | None:
    """Return the condition that any of some parts is lost; None if none can be."""
    possible_losses = [lost for lost in losses if lost is not None]
    if possible_losses:
        return reduce(lambda a, b: a | b, possible_losses)
    return None


def to_printable(value: Expression, kind: T.DataType) -> Expression:
    """Return a value in a form that JSON can represent completely.

    In Spark's JSON, a map key is what Java prints of it: the number of a day, and for an array or bytes an address.
    Here days and times are text, bytes are Base64, and a map with structs or arrays as keys is a list of its entries.

    Args:
        value: the value.
        kind: its type.
    """
    if not has_odd_keys(kind):
        return value
    if isinstance(kind, T.StructType):
        fields = [to_printable(value.getField(field.name), field.dataType).alias(field.name) for field in kind]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda element: to_printable(element, kind.elementType))
    if not isinstance(kind, T.MapType):
        return value
    if not isinstance(kind.keyType, T.AtomicType):
        return F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                to_printable(entry["key"], kind.keyType).alias("key"),
                to_printable(entry["value"], kind.valueType).alias("value"),
            ),
        )
    items = F.transform_values(value, lambda _, map_value: to_printable(map_value, kind.valueType))
    if isinstance(kind.keyType, T.BinaryType):
        return F.transform_keys(items, lambda key, _: F.base64(key))
    if _is_odd_key(kind.keyType):
        return F.transform_keys(items, lambda key, _: key.cast("string"))
    return items


def has_odd_keys(kind: T.DataType) -> bool:
    """Return whether a type has a map with keys that JSON cannot represent completely."""
    if isinstance(kind, T.StructType):
        return any(has_odd_keys(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return has_odd_keys(kind.elementType)
    return isinstance(kind, T.MapType) and (_is_odd_key(kind.keyType) or has_odd_keys(kind.valueType))


def _is_odd_key(kind: T.DataType) -> bool:
    return not isinstance(kind, T.AtomicType) or kind.typeName() in ("binary", "date", "timestamp", "timestamp_ntz")

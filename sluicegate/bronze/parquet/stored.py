"""Convert Parquet values, which Spark reads by their physical type, to their meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, TimestampType

from sluicegate.bronze.parquet import texts
from sluicegate.schema.evolution import Column
from sluicegate.schema.typed_values import any_of
from sluicegate.schema.values import Value


@dataclass(frozen=True)
class Stored:
    """Stored form of a field or of an element.

    Attributes:
        read: type with which Spark reads it.
        type: type of its values.
    """

    read: DataType
    type: DataType

    @property
    def is_plain(self) -> bool:
        """Whether Spark's values need no conversion."""
        return True

    def value(self, stored: Expression) -> Expression:
        """Convert a stored value; NULL if its type cannot hold it."""
        return stored

    def text(self, stored: Expression) -> Expression:
        """Return the whole stored value in a form that JSON supports."""
        return stored

    def loss(self, stored: Expression) -> Expression | None:
        """Return the condition, never NULL, that ``value`` lacks a part of a stored value; None if it never does."""
        return None


@dataclass(frozen=True)
class Converted(Stored):
    """Field of a type that Spark does not have: its values are converted to another, also for ``_rescued_data``.

    Attributes:
        of: converts a stored value.
    """

    of: Callable[[Expression], Expression]

    @property
    def is_plain(self) -> bool:
        return False

    def value(self, stored: Expression) -> Expression:
        return self.of(stored)

    text = value


class WideDecimal(Converted):
    """Decimal with more digits than Spark supports."""


class Nanoseconds(Stored):
    """Timestamp in nanoseconds since 1970."""

    @property
    def is_plain(self) -> bool:
        return False

    def value(self, stored: Expression) -> Expression:
        return F.when(~self.loss(stored), texts.microseconds(stored)).cast(self.type)

    def text(self, stored: Expression) -> Expression:
        return texts.nanoseconds(stored, zone="Z" if isinstance(self.type, TimestampType) else "")

    def loss(self, stored: Expression) -> Expression:
        return F.coalesce(F.pmod(stored, F.lit(1000)) != 0, F.lit(False))


@dataclass(frozen=True)
class StoredGroup(Stored):
    """A struct.

    Attributes:
        fields: its fields by their names.
    """

    fields: dict[str, Stored]

    @property
    def is_plain(self) -> bool:
        return all(field.is_plain for field in self.fields.values())

    def value(self, stored: Expression) -> Expression:
        return self._map_fields(stored, lambda field, value: field.value(value))

    def text(self, stored: Expression) -> Expression:
        return self._map_fields(stored, lambda field, value: field.text(value))

    def _map_fields(self, stored: Expression, of: Callable[[Stored, Expression], Expression]) -> Expression:
        if self.is_plain:
            return stored
        fields = [of(field, stored.getField(name)).alias(name) for name, field in self.fields.items()]
        return F.when(stored.isNotNull(), F.struct(*fields))

    def loss(self, stored: Expression) -> Expression | None:
        conditions = [field.loss(stored.getField(name)) for name, field in self.fields.items()]
        return any_of(conditions)


@dataclass(frozen=True)
class Elements(Stored):
    """An array.

    Attributes:
        element: its elements.
    """

    element: Stored

    @property
    def is_plain(self) -> bool:
        return self.element.is_plain

    def value(self, stored: Expression) -> Expression:
        if self.is_plain:
            return stored
        return F.transform(stored, self.element.value)

    def text(self, stored: Expression) -> Expression:
        if self.is_plain:
            return stored
        return F.transform(stored, self.element.text)

    def loss(self, stored: Expression) -> Expression | None:
        if (condition := _condition(self.element)) is None:
            return None
        return F.coalesce(F.exists(stored, condition), F.lit(False))


@dataclass(frozen=True)
class Entries(Stored):
    """Map. If a key is lost, or equals another only after conversion, the whole map has no value.

    Attributes:
        key: its keys.
        item: its values.
    """

    key: Stored
    item: Stored

    @property
    def is_plain(self) -> bool:
        return self.key.is_plain and self.item.is_plain

    def value(self, stored: Expression) -> Expression:
        if self.is_plain:
            return stored
        if self.key.is_plain:
            return F.transform_values(stored, lambda key, item: self.item.value(item))
        items = F.transform(F.map_values(stored), self.item.value)
        return F.when(~self._keys_loss(stored), F.map_from_arrays(self._keys(stored), items))

    def text(self, stored: Expression) -> Expression:
        if self.is_plain:
            return stored
        if self.key.is_plain:
            return F.transform_values(stored, lambda key, item: self.item.text(item))

        # As a list of entries: texts of two keys may be alike.
        def texts_of(entry: Expression) -> Expression:
            return F.struct(self.key.text(entry["key"]).alias("key"), self.item.text(entry["value"]).alias("value"))

        return F.transform(F.map_entries(stored), texts_of)

    def loss(self, stored: Expression) -> Expression | None:
        condition = _condition(self.item)
        in_items = condition and F.coalesce(F.exists(F.map_values(stored), condition), F.lit(False))
        return any_of([None if self.key.is_plain else self._keys_loss(stored), in_items])

    def _keys(self, stored: Expression) -> Expression:
        return F.transform(F.map_keys(stored), self.key.value)

    def _keys_loss(self, stored: Expression) -> Expression:
        keys = self._keys(stored)
        different = F.size(F.array_distinct(keys)) != F.size(keys)
        return F.coalesce(different | F.exists(keys, lambda key: key.isNull()), F.lit(False))


def _condition(stored: Stored) -> Callable[[Expression], Expression] | None:
    """Return the condition of ``loss`` for a value within an array or a map."""
    if stored.loss(F.lit(None).cast(stored.read)) is None:
        return None
    return lambda value: stored.loss(value)  # type: ignore[return-value]


@dataclass(frozen=True)
class StoredValue(Value):
    """Value that Spark reads in its stored form, in ``raw``.

    Attributes:
        all: all of it, as it is rescued.
        lacking: condition that ``raw`` lacks a part of the value; None if it never does.
    """

    all: Expression
    lacking: Expression | None

    @property
    def rescued_form(self) -> Expression:
        return self.all

    @property
    def loss(self) -> Expression | None:
        return any_of([super().loss, self.lacking])


def value_of(stored: Stored | None, column: Column, raw: Expression, options: Mapping[str, str]) -> Value:
    """Return the value of a field for its column.

    Args:
        stored: stored form of the field, if Spark cannot read it.
        column: its column.
        raw: the value as it is read.
        options: reader options by lower-case name.
    """
    if stored is None:
        return Value(column, raw, options)
    return StoredValue(column, stored.value(raw), options, stored.text(raw), stored.loss(raw))


def unreadable_value(field: str, why: str) -> Value:
    """Return the rescued value of a field that cannot be read."""
    return Value(Column(field, StringType(), None, StringType()), F.lit(why), {})

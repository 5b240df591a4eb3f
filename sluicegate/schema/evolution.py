"""Infer and evolve schemas: the column of each field of the files (declared, hinted, known, new, or rescued).

Text formats are read as text and cast afterwards, so that a value that does not fit goes to ``_rescued_data``; a typed
read would make it NULL. A field that cannot be a column goes there too, under its own name. Columns and their meanings
are Auto Loader's: https://docs.databricks.com/aws/en/ingestion/cloud-object-storage/auto-loader/schema
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pyspark.sql.types import AtomicType, DataType, LongType, StringType, StructField, VariantType

from sluicegate.definition import BronzeTable
from sluicegate.definition.tables.column_names import normalize_name
from sluicegate.definition.tables.kafka import COLUMNS
from sluicegate.errors import SchemaMismatch, Where
from sluicegate.schema.columns import is_reserved
from sluicegate.schema.json_values import shape
from sluicegate.spark_sql import types as spark_types
from sluicegate.spark_sql.wider_types import widen_type

# Formats whose files have typed values.
SELF_DESCRIBING = ("parquet", "orc", "avro", "binaryFile", "delta")

# Metadata of a field of JSON: Spark's reader may not read its values as the type that it shows for them.
DOUBTFUL = "sluicegate.doubtful"


@dataclass(frozen=True)
class Column:
    """Mapping of one field of the files to a column.

    Attributes:
        field: name in the files.
        read: type in which it is read.
        name: column of the field; None if all its values are rescued.
        type: type of that column.
        conversion: ``native``: as it is read; ``cast``: its text is cast; ``token``: likewise, but the text of a value
            that has a type of its own, where 007 is no number; ``json``: its text is parsed as JSON; ``typed``: it has
            a type, and is converted to another one.
        shape: type that a JSON text is parsed to, with texts as leaves.
    """

    field: str
    read: DataType
    name: str | None
    type: DataType
    conversion: Literal["native", "cast", "token", "json", "typed"] = "native"
    shape: DataType | None = None


@dataclass(frozen=True)
class Schema:
    """Columns of a bronze table: definition, existing types, and those chosen while files are read.

    Attributes:
        table: the table's name, for messages.
        definition: definition of the table.
        known: type of each existing data column.
        first: whether no record has been committed yet.
        landed: landed names of normalized columns; new ones are added.
    """

    table: str
    definition: BronzeTable
    known: Mapping[str, DataType]
    first: bool
    landed: dict[str, str] = field(default_factory=dict)

    @cached_property
    def collisions(self) -> dict[str, str]:
        """Fields that are rescued because another field has their column, each with that column."""
        return {}

    @cached_property
    def padded_headers(self) -> set[str]:
        """Header names of CSV files with spaces around them, whose values are rescued."""
        return set()

    @cached_property
    def chosen_types(self) -> dict[str, DataType]:
        """Types chosen for new columns, so that later files with other types follow the first."""
        return {}

    @cached_property
    def definition_types(self) -> dict[str, DataType]:
        """Type of each column that the definition declares or hints as a whole."""
        written = {**(self.definition.declared_columns or {}), **self.definition.hints}
        return {name: spark_types.drop_lengths(DataType.fromDDL(text)) for name, text in written.items()}

    @cached_property
    def expected_types(self) -> dict[str, DataType]:
        """Type of each column that exists from the first file on, whether or not a record has it."""
        types = dict(self.definition_types)
        for path, kind in self._nested_hints.items():
            types[path[0]] = spark_types.apply_hint(types.get(path[0]), path[1:], kind)
        return types

    @cached_property
    def _nested_hints(self) -> dict[tuple[str, ...], DataType]:
        """Type of each hinted nested field, by its path."""
        return {p: spark_types.drop_lengths(DataType.fromDDL(text)) for p, text in self.definition.inner_hints.items()}

    @cached_property
    def names_by_lower_case(self) -> dict[str, str]:
        """Names of existing, declared and new columns, by lower-case name."""
        return {name.lower(): name for name in (*self.expected_types, *self.known)}

    def columns(self, fields: Sequence[StructField]) -> list[Column]:
        """Map the fields of files to columns; of two fields with one name, the later is rescued.

        Raises:
            SchemaMismatch: a column's type differs from the definition, or there is a new field and the
                definition says failOnNewColumns.
        """
        self._demand_one_type()
        exact = {field.name for field in fields}
        if self.definition.normalizes:
            # Whose column it is does not depend on the order in which the fields come.
            for name in sorted(exact, key=lambda field_name: (field_name != normalize_name(field_name), field_name)):
                self._normalized_name(name)
        taken: set[str] = set()
        return [self._column(field, exact, taken) for field in fields]

    def _column(self, field: StructField, exact: set[str], taken: set[str]) -> Column:
        name = self._name(field.name, exact)
        if name is None or name.lower() in taken:
            kind = self._field_type(field)
            return Column(field.name, kind, None, kind)
        taken.add(name.lower())
        if field.name in self.definition.partitionColumns:
            return self._path_column(field, name)
        if self.definition.format in SELF_DESCRIBING:
            return self._typed_column(field, name)
        return self._text_column(field, name)

    def _path_column(self, field: StructField, name: str) -> Column:
        """Return the column of a value in the paths of files, whose numbers may begin with zeros in every format."""
        target = self._target(name, field.dataType)
        cast = isinstance(target, AtomicType) and target != field.dataType
        return Column(field.name, field.dataType, name, target, "cast" if cast else "typed")

    def _field_type(self, field: StructField) -> DataType:
        """Return the inferred type of a field; text without inferColumnTypes."""
        typed = self.definition.inferColumnTypes or self.definition.format in SELF_DESCRIBING
        if typed:
            return field.dataType
        return spark_types.as_text(field.dataType)

    def _name(self, field: str, exact: set[str]) -> str | None:
        """Return the column of a field; None if its values are rescued."""
        if self.definition.normalizes:
            return self._normalized_name(field)
        lower = field.lower()
        name = self.names_by_lower_case.get(lower)
        if self._is_reserved(lower) or (name is None and not self._may_be_new(field)):
            return None
        if name is None:
            name = self.names_by_lower_case[lower] = field
        # As in Auto Loader, a name in another case is another column, and a table cannot have both.
        other_case = name != field and (self.definition.readerCaseSensitive or name in exact)
        if other_case:
            return None
        return name

    def _normalized_name(self, field: str) -> str | None:
        """Return the normalized column of a field; None if its values are rescued."""
        column = self._columns_by_field.get(self._fold_case(field))
        if column is not None:
            return column
        name = normalize_name(field)
        column = self.names_by_lower_case.get(name)
        if column is not None and column in {*self.landed, *self._unnormalized_columns}:
            self.collisions[field] = column
            return None
        if column is None:
            if not (name and self._may_be_new(name)):
                return None
            column = self.names_by_lower_case[name] = name
        self.landed[column] = field
        self._columns_by_field[self._fold_case(field)] = column
        return column

    @cached_property
    def _columns_by_field(self) -> dict[str, str]:
        """Columns by the landed names of the fields that they belong to."""
        fields = {name: name for name in self._unnormalized_columns} | self.landed
        return {self._fold_case(field): column for column, field in fields.items()}

    @cached_property
    def _unnormalized_columns(self) -> frozenset[str]:
        """Columns from before names were normalized: each belongs to the field of exactly that name.

        A column in the definition may have had no field yet, and goes to the first matching one.
        """
        return frozenset({*self.known} - {*self.landed, *self.expected_types})

    def _is_reserved(self, field: str) -> bool:
        """Return whether a field's name is reserved; a column that existed before its name was reserved continues."""
        of_kafka = self.definition.kafka is not None and field in COLUMNS
        return of_kafka or (is_reserved(field) and field not in self.names_by_lower_case)

    def _fold_case(self, field: str) -> str:
        if self.definition.readerCaseSensitive:
            return field
        return field.lower()

    def has_field(self, field: str) -> bool:
        if self.definition.normalizes:
            return (
                field in self.known
                or self._fold_case(field) in self._columns_by_field
                or normalize_name(field) in self.names_by_lower_case
            )
        return field.lower() in self.names_by_lower_case

    def _may_be_new(self, field: str) -> bool:
        # Without a declared schema a table takes its first columns from its first files, in every mode.
        mode = self.definition.schemaEvolutionMode
        first = self.definition.declared_columns is None and self.first
        if mode == "failOnNewColumns" and not first:
            raise SchemaMismatch(
                f"the files of {self.table} have a new field, {field}",
                where=Where(table=self.table, file=self.definition.path),
                hint=f"add it to schemaHints, or choose another schemaEvolutionMode than {mode}",
            )
        return (self.definition.adds_columns or first) and bool(field) and not spark_types.REFUSED & set(field)

    def _text_column(self, field: StructField, name: str) -> Column:
        """Return the column of a text or JSON field."""
        text, shown = StringType(), self._field_type(field)
        target = self._target(name, shown)
        if isinstance(target, VariantType) or target == text:
            return Column(field.name, target, name, target)
        form = self.definition.format
        if form == "json":
            return self._json_column(field, name, target)
        if isinstance(target, AtomicType):
            # Whoever names the type knows the zeros; an inferred one is that of other values.
            declared = name.lower() in {column.lower() for column in self.expected_types}
            return Column(field.name, text, name, target, "cast" if declared else "token")
        if form == "xml" and not isinstance(field.dataType, AtomicType):
            if target == spark_types.as_text(target) and spark_types.can_hold(target, shown):
                return Column(field.name, target, name, target)
            return Column(field.name, shape(target, field.dataType), name, target, "typed")
        return Column(field.name, text, name, target, "json", text)

    def _json_column(self, field: StructField, name: str, target: DataType) -> Column:
        doubtful = bool(field.metadata.get(DOUBTFUL))
        if spark_types.can_read(target, field.dataType) and not doubtful:
            return Column(field.name, target, name, target)
        if spark_types.can_read(LongType(), field.dataType) and spark_types.is_small_whole(target) and not doubtful:
            return Column(field.name, LongType(), name, target, "typed")
        if isinstance(target, AtomicType):
            return Column(field.name, StringType(), name, target, "token")
        return Column(field.name, StringType(), name, target, "json", shape(target, field.dataType))

    def _target(self, name: str, shown: DataType) -> DataType:
        """Return the type of a column: existing or new, widened or merged with the inferred type as defined."""
        target = self.chosen_types.get(name) or self.known.get(name) or self.definition_types.get(name)
        if target is None:
            target = self._apply_hints(name, shown if spark_types.has_valid_names(shown) else StringType())
        elif self.definition.adds_columns:
            if self.definition.widens and name not in self.definition_types:
                target = widen_type(target, shown)
            target = self._apply_hints(name, spark_types.merge(target, shown))
        self.chosen_types[name] = target
        return target

    def _apply_hints(self, name: str, kind: DataType) -> DataType:
        for path, hint in self._nested_hints.items():
            if path[0] == name:
                kind = spark_types.apply_hint(kind, path[1:], hint)
        return kind

    def _typed_column(self, field: StructField, name: str) -> Column:
        """Return the column of a field with typed values."""
        target = self._target(name, field.dataType)
        if target == field.dataType:
            return Column(field.name, target, name, target)
        return Column(field.name, field.dataType, name, target, "typed")

    def _demand_one_type(self) -> None:
        conflicts = []
        for name, defined_type in self.expected_types.items():
            column = next((column for column in self.known if column.lower() == name.lower()), None)
            if column is not None and not spark_types.types_agree(self.known[column], defined_type):
                types = f"{self.known[column].simpleString()}, but the definition has {defined_type.simpleString()}"
                conflicts.append(f"{self.table}.{column} is {types}")
        if conflicts:
            raise SchemaMismatch(
                "; ".join(conflicts),
                where=Where(table=self.table),
                hint="declare the stored type and CAST it in silver, or read all files again: "
                f"`sluicegate reset PIPELINE {self.table}`",
            )

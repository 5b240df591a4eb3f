"""Which column each field of some files becomes: declared, hinted, known, new, or rescued.

Text formats are read as text and cast afterwards, so that a value that does not fit is kept (in ``_rescued_data``)
where a typed read would make NULL of it. A field that cannot be a column is kept there too, with its own name. Columns
and their meanings are Auto Loader's: https://docs.databricks.com/aws/en/ingestion/cloud-object-storage/auto-loader/schema
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sluicegate.errors import SchemaMismatch, Where
from sluicegate.schema.columns import RESERVED
from sluicegate.sql.types import (
    REFUSED,
    agree,
    as_text,
    fits,
    hinted,
    holds,
    is_small_whole,
    merge,
    nameable,
    wider,
    without_lengths,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

    from sluicegate.definition import BronzeTable


# Formats whose files say which types their values have.
SELF_DESCRIBING = ("parquet", "orc", "avro", "binaryFile", "delta")


@dataclass(frozen=True)
class Column:
    """What becomes of one field of the files.

    Attributes:
        field: its name in the files.
        read: the type that it is read with.
        name: the column that it becomes; None: all its values are rescued.
        type: type of that column.
        conversion: ``native``: as it is read; ``cast``: its text is cast; ``json``: its text is parsed as JSON, and
            rescued as well; ``exact_json``: rescued only where it does not fit; ``convert``: a value that has a type is
            cast; ``reshape``: a nested value is put into another nested type.
    """

    field: str
    read: DataType
    name: str | None
    type: DataType
    conversion: Literal["native", "cast", "json", "exact_json", "convert", "reshape"] = "native"


@dataclass(frozen=True)
class Schema:
    """What is known of a bronze table's columns before some files are read.

    Attributes:
        table: the table's name, for messages.
        definition: its definition.
        known: type of each data column that the table has so far.
        first: whether no record has been committed yet.
    """

    table: str
    definition: BronzeTable
    known: Mapping[str, DataType]
    first: bool

    @cached_property
    def chosen(self) -> dict[str, DataType]:
        """Types given to new columns, so that files with other types of their own follow the first."""
        return {}

    @cached_property
    def named(self) -> dict[str, DataType]:
        """Type of each column that the definition declares or hints as a whole."""
        from pyspark.sql.types import DataType

        written = {**(self.definition.declared or {}), **self.definition.hints}
        return {name: without_lengths(DataType.fromDDL(text)) for name, text in written.items()}

    @cached_property
    def wanted(self) -> dict[str, DataType]:
        """Type of each column that is there from the first file on, whether or not a record has it."""
        found = dict(self.named)
        for path, kind in self._inner.items():
            found[path[0]] = hinted(found.get(path[0]), path[1:], kind)
        return found

    @cached_property
    def _inner(self) -> dict[tuple[str, ...], DataType]:
        """Type of each hinted field inside of a column, by its path."""
        from pyspark.sql.types import DataType

        return {p: without_lengths(DataType.fromDDL(text)) for p, text in self.definition.inner_hints.items()}

    @cached_property
    def settled(self) -> dict[str, str]:
        """The columns that are there already or are to be, new ones included: names by names in small letters."""
        return {name.lower(): name for name in (*self.wanted, *self.known)}

    def columns(self, fields: Sequence[StructField]) -> list[Column]:
        """What becomes of the fields that occur in some files; of two with one name the later is rescued.

        Raises:
            SchemaMismatch: the table has a column with another type than the definition gives it, or there is a new
                field and the definition says failOnNewColumns.
        """
        self._demand_one_type()
        exact = {field.name for field in fields}
        taken: set[str] = set()
        return [self._column(field, exact, taken) for field in fields]

    def _column(self, field: StructField, exact: set[str], taken: set[str]) -> Column:
        name = self._name(field.name, exact)
        if name is None or name.lower() in taken:
            kind = self._shown(field)
            return Column(field.name, kind, None, kind)
        taken.add(name.lower())
        return self._converted(field, name) if self.definition.format in SELF_DESCRIBING else self._typed(field, name)

    def _shown(self, field: StructField) -> DataType:
        """The type that a field shows: that of its values, or text without inferColumnTypes."""
        typed = self.definition.inferColumnTypes or self.definition.format in SELF_DESCRIBING
        return field.dataType if typed else as_text(field.dataType)

    def _name(self, field: str, exact: set[str]) -> str | None:
        """The column that a field belongs to; None if there is none for it."""
        lower = field.lower()
        name = self.settled.get(lower)
        if lower in RESERVED or (name is None and not self._may_be_new(field)):
            return None
        if name is None:
            name = self.settled[lower] = field
        # As in Auto Loader a name in another case is another name, which a table cannot have.
        other_case = name != field and (self.definition.readerCaseSensitive or name in exact)
        return None if other_case else name

    def _may_be_new(self, field: str) -> bool:
        # Without a schema of its own a table takes its first columns from its first files in every mode.
        mode = self.definition.schemaEvolutionMode
        first = self.definition.declared is None and self.first
        if mode == "failOnNewColumns" and not first:
            raise SchemaMismatch(
                f"the files of {self.table} have a new field, {field}",
                where=Where(table=self.table, file=self.definition.path),
                hint=f"add it to schemaHints, or choose another schemaEvolutionMode than {mode}",
            )
        return (self.definition.adds_columns or first) and bool(field) and not REFUSED & set(field)

    def _typed(self, field: StructField, name: str) -> Column:
        from pyspark.sql.types import AtomicType, LongType, StringType, VariantType

        text, shown = StringType(), self._shown(field)
        target = self._target(name, shown)
        nested = not isinstance(target, AtomicType)
        json = self.definition.format == "json"
        native = fits(target, field.dataType) if json else nested and holds(target, shown)
        if native or isinstance(target, VariantType) or target == text:
            return Column(field.name, target, name, target)
        if json and fits(LongType(), field.dataType) and is_small_whole(target):
            return Column(field.name, LongType(), name, target, "convert")
        if not nested:
            return Column(field.name, text, name, target, "cast")
        return Column(field.name, text, name, target, "exact_json" if holds(target, shown) else "json")

    def _target(self, name: str, shown: DataType) -> DataType:
        """The type that a column has or is to have, now that the files show values of some type."""
        from pyspark.sql.types import NullType, StringType

        target = self.known.get(name) or self.named.get(name) or self.chosen.get(name)
        if target is None:
            usable = nameable(shown) and not isinstance(shown, NullType)
            target = self._hinted(name, shown if usable else StringType())
            self.chosen[name] = target
        elif self.definition.adds_columns:
            if self.definition.widens and name not in self.named:
                target = self.chosen[name] = wider(self.chosen.get(name, target), shown)
            target = self._hinted(name, merge(target, shown))
        return target

    def _hinted(self, name: str, kind: DataType) -> DataType:
        for path, hint in self._inner.items():
            if path[0] == name:
                kind = hinted(kind, path[1:], hint)
        return kind

    def _converted(self, field: StructField, name: str) -> Column:
        """A column of files whose values have types of their own."""
        from pyspark.sql.types import AtomicType

        target = self._target(name, field.dataType)
        if target == field.dataType:
            return Column(field.name, target, name, target)
        atomic = isinstance(target, AtomicType) and isinstance(field.dataType, AtomicType)
        return Column(field.name, field.dataType, name, target, "convert" if atomic else "reshape")

    def _demand_one_type(self) -> None:
        for name, wanted in self.wanted.items():
            column = next((known for known in self.known if known.lower() == name.lower()), None)
            if column is not None and not agree(self.known[column], wanted):
                raise SchemaMismatch(
                    f"{self.table}.{column} is {self.known[column].simpleString()}, "
                    f"and the definition says {wanted.simpleString()}",
                    where=Where(table=self.table),
                    hint="write the type that it has and CAST it in silver, or make the table anew: `sluicegate reset`",
                )

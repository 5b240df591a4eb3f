"""Which column each field of some files becomes: declared, hinted, known, new, or rescued.

Text formats are read as text and cast afterwards, so that a value that does not fit is kept (in ``_rescued_data``)
where a typed read would make NULL of it. A field that cannot be a column is kept there too, with its own name. Columns
and their meanings are Auto Loader's: https://docs.databricks.com/aws/en/ingestion/cloud-object-storage/auto-loader/schema
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sluicegate.errors import SchemaMismatch, Where

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

    from sluicegate.definition import BronzeTable

CORRUPT, RESCUED = "_corrupt_record", "_rescued_data"

# Every bronze table ends with these columns, which are ours.
PROVENANCE = (RESCUED, CORRUPT, "receipt_time", "source_file", "_file_modification_time", "_chunk", "_pos")

# Names that a data column cannot have: ours, and those of Spark's files and Delta's change feed.
RESERVED = frozenset({*PROVENANCE, "_metadata", "_change_type", "_commit_version", "_commit_timestamp"})

# Formats whose files say which types their values have.
SELF_DESCRIBING = ("parquet", "orc", "binaryFile")

# Characters that Delta refuses in a column's name (Parquet gave them a meaning of their own).
REFUSED = frozenset(" ,;{}()\n\t=")


@dataclass(frozen=True)
class Column:
    """What becomes of one field of the files.

    Attributes:
        field: its name in the files.
        read: the type that it is read with.
        name: the column that it becomes; None: all its values are rescued.
        type: type of that column.
        way: ``native``: as it is read; ``cast``: its text is cast; ``json``: its text is parsed as JSON; ``convert``: a
            value that has a type is cast; ``reshape``: a nested value is put into another nested type.
    """

    field: str
    read: DataType
    name: str | None
    type: DataType
    way: Literal["native", "cast", "json", "convert", "reshape"] = "native"


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
        """Type of each column that the definition declares or hints."""
        from pyspark.sql.types import CharType, DataType, StringType, VarcharType

        written = {**(self.definition.declared or {}), **self.definition.hints}
        types = {name: DataType.fromDDL(text) for name, text in written.items()}
        # A length is a rule, and rules are silver's: Delta has these columns as STRING.
        return {n: StringType() if isinstance(t, (CharType, VarcharType)) else t for n, t in types.items()}

    @cached_property
    def settled(self) -> dict[str, str]:
        """The columns that are there already or are to be, new ones included: names by names in small letters."""
        return {name.lower(): name for name in (*self.named, *self.known)}

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
            return Column(field.name, field.dataType, None, field.dataType)
        taken.add(name.lower())
        return self._converted(field, name) if self.definition.format in SELF_DESCRIBING else self._typed(field, name)

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
        return (mode == "addNewColumns" or first) and not REFUSED & set(field)

    def _typed(self, field: StructField, name: str) -> Column:
        from pyspark.sql.types import AtomicType, StringType, VariantType

        text = StringType()
        target = self._settled_type(name)
        if target is None:
            target = self.chosen[name] = field.dataType if _nameable(field.dataType) else text
        elif self.definition.schemaEvolutionMode == "addNewColumns":
            target = merge(target, field.dataType)
        if isinstance(target, VariantType):
            return Column(field.name, target, name, target)
        if isinstance(target, AtomicType):
            return Column(field.name, text, name, target, "native" if target == text else "cast")
        if holds(target, field.dataType):
            return Column(field.name, target, name, target)
        return Column(field.name, text, name, target, "json")

    def _settled_type(self, name: str) -> DataType | None:
        return self.known.get(name) or self.named.get(name) or self.chosen.get(name)

    def _converted(self, field: StructField, name: str) -> Column:
        """A column of files whose values have types of their own."""
        from pyspark.sql.types import AtomicType, StringType

        target = self._settled_type(name)
        if target is None:
            target = self.chosen[name] = field.dataType if _nameable(field.dataType) else StringType()
        elif self.definition.schemaEvolutionMode == "addNewColumns":
            target = merge(target, field.dataType)
        if target == field.dataType:
            return Column(field.name, target, name, target)
        atomic = isinstance(target, AtomicType) and isinstance(field.dataType, AtomicType)
        return Column(field.name, field.dataType, name, target, "convert" if atomic else "reshape")

    def _demand_one_type(self) -> None:
        for name, wanted in self.named.items():
            column = next((known for known in self.known if known.lower() == name.lower()), None)
            if column is not None and not _same(self.known[column], wanted):
                raise SchemaMismatch(
                    f"{self.table}.{column} is {self.known[column].simpleString()}, "
                    f"and the definition says {wanted.simpleString()}",
                    where=Where(table=self.table),
                    hint="write the type that it has, and CAST it in silver; or make the table again from its files",
                )


def merge(known: DataType, found: DataType) -> DataType:
    """A type that holds what ``known`` holds and also the new fields of ``found``; where they conflict, ``known``."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(merge(known.elementType, found.elementType))
    if not (isinstance(known, StructType) and isinstance(found, StructType)):
        return known
    inner = {field.name: field.dataType for field in found}
    fields = [StructField(f.name, merge(f.dataType, inner.get(f.name, f.dataType))) for f in known]
    have = {field.name.lower() for field in known}
    fields += [field for field in found if field.name.lower() not in have and _nameable(StructType([field]))]
    return StructType(fields)


def holds(target: DataType, found: DataType) -> bool:
    """Whether nothing of a value with the type ``found`` is lost when it is read as ``target``."""
    from pyspark.sql.types import ArrayType, AtomicType, MapType, StructType

    if isinstance(target, StructType) and isinstance(found, StructType):
        inner = {field.name: field.dataType for field in target}
        return all(field.name in inner and holds(inner[field.name], field.dataType) for field in found)
    if isinstance(target, ArrayType) and isinstance(found, ArrayType):
        return holds(target.elementType, found.elementType)
    if isinstance(target, MapType) and isinstance(found, StructType):
        return all(holds(target.valueType, field.dataType) for field in found)
    return isinstance(target, AtomicType)


def _nameable(kind: DataType) -> bool:
    """Whether Delta takes all the names in a type."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, ArrayType):
        return _nameable(kind.elementType)
    if not isinstance(kind, StructType):
        return True
    names = [name.lower() for name in kind.names]
    taken = len(set(names)) == len(names) and not any(not name or REFUSED & set(name) for name in names)
    return taken and all(_nameable(field.dataType) for field in kind)


def _same(known: DataType, wanted: DataType) -> bool:
    """Whether a column's type is the one that the definition gives it; a nested one may have grown."""
    from pyspark.sql.types import AtomicType

    return known == wanted if isinstance(wanted, AtomicType) else type(known) is type(wanted)


def data_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a bronze table that came with the data."""
    return [column for column in columns if column not in PROVENANCE]

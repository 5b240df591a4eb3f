"""How a chunk of landed files becomes rows: what columns there are, of which types, and what does not fit.

Values are read as text and cast to the type that is hinted or declared for their column. So a number in quotes is a
number, and a value that is none is kept, with the name of its column, in ``_rescued_data``: nothing that Spark's
typed readers would turn into NULL is lost. Columns and meanings are Auto Loader's:
https://docs.databricks.com/aws/en/ingestion/cloud-object-storage/auto-loader/schema
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import fsspec

from sluicegate.errors import SourceError, Where
from sluicegate.landing import canonical

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField

    from sluicegate.definition import BronzeTable

CORRUPT, RESCUED = "_corrupt_record", "_rescued_data"

# Every bronze table ends with these columns, which are ours.
PROVENANCE = (RESCUED, CORRUPT, "receipt_time", "source_file", "_file_modification_time", "_chunk", "_pos")

# A field that no record has.
COMPANY = "_sluicegate_no_such_field"

# Characters that make Hadoop take a path for a pattern.
GLOB = frozenset("{}[]*?\\")


@dataclass(frozen=True)
class Reader:
    """Reads the files of one bronze table.

    Attributes:
        session: the Spark session.
        name: the table's name, for messages.
        table: its definition.
        known: type of each data column that the bronze table has so far.
    """

    session: SparkSession
    name: str
    table: BronzeTable
    known: dict[str, DataType]

    def read(self, paths: Sequence[str]) -> DataFrame:
        """The records of some files, with their data columns and all of ``PROVENANCE`` but ``_chunk``.

        Args:
            paths: paths as in the ledger.

        Raises:
            SourceError: the files do not have the columns that the definition or their header promise.
        """
        from pyspark.sql import functions as F

        parts = [self._read_alike(group, fields) for fields, group in self._groups(paths)]
        frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        # A column that the definition names is there from the first file on, whether or not a record has it.
        named = {**(self.table.declared or {}), **self.table.hints}
        frame = frame.withColumns({c: F.lit(None).cast(named[c]) for c in named if c not in frame.columns})
        last = [column for column in PROVENANCE if column in frame.columns]
        return frame.select(*[f"`{c}`" for c in frame.columns if c not in last], *last)

    # --- which columns -----------------------------------------------------------------------------------------------

    def _groups(self, paths: Sequence[str]) -> Iterable[tuple[list[StructField], list[str]]]:
        """Files that have the same columns in the same order, with these columns as they are to be read."""
        if self.table.format == "json":
            fields = self._declared() or self._infer_json(paths)
            return [(fields, list(paths))]
        header = self.table.options.get("header", "false").lower() == "true"
        if not header:
            return [(self._declared() or self._infer_csv(paths), list(paths))]
        by_header: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            by_header.setdefault(self._header(path), []).append(path)
        return [([self._field(column) for column in columns], group) for columns, group in by_header.items()]

    def _declared(self) -> list[StructField]:
        return [self._field(column) for column in self.table.declared or {}]

    def _infer_json(self, paths: Sequence[str]) -> list[StructField]:
        """The fields that occur anywhere in the files: a pass of its own, so that no column is missed."""
        found = self._load("json", paths, extra={"primitivesAsString": "true"}).schema
        return [self._field(f.name, f.dataType) for f in found if f.name != CORRUPT]

    def _infer_csv(self, paths: Sequence[str]) -> list[StructField]:
        return [self._field(f.name) for f in self._load("csv", paths).schema]

    def _header(self, path: str) -> tuple[str, ...]:
        """The column names in a CSV file's first line."""
        options = {key.lower(): value for key, value in self.table.options.items()}
        encoding = options.get("encoding", options.get("charset", "utf-8"))
        separator = options.get("sep", options.get("delimiter", ","))
        try:
            with fsspec.open(path, "rt", encoding=encoding, compression="infer", newline="") as file:
                lines = csv.reader(file, delimiter=separator, quotechar=options.get("quote", '"') or '"')
                columns = next((line for line in lines if line), [])
        except (OSError, EOFError, ValueError, LookupError, csv.Error) as error:
            raise SourceError(
                f"the header of {path} cannot be read",
                where=Where(table=self.name, file=path, line=1),
                cause=f"{type(error).__name__}: {error}",
                hint="land a whole file under this name again, then run again",
            ) from error
        columns = [column.removeprefix("\ufeff") for column in columns]
        doubled = {c for c in columns if [x.lower() for x in columns].count(c.lower()) > 1}
        if doubled or not all(columns):
            what = f"has {', '.join(sorted(doubled))} twice" if doubled else "has a column without a name"
            raise SourceError(
                f"the header of a CSV file {what}",
                where=Where(table=self.name, file=path, line=1),
                hint="correct the header and land the file under a new name",
            )
        return tuple(columns)

    def _field(self, name: str, inferred: DataType | None = None) -> StructField:
        """A column as it is read: text, unless it is a struct, array or map."""
        from pyspark.sql.types import AtomicType, StringType, StructField

        known = self.known.get(name)
        wanted = self.wanted(name) or (None if known is None or isinstance(known, AtomicType) else inferred or known)
        kind = wanted or (inferred if known is None else known) or StringType()
        return StructField(name, StringType() if isinstance(kind, AtomicType) else kind)

    def wanted(self, name: str) -> DataType | None:
        """The type that the definition declares or hints for a column."""
        from pyspark.sql.types import DataType

        text = (self.table.declared or {}).get(name) or self.table.hints.get(name)
        return DataType.fromDDL(text) if text else None

    # --- reading -----------------------------------------------------------------------------------------------------

    def _load(
        self, form: str, paths: Sequence[str], *, schema: object = None, extra: dict[str, str] | None = None
    ) -> DataFrame:
        from pyspark.sql.types import StructType

        reader = self.session.read.options(**{**self.table.options, **(extra or {})})
        if isinstance(schema, StructType):
            reader = reader.schema(schema)
        return reader.format(form).load([escape_glob(path) for path in paths])

    def _read_alike(self, paths: list[str], fields: list[StructField]) -> DataFrame:
        """Reads files that have the same columns."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        self._refuse_twins([field.name for field in fields])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        if self.table.format == "csv":
            options["enforceSchema"] = "false"  # else Spark matches columns by position and ignores the header
        # Spark refuses to read the corrupt text alone, as it must where no record has a field: it gets company.
        company = [] if fields else [StructField(COMPANY, StringType())]
        schema = StructType([*fields, *company, StructField(CORRUPT, StringType())])
        self.session.conf.set("spark.sql.json.enableExactStringParsing", str(self._needs_exact_text(fields)).lower())
        raw = self._load(self.table.format, paths, schema=schema, extra=options)
        ours = [field.name for field in fields if field.name in PROVENANCE]
        columns, misfits = [], [(name, F.col(f"`{name}`"), F.col(f"`{name}`").isNotNull()) for name in ours]
        for field in fields:
            if field.name not in ours:
                column, misfit = self._typed(field)
                columns.append(column)
                misfits += misfit
        return raw.select(
            *columns,
            _rescued(misfits).alias(RESCUED),
            F.coalesce(CORRUPT, COMPANY).alias(CORRUPT) if company else F.col(CORRUPT),
            F.current_timestamp().alias("receipt_time"),
            F.col("_metadata.file_path").alias("source_file"),
            F.col("_metadata.file_modification_time").alias("_file_modification_time"),
            F.monotonically_increasing_id().alias("_pos"),
        )

    def _typed(self, field: StructField) -> tuple[Column, list[tuple[str, Column, Column]]]:
        """A column cast to its type, and, if a value may fail to cast, its name, its text and when it fails."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType

        text = F.col(f"`{field.name}`")
        target = self.wanted(field.name) or self.known.get(field.name)
        if target is None or isinstance(target, StringType) or not isinstance(field.dataType, StringType):
            return text, []
        typed = text.try_cast(target)
        return typed.alias(field.name), [(field.name, text, text.isNotNull() & typed.isNull())]

    def _needs_exact_text(self, fields: list[StructField]) -> bool:
        """Whether a number's own digits matter: not where every value becomes a number, a time or a boolean anyway.

        Spark fetches the digits of each number from the start of its document, which makes the reading of one large
        multi-line array quadratic (20 times slower at 1 MB). A double's shortest text casts to the very same double.
        """
        from pyspark.sql.types import AtomicType, DecimalType, StringType

        targets = [self.wanted(field.name) or self.known.get(field.name) for field in fields]
        return any(not isinstance(t, AtomicType) or isinstance(t, (StringType, DecimalType)) for t in targets)

    def _refuse_twins(self, names: list[str]) -> None:
        seen = {name.lower(): name for name in self.known}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise SourceError(
                    f"the fields {other} and {name} differ only in case, and a table's columns cannot",
                    where=Where(table=self.name, file=self.table.path),
                    hint="rename one of them in the files",
                )


def _rescued(misfits: list[tuple[str, Column, Column]]) -> Column:
    """JSON of the values that did not fit, and of the file that they are in; NULL when all did."""
    from pyspark.sql import functions as F

    if not misfits:
        return F.lit(None).cast("string")
    kept = [F.when(fails, text).alias(name) for name, text, fails in misfits]
    any_fails = reduce(lambda a, b: a | b, [fails for _, _, fails in misfits])
    return F.when(any_fails, F.to_json(F.struct(*kept, F.col("_metadata.file_path").alias("_file_path"))))


def escape_glob(path: str) -> str:
    """A path that Hadoop takes literally: landed files may have any name."""
    return "".join(f"\\{char}" if char in GLOB else char for char in path)


def data_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a bronze table that came with the data."""
    return [column for column in columns if column not in PROVENANCE]


__all__ = ["CORRUPT", "PROVENANCE", "RESCUED", "Reader", "canonical", "data_columns", "escape_glob"]

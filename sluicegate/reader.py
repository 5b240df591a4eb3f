"""Reads landed files with Spark: every value as a column's or as rescued data, every record with where it came from."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import fsspec

from sluicegate.errors import SourceError, Where
from sluicegate.schema import CORRUPT, PROVENANCE, RESCUED, Column, Schema
from sluicegate.values import Value, exact_digits, from_path, quoted, rescued

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from sluicegate.definition import BronzeTable

# A field that no record has.
COMPANY = "_sluicegate_no_such_field"

# Under these names Spark gives a corrupt record's text, and a line's file: a field may be called as theirs usually are.
CORRUPT_AS, ABOUT = "_sluicegate_corrupt_record", "_sluicegate_metadata"

# Characters that make Hadoop take a path for a pattern.
GLOB = frozenset("{}[]*?\\")
PATTERN = GLOB | {","}

# A line of JSON that goes on behind its first value. Outside of strings a bracket that closes is followed by another or
# by a comma; only lines where it looks otherwise, or like two objects, are parsed to know: as one element of an array.
MORE = (
    r"(value RLIKE '[}\\]]\\s*[^,}\\]\\s]' OR value RLIKE '\\}\\s*,\\s*\\{') AND NOT size(from_json("
    r"concat('[', regexp_replace(value, ',\\s*$', ''), ']'), 'array<string>')) <=> 1"
)

# The same of a whole file, where lists of objects are the rule: a sign that it is worth the while to parse it.
MORE_BYTES = re.compile(rb"[}\]]\s*[^,}\]\s]")

# Compressions that Hadoop reads by a file's suffix and Python does not.
HADOOP_ONLY = (".deflate", ".snappy", ".lz4", ".zst")


@dataclass(frozen=True)
class Reader:
    """Reads the files of one bronze table.

    Attributes:
        session: the Spark session.
        schema: what is known of the table's columns.
    """

    session: SparkSession
    schema: Schema

    @property
    def _table(self) -> BronzeTable:
        return self.schema.definition

    @property
    def _options(self) -> dict[str, str]:
        """The reader's options by their names in small letters, as Spark takes them."""
        return {name.lower(): value for name, value in self._table.options.items()}

    def _true(self, option: str) -> bool:
        return self._options.get(option.lower(), "false").lower() == "true"

    @property
    def _multi_line(self) -> bool:
        return self._true("multiLine")

    def read(self, paths: Sequence[str]) -> DataFrame:
        """The records of some files, with their data columns and all of ``PROVENANCE`` but ``_chunk``.

        Args:
            paths: paths as in the ledger.

        Raises:
            SourceError: a file's header or footer cannot be read, or a multi-line file is more than one JSON value.
            SchemaMismatch: a column has another type than the definition gives it, or a new one is not allowed.
        """
        from pyspark.sql import functions as F

        parts = [self._read_alike(group, fields) for fields, group in self._groups(paths)]
        frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        # Above the union, so that no two of its parts number their records alike.
        frame = frame.withColumn("_pos", F.monotonically_increasing_id())
        # A column that the definition names is there from the first file on, whether or not a record has it.
        have = {column.lower() for column in [*frame.columns, *self.schema.known]}
        absent = {c: F.lit(None).cast(t) for c, t in self.schema.named.items() if c.lower() not in have}
        last = [column for column in PROVENANCE if column in frame.columns]
        first = [quoted(column) for column in frame.columns if column not in last]
        return frame.withColumns(absent).select(*first, *[quoted(c) for c in absent], *last)

    def nothing(self) -> DataFrame:
        """No records, with the columns that are known."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

        known = {name.lower() for name in self.schema.known}
        named = {name: kind for name, kind in self.schema.named.items() if name.lower() not in known}
        columns = {**self.schema.known, **named}
        texts, times = (RESCUED, CORRUPT, "source_file"), ("receipt_time", "_file_modification_time")
        ours = dict.fromkeys(texts, StringType()) | dict.fromkeys(times, TimestampType()) | {"_pos": LongType()}
        return self.session.createDataFrame([], StructType([StructField(n, t) for n, t in (columns | ours).items()]))

    # --- which fields the files have ---------------------------------------------------------------------------------

    def _groups(self, paths: Sequence[str]) -> Iterator[tuple[list[StructField], list[str]]]:
        """Files that can be read together, with the fields that they have."""
        match self._table.format:
            case "json" | "xml":
                yield self._nested_fields(paths), list(paths)
            case "csv" if self._true("header"):
                for names, group in _alike(paths, self._header):
                    yield self._csv_fields(names, group), group
            case "csv":
                own = [name for name in self._table.declared or {} if name not in self._table.partitionColumns]
                names = own or self._load("csv", paths).columns
                yield self._csv_fields(names, paths), list(paths)
            case "parquet" | "orc":
                for _, group in _alike(paths, self._footer):
                    yield [*self._load(self._table.format, group[:1]).schema], group
            case _:
                yield [*self._load(self._table.format, paths).schema], list(paths)

    def _nested_fields(self, paths: Sequence[str]) -> list[StructField]:
        """The fields that occur anywhere in JSON or XML files: a pass of its own, so that none is missed."""
        infer = self._table.inferColumnTypes
        how = {"primitivesAsString": str(not infer).lower(), "inferSchema": str(infer).lower()}
        how["columnNameOfCorruptRecord"] = CORRUPT_AS
        if self._table.format == "json" and self._multi_line and any(PATTERN & set(path) for path in paths):
            # Spark would take these names for patterns a second time, and find nothing.
            texts = self._load("text", paths, extra={"wholetext": "true"})
            found = self.session.read.options(**{**self._table.options, **how}).json(texts).schema
        else:
            found = self._load(self._table.format, paths, extra=how).schema
        return [field for field in found if field.name != CORRUPT_AS]

    def _csv_fields(self, names: Sequence[str], paths: Sequence[str]) -> list[StructField]:
        """The fields of CSV files; with types only where a new one is to be given the type of its values."""
        new = {name.lower() for name in names} - self.schema.settled.keys()
        if not (new and self._table.inferColumnTypes):
            return self._texts(names)
        from pyspark.sql.types import StructField

        inferred = self._load("csv", paths, extra={"inferSchema": "true"}).schema
        return [StructField(name, field.dataType) for name, field in zip(names, inferred, strict=True)]

    def _footer(self, path: str) -> str:
        """What a Parquet or ORC file says of its columns, without a Spark job."""
        import pyarrow as pa
        from pyarrow import orc, parquet

        try:
            with fsspec.open(path, "rb") as file:
                found = parquet.read_schema(file) if self._table.format == "parquet" else orc.ORCFile(file).schema
                # Not what else it says of itself, which may be another word in each file.
                return str(found.to_string(show_field_metadata=False, show_schema_metadata=False))
        except (OSError, pa.ArrowException) as error:
            raise self._bad_file(path, f"a {self._table.format} file cannot be read", error) from error

    def _bad_file(self, path: str, what: str, error: Exception, line: int | None = None) -> SourceError:
        return SourceError(
            f"{what}: {path}",
            where=Where(table=self.schema.table, file=path, line=line),
            cause=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            hint="land a whole file under this name again, then run again",
        )

    @staticmethod
    def _texts(names: Sequence[str]) -> list[StructField]:
        from pyspark.sql.types import StringType, StructField

        return [StructField(name, StringType()) for name in names]

    def _header(self, path: str) -> tuple[str, ...]:
        """The names in the first line of a CSV file; one without a name is called as Spark calls it."""
        separator = self._options.get("sep", self._options.get("delimiter", ",")).replace("\\t", "\t")
        odd = len(separator) != 1 or path.endswith(HADOOP_ONLY) or {"linesep", "escape"} & set(self._options)
        names = self._header_by_spark(path) if odd else self._header_by_python(path, separator)
        return tuple(name or f"_c{number}" for number, name in enumerate(names))

    def _header_by_python(self, path: str, separator: str) -> list[str]:
        """Reads the line without a Spark job, of which many files would need many."""
        encoding = self._options.get("encoding", self._options.get("charset", "utf-8")).lower()
        comment, quote = self._options.get("comment"), self._options.get("quote", '"')
        try:
            with fsspec.open(
                path, "rt", encoding="utf-8-sig" if encoding in ("utf-8", "utf8") else encoding,
                compression="infer", newline="",
            ) as file:  # fmt: skip
                lines = (line for line in file if not (comment and line.startswith(comment)))
                style: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
                rows = csv.reader(lines, delimiter=separator, **style)
                names = next((row for row in rows if any(name.strip() for name in row)), [])
                front, back = (self._true(f"ignore{side}WhiteSpace") for side in ("Leading", "Trailing"))
                names = [name.lstrip() if front else name for name in names]
                return [name.rstrip() if back else name for name in names]
        except (OSError, EOFError, ValueError, LookupError, TypeError, csv.Error) as error:
            raise self._bad_file(path, "the header of a CSV file cannot be read", error, line=1) from error

    def _header_by_spark(self, path: str) -> list[str]:
        rows = self._load("csv", [path], extra={"header": "false", "inferSchema": "false"}).limit(1).collect()
        return [name or "" for name in rows[0]] if rows else []

    # --- reading -----------------------------------------------------------------------------------------------------

    def _load(
        self, form: str, paths: Sequence[str], *, schema: StructType | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> DataFrame:  # fmt: skip
        reader = self.session.read.options(**{**self._table.options, **(extra or {})})
        if schema is not None:
            reader = reader.schema(schema)
        return reader.format(form).load([escape_glob(path) for path in paths])

    def _read_alike(self, paths: list[str], fields: list[StructField]) -> DataFrame:
        """Reads files that have the same fields."""
        from pyspark.sql import functions as F

        folders = self._texts(self._table.partitionColumns)
        columns = self.schema.columns([*folders, *fields])
        raw, names = self._raw(paths, columns[len(folders) :])
        about = raw[ABOUT] if ABOUT in raw.columns else raw.metadataColumn("_metadata")  # a field may have that name
        texts = [from_path(name, about) for name in self._table.partitionColumns]
        texts += [F.col(quoted(name)) for name in names]
        values = [Value(column, text, self._options) for column, text in zip(columns, texts, strict=True)]
        return raw.select(
            *[value.typed.alias(value.column.name) for value in values if value.column.name],
            rescued(values, about).alias(RESCUED),
            (F.col(CORRUPT_AS) if CORRUPT_AS in raw.columns else F.lit(None).cast("string")).alias(CORRUPT),
            F.current_timestamp().alias("receipt_time"),
            about["file_path"].alias("source_file"),
            about["file_modification_time"].alias("_file_modification_time"),
        )

    def _raw(self, paths: list[str], columns: list[Column]) -> tuple[DataFrame, list[str]]:
        """The files as Spark reads them, and under which names it gives the fields."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        form = self._table.format
        # A header has been read: Spark takes the fields by their places, and is given names that cannot collide.
        names = [f"c{n}" if form == "csv" else column.field for n, column in enumerate(columns)]
        read = [StructField(name, column.read) for name, column in zip(names, columns, strict=True)]
        if form not in ("json", "csv", "xml"):
            fixed = form in ("text", "binaryFile")
            return self._load(form, paths, schema=None if fixed else StructType(read)), names
        # Spark refuses to read the corrupt text alone, as it must where no record has a field: it gets company.
        company = [] if columns else [StructField(COMPANY, StringType())]
        schema = StructType([*read, *company, StructField(CORRUPT_AS, StringType())])
        exact = form == "json" and (not self._multi_line or exact_digits(columns))
        self.session.conf.set("spark.sql.json.enableExactStringParsing", str(exact).lower())
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS}
        if form == "json" and self._multi_line:
            self._demand_one_value(paths)
        if form == "json" and not self._multi_line and self._says_more(paths):
            raw = self._line_by_line(paths, schema, options)
        else:
            raw = self._load(form, paths, schema=schema, extra=options)
        if company:
            raw = raw.withColumn(CORRUPT_AS, F.coalesce(CORRUPT_AS, COMPANY))
        return raw, names

    def _demand_one_value(self, paths: Sequence[str]) -> None:
        """Refuses multi-line files that go on behind their first value: Spark would leave that out without a word.

        Raises:
            SourceError: there is such a file.
        """
        for path in paths:
            try:
                with fsspec.open(path, "rb", compression="infer") as file:
                    data = file.read()
            except (OSError, EOFError, ValueError) as error:
                raise self._bad_file(path, "a JSON file cannot be read", error) from error
            if MORE_BYTES.search(data) and _goes_on(data):
                raise SourceError(
                    f"{path} has more than one JSON value",
                    where=Where(table=self.schema.table, file=path),
                    cause="it goes on behind its first JSON value, and with multiLine a file is one value",
                    hint="take multiLine away if each line is a record, or land the records as one array",
                )

    def _says_more(self, paths: Sequence[str]) -> bool:
        """Whether a line of JSON goes on behind its first value: Spark would leave that out without a word."""
        return not self._load("text", paths).where(MORE).isEmpty()

    def _line_by_line(self, paths: Sequence[str], schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """Lines of JSON of which some go on behind their first value: those are corrupt records as a whole."""
        from pyspark.sql import functions as F

        lines = self._load("text", paths).where("trim(value) != ''").select("value", F.col("_metadata").alias(ABOUT))
        parsed = F.from_json("value", schema, {**self._table.options, **options})
        both = lines.select(F.when(~F.expr(MORE), parsed).alias("j"), "value", ABOUT)
        fields = [F.col("j")[name].alias(name) for name in schema.names if name != CORRUPT_AS]
        return both.select(*fields, F.expr(f"if(j IS NULL, value, j.{CORRUPT_AS})").alias(CORRUPT_AS), ABOUT)


def _goes_on(data: bytes) -> bool:
    """Whether JSON text has more than blanks behind its first value; not if even that cannot be read."""
    try:
        text = data.decode(json.detect_encoding(data)).lstrip()
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return False
    return bool(text[end:].strip())


def _alike(paths: Iterable[str], key: Callable[[str], Any]) -> list[tuple[Any, list[str]]]:
    """Paths that have the same key, in order of their first."""
    groups: dict[Any, list[str]] = {}
    for path in paths:
        groups.setdefault(key(path), []).append(path)
    return list(groups.items())


def literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def escape_glob(path: str) -> str:
    """A path that Hadoop takes literally: landed files may have any name."""
    return "".join(f"\\{char}" if char in GLOB else char for char in path)

"""Read landed files with Spark: each value raw, each corrupt record with its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sluicegate.bronze import avro_header, landed_paths
from sluicegate.bronze.file_groups import Group, ReadMode
from sluicegate.bronze.text import decoded_files
from sluicegate.bronze.text.csv_files import CsvFiles
from sluicegate.bronze.text.decoded_files import DecodedFiles, guard_value
from sluicegate.bronze.text.json_reader import CORRUPT_AS, JsonFiles
from sluicegate.bronze.typed_files import TypedFiles
from sluicegate.definition import BronzeTable
from sluicegate.schema import json_doubts
from sluicegate.schema.evolution import Column, Schema
from sluicegate.schema.values import exact_digits

# A field that no record has.
NO_SUCH_FIELD = "_sluicegate_no_such_field"

# Whether Spark's JSON reader keeps the digits of numbers that become texts; it has no such option for one read.
EXACT = "spark.sql.json.enableExactStringParsing"


@dataclass(frozen=True)
class RawReader:
    """Reader of the files of one bronze table, by the options of its definition.

    Attributes:
        session: the Spark session.
        schema: known columns of the table.
        damaged: files that were not read in full, with the reason; filled while reading.
        sizes: bytes of files, as listed.
        records: number of records by the files' own metadata; filled while reading.
        decoded: copies of files that Spark would misread; None for sources without files.
    """

    session: SparkSession
    schema: Schema
    damaged: dict[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    decoded: DecodedFiles | None = None

    @property
    def _table(self) -> BronzeTable:
        return self.schema.definition

    @property
    def _options(self) -> dict[str, str]:
        """Reader options by lower-case names, as Spark takes them."""
        return {name.lower(): value for name, value in self._options_for_copies.items()}

    @property
    def _options_for_copies(self) -> dict[str, str]:
        """Reader options without those that are for the landed files alone, where these are read from copies."""
        return decoded_files.options_for_copies(self._table.reader_options)

    @property
    def _is_utf_8(self) -> bool:
        """Whether Spark's input is certainly UTF-8, so that U+FFFD is a character of the files."""
        return self.decoded is None or self.decoded.is_sure_of(self._table)

    @property
    def _reader_options(self) -> dict[str, str]:
        """Options of Spark's reader, with a JSON string limit of a whole record: Spark's own is 20 MB."""
        options = dict(self._options_for_copies)
        if self._table.format == "json":
            options["maxStringLen"] = str(self._table.maxRecordBytes)
        return options

    def _is_set(self, option: str) -> bool:
        return self._options.get(option.lower(), "false").lower() == "true"

    @property
    def _multi_line(self) -> bool:
        return self._is_set("multiLine")

    @cached_property
    def _typed_files(self) -> TypedFiles:
        form = self._table.format
        load = partial(self._load, form)
        return TypedFiles(self.session, self.schema.table, form, load, self.damaged, self.records)

    @cached_property
    def _json(self) -> JsonFiles:
        doubts = json_doubts.Doubts.from_schema(self.schema)
        return JsonFiles(self.session, self.schema.table, self._reader_options, self.damaged, self._is_utf_8, doubts)

    @cached_property
    def _csv(self) -> CsvFiles:
        return CsvFiles(self.session, self._table, self._reader_options, self.sizes, self.damaged)

    def _load(
        self, form: str, paths: Sequence[str], *, schema: StructType | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> DataFrame:  # fmt: skip
        reader = self.session.read.options(**{**self._reader_options, **(extra or {})})
        if schema is not None:
            reader = reader.schema(schema)
        if form == "avro":
            form = avro_header.PROVIDER
        return landed_paths.load(reader, form, paths)

    def _load_raw(self, group: Group, columns: list[Column]) -> tuple[DataFrame, list[str]]:
        """Return the frame that Spark reads from the files, and the names of its fields."""
        names = [column.field for column in columns]
        if self._table.format == "csv" and group.mode != ReadMode.VARIANT:
            # A header has been read: Spark takes the fields by their places, and is given names that cannot collide.
            names = [f"c{number}" for number in range(len(columns))]
        kinds = [group.stored.get(column.field, column).read for column in columns]
        fields = [StructField(name, kind) for name, kind in zip(names, kinds, strict=True)]
        return self._raw_frame(group, columns, fields), names

    def _raw_frame(self, group: Group, columns: list[Column], fields: list[StructField]) -> DataFrame:
        form = self._table.format
        if group.mode == ReadMode.UNDECODED:
            texts = landed_paths.load(self.session.read, "text", group.paths)
            return texts.withColumn(CORRUPT_AS, F.unhex("value").cast("string"))
        if form == "text":
            return self._text_lines(group)
        if form == "binaryFile":
            return self._load(form, group.paths)
        if form not in ("json", "csv", "xml"):
            return self._load(form, group.paths, schema=StructType(fields))
        return self._parse(group, columns, fields)

    def _text_lines(self, group: Group) -> DataFrame:
        raw = self._load("text", group.paths)
        if self._is_utf_8:
            return raw
        return raw.withColumn("value", guard_value(F.col("value"), ~F.is_valid_utf8("value")))

    def _parse(self, group: Group, columns: list[Column], fields: list[StructField]) -> DataFrame:
        """Parse records of JSON, CSV or XML, with the text of each that cannot be parsed."""
        digits = exact_digits(columns) or json_doubts.has_doubtful_digits(group.fields)
        if self._table.format == "json" and (digits or not self._multi_line):
            self.session.conf.set(EXACT, "true")
        corrupt = StructField(CORRUPT_AS, StringType())
        if columns:
            return self._parse_by_schema(group, len(columns), StructType([*fields, corrupt]))
        # Spark refuses to read the corrupt text alone, as it must where no record has a field.
        absent_field = StructField(NO_SUCH_FIELD, StringType())
        raw = self._parse_by_schema(group, 0, StructType([absent_field, corrupt]))
        return raw.withColumn(CORRUPT_AS, F.coalesce(CORRUPT_AS, NO_SUCH_FIELD))

    def _parse_by_schema(self, group: Group, columns: int, schema: StructType) -> DataFrame:
        """Parse records by a schema that ends with the corrupt text, in the group's mode."""
        form = self._table.format
        if form == "json" and group.mode == ReadMode.VARIANT:
            return self._json.variants(group, schema.names[0])
        if group.mode in (ReadMode.LINES, ReadMode.ELEMENTS):
            return self._json.parse(group, schema)
        if group.mode == ReadMode.RECORDS:
            return self._guard_bytes(self._csv.parse(group.paths, columns, schema), group)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS}
        if group.mode == ReadMode.VARIANT:
            options["singleVariantColumn"] = schema.names[0]
        return self._guard_bytes(self._load(form, group.paths, schema=schema, extra=options), group)

    def _guard_bytes(self, raw: DataFrame, group: Group) -> DataFrame:
        """Keep undecodable bytes in Spark's records from being replaced silently or becoming values."""
        if self.decoded is not None and self.decoded.has_sentinels(group.paths):
            return self.decoded.flag_sentinels(raw, self._table.format, self._reader_options)
        if self._is_utf_8 or self._table.format != "csv":
            return raw
        return raw.withColumns(decoded_files.guarded_texts(raw.schema))

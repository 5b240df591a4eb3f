"""Reads landed files with Spark: every value as a column's or as rescued data, every record with its provenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

from sluicegate.bronze import avro_header, landed_paths
from sluicegate.bronze.file_groups import Group, alike
from sluicegate.bronze.file_sizes import too_large
from sluicegate.bronze.parquet.stored import unread, value_of
from sluicegate.bronze.text import decoded_files
from sluicegate.bronze.text.csv_files import CsvFiles, with_distinct_fields
from sluicegate.bronze.text.decoded_files import DecodedFiles, demanding
from sluicegate.bronze.text.json_reader import ABOUT, CORRUPT_AS, JsonFiles
from sluicegate.bronze.typed_files import TypedFiles, demand_whole
from sluicegate.definition.column_names import normalized
from sluicegate.schema import column_inference, json_doubts
from sluicegate.schema.columns import CORRUPT, PROVENANCE, RESCUED
from sluicegate.schema.evolution import Column, Schema
from sluicegate.schema.values import Value, exact_digits, from_path, rescued, with_fits
from sluicegate.sql.identifiers import quoted
from sluicegate.sql.type_parts import is_text

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from sluicegate.definition import BronzeTable

# A field that no record has.
COMPANY = "_sluicegate_no_such_field"

# Whether Spark's JSON reader keeps the digits of numbers that become texts; it has no such option for one read.
EXACT = "spark.sql.json.enableExactStringParsing"


@dataclass(frozen=True)
class Reader:
    """Reads the files of one bronze table.

    Attributes:
        session: the Spark session.
        schema: what is known of the table's columns.
        damaged: files of which a part or nothing was read, and why; filled in by ``read``.
        sizes: bytes of files, as listed.
        records: number of records by the files' own metadata; filled in by ``read``.
        decoded: copies of files that Spark would not read right; None for what is no file.
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
        """The reader's options by their names in small letters, as Spark takes them."""
        return {name.lower(): value for name, value in self._as_utf_8.items()}

    @property
    def _as_utf_8(self) -> dict[str, str]:
        """The reader's options without the encoding: Spark reads files in another one from copies."""
        return decoded_files.without_encoding(self._table.reader_options)

    @property
    def _sure(self) -> bool:
        """Whether what Spark reads is known to be UTF-8, so that U+FFFD is a character of the files."""
        return self.decoded is None or self.decoded.is_sure_of(self._table)

    @property
    def _given(self) -> dict[str, str]:
        """Reader options, with a JSON string limit of a whole record: Spark's own is 20 MB."""
        longest = {"maxStringLen": str(self._table.maxRecordBytes)} if self._table.format == "json" else {}
        return {**self._as_utf_8, **longest}

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
        landed_paths.demand_unpacked(self.schema.table, self._table.format, paths)
        large = too_large(self.session, self._table, paths, self.sizes)
        self.damaged.update(large)
        paths = [path for path in paths if path not in large]
        if self.decoded is None:
            return self._read(paths)
        copies = self.decoded.places(self.schema.table, self._table, paths, self.sizes)
        frame = self._read(copies, self.decoded.bad_records(paths))
        for path in [copy for copy in copies if copy in self.damaged]:
            self.damaged[self.decoded.landed(path)] = self.damaged.pop(path)
        return frame

    def _read(self, paths: Sequence[str], undecoded: Sequence[str] = ()) -> DataFrame:
        """Records of some files, and of files of records with bytes that are no text."""
        from pyspark.sql import functions as F

        # Spark evaluates it when it reads, which is when all parts are: it holds for all, if it does for one.
        self.session.conf.set(EXACT, "false")
        groups = [group for some in self._apart(paths) for group in self._groups(some)]
        for group in groups:  # so that all are read as the types that hold the values of each
            self._columns(group)
        groups += [Group([], list(undecoded), "undecoded")] if undecoded else []
        parts = [self._read_alike(group) for group in groups]
        if not parts:
            return self.nothing()
        frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        if "_pos" not in frame.columns:
            # Above the union, so that no two of its parts number their records alike.
            frame = frame.withColumn("_pos", F.monotonically_increasing_id())
        # A column that the definition names is there from the first file on, whether or not a record has it.
        have = {column.lower() for column in [*frame.columns, *self.schema.known]}
        absent = {c: F.lit(None).cast(t) for c, t in self.schema.wanted.items() if c.lower() not in have}
        last = [column for column in PROVENANCE if column in frame.columns]
        first = [quoted(column) for column in frame.columns if column not in last]
        frame = frame.withColumns(absent) if absent else frame
        return frame.select(*first, *[quoted(c) for c in absent], *last)

    def _apart(self, paths: Sequence[str]) -> Iterable[list[str]]:
        """Files in groups that Spark can open at a time; what is no file is in one."""
        if self.decoded is not None:
            return landed_paths.apart(paths)
        return [list(paths)] if paths else []

    def nothing(self) -> DataFrame:
        """Empty frame with the known columns."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

        known = {name.lower() for name in self.schema.known}
        wanted = {name: kind for name, kind in self.schema.wanted.items() if name.lower() not in known}
        columns = {**self.schema.known, **wanted}
        texts, times = (RESCUED, CORRUPT, "source_file"), ("receipt_time", "_file_modification_time")
        ours = dict.fromkeys(texts, StringType()) | dict.fromkeys(times, TimestampType()) | {"_pos": LongType()}
        return self.session.createDataFrame([], StructType([StructField(n, t) for n, t in (columns | ours).items()]))

    # --- which fields the files have ---------------------------------------------------------------------------------

    def _groups(self, paths: Sequence[str]) -> Iterator[Group]:
        """Groups of files that can be read together, with their fields."""
        match self._table.format:
            case _ if self._table.singleVariantColumn:
                if self._table.format == "csv":
                    self._csv.to_split(self._csv.about(paths, header=False))
                sound = [path for path in paths if path not in self.damaged]
                if sound:
                    yield Group(self._variant, sound, "variant", whole=self._multi_line)
            case "json":
                yield from map(self._with_values, self._json_groups(paths))
            case "xml":
                yield Group(self._found("xml", paths), list(paths))
            case "csv":
                yield from self._csv_groups(paths)
            case "parquet" | "orc" | "avro":
                yield from self._typed.groups(paths)
            case _:
                yield Group([*self._load(self._table.format, paths).schema], list(paths))

    def _json_groups(self, paths: Sequence[str]) -> Iterator[Group]:
        if self._multi_line:
            yield from self._json.documents(paths)
        elif self._as_declared and self._json.all_flat(paths):
            yield Group(self._declared, list(paths))
        else:
            yield from self._json.lines(paths)

    def _with_values(self, group: Group) -> Group:
        """A group without the new fields that are NULL in all records: they have no type yet.

        Without inferColumnTypes a column of single values is text in any case.
        """
        from pyspark.sql.types import StringType

        new = [field.name for field in group.fields if is_text(field.dataType) and not self.schema.has(field.name)]
        if not (new and self._table.inferColumnTypes):
            return group
        records, _ = self._raw(group, [Column(name, StringType(), name, StringType()) for name in new])
        void = column_inference.without_values(records, new)
        return replace(group, fields=[field for field in group.fields if field.name not in void])

    @cached_property
    def _typed(self) -> TypedFiles:
        form = self._table.format
        load = partial(self._load, form)
        return TypedFiles(self.session, self.schema.table, form, load, self.damaged, self.records)

    @cached_property
    def _json(self) -> JsonFiles:
        doubts = json_doubts.Doubts.of(self.schema)
        return JsonFiles(self.session, self.schema.table, self._given, self.damaged, self._sure, doubts)

    def _found(self, form: str, paths: Sequence[str]) -> list[StructField]:
        """The fields that occur anywhere in JSON or XML files: a pass of its own, so that none is missed."""
        how = {"inferSchema": str(self._table.inferColumnTypes).lower(), "columnNameOfCorruptRecord": CORRUPT_AS}
        found = self._load(form, paths, extra=how).schema
        return [field for field in found if field.name != CORRUPT_AS]

    @property
    def _variant(self) -> list[StructField]:
        from pyspark.sql.types import StructField, VariantType

        return [StructField(self._table.singleVariantColumn or "", VariantType())]

    @property
    def _as_declared(self) -> bool:
        """Whether it does not matter which other fields the files have: the definition says to leave them out.

        Normalized columns have no field yet, or one of another name.
        """
        if self._table.normalizes:
            return False
        fixed = self._table.declared is not None or not self.schema.first
        return not self._table.rescues and fixed and self._table.schemaEvolutionMode in ("rescue", "none")

    @property
    def _declared(self) -> list[StructField]:
        from pyspark.sql.types import StructField

        folders = self._table.partitionColumns
        kinds = {**self.schema.wanted, **self.schema.known}
        return [StructField(name, kind) for name, kind in kinds.items() if name not in folders]

    @cached_property
    def _csv(self) -> CsvFiles:
        return CsvFiles(self.session, self._table, self._given, self.sizes, self.damaged)

    def _csv_groups(self, paths: Sequence[str]) -> Iterator[Group]:
        """Groups of CSV files with the same columns that are read in the same mode."""
        header = self._true("header")
        about = self._csv.about(paths, header=header and self._csv.has_plain_headers)
        demand_whole(about, self.schema.table, "the header of a CSV file cannot be read")
        to_split = self._csv.to_split(about)
        left = [path for path in paths if path not in self.damaged]
        if not left:
            return
        names = self._csv.headers(left, about) if header else dict.fromkeys(left, self._names_by_place(left, about))
        if self.decoded is not None:
            self.decoded.demand_decoded(self.schema.table, self._table, names)
        for (fields, mode), group in alike(left, lambda p: (names[p], "records" if p in to_split else "native")):
            yield Group(self._csv_fields(fields, group, whole=mode == "records"), group, mode)

    def _names_by_place(self, paths: Sequence[str], about: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        """Names of the columns of files without a header; the first file tells how many there are."""
        named = {normalized(one) if self._table.normalizes else one for one in self._table.partitionColumns}
        own = [name for name in self._table.declared or {} if name not in named]
        if not own and (trouble := about.get(paths[0], {}).get("trouble")):
            own = [f"_c{place}" for place in range(trouble["columns"])]
        return tuple(own or self._load("csv", paths).columns)

    def _csv_fields(self, names: Sequence[str], paths: Sequence[str], *, whole: bool) -> list[StructField]:
        """The fields of CSV files; with types only where a new one is to be given the type of its values."""
        new = not all(map(self.schema.has, names))
        if not (new and self._table.inferColumnTypes):
            return self._texts(names)
        from pyspark.sql.types import StructField, StructType

        several = {"multiLine": "true"} if whole else {}
        typed = self._load("csv", paths, extra={"inferSchema": "true", **several}).schema
        inferred = [field.dataType for field in typed]
        if whole and len(inferred) != len(names):  # of files that Spark cannot cut into records
            return self._texts(names)
        schema = StructType(self._texts([f"c{n}" for n in range(len(names))]))
        texts = self._load("csv", paths, schema=schema, extra=several)
        untyped = {f"c{n}": kind for n, kind in enumerate(inferred) if not self.schema.has(names[n])}
        exact = column_inference.exact(texts, untyped, self._options)
        return [StructField(name, exact.get(f"c{n}", inferred[n])) for n, name in enumerate(names)]

    @staticmethod
    def _texts(names: Sequence[str]) -> list[StructField]:
        from pyspark.sql.types import StringType, StructField

        return [StructField(name, StringType()) for name in names]

    # --- reading -----------------------------------------------------------------------------------------------------

    def _load(
        self, form: str, paths: Sequence[str], *, schema: StructType | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> DataFrame:  # fmt: skip
        reader = self.session.read.options(**{**self._given, **(extra or {})})
        if schema is not None:
            reader = reader.schema(schema)
        return landed_paths.load(reader, avro_header.PROVIDER if form == "avro" else form, paths)

    def _read_alike(self, group: Group) -> DataFrame:
        """Reads files that have the same fields."""
        from pyspark.sql import functions as F

        columns = self._columns(group)
        folders = len(self._table.partitionColumns)
        in_path, own = columns[:folders], columns[folders:]
        if self._table.format == "csv":
            self.schema.padded.update(c.field for c in own if c.name is None and c.field != c.field.strip())
            own = with_distinct_fields(own)
        if not self._table.rescues:
            # As in Spark itself, a record with a value that does not fit is a corrupt one.
            own = [replace(c, read=c.type, conversion="native") if c.name else c for c in own]
        raw, names = self._raw(group, own)
        about = raw[ABOUT] if ABOUT in raw.columns else raw.metadataColumn("_metadata")  # a field may have that name
        if self.decoded is not None:
            raw, about = self.decoded.named(raw, about, group.paths)
        values = [Value(column, from_path(column.field, about), self._options) for column in in_path]
        values += [
            value_of(group.stored.get(column.field), column, F.col(quoted(name)), self._options)
            for column, name in zip(own, names, strict=True)
        ]
        values += [unread(name, why) for name, why in group.unreadable.items()]
        raw, values = with_fits(raw, values)
        return raw.select(
            *[value.typed.alias(value.column.name) for value in values if value.column.name],
            (rescued(values, about) if self._table.rescues else F.lit(None).cast("string")).alias(RESCUED),
            # Bytes that are no text would make a table that not every reader can read.
            (F.make_valid_utf8(CORRUPT_AS) if CORRUPT_AS in raw.columns else F.lit(None).cast("string")).alias(CORRUPT),
            F.current_timestamp().alias("receipt_time"),
            about["file_path"].alias("source_file"),
            about["file_modification_time"].alias("_file_modification_time"),
            *self._of_source(about),
        )

    def _columns(self, group: Group) -> list[Column]:
        """Columns of the fields of some files, after those in their path."""
        return self.schema.columns([*self._texts(self._table.partitionColumns), *group.fields])

    def _of_source(self, about: Expression) -> list[Expression]:
        """Further columns of a record that its source gives it."""
        return []

    def _raw(self, group: Group, columns: list[Column]) -> tuple[DataFrame, list[str]]:
        """Frame of the files as Spark reads them, and the names of the fields in it."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        form, paths = self._table.format, group.paths
        # A header has been read: Spark takes the fields by their places, and is given names that cannot collide.
        by_place = form == "csv" and group.mode != "variant"
        names = [f"c{n}" if by_place else column.field for n, column in enumerate(columns)]
        kinds = [group.stored.get(column.field, column).read for column in columns]
        read = [StructField(name, kind) for name, kind in zip(names, kinds, strict=True)]
        if group.mode == "undecoded":
            texts = landed_paths.load(self.session.read, "text", paths)
            return texts.withColumn(CORRUPT_AS, F.unhex("value").cast("string")), names
        if form == "text":
            raw = self._load(form, paths)
            valid = F.is_valid_utf8("value")
            return raw.withColumn("value", raw["value"] if self._sure else demanding(F.col("value"), ~valid)), names
        if form not in ("json", "csv", "xml"):
            return self._load(form, paths, schema=None if form == "binaryFile" else StructType(read)), names
        # Spark refuses to read the corrupt text alone, as it must where no record has a field: it gets company.
        company = [] if columns else [StructField(COMPANY, StringType())]
        schema = StructType([*read, *company, StructField(CORRUPT_AS, StringType())])
        digits = exact_digits(columns) or json_doubts.about_digits(group.fields)
        if form == "json" and (digits or not self._multi_line):
            self.session.conf.set(EXACT, "true")
        if form == "json" and group.mode == "variant":
            raw = self._json.variants(group, names[0])
        elif group.mode in ("lines", "elements"):
            raw = self._json.parsed(group, schema)
        elif group.mode == "records":
            raw = self._with_bytes(self._csv.parsed(paths, len(columns), schema), group)
        else:
            options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS}
            if group.mode == "variant":
                options["singleVariantColumn"] = names[0]
            raw = self._load(form, paths, schema=schema, extra=options)
            raw = self._with_bytes(raw, group)
        if company:
            raw = raw.withColumn(CORRUPT_AS, F.coalesce(CORRUPT_AS, COMPANY))
        return raw, names

    def _with_bytes(self, raw: DataFrame, group: Group) -> DataFrame:
        """Records as Spark has read them, where bytes that are no text are neither replaced in silence nor values."""
        if self.decoded is not None and self.decoded.has_sentinels(group.paths):
            return self.decoded.without_sentinels(raw, self._table.format, self._given)
        if self._sure or self._table.format != "csv":
            return raw
        return raw.withColumns(decoded_files.demanded(raw.schema))

"""Read landed files with Spark: each value in a column or rescued, each record with its provenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType, VariantType

from sluicegate.bronze import landed_paths
from sluicegate.bronze.file_groups import Group, ReadMode, group_by_key
from sluicegate.bronze.file_sizes import oversized_files
from sluicegate.bronze.parquet.stored import unreadable_value, value_of
from sluicegate.bronze.raw_reader import EXACT, RawReader
from sluicegate.bronze.text.csv_files import make_fields_distinct
from sluicegate.bronze.text.json_reader import ABOUT, CORRUPT_AS
from sluicegate.bronze.typed_files import demand_whole
from sluicegate.definition.tables.column_names import normalize_name
from sluicegate.schema import column_inference
from sluicegate.schema.columns import CORRUPT, PROVENANCE, RESCUED
from sluicegate.schema.evolution import Column
from sluicegate.schema.values import Value, add_json_fits, path_value, rescued_json
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.type_parts import is_text


@dataclass(frozen=True)
class Reader(RawReader):
    """Reader of the files of one bronze table: their fields, and all of their records."""

    def read(self, paths: Sequence[str]) -> DataFrame:
        """Read some files into the data columns and all of ``PROVENANCE`` but ``_chunk``.

        Args:
            paths: paths as in the ledger.

        Raises:
            SourceError: a file's header or footer cannot be read, or a multi-line file is more than one JSON value.
            SchemaMismatch: a column's type differs from the definition, or a new column is not allowed.
        """
        landed_paths.demand_unpacked(self.schema.table, self._table.format, paths)
        large = oversized_files(self.session, self._table, paths, self.sizes)
        self.damaged.update(large)
        paths = [path for path in paths if path not in large]
        if self.decoded is None:
            return self._read(paths)
        copies = self.decoded.paths_to_read(self.schema.table, self._table, paths, self.sizes)
        frame = self._read(copies, self.decoded.bad_records(paths))
        for path in [copy for copy in copies if copy in self.damaged]:
            self.damaged[self.decoded.landed_path(path)] = self.damaged.pop(path)
        return frame

    def _read(self, paths: Sequence[str], undecoded: Sequence[str] = ()) -> DataFrame:
        """Read some files, and the files of records with undecodable bytes."""
        # Spark evaluates it when it reads, which is when all parts are: it holds for all, if it does for one.
        self.session.conf.set(EXACT, "false")
        groups = [group for openable in self._separate_paths(paths) for group in self._groups(openable)]
        for group in groups:  # so that all are read as the types that hold the values of each
            self._columns(group)
        if undecoded:
            groups.append(Group([], list(undecoded), ReadMode.UNDECODED))
        parts = list(map(self._read_group, groups))
        if not parts:
            return self.empty_frame()
        frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        if "_pos" not in frame.columns:
            # Above the union, so that no two of its parts number their records alike.
            frame = frame.withColumn("_pos", F.monotonically_increasing_id())
        return self._add_defined_columns(frame)

    def _add_defined_columns(self, frame: DataFrame) -> DataFrame:
        """Add the columns that the definition names, which exist from the first file on."""
        present = {column.lower() for column in [*frame.columns, *self.schema.known]}
        absent = {name: kind for name, kind in self.schema.expected_types.items() if name.lower() not in present}
        last = [column for column in PROVENANCE if column in frame.columns]
        first = [column for column in frame.columns if column not in last]
        if absent:
            frame = frame.withColumns({name: F.lit(None).cast(kind) for name, kind in absent.items()})
        return frame.select(*map(quote_name, [*first, *absent]), *last)

    def _separate_paths(self, paths: Sequence[str]) -> Iterable[list[str]]:
        """Return files in groups that Spark can open together; a path that is not a file is in one of them."""
        if self.decoded is not None:
            return landed_paths.separate_paths(paths)
        return filter(None, [list(paths)])

    def empty_frame(self) -> DataFrame:
        """Return an empty frame with the known columns."""
        stored = {name.lower() for name in self.schema.known}
        columns = dict(self.schema.known)
        columns |= {name: kind for name, kind in self.schema.expected_types.items() if name.lower() not in stored}
        columns |= dict.fromkeys((RESCUED, CORRUPT, "source_file"), StringType())
        columns |= dict.fromkeys(("receipt_time", "_file_modification_time"), TimestampType())
        columns |= {"_pos": LongType()}
        return self.session.createDataFrame([], StructType([StructField(*column) for column in columns.items()]))

    # --- which fields the files have ---------------------------------------------------------------------------------

    def _groups(self, paths: Sequence[str]) -> Iterator[Group]:
        """Yield the groups of files that can be read together, with their fields."""
        match self._table.format:
            case _ if self._table.singleVariantColumn:
                if self._table.format == "csv":
                    self._csv.files_to_split(self._csv.headers_and_trouble(paths, header=False))
                sound = [path for path in paths if path not in self.damaged]
                if sound:
                    yield Group(self._variant_fields, sound, ReadMode.VARIANT, whole=self._multi_line)
            case "json":
                yield from map(self._drop_null_fields, self._json_groups(paths))
            case "xml":
                yield Group(self._xml_fields(paths), list(paths))
            case "csv":
                yield from self._csv_groups(paths)
            case "parquet" | "orc" | "avro":
                yield from self._typed_files.groups(paths)
            case _:
                yield Group([*self._load(self._table.format, paths).schema], list(paths))

    def _json_groups(self, paths: Sequence[str]) -> Iterator[Group]:
        if self._multi_line:
            yield from self._json.documents(paths)
        elif self._ignores_other_fields and self._json.has_flat_lines(paths):
            yield Group(self._declared_fields, list(paths))
        else:
            yield from self._json.lines(paths)

    def _drop_null_fields(self, group: Group) -> Group:
        """Drop new fields that are NULL in all records of a group: they have no type yet.

        Without inferColumnTypes a column of single values is text in any case.
        """
        new = [
            field.name for field in group.fields if is_text(field.dataType) and not self.schema.has_field(field.name)
        ]
        if not (new and self._table.inferColumnTypes):
            return group
        records, _ = self._load_raw(group, [Column(name, StringType(), name, StringType()) for name in new])
        void = column_inference.null_columns(records, new)
        return replace(group, fields=[field for field in group.fields if field.name not in void])

    def _xml_fields(self, paths: Sequence[str]) -> list[StructField]:
        """Return the fields of XML files, by a pass of its own so that none is missed."""
        options = {"inferSchema": str(self._table.inferColumnTypes).lower(), "columnNameOfCorruptRecord": CORRUPT_AS}
        schema = self._load("xml", paths, extra=options).schema
        return [field for field in schema if field.name != CORRUPT_AS]

    @property
    def _variant_fields(self) -> list[StructField]:
        return [StructField(self._table.singleVariantColumn or "", VariantType())]

    @property
    def _ignores_other_fields(self) -> bool:
        """Whether other fields of the files are irrelevant, as the definition drops them.

        Normalized columns have no field yet, or one of another name.
        """
        if self._table.normalizes:
            return False
        fixed = self._table.declared_columns is not None or not self.schema.first
        return not self._table.rescues and fixed and self._table.schemaEvolutionMode in ("rescue", "none")

    @property
    def _declared_fields(self) -> list[StructField]:
        folders = self._table.partitionColumns
        kinds = {**self.schema.expected_types, **self.schema.known}
        return [StructField(name, kind) for name, kind in kinds.items() if name not in folders]

    def _csv_groups(self, paths: Sequence[str]) -> Iterator[Group]:
        """Yield the groups of CSV files with the same columns that are read in the same mode."""
        header = self._is_set("header")
        about = self._csv.headers_and_trouble(paths, header=header and self._csv.has_plain_headers)
        demand_whole(about, self.schema.table, "the header of a CSV file cannot be read")
        to_split = self._csv.files_to_split(about)
        readable = [path for path in paths if path not in self.damaged]
        if not readable:
            return
        if header:
            names = self._csv.headers(readable, about)
        else:
            names = dict.fromkeys(readable, self._names_by_place(readable, about))
        if self.decoded is not None:
            self.decoded.demand_decoded(self.schema.table, self._table, names)

        def mode_of(path: str) -> ReadMode:
            if path in to_split:
                return ReadMode.RECORDS
            return ReadMode.NATIVE

        for (fields, mode), group in group_by_key(readable, lambda path: (names[path], mode_of(path))):
            yield Group(self._csv_fields(fields, group, whole=mode == ReadMode.RECORDS), group, mode)

    def _names_by_place(self, paths: Sequence[str], about: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the column names of files without a header; the first file decides their number."""
        folders = set(self._table.partitionColumns)
        if self._table.normalizes:
            folders = set(map(normalize_name, folders))
        names = [name for name in self._table.declared_columns or {} if name not in folders]
        if not names and (trouble := about.get(paths[0], {}).get("trouble")):
            names = [f"_c{place}" for place in range(trouble["columns"])]
        return tuple(names or self._load("csv", paths).columns)

    def _csv_fields(self, names: Sequence[str], paths: Sequence[str], *, whole: bool) -> list[StructField]:
        """Return the fields of CSV files, with inferred types only if new columns get them."""
        new = not all(map(self.schema.has_field, names))
        if not (new and self._table.inferColumnTypes):
            return self._text_fields(names)
        options: dict[str, str] = {}
        if whole:
            options["multiLine"] = "true"
        typed = self._load("csv", paths, extra={"inferSchema": "true", **options}).schema
        inferred = [field.dataType for field in typed]
        if whole and len(inferred) != len(names):  # of files that Spark cannot cut into records
            return self._text_fields(names)
        schema = StructType(self._text_fields([f"c{n}" for n in range(len(names))]))
        texts = self._load("csv", paths, schema=schema, extra=options)
        untyped = {f"c{n}": kind for n, kind in enumerate(inferred) if not self.schema.has_field(names[n])}
        exact = column_inference.exact_types(texts, untyped, self._options)
        return [StructField(name, exact.get(f"c{n}", inferred[n])) for n, name in enumerate(names)]

    @staticmethod
    def _text_fields(names: Sequence[str]) -> list[StructField]:
        return [StructField(name, StringType()) for name in names]

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read_group(self, group: Group) -> DataFrame:
        """Read files that have the same fields."""
        columns = self._columns(group)
        folders = len(self._table.partitionColumns)
        in_path, in_file = columns[:folders], self._native_columns(columns[folders:])
        raw, names = self._load_raw(group, in_file)
        about = raw[ABOUT] if ABOUT in raw.columns else raw.metadataColumn("_metadata")  # a field may have that name
        if self.decoded is not None:
            raw, about = self.decoded.restore_names(raw, about, group.paths)
        values = [Value(column, path_value(column.field, about), self._options) for column in in_path]
        values += [
            value_of(group.stored.get(column.field), column, F.col(quote_name(name)), self._options)
            for column, name in zip(in_file, names, strict=True)
        ]
        values += [unreadable_value(name, reason) for name, reason in group.unreadable.items()]
        raw, values = add_json_fits(raw, values)
        corrupt = rescued_data = F.lit(None).cast("string")
        if CORRUPT_AS in raw.columns:  # bytes that are no text would make a table that not every reader can read
            corrupt = F.make_valid_utf8(CORRUPT_AS)
        if self._table.rescues:
            rescued_data = rescued_json(values, about)
        return raw.select(
            *[value.typed_value.alias(value.column.name) for value in values if value.column.name],
            rescued_data.alias(RESCUED), corrupt.alias(CORRUPT), F.current_timestamp().alias("receipt_time"),
            about["file_path"].alias("source_file"), about["file_modification_time"].alias("_file_modification_time"),
            *self._source_columns(about),
        )  # fmt: skip

    def _native_columns(self, columns: list[Column]) -> list[Column]:
        """Return the columns of the fields in files, as Spark reads them."""
        if self._table.format == "csv":
            self.schema.padded_headers.update(c.field for c in columns if c.name is None and c.field != c.field.strip())
            columns = make_fields_distinct(columns)
        if self._table.rescues:
            return columns
        # As in Spark itself, a record with a value that does not fit is a corrupt one.
        native = []
        for column in columns:
            if column.name:
                column = replace(column, read=column.type, conversion="native")
            native.append(column)
        return native

    def _columns(self, group: Group) -> list[Column]:
        """Return the columns of some files' fields, after those of their path."""
        return self.schema.columns([*self._text_fields(self._table.partitionColumns), *group.fields])

    def _source_columns(self, about: Expression) -> list[Expression]:
        """Return further columns of a record that its source gives it."""
        return []

"""Model of a bronze table's definition; see definition/pipeline/model.py for the others."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ModelWrapValidatorHandler, model_validator
from pydantic.config import JsonDict

from sluicegate.definition.fields import (
    Bytes,
    ColumnName,
    ColumnNames,
    Ddl,
    Duration,
    Hints,
    Location,
    Moment,
    OptionText,
    field_error,
)
from sluicegate.definition.tables.column_names import normalize_name, unnormalized_fault
from sluicegate.definition.tables.described import DESCRIBED, Described
from sluicegate.definition.tables.expectations import ConditionsByName, Expectations
from sluicegate.definition.tables.kafka import COLUMNS, KafkaSource
from sluicegate.definition.tables.reader_options import Format
from sluicegate.definition.tables.ruled import Ruled
from sluicegate.spark_sql import ddl

# Fields of a table whose source is a Delta table.
_RULES = {"expectations", "expect_all", "expect_all_or_fail", "expect_table"}
_OF_DELTA = {"path", "format", "schemaEvolutionMode", "expect_files_within", *DESCRIBED, *_RULES}

# Fields of a table whose source is Kafka. Those of the second line are for values that are JSON.
_OF_KAFKA = {"path", "format", "kafka", *DESCRIBED, *_RULES}
_OF_JSON = {
    "options", "schema", "schemaHints", "inferColumnTypes", "schemaEvolutionMode", "singleVariantColumn",
    "readerCaseSensitive", "columnNames", "maxRecordBytes",
}  # fmt: skip


def _complete_editor_schema(schema: JsonDict) -> None:
    """Complete the JSON schema for editors: which fields go with which format."""
    schema["required"] = ["format"]

    def format_schema(form: str) -> JsonDict:
        return {"properties": {"format": {"const": form}}, "required": ["format"]}

    kafka: JsonDict = {"propertyNames": {"enum": [*sorted((_OF_KAFKA | _OF_JSON) - {"path"})]}, "required": ["kafka"]}
    schema["allOf"] = [
        {"if": format_schema("delta"), "then": {"propertyNames": {"enum": [*sorted(_OF_DELTA)]}}},
        {
            "if": format_schema("kafka"),
            "then": kafka,
            "else": {"required": ["path"], "properties": {"kafka": {"type": "null"}}},
        },
    ]


# Maximum length of a Java array.
LARGEST_RECORD = (2 << 30) - 1

# As Auto Loader has it.
DELETE_AT_LEAST = timedelta(days=7)


def _parse_off(value: Any) -> Any:
    """Read ``OFF``, which YAML parses as false."""
    if value is False:
        return "OFF"
    return value


Clean = Annotated[
    Literal["OFF", "MOVE", "DELETE"],
    BeforeValidator(_parse_off, json_schema_input_type=Literal["OFF", "MOVE", "DELETE", False]),
]


def _check_record_path(path: str) -> str:
    if not all(path.split(".")):
        raise field_error("wrong-type", f"{path} is not a path of fields", "for example data, or response.items")
    return path


class BronzeTable(Described, Ruled):
    """A table of files or records as they came, or of another Delta table's rows.

    It has ``schema``, ``schemaHints`` or neither.

    Attributes:
        path: folder that the files arrive in, absolute or a URI, with its variables replaced; of ``delta``, the table.
            ``kafka`` has none.
        format: format of the files; ``delta``: the rows of the Delta table at ``path``; ``kafka``: the records of
            topics.
        kafka: the topics, of ``format: kafka``. Fields about files do not go with that.
        dialect: quotes within quoted values of CSV. ``rfc4180``: they are doubled, and a record with contradictory
            quotes is corrupt. ``spark``: a backslash precedes them, and quotes are not checked.
        options: options of Spark's reader, as Spark takes them.
        records: field of a multi-line JSON file that has its records, as ``data`` or ``response.items``; what is around
            it is not read.
        schema_: ``schema`` of the definition: all columns with their types, as DDL.
        schemaHints: types of some columns, as DDL; the others are inferred. ``profile.zip STRING`` is a field inside of
            a column, ``lines.element.price DOUBLE`` one inside of an array.
        inferColumnTypes: whether new columns of JSON, CSV and XML files get the types that their values have; they are
            text otherwise.
        schemaEvolutionMode: treatment of a new field. ``addNewColumns``, the default without a schema: it becomes a
            column. ``addNewColumnsWithTypeWidening``: types are widened, too. ``rescue``, ``none`` (the default
            with a schema): its values are rescued. ``failOnNewColumns``: nothing is read until the definition names
            it.
        singleVariantColumn: the one column that has each record of JSON, CSV or XML files as a VARIANT; the files need
            no schema then, and reading takes longer.
        rescuedDataColumn: ``none``, for JSON lines only, turns rescued data off, which is faster: a record with a
            value that does not fit is then corrupt.
        readerCaseSensitive: whether a column's name in another case is another name, whose values are rescued.
        columnNames: ``landed``: columns have the names of the fields; a field with an impossible name is rescued.
            ``normalized``: ``us_gross`` for a field ``US Gross``; of two fields with one such name the second is
            rescued. Hints and a schema use the columns' names.
        partitionColumns: columns to take from ``name=value`` folders in the paths of files.
        pathGlobFilter: pattern that the names of files must match.
        modifiedAfter: only files modified after this time (UTC, as 2024-05-01 or 2024-05-01T12:00:00) are read.
        modifiedBefore: only files modified before this time are read.
        includeExistingFiles: whether files that were there before the table's first run are read.
        allowOverwrites: whether a file that changed is read again, its rows replacing those that it gave before.
        maxFilesPerTrigger: maximum number of files of a ledger batch, which is one commit.
        maxBytesPerTrigger: maximum bytes of a ledger batch, as 4096 or ``512m``; the file that passes it is included.
        maxRecordBytes: maximum bytes of a record: a line, or a whole file of multi-line JSON, ``wholetext`` or
            ``binaryFile``; as 4096 or ``512m``. A file with more fails, the others are ingested.
        maxFileBytes: maximum bytes of a file, decompressed; a file with more fails, the others are ingested.
        settleSeconds: files that changed in the last so many seconds are left for the next run.
        expect_files_within: time span, as ``24 hours``, within which new files, or versions of ``delta``, are expected;
            a run in Airflow that finds none after that fails.
        cleanSource: treatment of a file once its rows are committed and the retention has passed: it stays, is moved to
            ``cleanSourceMoveDestination``, or is deleted.
        cleanSourceRetentionDuration: retention after the commit, as ``30 days`` or ``12 hours``; at least 7 days for
            ``DELETE``.
        cleanSourceMoveDestination: archive folder, absolute or a URI, outside of every landing folder; files keep
            their paths below it, and none is overwritten.
        expectations_: ``expectations`` of the definition: conditions on records by name, each with ``expect`` or
            ``expect_or_fail``; no record is dropped.
        expect_all: conditions by name; records that break them are counted.
        expect_all_or_fail: conditions by name; records that break one fail the run.
        expect_table: rules about the whole table by name, checked before each commit.
        comment: what the table is, for people; the table's comment in Delta.
        column_comments: comments of its columns by name.
        table_properties: properties of the Delta table: your own, and those of Delta that only tune how files are
            written.
        tags: names with values, stored as properties of the table and in ``extra`` of its asset in Airflow.
    """

    path: Location
    format: Format
    dialect: Literal["rfc4180", "spark"] = "rfc4180"
    kafka: KafkaSource | None = None
    options: dict[str, OptionText] = {}
    records: Annotated[str, AfterValidator(_check_record_path)] | None = None
    schema_: Ddl | None = Field(None, alias="schema")
    schemaHints: Hints | None = None
    inferColumnTypes: bool = False
    schemaEvolutionMode: (
        Literal["addNewColumns", "addNewColumnsWithTypeWidening", "rescue", "failOnNewColumns", "none"] | None
    ) = None
    singleVariantColumn: ColumnName | None = None
    rescuedDataColumn: Literal["_rescued_data", "none"] = "_rescued_data"
    readerCaseSensitive: bool = True
    columnNames: Literal["landed", "normalized"] = "landed"
    partitionColumns: ColumnNames = []
    pathGlobFilter: str | None = None
    modifiedAfter: Moment | None = None
    modifiedBefore: Moment | None = None
    includeExistingFiles: bool = True
    allowOverwrites: bool = False
    maxFilesPerTrigger: int = Field(1000, ge=1)
    maxBytesPerTrigger: Annotated[Bytes, Field(ge=1)] | None = None
    maxRecordBytes: Annotated[Bytes, Field(ge=1, le=LARGEST_RECORD)] = 512 << 20
    maxFileBytes: Annotated[Bytes, Field(ge=1)] = 64 << 30
    settleSeconds: float = Field(5.0, ge=0, le=86_400)
    cleanSource: Clean = "OFF"
    cleanSourceRetentionDuration: Duration = Field("30 days", validate_default=True)
    cleanSourceMoveDestination: Location | None = None
    # They do not decide how files are read, so the fingerprint is made without them.
    expect_files_within: Duration | None = Field(None, gt=timedelta(0), exclude=True)
    expectations_: Expectations = Field({}, alias="expectations", exclude=True)
    expect_all: ConditionsByName = Field({}, exclude=True)
    expect_all_or_fail: ConditionsByName = Field({}, exclude=True)

    model_config = ConfigDict(json_schema_extra=_complete_editor_schema)

    @model_validator(mode="wrap")
    @classmethod
    def _set_topic_path(cls, data: Any, make: ModelWrapValidatorHandler[BronzeTable]) -> BronzeTable:
        """Give a table of topics its address as the path."""
        if not isinstance(data, dict) or data.get("format") != "kafka":
            return make(data)
        if "path" in data:
            raise field_error("not-allowed", "path is for files: topics are listed under kafka. Remove path")
        table = make({**data, "path": "kafka://"})
        if table.kafka is None:
            return table
        return table.model_copy(update={"path": table.kafka.address})

    @model_validator(mode="before")
    @classmethod
    def _set_default_mode(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("schemaEvolutionMode") is None:
            return {**data, "schemaEvolutionMode": "none" if data.get("schema") else "addNewColumns"}
        return data

    @model_validator(mode="after")
    def _check_schema(self) -> BronzeTable:
        if self.schema_ and self.adds_columns:
            hint = "remove schemaEvolutionMode, or replace schema by schemaHints"
            raise field_error("schema-and-evolution", "a table with a fixed schema does not accept new columns", hint)
        if self.schema_ and self.schemaHints:
            message = "schema and schemaHints exclude each other: schema already declares all types"
            raise field_error("schema-and-hints", message, "remove one of them")
        return self

    @model_validator(mode="after")
    def _check_variant(self) -> BronzeTable:
        if self.singleVariantColumn is None:
            return self
        if self.format not in ("json", "csv", "xml", "kafka"):
            reason = f"singleVariantColumn requires json, csv or xml: {self.format} files bring their own columns"
            raise field_error("not-allowed", reason, "remove it")
        idle_fields = {
            "schema": self.schema_, "schemaHints": self.schemaHints, "partitionColumns": self.partitionColumns,
            "inferColumnTypes": self.inferColumnTypes, "rescuedDataColumn": not self.rescues,
        }  # fmt: skip
        for field_name, value in idle_fields.items():
            if value:
                reason = f"{field_name} has no effect with singleVariantColumn, which stores each record as one value"
                raise field_error("not-allowed", reason)
        return self

    @model_validator(mode="after")
    def _check_format(self) -> BronzeTable:
        if self.format == "delta":
            self._check_delta_fields()
        self._check_kafka_fields()
        self._check_format_fields()
        if self.pathGlobFilter and set(self.pathGlobFilter) & set("{}"):
            message = "pathGlobFilter supports *, ? and [ ], not braces"
            raise field_error("not-allowed", message, "split it into two tables, or write one pattern")
        if self.modifiedAfter and self.modifiedBefore and self.modifiedAfter >= self.modifiedBefore:
            raise field_error("out-of-range", "modifiedBefore must be after modifiedAfter: this range contains no time")
        return self

    def _check_delta_fields(self) -> None:
        """Refuse fields about files, and paths that are no URIs, for a table that reads a Delta table."""
        for name in sorted(self._names_of_set_fields - _OF_DELTA):
            raise field_error("not-allowed", f"{name} is for files, not for a Delta source: remove it")
        if "://" not in self.path and set(self.path) & set("#?%"):
            message = "the path of a Delta table must not contain #, ? or %, which have a meaning in URIs"
            raise field_error("not-allowed", message)

    @property
    def _names_of_set_fields(self) -> set[str]:
        """Fields that the definition sets, by their names there."""
        return {name.rstrip("_") for name in self.model_fields_set}

    def _check_format_fields(self) -> None:
        """Refuse fields that the format does not have, and require those that it needs."""
        if self.format != "csv" and "dialect" in self.model_fields_set:
            raise field_error("not-allowed", f"dialect is only for csv, not for {self.format}", "remove dialect")
        if self.format in ("text", "binaryFile") and (self.schema_ or self.schemaHints):
            message = f"{self.format} files bring their own column types: remove the declared types"
            raise field_error("schema-of-format", message)
        self._check_json_fields()
        if self.format == "xml" and "rowtag" not in self.options_by_lower_name:
            raise field_error("missing-field", "xml requires the option rowTag: the element that holds one record")

        if self.skipped_lines and "linesep" in self.options_by_lower_name:
            raise field_error(
                "not-allowed", "skipRows counts lines that end as usual, not by lineSep", "remove one of both"
            )

    def _check_json_fields(self) -> None:
        is_json, has_several_lines = self.format == "json", self.has_option("multiline")
        if not self.rescues and not (is_json and not has_several_lines):
            message = "`rescuedDataColumn: none` requires JSON Lines"
            raise field_error("not-allowed", message, "remove rescuedDataColumn")
        if self.records and not (is_json and has_several_lines):
            message = "records requires JSON files that are one value each"
            raise field_error("not-allowed", message, "set format: json, and options: {multiLine: true}")

    def _check_kafka_fields(self) -> None:
        if self.kafka is None:
            if self.format == "kafka":
                hint = "for example kafka: {bootstrap_servers: b1:9092, topic: orders}"
                message = "format: kafka requires the field kafka, with brokers and topics"
                raise field_error("missing-field", message, hint)
            return
        if self.format != "kafka":
            message = f"the field kafka requires format: kafka, not {self.format}"
            raise field_error("not-allowed", message, "write format: kafka")
        set_fields = self._names_of_set_fields
        if files_only := set_fields - _OF_KAFKA - _OF_JSON:
            raise field_error("not-allowed", f"{sorted(files_only)[0]} is for files, not for Kafka: remove it")
        if self.kafka.value != "json" and (files_only := (set_fields & _OF_JSON) - {"schemaEvolutionMode"}):
            reason = f"{sorted(files_only)[0]} requires JSON values, but value is {self.kafka.value}"
            raise field_error("not-allowed", reason, "remove it")
        for name in (*self.declared_names, self.singleVariantColumn or ""):
            if name.lower() in COLUMNS:
                raise field_error("reserved-name", f"{name} is a reserved column: every Kafka table has it")

    @model_validator(mode="after")
    def _check_normalized_names(self) -> BronzeTable:
        if not self.normalizes:
            return self
        for name in self.declared_names:
            if normalize_name(name) != name:
                raise field_error("name", *unnormalized_fault(name))
        return self

    @model_validator(mode="after")
    def _check_cleaning(self) -> BronzeTable:
        if (self.cleanSource == "MOVE") != (self.cleanSourceMoveDestination is not None):
            message = "cleanSource: MOVE and cleanSourceMoveDestination require each other"
            raise field_error("clean-source", message, "set both or neither")
        if self.cleanSource == "DELETE" and self.cleanSourceRetentionDuration < DELETE_AT_LEAST:
            raise field_error(
                "out-of-range",
                "files are deleted 7 days after the commit of their rows at the earliest",
                "set cleanSourceRetentionDuration to 7 days or more, or use cleanSource: MOVE",
            )
        return self

    @property
    def reads_files(self) -> bool:
        """Whether its source is landed files; else another Delta table, or Kafka's topics."""
        return self.format not in ("delta", "kafka")

    @property
    def topic_source(self) -> KafkaSource:
        """Its topics, of ``format: kafka``."""
        if self.kafka is None:
            raise TypeError(f"a {self.format} table has no topics")
        return self.kafka

    @property
    def value_table(self) -> BronzeTable:
        """The definition as that of a table of files, each of which is the value of one of Kafka's records."""
        forms = {"json": "json", "text": "text", "binary": "binaryFile"}
        if self.kafka is None:
            return self
        return self.model_copy(update={"format": forms[self.kafka.value]})

    @property
    def adds_columns(self) -> bool:
        """Whether a new field becomes a column."""
        return str(self.schemaEvolutionMode).startswith("addNewColumns")

    @property
    def widens(self) -> bool:
        """Whether columns are widened to the type of their values."""
        return self.schemaEvolutionMode == "addNewColumnsWithTypeWidening"

    @property
    def rescues(self) -> bool:
        """Whether values that do not fit the columns go to ``_rescued_data``."""
        return self.rescuedDataColumn != "none"

    @property
    def normalizes(self) -> bool:
        """Whether columns have normalized names."""
        return self.columnNames == "normalized" and self.singleVariantColumn is None

    @property
    def options_by_lower_name(self) -> dict[str, str]:
        """Options by their names in lower case, as Spark takes them in any."""
        return {name.lower(): value for name, value in self.options.items()}

    @property
    def skipped_lines(self) -> int:
        """Number of lines of each file before its header or first record."""
        return int(self.options_by_lower_name.get("skiprows", "0"))

    @property
    def path_of_records(self) -> list[str]:
        """Fields of a JSON file, each in the one before, of which the last has its records; none if it is a record."""
        if self.records is None:
            return []
        return self.records.split(".")

    def has_option(self, lower_name: str) -> bool:
        """Return whether an option is true."""
        return self.options_by_lower_name.get(lower_name, "").lower() == "true"

    @property
    def reader_options(self) -> dict[str, str]:
        """Options of Spark's reader, with those of the dialect; by RFC 4180 a quote stands before a quote.

        Without a character for it, as in ``escape: ''``, Spark would not end a quoted value at the end of a line.
        """
        by_lower_name = self.options_by_lower_name
        if (
            self.format != "csv"
            or by_lower_name.get("escape")
            or (self.dialect == "spark" and "escape" not in by_lower_name)
        ):
            return self.options
        options = {name: value for name, value in self.options.items() if name.lower() != "escape"}
        return {**options, "escape": by_lower_name.get("quote", '"')}

    @property
    def fingerprint(self) -> str:
        """Hash of all fields that decide how files are read: failed files are retried when it changes."""
        left_out = {"path", "cleanSource", "cleanSourceRetentionDuration", "cleanSourceMoveDestination"} | DESCRIBED
        left_out |= {"kafka", "columnNames"} if self.columnNames == "landed" else {"kafka"}  # they came later
        if self.format != "csv":
            left_out |= {"dialect"}
        if self.records is None:  # it came later
            left_out |= {"records"}
        return hashlib.sha256(self.model_dump_json(exclude=left_out).encode()).hexdigest()[:16]

    @property
    def hints(self) -> dict[str, str]:
        """Type of each hinted column, as written."""
        return {path[0]: kind for path, kind in self._hints.items() if len(path) == 1}

    @property
    def inner_hints(self) -> dict[tuple[str, ...], str]:
        """Type of each hinted nested field, as written, by its path."""
        return {path: kind for path, kind in self._hints.items() if len(path) > 1}

    @property
    def _hints(self) -> dict[tuple[str, ...], str]:
        if self.schemaHints:
            return ddl.hints(self.schemaHints)
        return {}

    @property
    def declared_names(self) -> list[str]:
        """Columns that the schema or the hints name."""
        return [*(self.declared_columns or {}), *(path[0] for path in self._hints)]

    @property
    def declared_columns(self) -> dict[str, str] | None:
        """Type of each column of the schema, as written; None without a schema."""
        if self.schema_:
            return ddl.columns(self.schema_)
        return None

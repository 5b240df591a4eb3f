"""Input of a case, put where the pipeline reads it: files in its tables' formats, or Delta tables."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.bronze import avro_header
from sluicegate.definition.tables.kafka import COLUMNS
from sluicegate.lake.tables import delta_table
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.tools.testing.model import CaseStep, TableGiven, Wrong
from sluicegate.tools.testing.rows import typed_value
from sluicegate.tools.testing.values import display_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sluicegate.definition import BronzeTable, Pipeline

# Modification time of the files of a case's first step, and the interval to those of each further one. Long enough ago
# for files to be settled, and the same each time, so that a case can expect it.
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
APART = timedelta(minutes=1)

# Column for the text of a row that does not fit its types.
_UNFIT = "_sluicegate_unfit"

# Suffixes by which a path of a definition is a file, not a folder.
_OF_FILES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".orc", ".avro"}

# Spark's names of formats, where they are not those of the definition.
_PROVIDERS = {"avro": avro_header.PROVIDER}


def enclose_pipeline(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Return a pipeline with all that it reads, moves or deletes inside a folder of the case.

    A path with ``${landing}`` or ``${lake}`` in it is inside already. Any other is somebody's own.
    """
    tables = {name: _enclose_table(name, table, folder) for name, table in pipeline.bronze.items()}
    return pipeline.model_copy(update={"bronze": tables})


def _enclose_table(name: str, table: BronzeTable, folder: Path) -> BronzeTable:
    table = _replace_kafka(table)
    paths = {"path": folder / "elsewhere" / name, "cleanSourceMoveDestination": folder / "moved" / name}
    moved = {
        field: str(enclosed_path)
        for field, enclosed_path in paths.items()
        if (path := getattr(table, field)) is not None and not Path(path).is_relative_to(folder)
    }
    return table.model_copy(update=moved)


def _replace_kafka(table: BronzeTable) -> BronzeTable:
    """Make a table of Kafka's records one of files: a case lands their values, with ``_key`` and so on."""
    if table.kafka is None:
        return table
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    update: dict[str, Any] = {"kafka": None}
    if table.kafka.value == "json" and table.singleVariantColumn is None:
        field = "schemaHints"
        if table.schema_:
            field = "schema_"
        update[field] = ", ".join(filter(None, [getattr(table, field), columns]))
    return table.value_table.model_copy(update=update)


def has_input(table: BronzeTable) -> bool:
    """Return whether a bronze table has something to read; ``create_folders`` creates folders of files."""
    if table.format == "delta":
        return delta_table(table.path) is not None
    return Path(table.path).exists()


def create_folders(pipeline: Pipeline, landing: Path) -> None:
    """Create the folders that files land in."""
    landing.mkdir(parents=True, exist_ok=True)
    for table in pipeline.bronze.values():
        if table.format != "delta" and not _is_file(table.path):
            Path(table.path).mkdir(parents=True, exist_ok=True)


def _is_file(path: str) -> bool:
    return Path(path).suffix.lower() in _OF_FILES


def land(spark: SparkSession, pipeline: Pipeline, landing: Path, step: CaseStep, number: int) -> None:
    """Land the input of a step.

    Args:
        spark: session that writes formats with types.
        pipeline: the definition, enclosed.
        landing: the pipeline's landing folder.
        step: the step.
        number: number of the step, from 1.

    Raises:
        Wrong: rows cannot be written as the table's files.
    """
    landed_at = step.landed or FIRST + (number - 1) * APART
    for name, text in step.landing.items():
        _write(landing / name, text.encode(), landed_at)
    for input_table in step.given:
        table = pipeline.bronze[input_table.table]
        if table.format == "delta":
            _add_to_delta(spark, input_table, Path(table.path))
        else:
            _write(_file(input_table, table, number), _content(spark, input_table, table), landed_at)


def _write(file: Path, content: bytes, landed_at: datetime) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (landed_at.timestamp(), landed_at.timestamp()))


def _file(input_table: TableGiven, table: BronzeTable, number: int) -> Path:
    """Return the path at which the rows land."""
    if input_table.file is not None:
        return Path(table.path) / input_table.file
    if _is_file(table.path):
        return Path(table.path)
    name = f"{input_table.table}-{number}.{table.format}"
    if (glob := table.pathGlobFilter) and not fnmatch.fnmatchcase(name, glob):
        name = re.sub(r"\[(.)[^]]*\]", r"\1", glob).replace("*", f"{input_table.table}-{number}")
        name = name.replace("?", str(number))
        if not fnmatch.fnmatchcase(name, glob):
            raise Wrong(f"no file name matches {glob}", input_table.place, "set file to a name")
    return Path(table.path) / name


def _content(spark: SparkSession, input_table: TableGiven, table: BronzeTable) -> bytes:
    """Write rows as one file of the table's format."""
    options = {name.lower(): value for name, value in table.options.items()}
    encoding = options.get("encoding") or options.get("charset") or "utf-8"
    try:
        if table.format == "json":
            return _json(input_table, table).encode(encoding)
        if table.format == "csv":
            return _csv(input_table, table, options).encode(encoding)
        if table.format == "text":
            return _text(input_table).encode()
    except LookupError as error:
        message = f"its files cannot be written: {error}"
        raise Wrong(message, input_table.place, "write their content under landing") from error
    return _write_by_spark(spark, input_table, table)


def _json(input_table: TableGiven, table: BronzeTable) -> str:
    lines = [json.dumps(record, ensure_ascii=False) for record in _typed_records(input_table)]
    if not table.has_option("multiline"):
        return "".join(f"{line}\n" for line in lines)
    text = "[\n" + ",\n".join(lines) + "\n]"
    for name in reversed(table.path_of_records):
        text = f"{{{json.dumps(name)}: {text}}}"
    return f"{text}\n"


def _typed_records(input_table: TableGiven) -> list[dict[str, Any]]:
    """Return the rows with typed values, also where they come from CSV text."""
    if not input_table.rows.texts:
        return list(map(dict, input_table.rows.records))
    return [{column: typed_value(value) for column, value in record.items()} for record in input_table.rows.records]


@dataclass(frozen=True)
class _Dialect:
    """How values of a CSV file are written."""

    separator: str
    quote: str
    escape: str
    null: str

    @classmethod
    def from_options(cls, table: BronzeTable, options: Mapping[str, str]) -> _Dialect:
        quote = options.get("quote", '"')
        escape = table.reader_options.get("escape", "\\")
        if "escape" in options:
            escape = options["escape"] or quote
        separator = options.get("sep") or options.get("delimiter") or ","
        return cls(separator, quote, escape, options.get("nullvalue", ""))

    def line(self, values: Iterable[str | None]) -> str:
        return self.separator.join(map(self._text, values)) + "\n"

    def _text(self, value: str | None) -> str:
        if value is None:
            return self.null
        special = (self.separator, self.quote, "\n", "\r")
        if value and value == value.strip() and not any(part in value for part in special):
            return value
        return self.quote + value.replace(self.quote, self.escape + self.quote) + self.quote


def _csv(input_table: TableGiven, table: BronzeTable, options: Mapping[str, str]) -> str:
    dialect = _Dialect.from_options(table, options)
    columns: Sequence[str] = input_table.rows.columns
    header = options.get("header", "").lower() == "true"
    if not header:
        # Without a header values belong to columns by their places.
        columns = [column for column in table.declared_columns or () if column in columns] or columns
    lines = [dialect.line(_csv_value(record.get(name)) for name in columns) for record in input_table.rows.records]
    if header:
        lines.insert(0, dialect.line(columns))
    return "\n" * table.skipped_lines + "".join(lines)


def _csv_value(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _text(input_table: TableGiven) -> str:
    if input_table.rows.records and input_table.rows.columns != ("value",):
        sentence = f"a row of a text file has one column, value, not {', '.join(input_table.rows.columns)}"
        raise Wrong(sentence, input_table.place)
    return "".join(f"{record['value']}\n" for record in input_table.rows.records)


# --- formats that have types -----------------------------------------------------------------------------------------


def _write_by_spark(spark: SparkSession, input_table: TableGiven, table: BronzeTable) -> bytes:
    """Write rows as one file by Spark: Parquet, ORC or Avro."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "written"
        rows = _frame(spark, input_table, Path(scratch)).coalesce(1)
        rows.write.format(_PROVIDERS.get(table.format, table.format)).save(str(target))
        (file,) = target.glob("part-*")
        return file.read_bytes()


def _add_to_delta(spark: SparkSession, input_table: TableGiven, path: Path) -> None:
    """Append the rows to a Delta table, or overwrite it."""
    exists = delta_table(str(path)) is not None
    schema: Any = None
    if exists and input_table.schema is None:
        stored_schema = spark.read.format("delta").load(str(path)).schema
        if set(input_table.rows.columns) <= set(stored_schema.names):
            schema = stored_schema
    with tempfile.TemporaryDirectory() as scratch:
        rows = _frame(spark, input_table, Path(scratch), schema)
        if not exists:
            shutil.rmtree(path, ignore_errors=True)
        writer = rows.coalesce(1).write.format("delta").mode(input_table.mode if exists else "append")
        if exists and schema is None:
            writer = writer.option("overwriteSchema" if input_table.mode == "overwrite" else "mergeSchema", "true")
        writer.save(str(path))


def _frame(spark: SparkSession, input_table: TableGiven, scratch: Path, schema: Any = None) -> DataFrame:
    """Read rows with Spark from JSON, by the given types or else by those of the values."""
    from pyspark.sql.types import StringType, StructField, StructType

    records, kinds = _typed_records(input_table), input_table.schema or schema
    if kinds is None and not records:
        raise Wrong("rows and schema are both missing", input_table.place, "set schema: the columns with their types")
    file = scratch / "rows.json"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    if kinds is None:
        return spark.read.json(str(file)).select(*map(quote_name, input_table.rows.columns))
    typed_schema = spark.createDataFrame([], kinds).schema
    if unknown := [column for column in input_table.rows.columns if column not in typed_schema.names]:
        hint = f"its columns: {', '.join(typed_schema.names)}"
        raise Wrong(f"unknown column {unknown[0]} in schema", input_table.place, hint)
    reader = spark.read.schema(StructType([*typed_schema.fields, StructField(_UNFIT, StringType())]))
    rows = reader.option("columnNameOfCorruptRecord", _UNFIT).json(str(file))
    for row in rows.where(f"`{_UNFIT}` IS NOT NULL").take(1):
        sentence = f"a row does not match the types: {display_value(json.loads(row[_UNFIT]))}"
        raise Wrong(sentence, input_table.place, f"types: {typed_schema.simpleString().removeprefix('struct')}")
    return rows.drop(_UNFIT)

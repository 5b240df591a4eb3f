"""The page on reader options says what Spark's defaults are, and which options change what bronze reads."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from scripts.reference_reader_options import OPTIONS, WITHOUT_EFFECT, formats_of
from sluicegate.bronze.ingest import READING
from sluicegate.bronze.raw_reader import EXACT
from sluicegate.bronze.reader import Reader
from sluicegate.definition import BronzeTable
from sluicegate.definition.tables.reader_options import Format
from sluicegate.schema.evolution import Schema
from sluicegate.spark.session import override_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Spark's classes of options, with the arguments behind the options themselves.
CLASSES: dict[Format, tuple[str, tuple[Any, ...]]] = {
    "json": ("org.apache.spark.sql.catalyst.json.JSONOptions", ("UTC", "")),
    "csv": ("org.apache.spark.sql.catalyst.csv.CSVOptions", (True, "UTC")),
    "xml": ("org.apache.spark.sql.catalyst.xml.XmlOptions", ("UTC", "", True)),
    "text": ("org.apache.spark.sql.execution.datasources.text.TextOptions", ()),
}

# Attributes of these classes whose names are not those of their options.
ATTRIBUTES = {
    "mode": "parseMode", "timeZone": "zoneId", "lineSep": "lineSeparator", "header": "headerFlag", "sep": "delimiter",
    "ignoreLeadingWhiteSpace": "ignoreLeadingWhiteSpaceInRead", "wholetext": "wholeText",
    "ignoreTrailingWhiteSpace": "ignoreTrailingWhiteSpaceInRead", "emptyValue": "emptyValueInRead",
    "excludeAttribute": "excludeAttributeFlag", "timestampFormat": "timestampFormatInRead",
    "timestampNTZFormat": "timestampNTZFormatInRead",
}  # fmt: skip
DATES = {"json": "dateFormatInRead", "csv": "dateFormatOption", "xml": "dateFormatOption"}

# Bronze decodes files, skips lines and reads CSV's quotes itself. The flag is private in Spark, and a record's element
# is required.
NOT_SPARKS = {"encoding", "charset", "escape", "allowUnquotedControlChars", "rowTag", "skipRows"}
NONE = ("None", "", "\x00")


def sparks_default(spark: SparkSession, form: Format, option: str) -> str:
    """The default of an option in Spark's own class, as the page writes it."""
    assert spark._jvm is not None
    name, arguments = CLASSES[form]
    kind = spark._jvm
    for part in name.split("."):
        kind = getattr(kind, part)
    required = {"rowTag": "row"} if form == "xml" else {}
    options = kind(spark._jvm.PythonUtils.toScalaMap(required), *arguments)
    attribute = DATES[form] if option == "dateFormat" else ATTRIBUTES.get(option, option)
    value = str(getattr(options, attribute)())
    if value in NONE:
        return ""
    if value == "PermissiveMode":
        return "PERMISSIVE"
    return value.lower() if value in ("True", "False") else value


@pytest.mark.in_the_jvm
@pytest.mark.parametrize("form", CLASSES)
def test_defaults_of_the_page_are_those_of_spark(spark: SparkSession, form: Format) -> None:
    options = [name for name in OPTIONS if form in formats_of(name) and name not in NOT_SPARKS]
    assert options
    assert {name: sparks_default(spark, form, name) for name in options} == {
        name: OPTIONS[name].default for name in options
    }


@pytest.mark.in_the_jvm
def test_days_of_old_files_are_read_by_the_mode_that_the_page_names(spark: SparkSession) -> None:
    settings = ("parquet.datetimeRebaseModeInRead", "parquet.int96RebaseModeInRead", "avro.datetimeRebaseModeInRead")
    modes = {spark.conf.get(f"spark.sql.{setting}") for setting in settings}
    assert modes == {OPTIONS["datetimeRebaseMode"].default} == {OPTIONS["int96RebaseMode"].default}


# What the options change


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Case(NamedTuple):
    """A file, and an option of another value than its default, beside what else the table has."""

    form: Format
    option: str
    value: str
    content: str
    options: Mapping[str, str] = NOTHING
    fields: Mapping[str, Any] = NOTHING


HEADER = {"header": "true"}
ROW = {"rowTag": "r"}
DAY, TIME, LOCAL = {"schemaHints": "d DATE"}, {"schemaHints": "t TIMESTAMP"}, {"schemaHints": "t TIMESTAMP_NTZ"}
NUMBER = {"schemaHints": "a DOUBLE"}
INFERRED = {"inferColumnTypes": True}
NOON, MAY = "2024-05-01 12:00:00", "dd.MM.yyyy HH:mm"

EFFECTS = [
    Case("json", "lineSep", "|", '{"a":1}|{"a":2}'),
    Case("json", "multiLine", "true", '[{"a":1},\n{"a":2}]'),
    Case("json", "timeZone", "Europe/Berlin", f'{{"t":"{NOON}"}}', {}, TIME),
    Case("json", "dateFormat", "dd.MM.yyyy", '{"d":"01.05.2024"}', {}, DAY),
    Case("json", "timestampFormat", MAY, '{"t":"01.05.2024 10:00"}', {}, TIME),
    Case("json", "timestampNTZFormat", MAY, '{"t":"01.05.2024 10:00"}', {}, LOCAL),
    Case("json", "allowComments", "true", '{"a":1 /* c */}'),
    Case("json", "allowUnquotedFieldNames", "true", "{a:1}"),
    Case("json", "allowSingleQuotes", "false", "{'a':1}"),
    Case("json", "allowNumericLeadingZeros", "true", '{"a":007}'),
    Case("json", "allowNonNumericNumbers", "false", '{"a":NaN}', {}, NUMBER),
    Case("json", "allowBackslashEscapingAnyCharacter", "true", '{"a":"\\q"}'),
    Case("json", "allowUnquotedControlChars", "true", '{"a":"x\ty"}'),
    Case("json", "prefersDecimal", "true", '{"a":1.5}', {}, INFERRED),
    Case("json", "dropFieldIfAllNull", "true", '{"a":null,"b":1}'),
    Case("json", "inferTimestamp", "true", '{"a":"2024-05-01T10:00:00"}', {}, INFERRED),
    Case("csv", "sep", ";", "a;b\n1;2\n", HEADER),
    Case("csv", "delimiter", ";", "a;b\n1;2\n", HEADER),
    Case("csv", "quote", "'", "a,b\n'1,5',2\n", HEADER),
    Case("csv", "escape", "\\", 'a,b\n"1\\"5",2\n', HEADER),
    Case("csv", "charToEscapeQuoteEscaping", "#", 'a,b\n"x#\\"",2\n', {**HEADER, "escape": "\\"}, {"dialect": "spark"}),
    Case("csv", "comment", "#", "a,b\n#1,5\n1,2\n", HEADER),
    Case("csv", "header", "true", "a,b\n1,2\n"),
    Case("csv", "ignoreLeadingWhiteSpace", "true", "a,b\n 1,2\n", HEADER),
    Case("csv", "ignoreTrailingWhiteSpace", "true", "a,b\n1 ,2\n", HEADER),
    Case("csv", "nullValue", "NA", "a,b\nNA,2\n", HEADER),
    Case("csv", "emptyValue", "empty", 'a,b\n"",2\n', HEADER),
    Case("csv", "maxColumns", "1", "a,b\n1,2\n", HEADER),
    Case("csv", "maxCharsPerColumn", "3", "a,b\n12345,2\n", HEADER),
    Case("csv", "unescapedQuoteHandling", "BACK_TO_DELIMITER", 'a,b\n"1"x,2\n', HEADER, {"dialect": "spark"}),
    Case("csv", "multiLine", "true", 'a,b\n"x\ny",2\n', HEADER, {"dialect": "spark"}),
    Case("csv", "preferDate", "false", "a,b\n2024-05-01,2\n", HEADER, INFERRED),
    Case("csv", "timeZone", "Europe/Berlin", f"t\n{NOON}\n", HEADER, TIME),
    Case("csv", "dateFormat", "dd.MM.yyyy", "d\n01.05.2024\n", HEADER, DAY),
    Case("csv", "timestampFormat", MAY, "t\n01.05.2024 10:00\n", HEADER, TIME),
    Case("csv", "timestampNTZFormat", MAY, "t\n01.05.2024 10:00\n", HEADER, LOCAL),
    Case("csv", "lineSep", "|", "a,b|1,2|", HEADER),
    Case("xml", "excludeAttribute", "true", '<x><r q="1"><a>1</a></r></x>', ROW),
    Case("xml", "attributePrefix", "at", '<x><r q="1"><a>1</a></r></x>', ROW),
    Case("xml", "valueTag", "val", '<x><r><a q="2">1</a></r></x>', ROW),
    Case("xml", "ignoreSurroundingSpaces", "false", "<x><r><a> 1 </a></r></x>", ROW),
    Case("xml", "ignoreNamespace", "true", '<x xmlns:z="u"><r><z:a>1</z:a></r></x>', ROW),
    Case("xml", "timeZone", "Europe/Berlin", f"<x><r><t>{NOON}</t></r></x>", ROW, TIME),
    Case("xml", "timestampFormat", MAY, "<x><r><t>01.05.2024 10:00</t></r></x>", ROW, TIME),
    Case("xml", "timestampNTZFormat", MAY, "<x><r><t>01.05.2024 10:00</t></r></x>", ROW, LOCAL),
    Case("xml", "dateFormat", "dd.MM.yyyy", "<x><r><d>01.05.2024</d></r></x>", ROW, DAY),
    Case("xml", "nullValue", "NA", "<x><r><a>NA</a></r></x>", ROW),
    Case("text", "wholetext", "true", "a\nb\n"),
    Case("text", "lineSep", "|", "a|b"),
]

NO_EFFECTS = [
    Case("json", "locale", "de", '{"d":"01 Mai 2024"}', {"dateFormat": "dd MMM yyyy"}, DAY),
    Case("json", "timeFormat", "HH.mm", '{"t":"10.30"}', {}, INFERRED),
    Case("json", "enableDateTimeParsingFallback", "true", '{"d":"2024-5-1"}', {"dateFormat": "yyyy-MM-dd"}, DAY),
    Case("json", "useUnsafeRow", "true", '{"a":{"b":1}}'),
    Case("csv", "locale", "de", "d\n01 Mai 2024\n", {**HEADER, "dateFormat": "dd MMM yyyy"}, DAY),
    Case("csv", "locale", "de", 'a\n"1.234,5"\n', HEADER, NUMBER),
    Case("csv", "timeFormat", "HH.mm", "t\n10.30\n", HEADER, INFERRED),
    Case("csv", "enableDateTimeParsingFallback", "true", "d\n2024-5-1\n", {**HEADER, "dateFormat": "yyyy-MM-dd"}, DAY),
    Case("csv", "nanValue", "nil", "a,b\nnil,2\n", HEADER, NUMBER),
    Case("csv", "positiveInf", "oo", "a,b\noo,2\n", HEADER, NUMBER),
    Case("csv", "negativeInf", "-oo", "a,b\n-oo,2\n", HEADER, NUMBER),
    Case("csv", "inputBufferSize", "64", "a,b\n1,2\n", HEADER),
    Case("csv", "columnPruning", "false", "a,b\n1,2\n", HEADER),
    Case("xml", "locale", "de", "<x><r><d>01 Mai 2024</d></r></x>", {**ROW, "dateFormat": "dd MMM yyyy"}, DAY),
    Case("xml", "treatEmptyValuesAsNulls", "true", "<x><r><a></a><b>1</b></r></x>", ROW),
    Case("xml", "validateName", "false", "<x><r><a>1</a></r></x>", ROW),
    Case("xml", "wildcardColName", "rest", "<x><r><a>1</a><b>2</b></r></x>", ROW, {"schema": "a STRING, rest STRING"}),
]

# Options that are tried elsewhere: encodings, skipped lines, the only mode that is allowed, and a file beside others.
ELSEWHERE = {"encoding", "charset", "mode", "rowTag", "rowValidationXSDPath", "skipRows"}


def rows(spark: SparkSession, folder: Path, case: Case, options: dict[str, str]) -> Any:
    """Columns and rows that bronze reads of a case's file; of a failure its kind."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    file = folder / f"landed.{case.form}"
    file.write_text(case.content)
    fields = {"path": str(folder), "format": case.form, "options": {**case.options, **options}, **case.fields}
    schema = Schema("t", BronzeTable.model_validate(fields), {}, first=True)
    with override_settings(spark, {**READING, EXACT: "false"}):
        frame = Reader(spark, schema, {}, {str(file): file.stat().st_size}).read([str(file)])
        frame = frame.drop("receipt_time", "source_file", "_file_modification_time", "_pos")
        try:
            return frame.dtypes, frame.collect()
        except (PySparkException, Py4JJavaError) as error:
            return type(error)


def named(case: Case) -> str:
    return f"{case.form}-{case.option}"


@pytest.mark.more
@pytest.mark.parametrize("case", EFFECTS, ids=named)
def test_an_option_changes_what_bronze_reads(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    assert case.option in OPTIONS
    assert rows(spark, tmp_path, case, {}) != rows(spark, tmp_path, case, {case.option: case.value})


@pytest.mark.more
@pytest.mark.parametrize("case", NO_EFFECTS, ids=named)
def test_an_option_without_effect_changes_nothing(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    read = rows(spark, tmp_path, case, {})
    assert read == rows(spark, tmp_path, case, {case.option: case.value})
    assert isinstance(read, tuple)


def test_each_option_of_a_text_format_is_tried() -> None:
    tried = {(case.form, case.option) for case in [*EFFECTS, *NO_EFFECTS]}
    missing = [
        (form, option)
        for form in CLASSES
        for option in {*OPTIONS, *WITHOUT_EFFECT} - ELSEWHERE
        if form in formats_of(option) and (form, option) not in tried
    ]
    assert missing == []

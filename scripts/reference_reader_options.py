"""What docs/reference/reader-options.md says: which options a bronze table takes by format, with defaults.

Formats and refusals come from the definition's own checks. Defaults are those of Spark 4.2's JSONOptions, CSVOptions,
XmlOptions, TextOptions, AvroOptions and SQLConf, and meanings are what bronze makes of an option.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from scripts.reference_text import code, table
from sluicegate.definition.tables import reader_options
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.definition.tables.reader_options import Format

FORMATS: tuple[Format, ...] = get_args(Format)
FIELD = "set it as a field next to path"


class Option(NamedTuple):
    """An option of Spark's readers: its default, as text, and what it does in bronze."""

    default: str
    meaning: str


OFF, ON = "false", "true"

OPTIONS = {
    "allowBackslashEscapingAnyCharacter": Option(OFF, "a backslash before any character"),
    "allowComments": Option(OFF, "comments as in Java"),
    "allowNonNumericNumbers": Option(ON, "`NaN`, `Infinity` and the like as numbers"),
    "allowNumericLeadingZeros": Option(OFF, "numbers such as 007; without it such a record is corrupt"),
    "allowSingleQuotes": Option(ON, "texts in single quotes"),
    "allowUnquotedControlChars": Option(OFF, "control characters in texts"),
    "allowUnquotedFieldNames": Option(OFF, "names without quotes"),
    "attributePrefix": Option("_", "prefix of columns made from attributes"),
    "charToEscapeQuoteEscaping": Option("", "character before an escape that is data; quotes are then not checked"),
    "charset": Option("UTF-8", "another name of `encoding`"),
    "comment": Option("", "lines that begin with this character are skipped"),
    "dateFormat": Option("", "pattern of days; by default `2024-05-01`"),
    "datetimeRebaseMode": Option("CORRECTED", "`LEGACY` reads days and times before 1900 as Spark 2 wrote them"),
    "delimiter": Option(",", "another name of `sep`"),
    "dropFieldIfAllNull": Option(OFF, "a new field with only NULL, `{}` or `[]` gets no column"),
    "emptyValue": Option("", 'what `""` becomes; the default equals `nullValue`, so NULL'),
    "enableStableIdentifiersForUnionType": Option(OFF, "union members are named by their types"),
    "encoding": Option("UTF-8", "[encoding of the text](file-formats.md#text-encodings)"),
    "escape": Option('"', "character before a quote within quotes; with `dialect: spark` a backslash"),
    "excludeAttribute": Option(OFF, "attributes are left out"),
    "header": Option(OFF, "the first line has the names of columns"),
    "ignoreLeadingWhiteSpace": Option(OFF, "blanks before values and names are left out"),
    "ignoreNamespace": Option(OFF, "prefixes of namespaces are left out"),
    "ignoreSurroundingSpaces": Option(ON, "blanks around a text are left out"),
    "ignoreTrailingWhiteSpace": Option(OFF, "blanks after values and names are left out"),
    "inferTimestamp": Option(OFF, "with `inferColumnTypes`, texts that are times become TIMESTAMP"),
    "int96RebaseMode": Option("CORRECTED", "as `datetimeRebaseMode`, for INT96"),
    "lineSep": Option("", "end of a record; by default `\\n`, `\\r\\n` or `\\r`"),
    "maxCharsPerColumn": Option("-1", "most characters of a value; a file with more fails"),
    "maxColumns": Option("20480", "most columns; a file with more fails"),
    "mode": Option("PERMISSIVE", "only this value: others lose records"),
    "multiLine": Option(OFF, "JSON: a file is one value; CSV: values may have line breaks"),
    "nullValue": Option("", "text that is NULL; for XML none"),
    "preferDate": Option(ON, "with `inferColumnTypes`, days become DATE"),
    "prefersDecimal": Option(OFF, "with `inferColumnTypes`, fractions become DECIMAL"),
    "quote": Option('"', "quote of values"),
    "rowTag": Option("", "element that is a record; required"),
    "rowValidationXSDPath": Option("", "XML schema; a record that violates it is corrupt"),
    "sep": Option(",", "separator of values"),
    "skipRows": Option(
        "0",
        "lines above the header or first record; a file fails if one may be a record: it has as many values (two or"
        " more) as the first one read. Above a header with all declared columns only another header fails",
    ),
    "stableIdentifierPrefixForUnionType": Option("member_", "prefix of the names of union members"),
    "timeZone": Option("UTC", "zone of times without one"),
    "timestampFormat": Option("", "pattern of times; by default ISO 8601, with a blank or a T"),
    "timestampNTZFormat": Option("", "as `timestampFormat`, for times without a zone"),
    "unescapedQuoteHandling": Option("STOP_AT_DELIMITER", "quotes that are not escaped; quotes are then not checked"),
    "valueTag": Option("_VALUE", "column of an element's text beside its attributes"),
    "wholetext": Option(OFF, "a file is one record"),
}

# Accepted because definitions bring them along. Bronze converts texts itself, and the others tune or write.
WITHOUT_EFFECT = (
    "columnPruning", "enableDateTimeParsingFallback", "inputBufferSize", "locale", "nanValue", "negativeInf",
    "positiveInf", "timeFormat", "treatEmptyValuesAsNulls", "useUnsafeRow", "validateName", "wildcardColName",
)  # fmt: skip

# A value of each field about reading by which its formats are found out; those of other sections have pages of theirs.
SAMPLES: dict[str, Any] = {
    "dialect": "spark", "schema": "a STRING", "schemaHints": "a STRING", "inferColumnTypes": True,
    "schemaEvolutionMode": "rescue", "singleVariantColumn": "v", "rescuedDataColumn": "none",
    "readerCaseSensitive": False, "columnNames": "normalized", "partitionColumns": ["day"], "pathGlobFilter": "*.x",
    "modifiedAfter": "2024-05-01", "modifiedBefore": "2024-05-01", "includeExistingFiles": False,
    "allowOverwrites": True, "maxFilesPerTrigger": 10, "maxBytesPerTrigger": "1m", "maxRecordBytes": "1m",
    "maxFileBytes": "1m", "settleSeconds": 1, "cleanSource": "DELETE", "cleanSourceRetentionDuration": "9 days",
}  # fmt: skip
MOVES = "cleanSourceMoveDestination"

EXAMPLE = """```yaml
bronze:
  orders:
    path: ${landing}/orders
    format: csv
    schemaHints: price DECIMAL(10, 2)   # a field of the table
    options:                            # options of Spark's reader
      header: true
      nullValue: NA
```"""


def reader_options_page() -> Iterator[str]:
    """Paragraphs of the page."""
    yield EXAMPLE
    yield (
        "`options` takes options of Spark's readers, in any case. Fields beside `path` are Sluicegate's; most have the"
        " names of [Auto Loader](../autoloader.md). Any other name is a validation error, with the nearest right one."
    )
    yield "## Options of Spark's readers"
    yield "Those of `kafka` are for JSON values. ORC, binary files and Delta tables have none."
    yield table(["option", "formats", "default", "what it does"], sorted(_option_rows()))
    yield "### Without effect"
    names = ", ".join(f"{code(name)} ({', '.join(formats_of(name))})" for name in WITHOUT_EFFECT)
    yield f"These change no column's value; with `singleVariantColumn` Spark itself parses values: {names}."
    yield "### Refused"
    fields = [name for name, reason in reader_options.REFUSED.items() if reason == FIELD and name in BRONZE_FIELDS]
    refused = [name for name in reader_options.REFUSED if name not in fields]
    yield f"The error says what to do instead: {', '.join(map(code, refused))}."
    yield f"These are fields: write them beside `path`: {', '.join(map(code, fields))}."
    yield "## Fields of the table"
    meanings = "pipeline-yaml.md#bronzename"
    yield f"[What each means]({meanings}); `format: kafka` has [further ones]({meanings}kafka)."
    yield table(["field", "formats", "default"], _field_rows())


def formats_of(option: str) -> list[Format]:
    """Formats whose reader takes an option."""
    return [form for form in FORMATS if option in reader_options.ALLOWED[form]]


def _option_rows() -> Iterator[list[str]]:
    described = {*OPTIONS, *WITHOUT_EFFECT}
    allowed = {option for form in FORMATS for option in reader_options.ALLOWED[form]}
    if described != allowed:
        raise LookupError(f"described and allowed options differ: {sorted(described ^ allowed)}")
    for name, option in OPTIONS.items():
        default = code(option.default) if option.default else ""
        yield [code(name), ", ".join(formats_of(name)), default, option.meaning]


def _field_rows() -> Iterator[list[str]]:
    for name, sample in SAMPLES.items():
        formats = [form for form in FORMATS if _accepts_fields(form, {name: sample})]
        yield [code(name), _name_formats(formats), _default(name)]
    moving = {MOVES: "/archive", "cleanSource": "MOVE"}
    yield [code(MOVES), _name_formats([form for form in FORMATS if _accepts_fields(form, moving)]), ""]


def _name_formats(formats: list[Format]) -> str:
    files = [form for form in FORMATS if form not in ("delta", "kafka")]
    if formats == list(FORMATS):
        return "all"
    if formats == files:
        return "all files"
    if formats == [*files, "kafka"]:
        return "all files, kafka"
    return ", ".join(formats)


def _accepts_fields(form: Format, fields: dict[str, Any]) -> bool:
    """Whether a table of a format may have some fields."""
    source: dict[str, Any] = {"path": "/landing"}
    if form == "kafka":
        source = {"kafka": {"bootstrap_servers": "b1:9092", "topic": "orders"}}
    if form == "xml":
        source["options"] = {"rowTag": "row"}
    try:
        BronzeTable.model_validate({"format": form, **source, **fields})
    except ValidationError:
        return False
    return True


def _default(name: str) -> str:
    [field] = [field for key, field in BronzeTable.model_fields.items() if name in (key, field.alias)]
    if field.default in (None, [], ""):
        return ""
    return code(json.dumps(field.default).strip('"'))


BRONZE_FIELDS = {field.alias or name for name, field in BronzeTable.model_fields.items()}

"""Spark reader options that a definition may set, and reasons why others are refused.

The names are those of JSONOptions, CSVOptions, XmlOptions, AvroOptions and FileSourceOptions of Spark 4.2, and
``skipRows`` of Databricks.
https://spark.apache.org/docs/latest/sql-data-sources-json.html
https://spark.apache.org/docs/latest/sql-data-sources-csv.html
https://spark.apache.org/docs/latest/sql-data-sources-xml.html
https://spark.apache.org/docs/latest/sql-data-sources-avro.html
"""

from __future__ import annotations

import difflib
import re
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from sluicegate.definition import encodings

_JSON_AND_CSV = {
    "mode", "encoding", "charset", "lineSep", "multiLine", "locale", "timeZone", "dateFormat", "timeFormat",
    "timestampFormat", "timestampNTZFormat", "enableDateTimeParsingFallback",
}  # fmt: skip
_JSON = _JSON_AND_CSV | {
    "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros",
    "allowNonNumericNumbers", "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars",
    "prefersDecimal", "dropFieldIfAllNull", "inferTimestamp", "useUnsafeRow",
}  # fmt: skip
_CSV = _JSON_AND_CSV | {
    "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "comment", "header",
    "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue", "nanValue", "positiveInf", "negativeInf",
    "emptyValue", "maxColumns", "maxCharsPerColumn", "unescapedQuoteHandling", "inputBufferSize", "columnPruning",
    "preferDate", "skipRows",
}  # fmt: skip
_XML = {
    "rowTag", "mode", "excludeAttribute", "treatEmptyValuesAsNulls", "attributePrefix", "valueTag", "encoding",
    "charset", "ignoreSurroundingSpaces", "rowValidationXSDPath", "ignoreNamespace", "timeZone", "timestampFormat",
    "timestampNTZFormat", "dateFormat", "locale", "nullValue", "validateName", "wildcardColName",
}  # fmt: skip
_AVRO = {"datetimeRebaseMode", "enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType"}
Format = Literal["json", "csv", "xml", "text", "parquet", "orc", "avro", "binaryFile", "delta", "kafka"]
ALLOWED: dict[Format, set[str]] = {
    "json": _JSON, "csv": _CSV, "xml": _XML, "text": {"wholetext", "lineSep", "encoding", "charset"},
    "parquet": {"datetimeRebaseMode", "int96RebaseMode"}, "orc": set(), "avro": _AVRO,
    "binaryFile": set(), "delta": set(),
    # Of values that are JSON: each is one record, and its text is UTF-8.
    "kafka": _JSON - {"encoding", "charset", "lineSep", "multiLine"},
}  # fmt: skip

# A time zone that is an offset from UTC.
_OFFSET = re.compile(r"[+-]\d{2}:\d{2}")

_BOOLEAN = {
    "multiline", "enabledatetimeparsingfallback", "allowcomments", "allowunquotedfieldnames", "allowsinglequotes",
    "excludeattribute", "treatemptyvaluesasnulls", "ignoresurroundingspaces", "ignorenamespace", "validatename",
    "wholetext", "allownumericleadingzeros", "allownonnumericnumbers", "allowbackslashescapinganycharacter",
    "allowunquotedcontrolchars", "prefersdecimal", "dropfieldifallnull", "infertimestamp", "useunsaferow", "header",
    "ignoreleadingwhitespace", "ignoretrailingwhitespace", "columnpruning", "preferdate",
    "enablestableidentifiersforuniontype",
}  # fmt: skip

REFUSED = {
    "columnNameOfCorruptRecord": "the text of a corrupt record is in the column _corrupt_record",
    "rescuedDataColumn": "set it as a field next to path",
    "ignoreCorruptFiles": "unreadable files would be skipped silently",
    "ignoreMissingFiles": "missing files would be skipped silently",
    "samplingRatio": "columns outside the sample would be missed: every record is read",
    "singleVariantColumn": "use the field singleVariantColumn of the table",
    "primitivesAsString": "values are read as text and cast to the column's type",
    "inferSchema": "set the field inferColumnTypes next to path",
    "mergeSchema": "each file is read with its own columns, and the table gets all of them",
    "enforceSchema": "columns are matched by the names in the header",
    "avroSchema": "each file is read with its own schema; set types in schemaHints",
    "avroSchemaUrl": "each file is read with its own schema; set types in schemaHints",
    "positionalFieldMatching": "fields are matched by their names",
    "recursiveFieldMaxDepth": "deeper values would be dropped silently",
    "ignoreExtension": "use pathGlobFilter to choose files", "recursiveFileLookup": "subfolders are always read",
    **dict.fromkeys(
        ("modifiedAfter", "modifiedBefore", "pathGlobFilter", "maxFilesPerTrigger", "maxBytesPerTrigger", "schema",
         "schemaHints", "schemaEvolutionMode", "inferColumnTypes", "readerCaseSensitive", "partitionColumns",
         "includeExistingFiles", "allowOverwrites"),
        "set it as a field next to path",
    ),
    "path": "set it as a field next to format",
    "format": "set it as a field next to path",
}  # fmt: skip


class Problem(NamedTuple):
    """A fault in an option: a stable code, a sentence, and what to write instead (may be empty)."""

    code: str
    message: str
    hint: str = ""


def check_option(format_: Format, name: str, value: str) -> Problem | None:
    """Check an option; None if it is right.

    Args:
        format_: format of the files.
        name: name of the option, case-insensitive as in Spark.
        value: the option's value as text.
    """
    lower = name.lower().removeprefix(_PREFIX)
    if lower in _REFUSED_LOWER:
        reasons = _REFUSED_LOWER[lower]
        return Problem("refused-option", f"the option {reasons} cannot be set: {REFUSED[reasons]}")
    if name.lower() not in _LOWER[format_]:
        return _unknown_option(format_, name, lower)
    if lower == "mode" and value.upper() != "PERMISSIVE":
        reason = f"mode {value} would lose records or stop at the first bad one: only PERMISSIVE is allowed"
        return Problem("refused-option", reason)
    if lower in _BOOLEAN and value.lower() not in ("true", "false"):
        return Problem("wrong-type", f"{name} must be true or false, not {value}")
    if lower == "skiprows" and not (value.isascii() and value.isdigit()):
        return Problem("wrong-type", f"{name} must be a number of lines, not {value}")
    if lower == "timezone":
        return _check_zone(name, value)
    if lower in ("encoding", "charset"):
        return _check_encoding(name, value)
    return None


def _check_zone(name: str, value: str) -> Problem | None:
    """Return the fault of the time zone that an option names."""
    if _OFFSET.fullmatch(value):
        return None
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):  # the last of a name that is not known
        return Problem("unknown-zone", f"{name}: unknown time zone {value}", "for example Europe/Berlin or +02:00")
    return None


def _check_encoding(name: str, value: str) -> Problem | None:
    """Return the fault of the encoding that an option names."""
    encoding = encodings.find(value)
    if encoding is None:
        near = encodings.nearest_name(value)
        hint = "for example windows-1252, ISO-8859-15, Shift_JIS or UTF-16LE"
        if near:
            hint = f"did you mean {near}?"
        return Problem("unknown-encoding", f"{name}: unknown encoding {value}", hint)
    if not encoding.is_readable:
        hint = "convert the files to UTF-8 before they land, for example with `iconv -f … -t UTF-8`"
        return Problem("unknown-encoding", f"{name}: files in {encoding.name} are not supported", hint)
    return None


def _unknown_option(format_: Format, name: str, lower: str) -> Problem:
    options = _LOWER[format_]
    message = f"{name} is not an option of Spark's {format_} reader"
    if near := difflib.get_close_matches(lower, options, 1):
        return Problem("unknown-option", message, f"did you mean {options[near[0]]}?")
    formats = [other for other in ALLOWED if lower in _LOWER[other]]
    return Problem("unknown-option", message, f"it is an option of format {formats[0]}" if formats else "")


_LOWER = {format_: {option.lower(): option for option in sorted(options)} for format_, options in ALLOWED.items()}
_REFUSED_LOWER = {option.lower(): option for option in REFUSED}
# Auto Loader's own options come as cloudFiles.schemaHints and so on.
_PREFIX = "cloudfiles."

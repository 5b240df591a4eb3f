"""Bronze table from the files that a source reads: its path, and the options of Auto Loader by their names here."""

from __future__ import annotations

import re
from typing import Any, get_args

from sluicegate.definition.tables import reader_options
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.definition.tables.reader_options import Format
from sluicegate.tools.migrate.model import Files, ParsedSource, Remark
from sluicegate.tools.scaffold.naming import table_name

_PATTERN = re.compile(r"[*?\[{]")
_STORES = ("s3://", "s3a://", "abfss://", "gs://")
_NOT_NEEDED = {
    "schemalocation": "the versions of the columns are kept in the lake",
    "rescueddatacolumn": "it is always _rescued_data", "usenotifications": "each run lists the folder",
    "useincrementallisting": "each run lists the folder", "backfillinterval": "each run lists the folder",
    "maxfileage": "the ledger never forgets", "recursivefilelookup": "subfolders are always read",
    "validateoptions": "options are always checked",
}  # fmt: skip
_RATES = ("maxfilespertrigger", "maxbytespertrigger")
_FIELDS = {
    "schemahints": "schemaHints", "inferschema": "inferColumnTypes", "infercolumntypes": "inferColumnTypes",
    "schemaevolutionmode": "schemaEvolutionMode", "singlevariantcolumn": "singleVariantColumn",
    "readercasesensitive": "readerCaseSensitive", "partitioncolumns": "partitionColumns",
    "pathglobfilter": "pathGlobFilter", "filenamepattern": "pathGlobFilter", "modifiedafter": "modifiedAfter",
    "modifiedbefore": "modifiedBefore", "includeexistingfiles": "includeExistingFiles",
    "allowoverwrites": "allowOverwrites", "maxfilespertrigger": "maxFilesPerTrigger",
    "maxbytespertrigger": "maxBytesPerTrigger", "schema": "schema", "cleansource": "cleanSource",
    "cleansource.retentionduration": "cleanSourceRetentionDuration",
}  # fmt: skip


def fields(files: Files, name: str, schema: str, source: ParsedSource) -> dict[str, Any]:
    """Convert the options of Auto Loader to the fields of a bronze table.

    Args:
        files: the files that the source reads, with their options.
        name: the table's name, for remarks.
        schema: columns of the table, if the source declares them.
        source: the source, which collects remarks on what is not converted.
    """
    table_fields: dict[str, Any] = {"path": _path(files, name, source), "format": _format(files, name, source)}
    if glob := _glob(files.path):
        table_fields["pathGlobFilter"] = glob
    if files.whole and table_fields["format"] != "delta":
        table_fields["allowOverwrites"] = True
        reason = "a changed file is read again, but the rows of a deleted file stay"
        source.leave(files.line, f"the batch read of {name}", reason)
    for option, value in files.options.items():
        _option(table_fields, option, value, files, name, source)
    if table_fields["format"] == "csv" and "escape" not in map(str.lower, table_fields.get("options", ())):
        table_fields["dialect"] = "spark"  # which is how the source reads it
    if schema:
        table_fields["schema"] = schema
    if files.infers and table_fields["format"] in ("json", "csv", "xml") and "schema" not in table_fields:
        table_fields.setdefault("inferColumnTypes", True)  # read_files infers types, Auto Loader does not
    return table_fields


def _format(files: Files, name: str, source: ParsedSource) -> str:
    if files.format in get_args(Format):
        return files.format
    source.leave(files.line, f"format {files.format or '(none)'} of {name}", "json is a guess: set the format")
    return "json"


def delta_option(line: int, option: str, name: str) -> Remark:
    """Return the remark on an option of the reader of a Delta table, which has no counterpart here."""
    subject = f"option {option} of {name}"
    if option.lower() in _RATES:
        return Remark(line, subject, "a run reads all that is new", changes_meaning=False)
    return Remark(line, subject, "its current rows are read, and then all changes of them")


def _glob(path: str) -> str:
    """Return the glob at the end of a path, empty if the path ends in a folder or a file."""
    last = re.split(r"[/\\]", path)[-1]
    if _PATTERN.search(last) and "${" not in last:
        return last
    return ""


def _path(files: Files, name: str, source: ParsedSource) -> str:
    """Return a path in an object store as it is, and any other as a folder below the landing folder."""
    whole = files.path.removesuffix(_glob(files.path)) or "/"
    if files.path.startswith(_STORES) and "${" not in files.path:
        if _PATTERN.search(whole):
            advice = "read the folder above, or declare a table for each folder"
            reason = f"only the names of files may have a pattern: {advice}"
            source.leave(files.line, f"path {files.path} of {name}", reason)
        if whole != files.path:
            return whole.rstrip("/")
        return whole
    parts = [table_name(part) for part in re.split(r"[/\\]", whole) if table_name(part) and not _glob(part)] or [name]
    # Two folders of the source never become one here.
    folders = ["_".join(parts[-count:]) for count in range(1, len(parts) + 1)]
    folders += [f"{folders[-1]}_{name}", *(f"{folders[-1]}_{count}" for count in range(2, 1000))]
    folder = next(candidate for candidate in folders if source.folders.setdefault(candidate, whole) == whole)
    path = f"${{landing}}/{folder}"
    reason = f"it is {path} here: land the files there, or change the path"
    source.leave_harmless(files.line, f"path {files.path} of {name}", reason)
    return path


def _option(table: dict[str, Any], option: str, value: str, files: Files, name: str, source: ParsedSource) -> None:
    lower = option.lower().removeprefix("cloudfiles.")
    message = f"option {option} of {name}"
    if lower == "recursivefilelookup" and value.lower() != "true":
        source.leave(files.line, message, "subfolders are always read")
    elif lower == "rescueddatacolumn" and value.lower() != "_rescued_data":
        source.leave(files.line, message, "it is always _rescued_data: write that name where it is read")
    elif _FIELDS.get(lower) == "pathGlobFilter" and "pathGlobFilter" in table:
        source.leave(files.line, message, f"a table has one filter of names, which is {table['pathGlobFilter']}")
    elif lower in _NOT_NEEDED:
        source.leave_harmless(files.line, message, f"not needed: {_NOT_NEEDED[lower]}")
    elif lower == "format":
        table["format"] = value.lower()
    elif table["format"] == "delta":
        source.remarks.append(delta_option(files.line, option, name))
    elif lower in _FIELDS:
        field = _FIELDS[lower]
        try:
            table[field] = _field_value(field, value)
            BronzeTable.model_validate({"path": "/", "format": table["format"], field: table[field]})
        except ValueError:
            del table[field]
            source.leave(files.line, message, f"{value} is not a value of {field}")
    elif wrong := reader_options.check_option(table["format"], option, value):
        source.leave(files.line, message, wrong.message)
    else:
        table.setdefault("options", {})[option] = value


def _field_value(field: str, value: str) -> Any:
    if field == "partitionColumns":
        return [part.strip() for part in value.split(",") if part.strip()]
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value.isdigit():
        return int(value)
    return value

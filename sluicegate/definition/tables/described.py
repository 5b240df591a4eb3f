"""What a definition says of a table besides its rows: comments, properties, tags."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from sluicegate.definition.fields import Part, Text, check_identifiers, field_error, suggest_or_list
from sluicegate.spark_sql.engine_columns import is_reserved

# Properties of Delta that only tune how files are written. Any other changes what readers and writers must know, or
# what is still there of a table's history, by which tables are followed: these are the engine's.
# Each with what its value is: Delta would refuse another one only after the rows of each run.
TUNING = {
    "delta.checkpointInterval": (re.compile(r"0*[1-9]\d{0,8}"), "an integer of 1 or more"),
    "delta.dataSkippingNumIndexedCols": (re.compile(r"-1|\d{1,9}"), "an integer, or -1 for all columns"),
    "delta.dataSkippingStatsColumns": (re.compile(r".+"), "comma-separated column names"),
    "delta.targetFileSize": (re.compile(r"0*[1-9]\d{0,9}([kmgt](i?b)?|b)?", re.IGNORECASE), "a size such as 64mb"),
    "delta.tuneFileSizesForRewrites": (re.compile(r"true|false", re.IGNORECASE), "true or false"),
}

# Names that Spark keeps for what is no property.
_OF_SPARK = {"comment", "external", "is_managed_location", "location", "owner", "provider", "table_type"}

_PROPERTY = re.compile(r"[A-Za-z][A-Za-z0-9_]*([.-][A-Za-z0-9_]+)*")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _check_text(text: str) -> str:
    """Refuse control characters: the text goes unchanged into statements and logs."""
    if "${" in text or _CONTROL.search(text):
        raise field_error("description", f"{text!r} must not contain ${{ or control characters")
    return text


def _check_comments(comments: dict[str, str]) -> dict[str, str]:
    commented: set[str] = set()
    for name in comments:
        if not name or "." in name:
            raise field_error("name", f"invalid column name {name!r}: nested fields cannot have comments here")
        if name.lower() in commented:
            raise field_error("duplicate-name", f"duplicate name {name}: names are not case-sensitive")
        if is_reserved(name):
            raise field_error("reserved-name", f"{name} is a reserved column, and its comment cannot be changed")
        commented.add(name.lower())
    return comments


def _check_properties(properties: dict[str, str]) -> dict[str, str]:
    for name, text in properties.items():
        if not _PROPERTY.fullmatch(name):
            raise field_error("name", f"invalid property name {name!r}: use letters, digits, _ . and -")
        if name.lower() in _OF_SPARK:
            hint = "choose another name, or use a tag"
            if name == "comment":
                hint = "set it next to table_properties"
            raise field_error("property", f"{name} is reserved by Spark", hint)
        if name.lower().startswith("delta.") and name not in TUNING:
            hint = suggest_or_list(name, TUNING, "allowed properties:")
            raise field_error("property", f"{name} cannot be set: it changes how the table is written or read", hint)
        if name in TUNING and not TUNING[name][0].fullmatch(text):
            raise field_error("property", f"{name} must be {TUNING[name][1]}, not {text}")
        if name.lower().startswith("sluicegate."):
            message = f"{name} has the reserved prefix of the engine's properties"
            raise field_error("property", message, "choose another name")
    return properties


Words = Annotated[str, AfterValidator(_check_text)]
PlainText = Annotated[Text, AfterValidator(_check_text)]


class Described(Part):
    """A table with comments, properties and tags, none of which decides a row."""

    comment: Words = ""
    column_comments: Annotated[dict[str, Words], AfterValidator(_check_comments)] = {}
    table_properties: Annotated[dict[str, PlainText], AfterValidator(_check_properties)] = {}
    tags: Annotated[dict[str, PlainText], AfterValidator(check_identifiers)] = {}


# Fields that decide nothing about rows.
DESCRIBED = frozenset(Described.model_fields)

"""What a definition says of a table besides its rows: comments, properties, tags."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from sluicegate.definition.fields import IDENTIFIER, Part, Text, nearest, wrong
from sluicegate.sql.engine_columns import is_reserved

# Properties of Delta that only tune how files are written. Any other changes what readers and writers must know, or
# what is still there of a table's history, by which tables are followed: these are the engine's.
# Each with what its value is: Delta would refuse another one only after the rows of each run.
TUNING = {
    "delta.checkpointInterval": (re.compile(r"0*[1-9]\d{0,8}"), "a whole number from 1"),
    "delta.dataSkippingNumIndexedCols": (re.compile(r"-1|\d{1,9}"), "a whole number, or -1 for all columns"),
    "delta.dataSkippingStatsColumns": (re.compile(r".+"), "names of columns with commas between them"),
    "delta.targetFileSize": (re.compile(r"0*[1-9]\d{0,9}([kmgt](i?b)?|b)?", re.IGNORECASE), "a size, as in 64mb"),
    "delta.tuneFileSizesForRewrites": (re.compile(r"true|false", re.IGNORECASE), "true or false"),
}

# Names that Spark keeps for what is no property.
_OF_SPARK = {"comment", "external", "is_managed_location", "location", "owner", "provider", "table_type"}

_PROPERTY = re.compile(r"[A-Za-z][A-Za-z0-9_]*([.-][A-Za-z0-9_]+)*")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _words(text: str) -> str:
    """Check that a text has no control characters: it goes into statements and logs as it is."""
    if "${" in text or _CONTROL.search(text):
        raise wrong("description", f"{text!r} has ${{ or a control character in it, and is shown to people as it is")
    return text


def _columns(comments: dict[str, str]) -> dict[str, str]:
    commented: set[str] = set()
    for name in comments:
        if not name or "." in name:
            raise wrong("name", f"{name!r} is no column: fields inside of columns have no comments here")
        if name.lower() in commented:
            raise wrong("duplicate-name", f"{name} stands twice, in other cases")
        if is_reserved(name):
            raise wrong("reserved-name", f"{name} is a column of the engine's own: it has its meaning from there")
        commented.add(name.lower())
    return comments


def _properties(properties: dict[str, str]) -> dict[str, str]:
    for name, text in properties.items():
        if not _PROPERTY.fullmatch(name):
            raise wrong("name", f"{name!r} is no name of a property: letters, digits, _ . and - are allowed")
        if name.lower() in _OF_SPARK:
            hint = "write it beside table_properties" if name == "comment" else "choose another name, or a tag"
            raise wrong("property", f"{name} is a name that Spark keeps for something else", hint)
        if name.lower().startswith("delta.") and name not in TUNING:
            hint = nearest(name, TUNING) or f"allowed are {', '.join(TUNING)}"
            raise wrong("property", f"{name} changes how a table is written or read, which is the engine's", hint)
        if name in TUNING and not TUNING[name][0].fullmatch(text):
            raise wrong("property", f"{name} is {TUNING[name][1]}, and not {text}")
        if name.lower().startswith("sluicegate."):
            raise wrong("property", f"{name} begins as the engine's own properties do", "choose another name")
    return properties


def _tags(tags: dict[str, str]) -> dict[str, str]:
    for name in tags:
        if not IDENTIFIER.fullmatch(name):
            raise wrong("name", f"{name!r} is not a name: letters, digits and _ are allowed, with a letter or _ first")
    return tags


Words = Annotated[str, AfterValidator(_words)]
PlainText = Annotated[Text, AfterValidator(_words)]


class Described(Part):
    """A table with comments, properties and tags, none of which decides a row."""

    comment: Words = ""
    column_comments: Annotated[dict[str, Words], AfterValidator(_columns)] = {}
    table_properties: Annotated[dict[str, PlainText], AfterValidator(_properties)] = {}
    tags: Annotated[dict[str, PlainText], AfterValidator(_tags)] = {}


DESCRIBED = frozenset(Described.model_fields)
"""Fields that decide nothing about rows."""

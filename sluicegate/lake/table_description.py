"""Descriptions of tables: comments of tables and columns, properties and tags.

The description in a definition is compared with the table's log by delta-rs; if they differ, Spark commits the
difference (``spark/describe.py``). A table property records which comments and properties come from the definition, so
that those are removed with it, and others stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.schema import Field

# Table property with the names of what the definition describes.
NOTE = "sluicegate.described"

# Key of a column's metadata: the name that its field has in landed files, where names are normalized.
LANDED = "sluicegate.landed"

# Beginning of the table property that is a tag.
TAG = "sluicegate.tag."


@dataclass(frozen=True)
class Description:
    """Description of a table in its definition.

    Attributes:
        comment: comment of the table; empty for none.
        columns: comments of columns by name, in any case.
        properties: table properties, those of tags among them.
    """

    comment: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.comment or self.columns or self.properties)

    @property
    def note(self) -> dict[str, Any]:
        """Value of ``NOTE``; empty without a description."""
        columns = sorted(name.lower() for name in self.columns)
        parts = {"comment": bool(self.comment), "columns": columns, "properties": sorted(self.properties)}
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class Change:
    """Difference between a description and a table.

    Attributes:
        comment: new comment of the table, empty to remove it; None to keep it.
        columns: new comments of columns by name in the table; empty to remove one.
        properties: properties to set.
        removed: properties to remove.
    """

    comment: str | None
    columns: Mapping[str, str]
    properties: Mapping[str, str]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.comment is not None or bool(self.columns or self.properties or self.removed)

    def __str__(self) -> str:
        parts = []
        if self.comment is not None:
            parts.append("the table's comment")
        if self.columns:
            parts.append(f"comments of {', '.join(self.columns)}")
        properties = [name for name in (*self.properties, *self.removed) if name != NOTE]
        if properties:
            parts.append(f"properties {', '.join(properties)}")
        return " and ".join(parts) or "which of its comments and properties are the definition's"


def is_described(table: DeltaTable | None) -> bool:
    """Return whether a table has comments or properties of a definition."""
    return table is not None and NOTE in table.metadata().configuration


def difference(table: DeltaTable | None, description: Description) -> Change | None:
    """Return what has to change in a table to match its definition; None if nothing, or without a table."""
    if table is None or not (description or is_described(table)):
        return None
    metadata = table.metadata()
    former: dict[str, Any] = json.loads(metadata.configuration.get(NOTE, "{}"))
    properties = dict(description.properties)
    if description:
        properties[NOTE] = json.dumps(description.note)
    removed = {*former.get("properties", ()), NOTE} - {*properties}
    change = Change(
        _changed_comment(description, former, metadata.description or ""),
        _changed_columns(table, description, former.get("columns", ())),
        {name: text for name, text in properties.items() if metadata.configuration.get(name) != text},
        tuple(sorted(removed & {*metadata.configuration})),
    )
    return change or None


def _changed_comment(description: Description, former: Mapping[str, Any], stored: str) -> str | None:
    """Return the new comment of a table; None if it is right, or not ours."""
    if not (description.comment or former.get("comment")) or description.comment == stored:
        return None
    return description.comment


def _changed_columns(table: DeltaTable, description: Description, former: Iterable[str]) -> dict[str, str]:
    """Return the new comments of the columns whose comments change.

    Args:
        table: the table.
        description: its description in the definition.
        former: columns, in lower case, whose comments are a definition's so far.
    """
    landed = {column.name.lower(): _metadata(column, LANDED) for column in table.schema().fields}
    comments = {column: _landed_name(column, landed) for column in former}
    comments |= {column.lower(): comment for column, comment in description.columns.items()}
    changed = {}
    for column in table.schema().fields:
        comment = comments.get(column.name.lower())
        if comment is not None and comment != _metadata(column, "comment"):
            changed[column.name] = comment
    return changed


def _metadata(column: Field, key: str) -> str:
    return str((column.metadata or {}).get(key, ""))


def _landed_name(column: str, landed: Mapping[str, str]) -> str:
    """Return the comment of a column that has none in the definition: its landed name, if that differs."""
    name = landed.get(column, "")
    if name == column:
        return ""
    return name


def missing_columns(table: DeltaTable, description: Description) -> list[str]:
    """Return the described columns that the table does not have."""
    columns = {field.name.lower() for field in table.schema().fields}
    return [name for name in description.columns if name.lower() not in columns]

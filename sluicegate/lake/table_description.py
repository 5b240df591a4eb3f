"""What a table says of itself besides its rows: comments of it and of its columns, properties and tags.

A definition's part of that is compared with the table's log, by delta-rs; where they differ Spark commits the
difference (``spark/describe.py``). Which comments and properties are the definition's is a property of the table, so
that those that it no longer has are taken away, and those of others stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import DeltaTable

NOTE = "sluicegate.described"
"""Table property with the names of what the definition describes."""

LANDED = "sluicegate.landed"
"""Key of a column's metadata: the name that its field has in landed files, where names are normalized."""

TAG = "sluicegate.tag."
"""Beginning of the table property that is a tag."""


@dataclass(frozen=True)
class Description:
    """What a definition says of a table.

    Attributes:
        comment: of the table; empty for none.
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
        """What ``NOTE`` has of it; empty if it says nothing."""
        columns = sorted(name.lower() for name in self.columns)
        found = {"comment": bool(self.comment), "columns": columns, "properties": sorted(self.properties)}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class Change:
    """Difference between a description and a table.

    Attributes:
        comment: the table's comment to be, empty to take it away; None where it stays.
        columns: comments to be of columns, by their names in the table; empty to take one away.
        properties: properties to be set.
        gone: properties to be taken away.
    """

    comment: str | None
    columns: Mapping[str, str]
    properties: Mapping[str, str]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        parts = ["the table's comment"] if self.comment is not None else []
        parts += [f"comments of {', '.join(self.columns)}"] if self.columns else []
        named = [name for name in (*self.properties, *self.gone) if name != NOTE]
        parts += [f"properties {', '.join(named)}"] if named else []
        return " and ".join(parts) or "which of its comments and properties are the definition's"


def is_described(table: DeltaTable | None) -> bool:
    """Whether a table has comments or properties of a definition."""
    return table is not None and NOTE in table.metadata().configuration


def difference(table: DeltaTable | None, wanted: Description) -> Change | None:
    """What has to change so that a table says what its definition says; None if nothing, or there is no table."""
    if table is None or not (wanted or is_described(table)):
        return None
    metadata = table.metadata()
    before: dict[str, Any] = json.loads(metadata.configuration.get(NOTE, "{}"))
    comment = wanted.comment if wanted.comment or before.get("comment") else None
    held = {one.name: str((one.metadata or {}).get("comment", "")) for one in table.schema().fields}
    landed = {one.name.lower(): str((one.metadata or {}).get(LANDED, "")) for one in table.schema().fields}
    to_be = {name: _landed(name, landed) for name in before.get("columns", ())}
    to_be |= {name.lower(): text for name, text in wanted.columns.items()}
    columns = {name: to_be[name.lower()] for name in held if to_be.get(name.lower(), held[name]) != held[name]}
    properties = dict(wanted.properties) | ({NOTE: json.dumps(wanted.note)} if wanted else {})
    gone = {*before.get("properties", ()), NOTE} - {*properties}
    change = Change(
        None if comment == (metadata.description or "") else comment,
        columns,
        {name: text for name, text in properties.items() if metadata.configuration.get(name) != text},
        tuple(sorted(gone & {*metadata.configuration})),
    )
    return None if change == Change(None, {}, {}, ()) else change


def _landed(column: str, landed: Mapping[str, str]) -> str:
    """The comment of a column without one of the definition's: its landed name, if it is called otherwise."""
    field = landed.get(column, "")
    return "" if field == column else field


def without_column(table: DeltaTable, wanted: Description) -> list[str]:
    """Columns that a description names and the table does not have."""
    held = {one.name.lower() for one in table.schema().fields}
    return [name for name in wanted.columns if name.lower() not in held]

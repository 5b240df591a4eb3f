"""Schema history of bronze tables, in ``_schemas/{table}``. No Spark.

The counterpart of Auto Loader's schema location, but for people only: the engine uses the table's own schema. It is
derived from the table's log, so a run that is killed before it records a version loses nothing.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.lake import layout, tables
from sluicegate.lake import log as lake_log
from sluicegate.lake.table import Tables
from sluicegate.lake.table_description import LANDED

SCHEMAS = pa.schema(
    [
        ("version", pa.int64()), ("since", pa.timestamp("us", "UTC")), ("columns", pa.string()),
        ("changes", pa.string()), ("table_id", pa.string()),
    ]
)  # fmt: skip

# Type names of Delta's log that differ from Spark's DDL.
_DDL = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}


def record_versions(lake: layout.Lake, name: str, opened: Tables | None = None) -> None:
    """Record the versions of a bronze table that changed its columns.

    Args:
        lake: the lake.
        name: the bronze table.
        opened: the handles of the current step.
    """
    table = (opened or Tables())[lake.table("bronze", name)].delta
    if table is None:
        return
    last = next(iter(_recorded_versions(lake, name, table)[-1:]), None)
    if changes := _changes(table, last):
        tables.write(lake.schemas(name), pa.Table.from_pylist(changes, schema=SCHEMAS), mode="append")


def versions(lake: layout.Lake, name: str) -> list[dict[str, Any]]:
    """Return the schema versions of a bronze table, oldest first.

    Each has ``version`` (the first table version with it), ``since`` (commit time), ``columns`` (name to type, as in
    DDL) and ``changes`` in words.
    """
    table = tables.delta_table(lake.table("bronze", name))
    if table is None:
        return []
    recorded = _recorded_versions(lake, name, table)
    schema_versions = recorded + _changes(table, recorded[-1] if recorded else None)
    facts = ("version", "since", "columns", "changes")
    return [{name: row[name] for name in facts} | {"columns": json.loads(row["columns"])} for row in schema_versions]


def _recorded_versions(lake: layout.Lake, name: str, table: DeltaTable) -> list[dict[str, Any]]:
    log = tables.delta_table(lake.schemas(name))
    if log is None:
        return []
    # After bronze is deleted and re-created, rows of the former table do not count.
    rows_of_table = tables.dataset(log).to_table(filter=pc.field("table_id") == tables.table_id(table))
    rows: list[dict[str, Any]] = rows_of_table.drop_columns("table_id").sort_by("version").to_pylist()
    return rows


def _changes(table: DeltaTable, last: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the versions since the last recorded one that changed the columns; none is read if they are the same."""
    latest = None
    if last:
        latest = json.loads(last["columns"])
    if latest == columns_of(table):
        return []
    later: list[tuple[lake_log.Commit, dict[str, str], dict[str, str]]] = []
    # From the newest back to the first with the recorded columns: most versions have the same.
    for commit in lake_log.commits(table, table.version() - (last["version"] if last else -1)):
        try:
            former_table = tables.table_at(table.table_uri, version=commit.version)
        except DeltaError:  # its log was cleaned away
            break
        columns = columns_of(former_table)
        if columns == latest:
            break
        later.append((commit, columns, _landed_names(former_table)))
    before, schema_versions = latest, []
    for commit, columns, landed in reversed(later):
        if columns != before:
            since = datetime.fromtimestamp(commit.timestamp / 1000, UTC)
            schema_versions.append(
                {"version": commit.version, "since": since, "columns": json.dumps(columns),
                 "changes": _describe_changes(before, columns, landed), "table_id": tables.table_id(table)}
            )  # fmt: skip
            before = columns
    return schema_versions


def columns_of(table: DeltaTable) -> dict[str, str]:
    """Return the types of a table's columns by name, as in DDL."""
    return {field["name"]: ddl(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}


def ddl(kind: Any) -> str:
    """Convert a type of Delta's log to Spark's DDL."""
    if isinstance(kind, str):
        return _DDL.get(kind, kind.upper())
    match kind["type"]:
        case "array":
            return f"ARRAY<{ddl(kind['elementType'])}>"
        case "map":
            return f"MAP<{ddl(kind['keyType'])}, {ddl(kind['valueType'])}>"
    fields = [f"{field['name']}: {ddl(field['type'])}" for field in kind["fields"]]
    return f"STRUCT<{', '.join(fields)}>"


def _landed_names(table: DeltaTable) -> dict[str, str]:
    """Return the landed names of columns that have another name."""
    named = {field.name: str((field.metadata or {}).get(LANDED, field.name)) for field in table.schema().fields}
    return {name: field for name, field in named.items() if field != name}


def _describe_changes(before: dict[str, str] | None, columns: dict[str, str], landed: dict[str, str]) -> str:
    if before is None:
        landed_fields = [f"{name} is of the field {field}" for name, field in landed.items()]
        return "; ".join(["the first columns", *landed_fields])
    origins = {name: f", of the field {field}" for name, field in landed.items()}
    added = [f"{name} {kind} came{origins.get(name, '')}" for name, kind in columns.items() if name not in before]
    retyped = [
        f"{name} {before[name]} is {kind} now" for name, kind in columns.items() if before.get(name, kind) != kind
    ]
    removed = [f"{name} went" for name in before if name not in columns]
    return "; ".join([*added, *retyped, *removed])

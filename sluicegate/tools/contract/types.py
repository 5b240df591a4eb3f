"""Types of columns in ODCS: the logical ones that all tools know, and Spark's as physical types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from sluicegate.schema.history import ddl
from sluicegate.spark_sql import ddl as sql_ddl
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.tokens import QuerySyntax

_LOGICAL = {
    "string": "string", "binary": "string", "boolean": "boolean", "date": "date", "timestamp": "timestamp",
    "timestamp_ntz": "timestamp", "byte": "integer", "short": "integer", "integer": "integer", "long": "integer",
    "float": "number", "double": "number", "variant": "object",
}  # fmt: skip

# What a logical type is in Spark, where no physical one says more.
_SPARK = {
    "string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "time": "STRING",
}  # fmt: skip


def column_types(table: DeltaTable) -> dict[str, dict[str, Any]]:
    """Return the types of a table's columns, by name, as a contract has them; without those of the engine."""
    fields = json.loads(table.schema().to_json())["fields"]
    return {field["name"]: _property(field["type"]) for field in fields if not field["name"].startswith("_")}


def _property(kind: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"physicalType": ddl(kind)}
    if isinstance(kind, str):
        return {"logicalType": "number" if kind.startswith("decimal") else _LOGICAL.get(kind, "string"), **facts}
    if kind["type"] == "array":
        return {"logicalType": "array", **facts, "items": _property(kind["elementType"])}
    if kind["type"] == "map":
        return {"logicalType": "object", **facts}
    inner = [{"name": field["name"], **_property(field["type"])} for field in kind["fields"]]
    return {"logicalType": "object", **facts, "properties": inner}


def declared_type(text: str) -> dict[str, Any]:
    """Return the type of a declared column, as a contract has it."""
    word = text.split("(")[0].split("<")[0].strip().lower()
    names = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "real": "float"}
    nested = {"array": "array", "map": "object", "struct": "object", "decimal": "number", "numeric": "number"}
    return {"logicalType": nested.get(word) or _LOGICAL.get(names.get(word, word), "string"), "physicalType": text}


def spark_type(schema: Mapping[str, Any]) -> str:
    """Return Spark's type of a column, as DDL: its physical type if Spark has it, else by its logical one."""
    physical = str(schema.get("physicalType") or "").strip()
    if physical and is_type(physical):
        if physical.isidentifier():
            return physical.upper()
        return physical
    logical = schema.get("logicalType")
    if logical == "array":
        if isinstance(items := schema.get("items"), dict):
            return f"ARRAY<{spark_type(items)}>"
        return "ARRAY<STRING>"
    fields = [
        f"{quote_name(str(part['name']))}: {spark_type(part)}"
        for part in parts(schema.get("properties"))
        if part.get("name")
    ]
    if logical == "object" and fields:
        return f"STRUCT<{', '.join(fields)}>"
    return _SPARK.get(str(logical), "STRING")


def parts(values: Any) -> list[dict[str, Any]]:
    """Return the parts of a contract that are a list of objects; others are left out."""
    if isinstance(values, list):
        return [value for value in values if isinstance(value, dict)]
    return []


def is_type(text: str) -> bool:
    """Return whether a text is a type of Spark's."""
    try:
        return [*sql_ddl.columns(f"x {text}")] == ["x"]
    except QuerySyntax:
        return False

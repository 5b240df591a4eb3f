"""A definition as a data contract: what its silver and gold tables have, mean and promise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sluicegate.definition.tables.expectations import ExpectationAction
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.tools.contract import types

if TYPE_CHECKING:
    from sluicegate.definition import Expectation, GoldTable, Layer, Pipeline, SilverTable, TableRule

API_VERSION = "v3.1.0"

# Properties of ours by which a contract that comes back has the same rule: of one about rows what becomes of them, its
# condition and how many may break it, and of one about a whole table its fields.
ACTION, CONDITION, TABLE_RULE = "sluicegate.action", "sluicegate.condition", "sluicegate.expect_table"
THRESHOLDS = {"warn_above": "sluicegate.warn_above", "fail_above": "sluicegate.fail_above"}

# How bad it is for who reads the table, by what becomes of a row that breaks the rule.
_SEVERITY = {
    ExpectationAction.WARN: "warning", ExpectationAction.DROP: "info", ExpectationAction.QUARANTINE: "error",
    ExpectationAction.FAIL: "error",
}  # fmt: skip


def contract(pipeline: Pipeline, version: str, only: Sequence[str] = ()) -> dict[str, Any]:
    """Return the contract of a pipeline, as its YAML has it.

    Args:
        pipeline: the definition.
        version: the contract's own version.
        only: names of silver and gold tables; none means all.

    Raises:
        PipelineMissing: it has no such table.
    """
    for name in only:
        pipeline.table(name)
    lake = layout.Lake(pipeline.settings.lake, pipeline.name)
    layers: tuple[Layer, ...] = ("silver", "gold")
    document: dict[str, Any] = {
        "apiVersion": API_VERSION, "kind": "DataContract", "id": pipeline.name, "name": pipeline.name,
        "version": version, "status": "active",
    }  # fmt: skip
    if pipeline.description:
        document["description"] = {"purpose": pipeline.description}
    if pipeline.tags:
        document["tags"] = pipeline.tags
    document["team"] = {"members": [{"username": pipeline.owner, "role": "owner"}]}
    document["servers"] = [_server(pipeline)]
    document["schema"] = [
        _table(pipeline, layer, name, lake)
        for layer in layers
        for name in pipeline.in_order(layer)
        if not only or name in only
    ]
    return document


def _server(pipeline: Pipeline) -> dict[str, Any]:
    lake, server = pipeline.settings.lake, {"server": pipeline.settings.target or "lake", "format": "delta"}
    if layout.is_local(lake):
        return {**server, "type": "local", "path": f"{lake}/{pipeline.name}"}
    return {**server, "type": "s3" if lake.startswith("s3") else "custom", "location": f"{lake}/{pipeline.name}"}


def _table(pipeline: Pipeline, layer: Layer, name: str, lake: layout.Lake) -> dict[str, Any]:
    table: SilverTable | GoldTable = getattr(pipeline, layer)[name]
    keys = _keys(table)
    schema: dict[str, Any] = {"name": name, "physicalName": f"{pipeline.name}.{name}", "logicalType": "object",
                            "physicalType": "table"}  # fmt: skip
    if table.comment:
        schema["description"] = table.comment
    if table.tags:
        schema["tags"] = [f"{tag}:{text}" for tag, text in table.tags.items()]
    if keys:
        schema["dataGranularityDescription"] = f"one row for each {', '.join(keys)}"
    columns = _columns(table, lake_tables.delta_table(lake.table(layer, name)))
    if columns:
        schema["properties"] = [_column(table, column, kind, keys) for column, kind in columns.items()]
    if rules := [*_rules(table), *_table_rules(name, table)]:
        schema["quality"] = rules
    return schema


def _columns(table: SilverTable | GoldTable, columns: Any) -> dict[str, dict[str, Any]]:
    """Return columns with their types: of the table if it is there, else those declared, if any."""
    if columns is not None:
        return types.column_types(columns)
    return {name: types.declared_type(text) for name, text in (getattr(table, "declared_columns", None) or {}).items()}


def _keys(table: SilverTable | GoldTable) -> list[str]:
    changes = getattr(table, "changes", None)
    if changes is not None:  # a history has several rows of a key
        if changes.has_history:
            return []
        return list(changes.keys)
    return list(getattr(table, "keys", ()))


def _column(table: SilverTable | GoldTable, name: str, kind: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name, **kind}
    comments = {column.lower(): text for column, text in table.column_comments.items()}
    if comment := comments.get(name.lower()):
        facts["description"] = comment
    if name in keys:
        facts |= {"primaryKey": True, "primaryKeyPosition": keys.index(name) + 1, "required": True}
    if name.lower() in {column.lower() for column in getattr(table, "pii", ())}:
        facts |= {"classification": "restricted", "tags": ["pii"]}
    return facts


def _rules(table: SilverTable | GoldTable) -> Iterator[dict[str, Any]]:
    for name, rule in getattr(table, "expectations", {}).items():
        properties = {ACTION: rule.action.value, CONDITION: rule.text}
        properties |= {
            of: limit.text for field, of in THRESHOLDS.items() if (limit := getattr(rule, field)) is not None
        }
        yield {"name": name, **_check(rule), "severity": _SEVERITY[rule.action], **_custom(properties)}


def _table_rules(name: str, table: SilverTable | GoldTable) -> Iterator[dict[str, Any]]:
    for rule_name, rule in table.expect_table.items():
        fields = rule.model_dump(mode="json", exclude_none=True)
        properties = {TABLE_RULE: json.dumps(fields, ensure_ascii=False)}
        yield {"name": rule_name, **_table_check(name, rule), "severity": "error", **_custom(properties)}


def _custom(properties: Mapping[str, str]) -> dict[str, Any]:
    return {"customProperties": [{"property": name, "value": value} for name, value in properties.items()]}


def _table_check(name: str, rule: TableRule) -> dict[str, Any]:
    """Return a check that other tools run, of a rule about a whole table."""
    placeholders = {name: "${object}"}  # what the table of a check is called in its query
    if rule.rows is not None:
        least, most = rule.rows.min, rule.rows.max
        bounds: dict[str, Any] = {"mustBeBetween": [least, most]}
        if most is None:
            bounds = {"mustBeGreaterOrEqualTo": least}
        elif least is None:
            bounds = {"mustBeLessOrEqualTo": most}
        return {"type": "library", "metric": "rowCount", **bounds}
    if rule.unique is not None:
        return {"type": "library", "metric": "duplicateValues", "arguments": {"properties": rule.unique}, "mustBe": 0}
    if rule.foreign_key is not None:
        other, keys = rule.foreign_key_target
        same = " AND ".join(
            f"o.{quote_name(key)} = t.{quote_name(column)}" for key, column in zip(keys, rule.foreign_key, strict=True)
        )
        condition = " AND ".join(f"t.{quote_name(column)} IS NOT NULL" for column in rule.foreign_key)
        referenced = placeholders.get(other, other)
        query = f"FROM ${{object}} AS t WHERE {condition} AND NOT EXISTS (SELECT 1 FROM {referenced} AS o WHERE {same})"
        return {"type": "sql", "query": f"SELECT count(*) {query}", "mustBe": 0}
    text = rule.query.text_over_views({read: placeholders.get(read, read) for read in rule.query.tables})
    return {"type": "sql", "query": f"SELECT count(*) FROM ({text})", "mustBe": 0}


def _check(rule: Expectation) -> dict[str, Any]:
    """Return a check that other tools run: of a table that keeps its rule it finds no row."""
    if rule.unique:
        arguments = {"properties": list(rule.unique)}
        return {"type": "library", "metric": "duplicateValues", "arguments": arguments, "mustBe": 0}
    query = f"SELECT count(*) FROM ${{object}} WHERE NOT coalesce({rule.text}, FALSE)"
    return {"type": "sql", "query": query, "mustBe": 0}

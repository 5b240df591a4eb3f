"""Foresee types of a silver table's columns from its definition: those in ``schema`` and of CASTs.

These types are known without Spark, so that ``plan`` can foresee what a run will find. For all other expressions, only
Spark's analysis of the query knows the type.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.schema import PrimitiveType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sluicegate.definition import SilverTable

# Names of Delta's types in SQL; those of others are the same.
_IN_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}

# Types of one name only, whatever the settings: a length of text, for instance, is a rule and no type.
_KNOWN = {"tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "binary", "date", "timestamp",
          "timestamp_ntz"}  # fmt: skip


def stored_types(table: DeltaTable | None) -> dict[str, str]:
    """Return the type of each column that is not nested, by lower-case name, as SQL without spaces."""
    if table is None:
        return {}
    types = {column.name.lower(): column.type for column in table.schema().fields}
    plain = {name: kind.type for name, kind in types.items() if isinstance(kind, PrimitiveType)}
    return {name: _IN_SQL.get(kind, kind).replace(" ", "") for name, kind in plain.items()}


def type_change(table: SilverTable, columns: Mapping[str, str]) -> str:
    """Return which types of stored columns change, as far as the definition shows; empty if none.

    Args:
        table: the definition.
        columns: types of the stored columns; see ``stored_types``.
    """
    for name, kind in _defined_types(table).items():
        former = columns.get(name.lower(), kind)
        if former != kind:
            return f"{name} changes from {former.upper()} to {kind.upper()}"
    return ""


def _defined_types(table: SilverTable) -> dict[str, str]:
    """Return the types in the definition by column: ``schema`` takes precedence over a CAST."""
    declared = {name: _normalize_type(text) for name, text in (table.declared_columns or {}).items()}
    names = {name.lower() for name in declared}
    types = declared | {name: kind for name, kind in _cast_types(table).items() if name.lower() not in names}
    return {name: kind for name, kind in types.items() if kind}


def _cast_types(table: SilverTable) -> dict[str, str]:
    """Return the types of columns with a CAST in the query; sqlglot counts TRY_CAST as one."""
    if table.query is None:
        return {}
    outputs = {name: table.query.output(name) for name in table.query.outputs or ()}
    return {name: _normalize_type(node.to.sql("spark")) for name, node in outputs.items() if isinstance(node, exp.Cast)}


def _normalize_type(text: str) -> str:
    """Return a type as ``stored_types`` does; empty for one that is nested or stored under another name."""
    try:
        kind = exp.DataType.build(text, dialect="spark").sql("spark").lower().replace(" ", "")
    except SqlglotError:
        return ""
    if kind in ("decimal", "numeric"):
        return "decimal(10,0)"
    if kind in _KNOWN or (kind.startswith("decimal(") and "," in kind):
        return kind
    return ""

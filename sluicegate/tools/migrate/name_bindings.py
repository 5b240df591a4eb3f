"""Bindings of a module's names, and the values of constant expressions by them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate.tools.migrate.settings_of_source import SourceSettings


@dataclass
class NameBindings:
    """Bindings of the module's names.

    Attributes:
        constants: values.
        functions: functions of ``pyspark.sql.functions``.
        modules: names of that module itself.
        pipelines: names of the module that declares tables.
        declaring: functions of that module.
        settings: values of ``spark.conf``.
        columns: columns of the tables that were declared so far, in lower case; None if a ``*`` is among them.
        files: those of these tables that are files as they are.
    """

    constants: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=lambda: {"F", "f", "functions"})
    pipelines: set[str] = field(default_factory=lambda: {"dlt", "dp"})
    declaring: dict[str, str] = field(default_factory=dict)
    settings: SourceSettings = field(default_factory=SourceSettings)
    columns: dict[str, list[str] | None] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)


def constant(node: ast.expr, names: NameBindings) -> Any:
    """Value of a constant expression: text, number, list, dictionary, setting, or a name bound to one; else None.

    Raises:
        NotTaken: a setting has no value.
    """
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names.constants.get(node.id)
        case ast.List() | ast.Tuple():
            return _constants(node.elts, names)
        case ast.Dict():
            keys = [constant(key, names) if key else None for key in node.keys]
            values = _constants(node.values, names)
            if None in keys or values is None:
                return None
            return dict(zip(keys, values, strict=True))
        case ast.FormattedValue(conversion=-1, format_spec=None):
            return constant(node.value, names)
        case ast.JoinedStr():
            parts = _constants(node.values, names)
            return None if parts is None else "".join(map(str, parts))
        case ast.BinOp(op=ast.Add()):
            return _concatenate(constant(node.left, names), constant(node.right, names))
    return names.settings.call_value(node)


def _concatenate(left: Any, right: Any) -> str | None:
    """Two texts as one; None if one of them is another value."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return None


def _constants(nodes: Sequence[ast.expr], names: NameBindings) -> list[Any] | None:
    """Values of constant expressions; None if one of them is none."""
    values = [constant(node, names) for node in nodes]
    if None in values:
        return None
    return values

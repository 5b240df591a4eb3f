"""Bindings of a module's names, and the values of constant expressions by them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate.tools.migrate.settings_of_source import SourceSettings

# Modules that declare tables.
PIPELINES = ("dlt", "pyspark.pipelines")

FUNCTIONS = "pyspark.sql.functions"

# Methods that mutate the list or dictionary they are called on.
_CHANGING = (
    "update", "append", "extend", "insert", "pop", "popitem", "clear", "remove", "setdefault", "sort", "reverse",
)  # fmt: skip


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
    """Evaluate a constant: text, number, list, dictionary, setting, or a name bound to one; None for all others.

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
    """Join two texts, and return None if one of the values is not a text."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return None


def _constants(nodes: Sequence[ast.expr], names: NameBindings) -> list[Any] | None:
    """Evaluate constant expressions, and return None if one of them is not constant."""
    values = [constant(node, names) for node in nodes]
    if None in values:
        return None
    return values


def changed_names(module: ast.Module) -> set[str]:
    """Return names that one assignment does not determine: bound more than once, or mutated in place.

    A function of a source runs after the whole module, so it never sees a value in between.
    """
    bound = Counter[str]()
    changed = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            changed |= {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
        elif isinstance(node, ast.Call):
            changed |= _name_mutated_by(node)
        elif isinstance(node, ast.arg):
            bound[node.arg] += 1
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(name for _, name in imports(node))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound[node.name] += 1
    return changed | {name for name, times in bound.items() if times > 1}


def _name_mutated_by(call: ast.Call) -> set[str]:
    """Return the name whose value a call of a method changes in place."""
    match call.func:
        case ast.Attribute(ast.Name(name), method) if method in _CHANGING:
            return {name}
    return set()


def imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the local name of each import."""
    for name in node.names:
        if isinstance(node, ast.ImportFrom):
            yield f"{node.module}.{name.name}", name.asname or name.name
        else:
            yield name.name, name.asname or name.name


def own_names(module: ast.Module) -> set[str]:
    """Return names that the module defines or imports itself, so that they are not Spark's.

    A name that also stands for a module that declares tables is left out: a stub may replace it in tests.
    """
    names, pipelines = set(), set()
    nodes: list[ast.AST] = [*module.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for qualified_name, name in imports(node):
                if qualified_name in PIPELINES:
                    pipelines.add(name)
                elif not {qualified_name, qualified_name.rpartition(".")[0]} & {*PIPELINES, FUNCTIONS}:
                    names.add(name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)):
            nodes += ast.iter_child_nodes(node)
    return names - pipelines

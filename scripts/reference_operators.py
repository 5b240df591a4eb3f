"""What docs/reference/airflow-operators.md says of our Airflow classes, by their source: Airflow may be missing."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.reference_text import code, prose, table

PACKAGE = Path(__file__).resolve().parent.parent / "sluicegate"

# Modules of the operators, each with its class, in the order in which a DAG has them.
OPERATORS = {
    "airflow.sensors.landed_files": "LandedFilesSensor",
    "airflow.operators.submit": "SluicegateJob",
    "airflow.operators.check_request": "CheckRequest",
    "airflow.operators.reconcile": "Account",
    "airflow.operators.maintenance": "Verification",
}


def operators_page() -> Iterator[str]:
    """Paragraphs of the page."""
    yield "For DAGs of your own. [`dags/example_sequence.py`](../../dags/example_sequence.py) is a whole one."
    for module, name in OPERATORS.items():
        yield from _operator(module, name)


def _operator(module: str, name: str) -> Iterator[str]:
    tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    text, _, rest = inspect.cleandoc(ast.get_docstring(found) or "").partition("\nArgs:\n")
    yield f"## {name}"
    yield f"```python\nfrom sluicegate.{module} import {name}\n```"
    yield from (prose(paragraph) for paragraph in text.strip().split("\n\n"))
    meanings = dict(re.findall(r"^    (\w+): ((?:.*\n?)(?:     +.*\n?)*)", rest, re.MULTILINE))
    yield table(["parameter", "type", "default", "meaning"], list(_parameters(found, meanings)))


def _parameters(found: ast.ClassDef, meanings: dict[str, str]) -> Iterator[list[str]]:
    init = next(node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    for argument, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
        kind = code(ast.unparse(argument.annotation)) if argument.annotation else ""
        value = "required" if default is None else code(ast.unparse(default))
        yield [code(argument.arg), kind, value, prose(meanings.get(argument.arg, ""))]
    if init.args.kwarg is not None:
        yield [code(f"**{init.args.kwarg.arg}"), "", "", prose(meanings.get(init.args.kwarg.arg, ""))]

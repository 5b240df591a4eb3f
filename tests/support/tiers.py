"""The targets of make that run tests: which of them runs a test, by its folder and its markers."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Those that share all tests among them; the others run some of these again, by what they need.
SHARES = ("test", "test-commands", "test-more", "test-release", "test-chaos", "test-scale", "test-compose")

# Marker of the tests of a folder: what they need.
TIERS = {"unit": "unit", "spark": "spark", "scale": "spark", "e2e": "e2e"}


@cache
def chosen_by(target: str) -> str:
    """The expression over markers by which a target chooses its tests."""
    makefile = (ROOT / "Makefile").read_text()
    line = re.search(rf'^{target}: setup.*\n\t@\$\(RUN\) -m pytest -m ("[^"]+"|[a-z]+)', makefile, re.MULTILINE)
    assert line is not None, f"{target} runs no tests"
    return line[1].strip('"')


@cache
def shares(markers: frozenset[str]) -> list[str]:
    """The targets that run a test with such markers."""
    return [target for target in SHARES if _matches(chosen_by(target), markers)]


def _matches(expression: str, markers: frozenset[str]) -> bool:
    names = set(re.findall(r"[a-z0-9]+", expression)) - {"and", "or", "not"}
    return bool(eval(expression, {"__builtins__": {}}, {name: name in markers for name in names}))


@cache
def misplaced(folder: str, markers: frozenset[str]) -> str:
    """Why a test of a folder of ``tests`` cannot have such markers; empty if it can."""
    tier = TIERS.get(folder)
    if tier is None:
        return f"tests/{folder} is no folder of tests: they are in {', '.join(TIERS)}"
    if markers & {*TIERS.values()} != {tier}:
        return f"a test of tests/{folder} is marked as {tier}, and as nothing else of {', '.join(TIERS)}"
    targets = shares(markers)
    if tier == "unit" and targets != ["test"]:
        return "no test without Spark is put off: together they take three minutes"
    if len(targets) != 1:
        return f"it is run by {' and '.join(targets) or 'no target'}, and not by one"
    return ""


def markers_of_tests(file: Path) -> Iterator[frozenset[str]]:
    """Markers of each test of a file, read from its text. Those of a single parameter are left out."""
    tree = ast.parse(file.read_text())
    of_all = _markers(_module_marks(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield frozenset({*of_all, *_markers(node.decorator_list)})


def _module_marks(tree: ast.Module) -> list[ast.expr]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            return node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
    return []


def _markers(marks: Collection[ast.expr]) -> Iterator[str]:
    for mark in marks:
        name = mark.func if isinstance(mark, ast.Call) else mark
        if isinstance(name, ast.Attribute) and ast.unparse(name.value) == "pytest.mark":
            yield name.attr

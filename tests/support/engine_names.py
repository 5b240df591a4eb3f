"""Names of columns that the code puts into frames, read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent / "sluicegate"

_NAMING = {"alias", "withColumn", "withColumns", "withColumnRenamed", "toDF", "named", "working"}
_UNDERSCORED = re.compile(r"_[a-z][a-z0-9_]*")
_AS = re.compile(r"\bAS (\w+)")


def of_code(*packages: str) -> list[str]:
    """Names that stand in the code of some packages as those of columns, with the number 0 where it counts them."""
    found: set[str] = set()
    for layer in packages:
        for file in sorted((ROOT / layer).rglob("*.py")):
            found |= set(_names(ast.parse(file.read_text())))
    return sorted(name for name in found if not name.endswith("_") and name == name.lower())


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for argument in node.args if called in _NAMING else ():
                prefix = "_sluicegate_" if called == "working" else ""
                yield from (prefix + name for name in _text(argument) if name.isidentifier())
        for text in _text(node):
            if _UNDERSCORED.fullmatch(text):
                yield text
            yield from _AS.findall(text)


def _text(node: ast.AST) -> Iterator[str]:
    """Text of a literal; of one with values in it, with 0 in their places."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "0" for part in node.values)

"""Values of a source's settings: ``spark.conf.get`` and ``dbutils.widgets.get`` in Python, ``${name}`` in SQL.

Databricks gives them by the ``configuration`` of a pipeline and the parameters of a job, which lie outside of a source.
https://docs.databricks.com/aws/en/ldp/parameters
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.tools.migrate.queries import NotTaken

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.\-]*)\}")
_READS = {"spark.conf.get": "spark.conf", "dbutils.widgets.get": "the widget"}


@dataclass
class SourceSettings:
    """Values by the names of settings.

    Attributes:
        values: values that a person gave with ``--set``.
        read: names of those that the source reads.
        defaults: names whose default, as the source has it, was written out, with value and line.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    defaults: dict[str, tuple[str, int]] = field(default_factory=dict)

    def call_value(self, node: ast.expr) -> str | None:
        """Return the value of a call that reads a setting, None for any other expression.

        Raises:
            NotTaken: nothing says its value.
        """
        if not (isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in _READS):
            return None
        texts = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
        name = texts[0]
        if not isinstance(name, str):
            return None
        if name in self.values:
            self.read.add(name)
            return self.values[name]
        if len(texts) == 2 and isinstance(texts[1], str) and ast.unparse(node.func) == "spark.conf.get":
            self.defaults[name] = (texts[1], node.lineno)
            return texts[1]
        raise NotTaken(f"{_READS[ast.unparse(node.func)]} {name} has no value: set it with --set {name}=…", node.lineno)

    def fill_references(self, text: str) -> str:
        """Fill the given values of ``${name}`` into a SQL source, and leave the others."""
        self.read |= {reference[1] for reference in _REFERENCE.finditer(text)} & self.values.keys()
        return _REFERENCE.sub(lambda reference: self.values.get(reference[1], reference[0]), text)

    def unread_names(self) -> list[str]:
        """List given names that the source does not read, which are most likely misspelt."""
        return sorted(self.values.keys() - self.read)


def missing_setting(text: str) -> str | None:
    """Return the name of a setting in a SQL statement that has no value, None if there is none."""
    reference = _REFERENCE.search(text)
    if reference is None:
        return None
    return reference[1]

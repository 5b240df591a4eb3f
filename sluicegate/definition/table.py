"""Base model of silver and gold tables, and the layers."""

from __future__ import annotations

from typing import Literal

from pydantic import PrivateAttr
from pydantic.config import JsonDict

from sluicegate.definition.fields import Part
from sluicegate.definition.python_function import PythonTransform
from sluicegate.sql.query import Query

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")

# Suffix of the de-identified copy of a silver table.
DEIDENTIFIED = "_deidentified"

# Suffix of the table of the rows for which a batch was refused.
REJECTED = "_rejected"


class MadeTable(Part):
    """A table made by a query (``sql``: its file or its text), by a Python function (``python``), or by CDC."""

    sql: str | None = None
    python: str | None = None
    _query: Query | None = PrivateAttr(None)
    _sql_file: str | None = PrivateAttr(None)
    _transform: PythonTransform | None = PrivateAttr(None)

    @property
    def transform(self) -> PythonTransform | None:
        """Python function that makes its rows; None for a table without one."""
        return self._transform

    @property
    def is_python(self) -> bool:
        """Whether a Python function of the user makes its rows."""
        return self.python is not None

    @property
    def sql_file(self) -> str | None:
        """Path of the file that the query is in; None if its text is in pipeline.yaml."""
        return self._sql_file

    def _resolve(self, query: Query | None, sql_file: str | None) -> None:
        """Set the query, parsed by the loader."""
        self._query, self._sql_file = query, sql_file


_DEFINED_BY = {"sql": ("sql",), "python": ("from", "python"), "apply_changes": ("from", "apply_changes"),
         "apply_changes_from_snapshot": ("from", "apply_changes_from_snapshot")}  # fmt: skip


def _only(*names: str) -> JsonDict:
    """JSON schema for editors: of the fields that define the rows exactly these are set."""
    others = {field for part in _DEFINED_BY.values() for field in part if field not in names}
    return {"required": list(names), "properties": {name: {"type": "null"} for name in sorted(others)}}

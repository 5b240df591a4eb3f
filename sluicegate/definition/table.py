"""What the types of silver and gold tables have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import PrivateAttr
from pydantic.config import JsonDict

from sluicegate.definition.fields import Part
from sluicegate.definition.python_function import PythonTransform
from sluicegate.sql.query import Query

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")

# What the de-identified table beside a silver table is called.
DEIDENTIFIED = "_deidentified"


class MadeTable(Part):
    """A table that a query makes, ``sql`` being its file or its text, or a function, which ``python`` names."""

    sql: str | None = None
    python: str | None = None
    _query: Query | None = PrivateAttr(None)
    _sql_file: str | None = PrivateAttr(None)
    _transform: PythonTransform | None = PrivateAttr(None)

    @property
    def transform(self) -> PythonTransform | None:
        """The Python function that makes its rows; None for a table without one."""
        return self._transform

    @property
    def is_python(self) -> bool:
        """Whether code of the user makes its rows, and not a query or the engine's own rules."""
        return self.python is not None

    @property
    def sql_file(self) -> str | None:
        """Path of the file that the query is in; None if its text is in pipeline.yaml."""
        return self._sql_file

    def _resolve(self, query: Query | None, sql_file: str | None) -> None:
        """Takes the query that the definition's loader has read."""
        self._query, self._sql_file = query, sql_file


_DEFINED_BY = {"sql": ("sql",), "python": ("from", "python"), "apply_changes": ("from", "apply_changes"),
         "apply_changes_from_snapshot": ("from", "apply_changes_from_snapshot")}  # fmt: skip


def _only(*names: str) -> JsonDict:
    """For editors: of the fields that say where rows come from these are there, and no others."""
    others = {field for part in _DEFINED_BY.values() for field in part if field not in names}
    return {"required": list(names), "properties": {name: {"type": "null"} for name in sorted(others)}}

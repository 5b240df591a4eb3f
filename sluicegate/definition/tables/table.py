"""Base models of silver and gold tables, and the layers."""

from __future__ import annotations

from typing import Literal

from pydantic import PrivateAttr
from pydantic.config import JsonDict

from sluicegate.definition.fields import Part
from sluicegate.definition.tables.described import Described
from sluicegate.definition.tables.python_function import PythonTransform
from sluicegate.spark_sql.query import Query

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")

# Suffix of the de-identified copy of a silver table.
DEIDENTIFIED = "_deidentified"

# Suffix of the table of the rows for which a batch was refused.
REJECTED = "_rejected"


class MadeRows(Part):
    """Rows made by a query (``sql``: its file or its text), or by a Python function (``python``)."""

    sql: str | None = None
    python: str | None = None
    _query: Query | None = PrivateAttr(None)
    _written: Query | None = PrivateAttr(None)
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
    def outputs(self) -> list[str] | None:
        """Columns of its query; None without ``sql``, or if a star is among them."""
        if self._query is None:
            return None
        return self._query.outputs

    @property
    def sql_file(self) -> str | None:
        """Path of the file that the query is in; None if its text is in pipeline.yaml."""
        return self._sql_file

    @property
    def written_query(self) -> Query | None:
        """Its query as it is written, with the names of views; None without ``sql``."""
        return self._written

    def _resolve(self, query: Query | None, sql_file: str | None, written: Query | None = None) -> None:
        """Set the query as parsed by the loader, and as written if it reads views."""
        self._query, self._sql_file, self._written = query, sql_file, written or query


class MadeTable(MadeRows, Described):
    """A table made by a query, by a Python function, or by CDC."""


_DEFINED_BY = {"sql": ("sql",), "python": ("from", "python"), "apply_changes": ("from", "apply_changes"),
         "apply_changes_from_snapshot": ("from", "apply_changes_from_snapshot")}  # fmt: skip

# As the former, of tables that several flows fill.
_DEFINED_BY_FLOWS = {"flows": ("flows",), "changes of flows": ("flows", "apply_changes")}


def _require_only(*names: str) -> JsonDict:
    """Return the JSON schema for editors by which exactly these of the row-defining fields are set."""
    alternatives = [*_DEFINED_BY.values(), *_DEFINED_BY_FLOWS.values()]
    fields_of_others = {field for part in alternatives for field in part if field not in names}
    return {"required": list(names), "properties": {name: {"type": "null"} for name in sorted(fields_of_others)}}

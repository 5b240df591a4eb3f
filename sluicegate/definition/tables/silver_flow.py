"""Model of one flow of a silver table that several streams fill."""

from __future__ import annotations

import hashlib

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from sluicegate.definition.fields import field_error
from sluicegate.definition.tables.table import MadeRows
from sluicegate.spark_sql.query import Query


class SilverFlow(MadeRows):
    """One of the flows that fill a silver table: Databricks calls it an append flow, or an AUTO CDC flow.

    It has either ``sql``, or ``from``, alone or with ``python``.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text.
        python: the transform, as a file in the pipeline's folder and a function at its top level, ``file.py:function``.
            It may read the tables that stand under ``lookups`` of the table.
        from_: ``from`` of the definition: the table that is read record by record; without ``python`` its rows come as
            they are.
    """

    from_: str | None = Field(None, alias="from")
    _named_as: Query | None = PrivateAttr(None)

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["sql"], "properties": {"from": {"type": "null"}, "python": {"type": "null"}}},
                {"required": ["from"], "properties": {"sql": {"type": "null"}}},
            ]
        }
    )

    @property
    def query(self) -> Query | None:
        """Query of the flow; None without ``sql``."""
        return self._query

    @property
    def first_branch(self) -> Query | None:
        """First branch of the UNION ALL that it is a later branch of: it names the columns, by their places."""
        return self._named_as

    @property
    def stream(self) -> str:
        """The table that is read record by record."""
        return self.from_ or (self._query and self._query.stream) or ""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides what rows it makes of a record."""
        parts = [self.stream, self._named_as.fingerprint if self._named_as else ""]
        if self._query:
            parts += [self._query.fingerprint]
        if self._transform:
            parts += [self._transform.fingerprint]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @model_validator(mode="after")
    def _check_source(self) -> SilverFlow:
        kinds = "a flow needs either sql, or from with or without python"
        if self.sql is not None and (self.from_ is not None or self.python is not None):
            raise field_error("one-of", f"{kinds}, not sql and {'from' if self.from_ is not None else 'python'}")
        if self.sql is None and self.from_ is None:
            present = "neither" if self.python is None else "python alone"
            raise field_error("missing-field", f"{kinds}, not {present}")
        return self

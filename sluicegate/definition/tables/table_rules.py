"""Rules about a whole table: what must be so before a batch of it is committed."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, model_validator

from sluicegate.definition.fields import IDENTIFIER, Names, Part, check_identifiers, field_error
from sluicegate.spark_sql.query import Query

KINDS = ("rows", "unique", "foreign_key", "sql")

_REFERENCE = re.compile(r"([a-z][a-z0-9_]*)\s*(?:\(([^()]*)\))?")


class RowCount(Part):
    """Least and greatest number of rows; one of them, or both.

    Attributes:
        min: the table has at least so many rows.
        max: the table has at most so many rows.
    """

    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> RowCount:
        if self.min is None and self.max is None:
            raise field_error("missing-field", "rows needs min, max or both", "for example rows: {min: 1}")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise field_error("out-of-range", f"min {self.min:,} exceeds max {self.max:,}")
        return self

    def __str__(self) -> str:
        """Write the bounds in words."""
        parts = []
        if self.min is not None:
            parts = [f"at least {self.min:,}"]
        if self.max is not None:
            parts += [f"at most {self.max:,}"]
        return " and ".join(parts)


class TableRule(Part):
    """A rule about a whole table. A batch by which it would be broken fails the run, and the table stays as it was.

    It has exactly one of ``rows``, ``unique``, ``foreign_key`` (which goes with ``references``) and ``sql``.

    Attributes:
        rows: number of rows that the table has: ``{min: 1, max: 1000}``.
        unique: columns of which no two rows have the same values; NULL is a value here, as in GROUP BY.
        foreign_key: columns whose values are in the table ``references``; NULL passes.
        references: the table of a foreign key, of the same layer or one before it; with its columns if they have
            other names, as ``patients (mrn)``.
        sql: a query that must return no row, as text or as a file name. It may read the table itself, as it would
            be, and tables of the same layer or one before it.
    """

    rows: RowCount | None = None
    unique: Annotated[Names, Field(min_length=1)] | None = None
    foreign_key: Annotated[Names, Field(min_length=1)] | None = None
    references: str | None = None
    sql: str | None = None
    _query: Query | None = PrivateAttr(None)
    _written: Query | None = PrivateAttr(None)

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in KINDS]})

    @model_validator(mode="after")
    def _check_kind(self) -> TableRule:
        kinds = self.fields_with_values(*KINDS)
        if len(kinds) != 1:
            present = f"sets {' and '.join(kinds) or 'none'}"
            raise field_error("one-of", f"a table rule takes exactly one of {', '.join(KINDS)}, and this one {present}")
        if (self.foreign_key is None) != (self.references is None):
            message = "foreign_key and references require each other"
            raise field_error("missing-field", message, "for example references: patients (mrn)")
        table, columns = self.foreign_key_target
        if self.references is not None and not (table and all(map(IDENTIFIER.fullmatch, columns))):
            message = f"references must be a table, with its columns if their names differ, not {self.references}"
            raise field_error("wrong-type", message, "for example patients, or patients (mrn)")
        if len(columns) != len(self.foreign_key or ()):
            message = f"foreign_key names {len(self.foreign_key or ())} columns, but references lists {len(columns)}"
            raise field_error("foreign-key", message, "list the same number of columns, in the same order")
        return self

    @property
    def kind(self) -> str:
        """Which of the kinds it is."""
        return self.fields_with_values(*KINDS)[0]

    @property
    def foreign_key_target(self) -> tuple[str, list[str]]:
        """Table and columns that a foreign key refers to; the table is empty if ``references`` is not written so."""
        match = _REFERENCE.fullmatch((self.references or "").strip())
        if match is None:
            return "", list(self.foreign_key or ())
        table, columns = match.groups()
        if columns is None:
            return table, list(self.foreign_key or ())
        return table, [name.strip() for name in columns.split(",")]

    @property
    def query(self) -> Query:
        """Query that must give no row; only of a rule with ``sql``."""
        if self._query is None:
            raise LookupError("a rule has a query only after its definition is loaded, and only with sql")
        return self._query

    @property
    def written_query(self) -> Query:
        """Its query as it is written, with the names of views."""
        return self._written or self.query

    def _resolve(self, query: Query, _: str | None, written: Query) -> None:
        """Set the query as parsed by the loader, and as written if it reads views."""
        self._query, self._written = query, written

    @property
    def columns(self) -> list[str]:
        """Columns of the table that it names itself."""
        return [*(self.unique or ()), *(self.foreign_key or ())]

    def reads(self, table: str) -> list[str]:
        """Return the tables that the rule reads, except its own."""
        names: list[str] = []
        if self.references:
            names = [self.foreign_key_target[0]]
        elif self._query:
            names = self._query.tables
        return [name for name in dict.fromkeys(names) if name != table]

    def referenced_names(self, table: str) -> list[str]:
        """List the tables as ``reads`` does, but with views in place of the tables that they read."""
        if self._query:
            return [name for name in self.written_query.tables if name != table]
        return self.reads(table)

    @property
    def fingerprint(self) -> str:
        """Text that differs where the rule does."""
        if self._query:
            return self._query.fingerprint
        return self.model_dump_json(exclude_none=True)

    def __str__(self) -> str:
        """Write the rule in words, as the cause of an error."""
        if self.rows is not None:
            return f"it has {self.rows} rows"
        if self.unique is not None:
            return f"no two rows have the same {', '.join(self.unique)}"
        if self.foreign_key is not None:
            return f"{', '.join(self.foreign_key)} is in {self.references}"
        return "its query gives no row"


TableRules = Annotated[dict[str, TableRule], AfterValidator(check_identifiers)]

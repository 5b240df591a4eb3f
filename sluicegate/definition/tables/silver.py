"""Model of a silver table's definition."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from sluicegate.definition.fields import Bytes, Ddl, Names, field_error, name_fault
from sluicegate.definition.tables.apply_changes import ApplyChanges, ApplyChangesFromSnapshot
from sluicegate.definition.tables.declared_lineage import DeclaredLineage, demand_read
from sluicegate.definition.tables.described import DESCRIBED
from sluicegate.definition.tables.expectations import ConditionsByName, DropConditionsByName, Expectations
from sluicegate.definition.tables.ruled import Ruled
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.definition.tables.table import _DEFINED_BY, _DEFINED_BY_FLOWS, MadeTable, _require_only
from sluicegate.spark_sql import ddl
from sluicegate.spark_sql.query import Query

LookupMode = Literal["follow", "as_of_run"]
Treatment = Literal["hmac", "mask", "drop"]

# Fields that came later than tables: where they say what always was, the fingerprint is the one of before.
_LATER = {"rows": "one", "quarantine": "row", "rescued": "quarantine"}

CHANGES = ("apply_changes", "apply_changes_from_snapshot")

# Bytes of files of its source that a batch takes in, if the definition does not say how many.
BATCH_BYTES = 1 << 30


class SilverTable(MadeTable, Ruled):
    """A table of typed, evaluated and joined records.

    It has either ``sql``, or ``from`` with ``python``, ``apply_changes`` or ``apply_changes_from_snapshot``, or
    ``flows``, alone or with ``apply_changes``. Of changes and snapshots, keys and sequence_by belong in these fields
    and not beside them. Names of expectations are unique across all fields.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text. Each branch of a UNION ALL over
            ``STREAM(…)`` is a flow with the name of its stream.
        python: the transform, ``file.py:function``, in the pipeline's folder. It is called with the batch, a
            DataFrame, and the tables of ``lookups`` by name, and returns a DataFrame that keeps ``_chunk`` and
            ``_pos``.
        from_: ``from`` of the definition: the table that ``python`` or ``apply_changes`` reads record by record.
        flows: the flows that fill the table, by name, each with its own query or function. Columns are matched by
            name.
        lookups: effect of changes of each other table that is read. ``follow``, the default: affected rows are
            updated. ``as_of_run``: rows keep the values of their run. ``python`` may read only tables that are
            listed here.
        apply_changes: for records that are changes (CDC): how they are applied.
        apply_changes_from_snapshot: for records that are snapshots of all rows: how they are applied.
        keys: columns that identify a row; of several records with the same keys one wins.
        sequence_by: column by which the latest of them wins.
        event_time: event-time column.
        rows: rows that a record may give. ``one``: a second row stops the run. ``many``: any number, each with its
            number in ``_record_row``; a record without rows is set aside.
        quarantine: with ``rows: many``, what a row that breaks a rule sends to quarantine: itself (``row``) or all
            rows of its record (``record``).
        rescued: treatment of a corrupt record, or of one with a rescued value in a column that the transform reads.
            ``quarantine``: it goes to quarantine. ``keep``: the value is NULL. ``fail``: the run fails. A query
            that names ``_rescued_data`` or ``_corrupt_record`` decides itself.
        maxBytesPerTrigger: bytes of the source's files in one batch and commit, as 4096 or ``512m``. A full refresh
            of an existing table, ``apply_changes_from_snapshot`` and ``expect_table`` take everything in one batch.
        schema_: ``schema`` of the definition: columns with their types, as DDL, which come first and in this order.
            A value that its type does not hold exactly is quarantined.
        schemaEvolutionMode: treatment of a new column of the transform. ``addNewColumns``: it is added. ``none``: it is
            left out. ``failOnNewColumns``: nothing is written until the definition names it.
        expectations_: ``expectations`` of the definition: conditions by name, each with its action.
        expect_all: conditions by name; rows that break them are kept and counted.
        expect_all_or_drop: conditions by name; rows that break one are dropped.
        expect_all_or_quarantine: conditions by name; rows that break one go to the quarantine table.
        expect_all_or_fail: conditions by name; rows that break one fail the run.
        expect_table: rules about the whole table by name, checked before each commit.
        pii: columns with personal data; if there are any, the pipeline's jobs show no values in their output.
        deidentified: a copy of the table without personal data: each column of ``pii`` with ``hmac`` (a pseudonym),
            ``mask`` or ``drop``. Others are copied unchanged.
        lineage: with ``python``, the source columns of its columns, as ``[orders.price, orders.tax]``; a column
            that is not named may come from everything that the function reads.
        comment: what the table is, for people; the table's comment in Delta.
        column_comments: comments of its columns by name.
        table_properties: properties of the Delta table: your own, and those of Delta that only tune how files are
            written.
        tags: names with values, stored as properties of the table and in ``extra`` of its asset in Airflow.
    """

    from_: str | None = Field(None, alias="from")
    flows: Annotated[dict[str, SilverFlow], Field(min_length=1)] | None = None
    lookups: dict[str, LookupMode] = {}
    apply_changes: ApplyChanges | None = None
    apply_changes_from_snapshot: ApplyChangesFromSnapshot | None = None
    keys: Names = []
    sequence_by: str | None = None
    event_time: str | None = None
    rows: Literal["one", "many"] = "one"
    quarantine: Literal["row", "record"] = "row"
    rescued: Literal["quarantine", "keep", "fail"] = "quarantine"
    maxBytesPerTrigger: Annotated[Bytes, Field(ge=1)] = BATCH_BYTES
    schema_: Ddl | None = Field(None, alias="schema")
    schemaEvolutionMode: Literal["addNewColumns", "none", "failOnNewColumns"] = "addNewColumns"
    expectations_: Expectations = Field({}, alias="expectations")
    expect_all: ConditionsByName = {}
    expect_all_or_drop: DropConditionsByName = {}
    expect_all_or_quarantine: ConditionsByName = {}
    expect_all_or_fail: ConditionsByName = {}
    pii: Names = []
    deidentified: Annotated[dict[str, Treatment], Field(min_length=1)] | None = None
    lineage: DeclaredLineage = {}
    _branches: dict[str, SilverFlow] = PrivateAttr(default_factory=dict)

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [_require_only(*fields) for fields in (*_DEFINED_BY.values(), *_DEFINED_BY_FLOWS.values())]
        }
    )

    @property
    def flows_or_branches(self) -> Mapping[str, SilverFlow]:
        """The flows that fill it together, by name: those of ``flows``, or the branches of its UNION ALL."""
        return self.flows or self._branches

    @property
    def makers(self) -> Mapping[str, SilverTable | SilverFlow]:
        """What makes its rows: its flows by name, or under an empty name the table itself."""
        return self.flows_or_branches or {"": self}

    @property
    def located_makers(self) -> list[tuple[tuple[str, ...], SilverTable | SilverFlow]]:
        """What makes its rows, each with the path below the table at which the definition has it."""
        if self.flows:
            return [(("flows", name), flow) for name, flow in self.flows.items()]
        return [((), maker) for maker in self.makers.values()]

    @property
    def runs_python(self) -> bool:
        """Whether a Python function of the user makes any of its rows."""
        return any(maker.is_python for maker in self.makers.values())

    def _unite(self, queries: Sequence[Query], sql_file: str | None, written: Sequence[Query]) -> None:
        """Set the flows of a UNION ALL, each named after its stream, as parsed by the loader and as written."""
        self._sql_file = sql_file
        for number, query in enumerate(queries, start=1):
            stem = (query.stream or f"branch_{number}").rsplit(".", 1)[-1]
            numbered = (f"{stem}_{count}" for count in range(2, len(queries) + 2))
            name = next(candidate for candidate in (stem, *numbered) if candidate not in self._branches)
            flow = SilverFlow.model_validate({"sql": query.text})
            flow._resolve(query, sql_file, written[number - 1])
            if number > 1:
                flow._named_as = queries[0]
            self._branches[name] = flow

    @property
    def query(self) -> Query | None:
        """Query of the table; None without ``sql``."""
        return self._query

    @property
    def changes(self) -> ApplyChanges | ApplyChangesFromSnapshot | None:
        """Its ``apply_changes`` or ``apply_changes_from_snapshot``; None for other tables."""
        return self.apply_changes or self.apply_changes_from_snapshot

    @property
    def changes_path(self) -> tuple[str, ...]:
        """Path below the table of the field with its changes; empty for other tables."""
        return tuple(self.fields_with_values(*CHANGES))

    @property
    def gives_many_rows(self) -> bool:
        """Whether a record may give many rows."""
        return self.rows == "many"

    @property
    def batch_bytes(self) -> int | None:
        """Bytes of its source's files that one batch takes in; None where it has to take in all that there is."""
        if self.apply_changes_from_snapshot or self.expect_table:
            return None
        return self.maxBytesPerTrigger

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides a record's row; comments and white space of a query do not change it."""
        usual = {name for name, value in _LATER.items() if getattr(self, name) == value} | {"flows"}
        left_out = {"sql", "python", "pii", "deidentified", "maxBytesPerTrigger", *DESCRIBED, *usual}
        parts = [self.model_dump_json(exclude=left_out, by_alias=True)]
        if self._query:
            parts += [self._query.fingerprint]
        if self._transform:
            parts += [self._transform.fingerprint]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def stream(self) -> str:
        """The table that is read record by record; the first of several."""
        if self.flows_or_branches:
            return next(iter(self.flows_or_branches.values())).stream
        return self.from_ or (self._query and self._query.stream) or ""

    @property
    def streams(self) -> list[str]:
        """All tables that are read record by record."""
        return list(dict.fromkeys(maker.stream for maker in self.makers.values()))

    @property
    def lookup_tables(self) -> list[str]:
        """The tables that are read besides, as lookups."""
        names = [name for maker in self.makers.values() if maker.query for name in maker.query.lookups]
        if self.runs_python:
            names += self.lookups
        return list(dict.fromkeys(names))

    @property
    def reads(self) -> list[str]:
        """All tables read, the streamed ones first."""
        return list(dict.fromkeys([*filter(None, self.streams), *self.lookup_tables]))

    @property
    def referenced_names(self) -> list[str]:
        """Tables and views that it names: as ``reads``, but with the views in place of the tables that they read."""
        names: list[str] = []
        for maker in self.makers.values():
            if maker.written_query:
                names += maker.written_query.tables
            else:
                names += [maker.stream]
        if self.runs_python:
            names += self.lookups
        return list(dict.fromkeys(names))

    def can_follow(self, lookup: str) -> bool:
        """Return whether the records are known that a changed row of a lookup touches, in every flow that reads it."""
        makers = self.makers.values()
        queries = [maker.query for maker in makers if maker.query and lookup in maker.query.lookups]
        return bool(queries) and not self.runs_python and all(lookup in query.join_keys for query in queries)

    def lookup_mode(self, name: str) -> LookupMode:
        """Return the effect of a lookup's changes on rows made with it."""
        return self.lookups.get(name, "follow")

    @property
    def declared_columns(self) -> dict[str, str] | None:
        """Type of each column of the schema, as written and in its order; None without a schema."""
        if self.schema_:
            return ddl.columns(self.schema_)
        return None

    @field_validator("schema_")
    @classmethod
    def _check_schema(cls, schema: str | None) -> str | None:
        for name in ddl.columns(schema) if schema else ():
            if name.startswith("_"):
                raise field_error("reserved-name", f"{name} starts with _, which is reserved for the engine: rename it")
        return schema

    @model_validator(mode="after")
    def _check_deidentified(self) -> SilverTable:
        if self.deidentified is None:
            return self
        treated = [column.lower() for column in self.deidentified]
        if twice := sorted({column for column in treated if treated.count(column) > 1}):
            message = f"duplicate name {', '.join(twice)} in deidentified: names are not case-sensitive"
            raise field_error("duplicate-name", message)
        untreated = [column for column in self.pii if column not in self.deidentified]
        if untreated:
            sentence = f"deidentified does not list {', '.join(untreated)}, which pii does"
            raise field_error("not-deidentified", sentence, f"for example {untreated[0]}: hmac, mask or drop")
        return self

    @model_validator(mode="after")
    def _check_lineage(self) -> SilverTable:
        demand_read(self.lineage, [self.from_ or "", *self.lookups] if self.is_python else None)
        return self

    @model_validator(mode="after")
    def _check_source(self) -> SilverTable:
        if self.flows is not None:
            return self._check_flows()
        sources = self.fields_with_values(*_DEFINED_BY)
        kinds = "a silver table needs either sql, or from with python, apply_changes or apply_changes_from_snapshot"
        if self.sql is not None and self.from_ is not None:
            raise field_error("one-of", f"{kinds}, not sql and from")
        if len(sources) > 1:
            raise field_error("one-of", f"{kinds}, not {' and '.join(sources)}")
        if not sources:
            present = "; both are missing" if self.from_ is None else ", not from alone"
            raise field_error("missing-field", f"{kinds}{present}")
        if self.sql is None and self.from_ is None:
            raise field_error("missing-field", f"{kinds}, not {sources[0]} alone")
        self._check_keys(sources[0])
        return self

    def _check_keys(self, place: str) -> None:
        """Refuse keys beside those of changes, and a sequence without keys.

        Args:
            place: the field that the keys of changes are in.
        """
        if self.changes and (self.keys or self.sequence_by):
            raise field_error("one-of", f"keys and sequence_by belong inside {place}, not next to it")
        if self.sequence_by and not self.keys:
            raise field_error("missing-field", "sequence_by requires keys")

    def _check_flows(self) -> SilverTable:
        """Check a table with flows, as ``_check_source`` does for all others."""
        for field in self.fields_with_values("sql", "from_", "python"):
            raise field_error("one-of", f"{field.rstrip('_')} belongs inside each flow, not next to flows")
        if self.apply_changes_from_snapshot is not None:
            hint = "combine the snapshots in a silver table with flows, and let another table read it"
            raise field_error("one-of", "apply_changes_from_snapshot cannot be combined with flows", hint)
        self._check_keys("apply_changes")
        for name in self.flows or ():
            if fault := name_fault(name):
                raise field_error("name", f"in flows: {fault}")
        return self

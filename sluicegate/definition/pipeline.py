"""The types of a definition: one class for each kind of thing that pipeline.yaml can hold.

Each checks what can be seen in it alone; definition/checks.py has what only the whole shows. Messages are made with
``wrong``, so that they reach people with a stable code and a hint, in our words and not in pydantic's.

``docs/reference.md`` and ``docs/pipeline.schema.json`` take what the docstrings here say of each part and field.
What editors should know of fields that exclude each other stands in ``json_schema_extra``, beside the check itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict

from sluicegate.definition import streaming
from sluicegate.definition.apply_changes import ApplyChanges as ApplyChanges
from sluicegate.definition.apply_changes import ApplyChangesFromSnapshot as ApplyChangesFromSnapshot
from sluicegate.definition.bronze import BronzeTable as BronzeTable
from sluicegate.definition.expectations import EXPECT_ALL, ConditionsByName, Expectations
from sluicegate.definition.expectations import Expectation as Expectation
from sluicegate.definition.fields import Ddl, Names, Part, nearest, wrong
from sluicegate.definition.header import Database as Database
from sluicegate.definition.header import Header as Header
from sluicegate.definition.maintenance import Maintenance as Maintenance
from sluicegate.definition.notify import Notify as Notify
from sluicegate.definition.python_function import PythonTransform
from sluicegate.errors import PipelineMissing
from sluicegate.sql import ddl
from sluicegate.sql.order_by import Ordering
from sluicegate.sql.query import Query
from sluicegate.sql.refresh.strategy import Upkeep, upkeep

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")
LookupMode = Literal["follow", "as_of_run"]
Treatment = Literal["hmac", "mask", "drop"]

# What the de-identified table beside a silver table is called.
DEIDENTIFIED = "_deidentified"


class _Made(Part):
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


_WAYS = {"sql": ("sql",), "python": ("from", "python"), "apply_changes": ("from", "apply_changes"),
         "apply_changes_from_snapshot": ("from", "apply_changes_from_snapshot")}  # fmt: skip


def _only(*names: str) -> JsonDict:
    """For editors: of the fields that say where rows come from these are there, and no others."""
    others = {field for way in _WAYS.values() for field in way if field not in names}
    return {"required": list(names), "properties": {name: {"type": "null"} for name in sorted(others)}}


class SilverTable(_Made):
    """A table of typed, judged and joined records.

    It has either ``sql``, or ``from`` with ``python``, ``apply_changes`` or ``apply_changes_from_snapshot``; with the
    last two, keys and sequence_by stand in them and not beside them. A rule has a name of its own, in whichever field
    it stands.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text.
        python: the transform, as a file in the pipeline's folder and a function at its top level, ``file.py:function``.
            It is called with the batch of records, a DataFrame, and the tables of ``lookups`` by name, and returns a
            DataFrame that keeps ``_chunk`` and ``_pos``.
        from_: ``from`` of the definition: the table that ``python`` or ``apply_changes`` reads record by record.
        lookups: for each other table that is read, what a change of it does. ``follow``, the default: rows made with it
            follow. ``as_of_run``: rows keep what it was when they were made, as in a stream-static join of Spark. With
            ``python`` all tables that it may read stand here.
        apply_changes: how its records become rows, where each tells a change.
        apply_changes_from_snapshot: how its records become rows, where they are snapshots of all rows.
        keys: columns that name a row; of several records with the same keys one wins.
        sequence_by: column by which the latest of them wins.
        event_time: column that says when it happened.
        schema_: ``schema`` of the definition: columns with their types, as DDL, which the table has first and in this
            order. A value that does not fit its type, or would lose digits by it, is quarantined.
        schemaEvolutionMode: what becomes of a column that the transform makes and that is new: not in ``schema``, or
            without a schema not in the table so far. ``addNewColumns``: it is added. ``none``: it is left out.
            ``failOnNewColumns``: nothing is written until the definition names it.
        expectations_: ``expectations`` of the definition: the rules by name, each with its fate.
        expect_all: conditions by name; rows that break them are kept and counted.
        expect_all_or_drop: conditions by name; rows that break one are dropped.
        expect_all_or_quarantine: conditions by name; rows that break one go to the quarantine table.
        expect_all_or_fail: conditions by name; rows that break one fail the run.
        pii: columns with personal data; where one is marked, no value is shown in what the pipeline's jobs say.
        deidentified: what becomes of columns in the table's de-identified copy, which is kept where this is given:
            ``hmac`` makes pseudonyms of them, ``mask`` hides them, ``drop`` leaves them out. Each column of ``pii`` is
            to be named; columns that are not named are taken as they are.
    """

    from_: str | None = Field(None, alias="from")
    lookups: dict[str, LookupMode] = {}
    apply_changes: ApplyChanges | None = None
    apply_changes_from_snapshot: ApplyChangesFromSnapshot | None = None
    keys: Names = []
    sequence_by: str | None = None
    event_time: str | None = None
    schema_: Ddl | None = Field(None, alias="schema")
    schemaEvolutionMode: Literal["addNewColumns", "none", "failOnNewColumns"] = "addNewColumns"
    expectations_: Expectations = Field({}, alias="expectations")
    expect_all: ConditionsByName = {}
    expect_all_or_drop: ConditionsByName = {}
    expect_all_or_quarantine: ConditionsByName = {}
    expect_all_or_fail: ConditionsByName = {}
    pii: Names = []
    deidentified: Annotated[dict[str, Treatment], Field(min_length=1)] | None = None

    model_config = ConfigDict(json_schema_extra={"oneOf": [_only(*fields) for fields in _WAYS.values()]})

    @property
    def query(self) -> Query | None:
        """The query; None for a table without ``sql``."""
        return self._query

    @property
    def changes(self) -> ApplyChanges | ApplyChangesFromSnapshot | None:
        """How records become rows where they tell of changes or are snapshots; None for other tables."""
        return self.apply_changes or self.apply_changes_from_snapshot

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides what a record becomes; comments and white space of a query do not."""
        parts = [self.model_dump_json(exclude={"sql", "python", "pii", "deidentified"}, by_alias=True)]
        parts += [self._query.fingerprint] if self._query else []
        parts += [self._transform.fingerprint] if self._transform else []
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def stream(self) -> str:
        """The table that is read record by record."""
        return self.from_ or (self._query and self._query.stream) or ""

    @property
    def reads(self) -> list[str]:
        """All tables that are read, the streamed one first."""
        if self._query:
            return self._query.tables
        return [*([self.from_] if self.from_ else []), *(self.lookups if self.is_python else [])]

    def lookup_mode(self, name: str) -> LookupMode:
        """What a change of a table that is read, but not streamed, does to rows that were made with it."""
        return self.lookups.get(name, "follow")

    @property
    def declared(self) -> dict[str, str] | None:
        """Type of each column of the schema, as written and in its order; None without a schema."""
        return ddl.columns(self.schema_) if self.schema_ else None

    @property
    def rules(self) -> Iterator[tuple[str, str, Expectation]]:
        """Each rule with the field that it stands in and its name, in the order of the fields."""
        yield from (("expectations", name, rule) for name, rule in self.expectations_.items())
        for field, kind in EXPECT_ALL.items():
            for name, condition in getattr(self, field).items():
                yield field, name, Expectation(**{kind: condition})

    @cached_property
    def expectations(self) -> dict[str, Expectation]:
        """All rules by name, in whichever field they stand."""
        return {name: rule for _, name, rule in self.rules}

    @field_validator("schema_")
    @classmethod
    def _no_hidden_columns(cls, schema: str | None) -> str | None:
        for name in ddl.columns(schema) if schema else ():
            if name.startswith("_"):
                raise wrong("reserved-name", f"{name} begins with _, as the engine's own columns do: give it another")
        return schema

    @model_validator(mode="after")
    def _all_personal(self) -> SilverTable:
        treated = [column.lower() for column in self.deidentified or ()]
        if twice := sorted({column for column in treated if treated.count(column) > 1}):
            raise wrong("duplicate-name", f"deidentified has {', '.join(twice)} twice, in other cases")
        left = [column for column in self.pii if column not in self.deidentified] if self.deidentified else []
        if left:
            said = f"deidentified does not say what becomes of {', '.join(left)}, which pii marks"
            raise wrong("not-deidentified", said, f"as in {left[0]}: hmac, or mask, or drop")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> SilverTable:
        ways = [name for name in _WAYS if getattr(self, name) is not None]
        known = "a silver table has either sql, or from with python, apply_changes or apply_changes_from_snapshot"
        if self.sql is not None and self.from_ is not None:
            raise wrong("one-of", f"{known}, and this has sql and from")
        if len(ways) > 1:
            raise wrong("one-of", f"{known}, and this has {' and '.join(ways)}")
        if self.sql is None and (self.from_ is None or not ways):
            given = "only from" if self.from_ else f"only {ways[0]}" if ways else "neither"
            raise wrong("missing-field", f"{known}, and this has {given}")
        if self.changes and (self.keys or self.sequence_by):
            raise wrong("one-of", f"keys and sequence_by stand in {ways[0]} here, not beside it")
        if self.sequence_by and not self.keys:
            raise wrong("missing-field", "sequence_by chooses among records with the same keys: keys is missing")
        return self


class GoldTable(_Made, streaming.Streamed):
    """A table that is computed from silver: by a query, or by a Python function with the tables that it ``reads``.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text.
        python: a function in a file of the pipeline's folder, ``file.py:function``. It is called with the tables under
            ``reads``, DataFrames by name, and returns the table's rows: all of them, whenever one of these changed.
        reads_: ``reads`` of the definition: the tables that ``python`` is called with.
        refresh: ``auto``: from what changed where that can be done; ``incremental``: only so, it is a mistake where it
            cannot be done; ``full``: made again whole whenever silver changes.
        mode: makes it a classic streaming aggregation, with an output mode of Structured Streaming: ``complete``: all
            groups in each batch; ``update``: those that rows came for; ``append``: each once, when its time is over.
        withWatermark: a column of times of the table that is read, and how far behind the newest of them rows may be.
    """

    reads_: Names = Field([], alias="reads")
    refresh: Literal["auto", "incremental", "full"] = "auto"

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["sql"]}, {"required": ["python", "reads"]}]})

    @model_validator(mode="after")
    def _one_maker(self) -> GoldTable:
        known = "a gold table has either sql, or python with reads"
        if (self.sql is None) == (self.python is None):
            code, given = ("missing-field", "neither") if self.sql is None else ("one-of", "both")
            raise wrong(code, f"{known}, and this has {given}")
        if self.is_python and not self.reads_:
            raise wrong(
                "missing-field", f"{known}, and this has no reads: the tables that {self.python} is called with"
            )
        if self.reads_ and not self.is_python:
            raise wrong("one-of", f"{known}: a query says itself what it reads, and this has sql and reads")
        if self.is_python and self.mode:
            raise wrong("one-of", "mode makes a streaming aggregation of a query, and this table is made by python")
        return self

    @model_validator(mode="after")
    def _one_way(self) -> GoldTable:
        if self.mode is not None and self.refresh != "auto":
            raise wrong("one-of", f"refresh: {self.refresh} and mode: {self.mode} are two ways to keep it: give one")
        return self

    def upkeep(self, schemas: Mapping[str, Sequence[str]] | None = None) -> Upkeep:
        """How it is kept up to date, as far as its text tells; see ``sql.refresh.strategy.upkeep``."""
        if self.mode:
            return Upkeep("stream", streaming.kept(self.mode))
        if self.is_python:
            return Upkeep("whole", "a Python function makes it, which does not tell what a change does", "a query")
        found = upkeep(self.query.text, schemas)
        if self.refresh == "full":
            return replace(found, way="whole", why="refresh is full", cheaper="refresh: auto")
        return found

    @property
    def query(self) -> Query:
        """The query of a table that has ``sql``."""
        if self._query is None:
            raise LookupError("a gold table gets its query when its definition is loaded, if it has one")
        return self._query

    @property
    def reads(self) -> list[str]:
        """All tables that are read; the first is the one whose changes are followed."""
        return self._query.tables if self._query else self.reads_

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what makes its rows; comments and white space of a query do not change it."""
        if self._transform is None:
            return self.query.fingerprint
        return hashlib.sha256(
            "\0".join([str(self.python), self._transform.fingerprint, *self.reads_]).encode()
        ).hexdigest()

    @property
    def ordering(self) -> Ordering:
        """The order of its rows that its query asks for; none for a function."""
        return self._query.ordering if self._query else Ordering()


class Pipeline(Header):
    """A pipeline: files that land, and the tables that are made of them.

    Its name and those of its tables are small letters, digits and ``_``, with a letter first. No two tables have one
    name, be it in different layers, and none ends in ``_quarantine`` or ``_deidentified``.

    Attributes:
        name: its name, also that of its folder.
        description: what it is for.
        schedule: cron expression with five fields, in UTC; without it runs start by hand, or by the trigger, only.
        queueUrl: address of an SQS queue that the landing's store tells of new objects: with ``trigger``, its messages
            start runs then, and landing is listed every ten minutes only.
        trigger: ``file_arrival``: in Airflow a run also starts when files have landed; those of the schedule then take
            what no run was started for, and wait for nothing.
        owner: who answers for it.
        tags: words to find it by.
        notify: who is told when a run in Airflow fails, or succeeds.
        maintenance: when small files are put together and old ones deleted, and how old.
        verify: when the tables are proved to be what they should be, and how much of gold.
        database: where a catalog shows its tables.
        bronze: tables of files as they came.
        silver: tables of judged records.
        gold: tables computed from them.
    """

    bronze: dict[str, BronzeTable] = {}
    silver: dict[str, SilverTable] = {}
    gold: dict[str, GoldTable] = {}
    _folder: Path = PrivateAttr(Path())

    @property
    def folder(self) -> Path:
        """Folder of its pipeline.yaml."""
        return self._folder

    @property
    def deidentified_tables(self) -> dict[str, str]:
        """The de-identified tables, each with the name of the silver table that it is of."""
        return {f"{name}{DEIDENTIFIED}": name for name, table in self.silver.items() if table.deidentified}

    @property
    def pii(self) -> frozenset[str]:
        """Names, in small letters, of all columns that are marked as personal data."""
        return frozenset(column.lower() for table in self.silver.values() for column in table.pii)

    def names(self, layer: Layer) -> list[str]:
        """All tables of a layer that a run fills, a de-identified one right behind the one that it is of."""
        names: list[str] = []
        for name in getattr(self, layer):
            names += [name, *(copy for copy, of in self.deidentified_tables.items() if of == name)]
        return names

    def table(self, name: str) -> tuple[Layer, BronzeTable | SilverTable | GoldTable]:
        """The layer and the definition of a table.

        Raises:
            PipelineMissing: it has no such table.
        """
        for layer in LAYERS:
            if name in getattr(self, layer):
                return layer, getattr(self, layer)[name]
        known = [*self.bronze, *self.silver, *self.gold]
        hint = nearest(name, known) or f"its tables are {', '.join(known)}"
        raise PipelineMissing(f"the pipeline {self.name} has no table {name}", hint=hint)

    def silver_order(self) -> list[str]:
        """The silver tables, each behind those that it reads; in the order of the definition where that is free."""
        order: list[str] = []
        while len(order) < len(self.silver):
            order.append(
                next(
                    name
                    for name, table in self.silver.items()
                    if name not in order and all(read in order or read not in self.silver for read in table.reads)
                )
            )
        return order

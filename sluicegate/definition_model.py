"""The types of a definition: one class for each kind of thing that pipeline.yaml can hold.

Each checks what can be seen in it alone; ``definition_checks`` has what only the whole shows. Messages are made with
``wrong``, so that they reach people with a stable code and a hint, in our words and not in pydantic's.

``docs/reference.md`` and ``docs/pipeline.schema.json`` take what the docstrings here say of each part and field.
What editors should know of fields that exclude each other stands in ``json_schema_extra``, beside the check itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from sluicegate.condition import Condition
from sluicegate.definition_bronze import BronzeTable as BronzeTable
from sluicegate.definition_fields import (
    IDENTIFIER,
    Names,
    Part,
    SqlCondition,
    Text,
    cron,
    name_fault,
    nearest,
    wrong,
)
from sluicegate.errors import PipelineMissing
from sluicegate.query import Query

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")
CONDITIONS = ("expect", "expect_or_drop", "expect_or_quarantine", "expect_or_fail")
Treatment = Literal["hmac", "mask", "drop"]

# What the de-identified table beside a silver table is called.
DEIDENTIFIED = "_deidentified"


class Database(Part):
    """The database that a catalog shows the tables in.

    Attributes:
        name: its name in the catalog.
        comment: what it holds.
        properties: its properties, such as ``contains_pii``.
    """

    name: str
    comment: str = ""
    properties: dict[str, Text] = {}

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not IDENTIFIER.fullmatch(name):
            raise wrong("name", f"{name} is not a name: letters, digits and _ are allowed, with a letter or _ first")
        return name


class Expectation(Part):
    """A condition that rows of a silver table should meet, and what happens to those that do not.

    It has exactly one of the four fields that begin with ``expect``; ``retry`` goes with ``expect_or_quarantine`` only.

    Attributes:
        expect: the condition; rows that break it are kept and counted.
        expect_or_drop: the condition; they are dropped.
        expect_or_quarantine: the condition; they go to the quarantine table.
        expect_or_fail: the condition; they fail the run.
        retry: quarantined rows are judged again when a lookup changes.
    """

    expect: SqlCondition | None = None
    expect_or_drop: SqlCondition | None = None
    expect_or_quarantine: SqlCondition | None = None
    expect_or_fail: SqlCondition | None = None
    retry: bool = False

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in CONDITIONS]})

    @model_validator(mode="after")
    def _one_condition(self) -> Expectation:
        given = [name for name, text in self._conditions() if text is not None]
        if len(given) != 1:
            found = "has none" if not given else "has " + " and ".join(given)
            kinds = "expect, expect_or_drop, expect_or_quarantine or expect_or_fail"
            raise wrong("one-of", f"an expectation has exactly one of {kinds}, and this {found}")
        if self.retry and self.expect_or_quarantine is None:
            raise wrong("retry", "only quarantined rows can be judged again: retry goes with expect_or_quarantine")
        return self

    def _conditions(self) -> list[tuple[str, str | None]]:
        return [(name, getattr(self, name)) for name in CONDITIONS]

    @property
    def action(self) -> Literal["keep", "drop", "quarantine", "fail"]:
        """What happens to a row that breaks it."""
        if self.expect_or_drop is not None:
            return "drop"
        if self.expect_or_quarantine is not None:
            return "quarantine"
        return "fail" if self.expect_or_fail is not None else "keep"

    @property
    def text(self) -> str:
        """The condition as it is written."""
        return next(text for _, text in self._conditions() if text is not None)

    @property
    def condition(self) -> str:
        """The condition as it is judged: a value that does not cast makes it NULL, and stops nothing."""
        return Condition.parse(self.text).tried

    @property
    def columns(self) -> list[str]:
        """The columns that it looks at."""
        return Condition.parse(self.text).columns


class ApplyChanges(Part):
    """How records that say "this is now so" become one row for each key.

    Attributes:
        keys: columns that say what a record is about.
        sequence_by: column by which the latest record wins.
        stored_as_scd_type: 1, only the latest row for each key is kept.
    """

    keys: Annotated[Names, Field(min_length=1)]
    sequence_by: str
    stored_as_scd_type: Annotated[
        Literal[1],
        BeforeValidator(lambda value: 1 if value == "1" else value, json_schema_input_type=Literal[1, "1"]),
    ] = 1


class _WithQuery(Part):
    """A table that is made by a query; ``sql`` is its file or its text."""

    _query: Query | None = PrivateAttr(None)
    _sql_file: str | None = PrivateAttr(None)

    @property
    def sql_file(self) -> str | None:
        """Path of the file that the query is in; None if its text is in pipeline.yaml."""
        return self._sql_file

    def _resolve(self, query: Query | None, sql_file: str | None) -> None:
        """Takes the query that the definition's loader has read."""
        self._query, self._sql_file = query, sql_file


class SilverTable(_WithQuery):
    """A table of typed, judged and joined records.

    It has either ``sql``, or ``from`` with ``apply_changes``; with these, keys and sequence_by stand in
    ``apply_changes`` and not beside it.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text.
        from_: ``from`` of the definition: the table that ``apply_changes`` reads, where there is no ``sql``.
        apply_changes: how its records become rows.
        keys: columns that name a row; of several records with the same keys one wins.
        sequence_by: column by which the latest of them wins.
        event_time: column that says when it happened.
        expectations: the rules by name.
        pii: columns with personal data; where one is marked, no value is shown in what the pipeline's jobs say.
        deidentified: what becomes of columns in the table's de-identified copy, which is kept where this is given:
            ``hmac`` makes pseudonyms of them, ``mask`` hides them, ``drop`` leaves them out. Each column of ``pii`` is
            to be named; columns that are not named are taken as they are.
    """

    sql: str | None = None
    from_: str | None = Field(None, alias="from")
    apply_changes: ApplyChanges | None = None
    keys: Names = []
    sequence_by: str | None = None
    event_time: str | None = None
    expectations: dict[str, Expectation] = {}
    pii: Names = []
    deidentified: Annotated[dict[str, Treatment], Field(min_length=1)] | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["sql"], "properties": {"from": {"type": "null"}, "apply_changes": {"type": "null"}}},
                {"required": ["from", "apply_changes"], "properties": {"sql": {"type": "null"}}},
            ]
        }
    )

    @property
    def query(self) -> Query | None:
        """The query; None for a table with ``apply_changes``."""
        return self._query

    @property
    def stream(self) -> str:
        """The table that is read record by record."""
        return self.from_ or (self._query and self._query.stream) or ""

    @property
    def reads(self) -> list[str]:
        """All tables that are read, the streamed one first."""
        return [self.from_] if self.from_ else self._query.tables if self._query else []

    @field_validator("expectations")
    @classmethod
    def _expectation_names(cls, expectations: dict[str, Expectation]) -> dict[str, Expectation]:
        for name in expectations:
            if not IDENTIFIER.fullmatch(name):
                raise wrong(
                    "name", f"{name!r} is not a name: letters, digits and _ are allowed, with a letter or _ first"
                )
        return expectations

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
        if self.sql is not None and (self.from_ is not None or self.apply_changes is not None):
            raise wrong("one-of", "a silver table has either sql, or from with apply_changes, and this has both")
        if self.sql is None and (self.from_ is None or self.apply_changes is None):
            given = "only from" if self.from_ else "only apply_changes" if self.apply_changes else "neither"
            raise wrong("missing-field", f"a silver table has sql, or from with apply_changes, and this has {given}")
        if self.apply_changes and (self.keys or self.sequence_by):
            raise wrong("one-of", "keys and sequence_by stand in apply_changes here, not beside it")
        if self.sequence_by and not self.keys:
            raise wrong("missing-field", "sequence_by chooses among records with the same keys: keys is missing")
        return self


class GoldTable(_WithQuery):
    """A table that is computed from silver.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text.
    """

    sql: str

    @property
    def query(self) -> Query:
        """The query."""
        if self._query is None:
            raise LookupError("a gold table gets its query when its definition is loaded")
        return self._query


class Header(Part):
    """What a definition says about the pipeline as a whole; see ``Pipeline``."""

    name: str
    description: str = ""
    schedule: str | None = None
    owner: str = "sluicegate"
    tags: list[str] = []
    database: Database | None = None

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if fault := name_fault(name):
            raise wrong("name", fault)
        return name

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, schedule: str | None) -> str | None:
        return schedule if schedule is None else cron(schedule)


class Pipeline(Header):
    """A pipeline: files that land, and the tables that are made of them.

    Its name and those of its tables are small letters, digits and ``_``, with a letter first. No two tables have one
    name, be it in different layers, and none ends in ``_quarantine`` or ``_deidentified``.

    Attributes:
        name: its name, also that of its folder.
        description: what it is for.
        schedule: cron expression with five fields, in UTC; without it the pipeline runs by hand only.
        owner: who answers for it.
        tags: words to find it by.
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
        if name in self.bronze:
            return "bronze", self.bronze[name]
        if name in self.silver:
            return "silver", self.silver[name]
        if name in self.gold:
            return "gold", self.gold[name]
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

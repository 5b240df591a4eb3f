"""Model of a file of cases, and of the cases read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from sluicegate.definition.fields import Ddl, Moment, Names, Part, field_error
from sluicegate.definition.yaml import Document, Path
from sluicegate.errors import Mistake


class Given(Part):
    """Rows of a bronze table, with options.

    Attributes:
        rows: a list of rows, each ``{column: value}``, or CSV text with a header.
        file: name of the file that they land in, below the table's folder; a later step that names it again
            replaces it. Without it each step lands a file of its own.
        mode: of a table whose source is a Delta table: ``append`` adds the rows to it, ``overwrite`` leaves it with
            these alone.
        schema_: ``schema`` of the case: types of the columns as DDL, for Parquet, ORC, Avro and Delta, whose files have
            types; without it they are those that the values have in JSON.
    """

    # A column named schema_ is not this field: only the alias sets it.
    model_config = ConfigDict(populate_by_name=False)

    rows: Any
    file: str | None = None
    mode: Literal["append", "overwrite"] = "append"
    schema_: Ddl | None = Field(None, alias="schema")


class Expected(Part):
    """What a table must have, where a list of rows does not say it.

    Attributes:
        rows: all rows of the table, as a list of ``{column: value}`` or as CSV text with a header. Only the columns
            that are named are looked at, and the order of rows means nothing.
        columns: names of the columns, where each row is a list of values.
        contains: rows that must be among those of the table, in the same form.
        count: how many rows it must have.
        tolerance: by how much a number with a fraction may be another one; 0 means not at all.
    """

    rows: Any = None
    columns: Names = Field(default_factory=list)
    contains: Any = None
    count: int | None = Field(None, ge=0)
    tolerance: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _demand_expectation(self) -> Expected:
        if self.rows is None and self.contains is None and self.count is None:
            raise field_error("missing-field", "nothing is expected here", "add rows, contains or count")
        if self.rows is not None and self.contains is not None:
            message = "rows and contains exclude each other: rows lists all rows, contains some of them"
            raise field_error("one-of", message)
        return self


class Step(Part):
    """What lands, and what the tables must have after the run that follows.

    Attributes:
        description: what it shows.
        given: for bronze tables by name, rows that land.
        landing: files that land as they are, their text by their path below the landing folder.
        landed: when these files were modified (UTC), for tables that order or choose by it. Without it each step is a
            minute after the one before, from 2024-01-01 on.
        expect: for tables by name, what they must have after the run. A table of any layer can be named, and
            ``TABLE_quarantine``, ``TABLE_set_aside`` and ``TABLE_deidentified`` of a silver table.
        fails: code of the error that the run must end with, as ``SG300`` for a broken ``expect_or_fail``.
    """

    description: str = ""
    given: dict[str, Any] = Field(default_factory=dict)
    landing: dict[str, str] = Field(default_factory=dict)
    landed: Moment | None = None
    expect: dict[str, Any] = Field(default_factory=dict)
    fails: str | None = Field(None, pattern=r"SG\d{3}")


class Fields(Step):
    """A case: a run on what is given, or several in a row, in a lake of its own.

    Attributes:
        description: what it shows.
        steps: what lands run by run; a case of one run has the fields of a step itself.
    """

    steps: list[Any] = Field(default_factory=list)

    @field_validator("steps")
    @classmethod
    def _demand_steps(cls, steps: list[Any]) -> list[Any]:
        if not steps:
            raise field_error("empty", "the list of steps is empty")
        return steps

    @model_validator(mode="after")
    def _demand_one_form(self) -> Fields:
        if self.steps and (step_fields := self.model_fields_set & Step.model_fields.keys() - {"description"}):
            message = f"a case with steps has no {min(step_fields)} of its own: move it to a step"
            raise field_error("one-of", message)
        return self


@dataclass(frozen=True)
class Place:
    """Position in a file of cases, for messages.

    Attributes:
        file: path of the file.
        path: where in the document, dotted.
        line: its line, counted from 1.
    """

    file: str
    path: str
    line: int

    @classmethod
    def from_path(cls, file: str, document: Document, path: Path) -> Place:
        """Return the place of a value in a document."""
        return cls(file, ".".join(map(str, path)), document.line(path))


class Wrong(Exception):
    """Mistake of a case that only its tables show: one sentence, its place, and a hint (may be empty)."""

    def __init__(self, message: str, place: Place, hint: str = "") -> None:
        super().__init__(message)
        self.mistake = Mistake("case", place.path, message, place.file, place.line, hint)


@dataclass(frozen=True)
class Rows:
    """Rows as written.

    Attributes:
        columns: the columns that are named, in the order in which they come.
        records: each row as column and value; a column that a row leaves out is not in it.
        places: place of each row.
        texts: whether they come from CSV text: a value is then a text, or None if it was empty.
    """

    columns: tuple[str, ...]
    records: tuple[Mapping[str, Any], ...]
    places: tuple[Place, ...]
    texts: bool = False


@dataclass(frozen=True)
class TableGiven:
    """Rows of one bronze table; see ``Given``."""

    table: str
    rows: Rows
    place: Place
    file: str | None = None
    mode: str = "append"
    schema: str | None = None


@dataclass(frozen=True)
class TableExpected:
    """Expectation on one table; see ``Expected``. With ``partly`` the rows are some of the table's."""

    table: str
    place: Place
    rows: Rows | None = None
    partly: bool = False
    count: int | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class CaseStep:
    """One run of a case; see ``Step``."""

    place: Place
    description: str = ""
    given: tuple[TableGiven, ...] = ()
    landing: Mapping[str, str] = field(default_factory=dict)
    landed: datetime | None = None
    expect: tuple[TableExpected, ...] = ()
    fails: str | None = None


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: its name.
        place: its place.
        description: what it shows.
        steps: its runs, in order.
    """

    name: str
    place: Place
    description: str
    steps: tuple[CaseStep, ...]

    @property
    def label(self) -> str:
        """File name and name of the case."""
        return f"{self.place.file.rsplit('/', 1)[-1]}: {self.name}"

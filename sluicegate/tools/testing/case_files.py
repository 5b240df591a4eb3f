"""Reader of a pipeline's cases, ``tests/*.yaml`` in its folder; it reports every mistake at once. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError

from sluicegate import errors
from sluicegate.definition import yaml
from sluicegate.definition.fields import Part, suggest_name
from sluicegate.definition.pipeline.model import Pipeline
from sluicegate.definition.reading.messages import validation_mistakes
from sluicegate.definition.yaml import Path
from sluicegate.errors import CaseError, Mistake, UserError
from sluicegate.tools.testing import rows as written
from sluicegate.tools.testing.model import (
    Case,
    CaseStep,
    Expected,
    Fields,
    Given,
    Place,
    Rows,
    Step,
    TableExpected,
    TableGiven,
)

FOLDER = "tests"
ENDINGS = (".yaml", ".yml")

# Formats whose files cannot be made from rows.
AS_TEXT_ONLY = ("xml", "binaryFile")

# Suffixes of the tables beside a silver table.
SIDE_SUFFIXES = ("_quarantine", "_set_aside", "_deidentified")

_Part = TypeVar("_Part", bound=Part)


def load(pipeline: Pipeline) -> list[Case]:
    """Read all cases of a pipeline, file by file in name order.

    Raises:
        UserError: there are no cases.
        CaseError: cases have mistakes, all of which the error has.
    """
    folder = pipeline.folder / FOLDER
    case_files = sorted(file for file in folder.glob("*") if file.suffix in ENDINGS)
    reader = _Reader(pipeline)
    cases = [case for file in case_files for case in reader.read(file)]
    if reader.mistakes:
        raise CaseError(pipeline.name, reader.mistakes)
    if not cases:
        raise UserError(
            f"the pipeline {pipeline.name} has no cases to test",
            where=errors.Where(file=str(folder)),
            hint="write them to tests/*.yaml next to its pipeline.yaml, as shown in docs/howto/testing-pipelines.md",
        )
    return cases


def choose_cases(cases: Sequence[Case], word: str | None = None, names: Sequence[str] = ()) -> list[Case]:
    """Return the selected cases, in their order.

    Args:
        cases: all cases.
        word: part of the case's or its file's name, case-insensitive; None for all.
        names: names of cases; none means all.

    Raises:
        UserError: a name does not exist, or no case matches the word.
    """
    case_names = [case.name for case in cases]
    for name in names:
        if name not in case_names:
            raise UserError(f"unknown case {name}", hint=name_hint(name, case_names, "cases"))
    chosen = [case for case in cases if not names or case.name in names]
    chosen = [case for case in chosen if not word or word.lower() in case.label.lower()]
    if not chosen:
        raise UserError(f"no case has {word} in its name", hint=f"cases: {', '.join(case_names)}")
    return chosen


def name_hint(name: str, names: Iterable[str], noun: str) -> str:
    """Return the name that an unknown one is near to, or else all names that there are."""
    return suggest_name(name, names) or f"{noun}: {', '.join(names)}"


def tables(pipeline: Pipeline) -> dict[str, str]:
    """Return the tables on which a case can have expectations, each with the table whose run fills it."""
    makers = {name: name for layer in (pipeline.bronze, pipeline.silver, pipeline.gold) for name in layer}
    makers |= {f"{name}{end}": name for name in pipeline.silver for end in SIDE_SUFFIXES[:2]}
    return makers | pipeline.deidentified_tables


class _Faulty(Exception):
    """Raised where a part of a file has a mistake, which is recorded, so that nothing can be made of it."""


class _Reader:
    """Reads files, and collects their mistakes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.mistakes: list[Mistake] = []
        self.file = ""
        self.document = yaml.Document()

    def read(self, file: FilePath) -> Iterator[Case]:
        """Read the cases of a file, as far as they can be read."""
        self.file = str(file)
        try:
            text = file.read_text("utf-8-sig").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            self.document = yaml.Document()
            self._add("unreadable", (), f"{file} cannot be read: {error}")
            return
        self.document = yaml.read(text)
        for fault in self.document.faults:
            self._add(fault.code, fault.path, fault.message, fault.hint, line=fault.line)
        data = self.document.data
        if not isinstance(data, dict) or not isinstance(data.get("cases"), dict):
            if not self.document.faults:
                sentence = "expected cases, each with its name"
                self._add("missing-field", (), sentence, "for example cases: {a late patient: {given: …, expect: …}}")
            return
        for other in data.keys() - {"cases"}:
            self._add("unknown-field", (other,), f"unknown field {other}", "a case file only contains cases")
        for name, fields in data["cases"].items():
            with suppress(_Faulty):
                yield self._case(name, fields, ("cases", name))

    def _case(self, name: str, fields: Any, path: Path) -> Case:
        if not name.strip():
            self._add("name", path, "a case needs a name")
        case = self._parse_part(Fields, fields, path)
        steps = []
        for number, step in enumerate(case.steps):
            place = (*path, "steps", number)
            with suppress(_Faulty):
                steps.append(self._step(self._parse_part(Step, step, place), place))
        if not case.steps:
            steps.append(self._step(case, path))
        if not any(step.expect or step.fails for step in steps) and not self.mistakes:
            self._add("missing-field", path, "this case expects nothing", "add expect or fails")
        return Case(name, self._place(path), case.description.strip(), tuple(steps))

    def _step(self, step: Step, path: Path) -> CaseStep:
        given: list[TableGiven] = []
        expect: list[TableExpected] = []
        for table, value in step.given.items():
            with suppress(_Faulty):
                given.append(self._read_input(table, value, (*path, "given", table)))
        for table, value in step.expect.items():
            with suppress(_Faulty):
                expect.append(self._read_expectation(table, value, (*path, "expect", table)))
        for name in step.landing:
            self._demand_inside(name, (*path, "landing", name))
        if step.fails is not None and step.fails not in _codes():
            hint = suggest_name(step.fails, _codes()) or "`sluicegate help` lists all codes"
            self._add("unknown-code", (*path, "fails"), f"unknown error code {step.fails}", hint)
        return CaseStep(
            self._place(path), step.description.strip(), tuple(given), step.landing, step.landed, tuple(expect),
            step.fails,
        )  # fmt: skip

    def _read_input(self, table: str, value: Any, path: Path) -> TableGiven:
        self._demand_bronze(table, path)
        if not isinstance(value, dict):
            return TableGiven(table, self._rows(value, path), self._place(path))
        more = self._parse_part(Given, value, path)
        of_delta = self.pipeline.bronze[table].format == "delta"
        if "mode" in more.model_fields_set and not of_delta:
            self._add("not-allowed", (*path, "mode"), f"mode requires a Delta source, but {table} reads files")
        if more.file is not None:
            self._demand_inside(more.file, (*path, "file"))
            if of_delta:
                self._add("not-allowed", (*path, "file"), f"{table} reads a Delta table, not files")
        rows = self._rows(more.rows, (*path, "rows"))
        return TableGiven(table, rows, self._place(path), more.file, more.mode, more.schema_)

    def _demand_bronze(self, table: str, path: Path) -> None:
        bronze = self.pipeline.bronze
        if table not in bronze and table in tables(self.pipeline):
            sentence = f"{table} is computed by the pipeline: only bronze tables take given rows"
            raise self._fault("unknown-table", path, sentence, f"bronze tables: {', '.join(bronze)}")
        if table not in bronze:
            hint = name_hint(table, bronze, "bronze tables")
            raise self._fault("unknown-table", path, f"unknown bronze table {table}", hint)
        if (form := bronze[table].format) in AS_TEXT_ONLY:
            sentence = f"{table} has {form} files, which cannot be given as rows"
            raise self._fault("not-allowed", path, sentence, "write the content of the file under landing")

    def _read_expectation(self, table: str, value: Any, path: Path) -> TableExpected:
        table_names = tables(self.pipeline)
        if table not in table_names:
            hint = name_hint(table, table_names, "known tables")
            raise self._fault("unknown-table", path, f"unknown table {table}", hint)
        if not isinstance(value, dict):
            return TableExpected(table, self._place(path), self._expected_rows(value, path))
        more = self._parse_part(Expected, value, path)
        partly = more.rows is None
        field = "contains" if partly else "rows"
        row_values = getattr(more, field)
        if row_values is None:
            if more.columns:
                self._add("not-allowed", (*path, "columns"), "columns requires rows as lists of values")
            return TableExpected(table, self._place(path), None, partly, more.count, more.tolerance)
        rows = self._expected_rows(row_values, (*path, field), more.columns)
        return TableExpected(table, self._place(path), rows, partly, more.count, more.tolerance)

    def _rows(self, value: Any, path: Path, columns: Sequence[str] = ()) -> Rows:
        try:
            return written.read(value, self.file, self.document, path, columns)
        except written.RowsFault as fault:
            raise self._fault("rows", fault.path, fault.message, fault.hint, line=fault.line) from None

    def _expected_rows(self, value: Any, path: Path, columns: Sequence[str] = ()) -> Rows:
        """Read rows that must all name the same columns: else it is open whether an omitted one is compared."""
        rows = self._rows(value, path, columns)
        for record, place in zip(rows.records, rows.places, strict=True):
            for column in rows.columns:
                if column not in record:
                    sentence = f"this row lacks {column}, which other rows have"
                    hint = f"write {column}: null for NULL"
                    self.mistakes.append(Mistake("rows", place.path, sentence, place.file, place.line, hint))
        return rows

    def _demand_inside(self, name: str, path: Path) -> None:
        """Require a file name that stays below its folder."""
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            self._add("not-allowed", path, f"{name!r} is not the name of a file below the folder")

    def _parse_part(self, model: type[_Part], fields: Any, path: Path) -> _Part:
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            for code, inner, message, hint in validation_mistakes(error, model):
                self._add(code, (*path, *inner), message, hint)
            raise _Faulty from None

    def _place(self, path: Path) -> Place:
        return Place.from_path(self.file, self.document, path)

    def _add(self, code: str, path: Path, message: str, hint: str = "", line: int | None = None) -> None:
        place = self._place(path)
        self.mistakes.append(Mistake(code, place.path, message, self.file, line or place.line, hint))

    def _fault(self, code: str, path: Path, message: str, hint: str, line: int | None = None) -> _Faulty:
        """Add a mistake of a part that cannot be used, and return the error to raise."""
        self._add(code, path, message, hint, line)
        return _Faulty()


def _codes() -> set[str]:
    members = vars(errors).values()
    return {
        member.code for member in members if isinstance(member, type) and issubclass(member, errors.SluicegateError)
    }

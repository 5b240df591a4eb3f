"""New table: files of one folder, format and shape, and its columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sluicegate.definition.tables.column_names import normalize_name
from sluicegate.errors import SourceError, Where
from sluicegate.tools.scaffold import readings
from sluicegate.tools.scaffold.all_rows import AllRows
from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.csv_dialect import name_occurrences
from sluicegate.tools.scaffold.infer_types import InferredType, infer_type
from sluicegate.tools.scaffold.naming import can_be_hinted, can_be_quoted, column_name
from sluicegate.tools.scaffold.prove_keys import prove
from sluicegate.tools.scaffold.sniff import ROWS, FileSample, JsonNumber
from sluicegate.tools.scaffold.suggest import Guess, candidates, guess


@dataclass(frozen=True)
class NewTable:
    """New table.

    Attributes:
        name: its name in silver; in bronze ``_bronze`` is appended.
        samples: samples of its files.
        files: all its files, sampled or not.
        columns: its columns.
        unusable_fields: fields that cannot be columns: their names cannot be written in SQL, or occur more than twice.
        later_fields: fields of JSON that no sampled row has, so that no column has them.
        guess: suggestions for it.
        unread: why other rows of the files were not read; empty if all were.
    """

    name: str
    samples: list[FileSample]
    files: list[Path]
    columns: list[NewColumn]
    unusable_fields: list[str]
    later_fields: list[str]
    guess: Guess
    unread: str

    @property
    def bronze(self) -> str:
        """Name in bronze."""
        return f"{self.name}_bronze"

    @property
    def rows(self) -> int:
        """Rows that were read."""
        return self.guess.rows

    def text_column(self, column: NewColumn) -> str:
        """Silver's column with the texts that do not fit a column's type, whose records are kept; empty if none are.

        A record without a key, an event time or what orders records is quarantined all the same.
        """
        needed = {*self.guess.keys, self.guess.event_time, self.guess.sequence_by}
        if column.inferred_type.misfits is None or column.name in needed:
            return ""
        taken = {other.name.lower() for other in self.columns}
        names = (f"{column.name}_text{number or ''}" for number in itertools.count())
        return next(name for name in names if name.lower() not in taken)

    def rescued_field(self, column: NewColumn) -> str:
        """Name of a column's values in the rescued data: the second field of a name is told apart from the first."""
        same = [other for other in self.columns if other.field == column.field]
        if column is same[0] or self.samples[0].format != "csv":
            return column.field
        taken = {other.field for other in self.columns}
        return next(name for n in itertools.count(2) if (name := f"{column.field}_{n}") not in taken)

    def bronze_column(self, column: NewColumn) -> str:
        """Name of a column in bronze; empty if its values are in the rescued data, not in a column of their own."""
        name = normalize_name(column.field)
        if self._owners[name] is column:
            return name
        return ""

    @cached_property
    def _owners(self) -> Mapping[str, NewColumn]:
        """Column whose values have each name in bronze: its field has that name as it is, else is the first by name."""
        owners: dict[str, NewColumn] = {}
        for column in sorted(self.columns, key=lambda column: column.field):
            name = normalize_name(column.field)
            owner = owners.setdefault(name, column)
            if column.field == name != owner.field:
                owners[name] = column
        return owners


def make_table(name: str, samples: list[FileSample], files: list[Path]) -> NewTable:
    """Table made of some files."""
    rows = _Rows(samples)
    with AllRows(samples, files, list(rows.fields)) as all_rows:
        return _make_table(name, samples, files, rows, all_rows)


def _make_table(name: str, samples: list[FileSample], files: list[Path], rows: _Rows, all_rows: AllRows) -> NewTable:
    columns: list[NewColumn] = []
    left_out = []
    for place, (field, occurrence) in enumerate(rows.fields):
        if not can_be_quoted(field) or occurrence > 1:
            left_out.append(field)
            continue
        taken = {column.name.lower() for column in columns}
        values = rows.values(field, occurrence)
        column_type = _infer_column_type(samples, all_rows, place, field, values)
        plain = [_comparable_value(column_type, value) for value in values]
        columns.append(NewColumn(field, column_name(field, place + 1, taken), column_type, place, plain))
    if not columns:
        hint = "rename its fields with letters and digits"
        raise SourceError(
            f"{files[0].name} has no field with a valid column name", where=Where(file=str(files[0])), hint=hint
        )
    proofs = prove(all_rows, columns, candidates(name, columns, len(rows)))
    guessed = guess(columns, all_rows.count, proofs)
    return NewTable(name, samples, files, columns, left_out, list(all_rows.later_fields), guessed, all_rows.unread)


class _Rows:
    """Rows of several samples, the same number of each at most.

    Attributes:
        fields: fields of the samples, each with its number of earlier occurrences in its file.
    """

    def __init__(self, samples: Sequence[FileSample]) -> None:
        most = max(50, ROWS // len(samples))
        self.fields: dict[tuple[str, int], None] = {}
        self._rows: list[tuple[dict[tuple[str, int], int], Any]] = []
        for sample in samples:
            places = {field: place for place, field in enumerate(name_occurrences(sample.columns))}
            self.fields |= dict.fromkeys(places)
            self._rows += [(places, row) for row in sample.rows[:most]]

    def __len__(self) -> int:
        return len(self._rows)

    def values(self, field: str, occurrence: int) -> list[Any]:
        """Values of a field in all rows; None where a file does not have it."""
        key = (field, occurrence)
        return [row[places[key]] if key in places else None for places, row in self._rows]


def _infer_column_type(
    samples: Sequence[FileSample], rows: AllRows, place: int, field: str, values: list[Any]
) -> InferredType:
    types = {sample.types[field] for sample in samples if field in sample.types}
    if types:
        kind = "OTHER"
        if len(types) == 1:
            kind = types.pop()
        return InferredType(kind, missing=rows.columns[place].missing)  # type: ignore[arg-type]
    shapes = {type(value) for value in values if value is not None}
    if shapes & {list, dict}:
        if len(shapes) > 1:
            return InferredType(
                "STRING", remark="values of several shapes: JSON as text", missing=rows.columns[place].missing
            )
        remark = ""
        if rows.count > len(values):
            remark = f"types of its fields are those of the first {len(values):,} rows"
        return InferredType("NESTED", remark=remark, missing=rows.columns[place].missing)
    commas = all(sample.options.get("sep", ",") != "," for sample in samples if sample.format == "csv")
    is_json_number, is_json = shapes == {JsonNumber}, samples[0].format == "json"
    return infer_type(rows, place, field, commas=commas and not is_json_number, quoted=is_json and not is_json_number)


def _comparable_value(column_type: InferredType, value: Any) -> Any:
    """Value for comparisons; None for a word that stands for NULL."""
    if isinstance(value, str):
        if value.strip(" ") in column_type.nothing:
            return None
        return str(value)
    if isinstance(value, (list, dict)):
        return repr(value)
    if value is None or isinstance(value, bool):
        return value
    return str(value)


# BIGINT that no DOUBLE keeps.
_LONG = "LONG"


def inner_numbers(column: NewColumn, samples: Sequence[FileSample]) -> dict[tuple[str, ...], str]:
    """Types of the numbers inside a nested JSON column, by their paths below it; none where a name is odd."""
    paths: dict[tuple[str, ...], set[str]] = {}
    for value in _json_values(column, samples):
        if not _walk(value, (), paths):
            return {}
    # Where a list is beside a number, Spark takes both for texts: the list's type stays open.
    mixed = [path for path, types in paths.items() if len(types) > 1 and types & {"ARRAY", "STRUCT"}]
    numbers: dict[tuple[str, ...], str] = {}
    for path, types in paths.items():
        if any(path[: len(outer)] == outer for outer in mixed):
            continue
        if types <= {"BIGINT", _LONG}:
            numbers[path] = "BIGINT"
        elif types <= {"BIGINT", "DOUBLE"}:
            numbers[path] = "DOUBLE"
    return numbers


def _json_values(column: NewColumn, samples: Sequence[FileSample]) -> Iterator[Any]:
    """Values of a column in the samples of JSON files that have it, without NULLs."""
    for sample in samples:
        if column.field not in sample.columns or sample.format != "json":
            continue
        place = sample.columns.index(column.field)
        for row in sample.rows:
            if row[place] is not None:
                yield row[place]


def _walk(value: Any, path: tuple[str, ...], paths: dict[tuple[str, ...], set[str]]) -> bool:
    if isinstance(value, list):
        paths.setdefault(path, set()).add("ARRAY")
        return all(_walk(item, (*path, "element"), paths) for item in value)
    if isinstance(value, dict):
        paths.setdefault(path, set()).add("STRUCT")
        odd = len({name.lower() for name in value}) < len(value) or len(path) > 8
        if odd or not all(can_be_hinted(name) and can_be_quoted(name) for name in value):
            return False
        return all(_walk(item, (*path, name), paths) for name, item in value.items())
    if value is not None:
        kind = "STRING"
        if isinstance(value, JsonNumber):
            kind = readings.kind_of_number(str(value))
            if kind == "BIGINT" and int(float(value)) != int(value):
                kind = _LONG
        paths.setdefault(path, set()).add(kind)
    return True

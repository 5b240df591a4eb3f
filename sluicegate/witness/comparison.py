"""Comparison of the records of a file with the rows that a bronze table has of it, in their order.

Each landed value is in its column, or as it landed in ``_rescued_data``; each stored value has landed; what could not
be parsed is in ``_corrupt_record``. Rows are compared in blocks, column by column, and by themselves where that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sluicegate.lake import layout
from sluicegate.witness.difference import Difference
from sluicegate.witness.json_text import pairs, parse_json
from sluicegate.witness.records import Record, has_bytes_that_are_no_text, has_twins
from sluicegate.witness.table_columns import CORRUPT, QUICK, RESCUED, BronzeColumns, Row, path_value
from sluicegate.witness.values import Comparer, compare_cell, compare_shown, compare_text, is_nothing

# Rows that a record is looked for in, where one is missing or too many before it.
AHEAD = 32

# Records that are read at a time behind the last row.
HELD = 1_000

# Beginning of what stands in the rescued data for a column that could not be read, and why.
NOT_READ = "not read"

# Path of the file in the rescued data, behind the value of a field of that name.
FILE_PATH = "_file_path"

# Records that are corrupt by their bytes, as a finding counts those of which not all can be said.
OF_BYTES = "records with bytes that are not text in their encoding"

# Records and rows without a counterpart that are kept, to be looked for elsewhere in the file.
UNMATCHED = 1_000


class Comparison:
    """Comparison of one file."""

    def __init__(self, columns: BronzeColumns, path: str, *, csv: bool) -> None:
        self.columns, self.csv = columns, csv
        self.path = path
        self.difference = Difference()
        self._without_row: list[tuple[int, Record]] = []
        self._without_record: list[Row] = []
        self._broken_beyond: list[int] = []
        self._corrupt_beyond = 0
        self._in_path = {name: path_value(path, name) for name in columns.in_path if name in columns.types}

    def run(self, records: Iterator[Record], blocks: Iterable[Sequence[Row]]) -> Difference:
        """Compare records with rows, which come in blocks in the order of the file."""
        landed: list[Record] = []
        stored: list[Row] = []
        for block in blocks:
            self.difference.stored += len(block)
            stored += block
            new = list(islice(records, max(len(stored) - len(landed), 0)))
            self.difference.landed += len(new)
            landed += new
            if len(landed) == len(stored) and self._are_alike(landed, stored):
                landed, stored = [], []
            else:
                landed, stored = self._align(landed, stored, to_the_end=False)
        while True:
            further = list(islice(records, HELD))
            self.difference.landed += len(further)
            landed, stored = self._align([*landed, *further], stored, to_the_end=True)
            self._note_missing(self.difference.landed - len(landed) + 1, landed)
            landed = []
            if not further:
                break
        self._note_added(stored)
        self._match_broken()
        return self.difference

    def _note_missing(self, first: int, records: Sequence[Record]) -> None:
        numbers = range(first, first + len(records))
        if len(self._without_row) + len(records) <= UNMATCHED:
            self._without_row += zip(numbers, records, strict=True)
            return
        broken = [number for number, record in zip(numbers, records, strict=True) if record.broken]
        self._broken_beyond += broken
        self.difference.note_missing(sorted({*numbers} - {*broken}))

    def _note_added(self, rows: Sequence[Row]) -> None:
        room = UNMATCHED - len(self._without_record)
        self._without_record += rows[:room]
        beyond = rows[room:]
        corrupt = sum(row[-1] is not None for row in beyond)
        self._corrupt_beyond += corrupt
        self.difference.added += len(rows) - corrupt

    def _match_broken(self) -> None:
        """Match records that could not be decoded with rows anywhere: the engine reads these by themselves.

        Those beyond ``UNMATCHED`` are counted alone.
        """
        missing = []
        for number, record in self._without_row:
            matches = (row for row in self._without_record if record.broken and not self._compare_row(record, row))
            row = next(matches, None)
            if row is None:
                missing.append(number)
                continue
            self._without_record.remove(row)
            self.difference.added -= 1
        counted = min(len(self._broken_beyond), self._corrupt_beyond)
        self.difference.unsaid[OF_BYTES] += counted
        self.difference.added += self._corrupt_beyond - counted
        self.difference.note_missing(missing + self._broken_beyond[counted:])

    # --- blocks ------------------------------------------------------------------------------------------------------

    def _are_alike(self, landed: Sequence[Record], stored: Sequence[Row]) -> bool:
        """Return whether all rows are what landed, by a comparison that is fast where they are."""
        if not stored:
            return True
        fields = [record.fields for record in landed if record.fields is not None and not record.broken]
        if self._in_path or len(fields) < len(landed):
            return False
        names = set[str]().union(*fields)
        columns = {column: name for name in names if (column := self.columns.find_column(name)) is not None}
        if len(columns) < len(names):  # one has no column, or two have the same
            return False
        values = dict(zip(self.columns.names, zip(*stored, strict=True), strict=True))
        absent = values.keys() - columns.keys()
        if any(value is not None for column in absent for value in values[column]):
            return False
        return all(
            self._column_is_alike(column, [record.get(name) for record in fields], values[column])
            for column, name in columns.items()
        )

    def _column_is_alike(self, column: str, landed: Sequence[Any], stored: Sequence[Any]) -> bool:
        quick = QUICK.get(str(self.columns.types[column]))
        if quick is not None and quick(landed) == list(stored):
            return True
        compared = self.columns.comparers[column]
        return all(self._cell(*values, compared, False) is True for values in zip(landed, stored, strict=True))

    def _cell(self, landed: Any, stored: Any, compared: Comparer, part: bool) -> bool | None:
        if self.csv and landed is None and stored == "":
            return True
        try:
            return compare_cell(landed, stored, compared, part)
        except RecursionError:
            return None

    # --- rows --------------------------------------------------------------------------------------------------------

    def _align(self, landed: list[Record], stored: list[Row], *, to_the_end: bool) -> tuple[list[Record], list[Row]]:
        """Compare one by one, passing over records and rows that have no counterpart; returns what is left."""
        first = self.difference.landed - len(landed) + 1
        a = b = 0
        while a < len(landed) and b < len(stored):
            difference = self._compare_row(landed[a], stored[b])
            if not difference:
                a, b = a + 1, b + 1
                continue
            if landed[a].broken:  # its row may be behind those of the others, however many are
                self._note_missing(first + a, landed[a : a + 1])
                a += 1
                continue
            if not to_the_end and min(len(landed) - a, len(stored) - b) <= AHEAD:
                break
            missing, added = self._count_skipped(landed, stored, a, b)
            if missing or added:
                self._note_missing(first + a, landed[a : a + missing])
                self._note_added(stored[b : b + added])
                a, b = a + missing, b + added
                continue
            self.difference.note_changed(first + a, difference)
            a, b = a + 1, b + 1
        return landed[a:], stored[b:]

    def _count_skipped(self, landed: Sequence[Record], stored: Sequence[Row], a: int, b: int) -> tuple[int, int]:
        """Count the missing records or surplus rows before both sides agree again; 0 if a value was changed."""
        if a + 1 < len(landed) and b + 1 < len(stored) and not self._compare_row(landed[a + 1], stored[b + 1]):
            return 0, 0
        for ahead in range(1, AHEAD):
            if a + ahead < len(landed) and self._is_aligned(landed, stored, a + ahead, b):
                return ahead, 0
            if b + ahead < len(stored) and self._is_aligned(landed, stored, a, b + ahead):
                return 0, ahead
        return 0, 0

    def _is_aligned(self, landed: Sequence[Record], stored: Sequence[Row], a: int, b: int) -> bool:
        """Return whether two records from here on are alike, or one if there is no other."""
        pairs = list(islice(zip(landed[a : a + 2], stored[b : b + 2], strict=False), 2))
        return bool(pairs) and not any(self._compare_row(*pair) for pair in pairs)

    def _compare_row(self, record: Record, row: Row) -> str:
        """Return how a row differs from a record; empty if it does not."""
        try:
            return self._value_difference(record, row)
        except RecursionError:
            self.difference.unsaid["records nested too deeply"] += 1
            return ""

    def _value_difference(self, record: Record, row: Row) -> str:
        values = dict(zip(self.columns.names, row, strict=True))
        corrupt, rescued = values.pop(CORRUPT), values.pop(RESCUED)
        rescued_values = self._rescued_values(rescued)
        if isinstance(rescued_values, str):
            return rescued_values
        if corrupt is not None:
            return self._corrupt_difference(record, corrupt, values, rescued_values)
        if record.fields is None:
            if record.text is not None and has_bytes_that_are_no_text(record.text):
                return f"the file has {self._format_value(record.text)}, but the row is not corrupt"
            if rescued is None and all(value is None for name, value in values.items() if name not in self._in_path):
                return f"the file has {self._format_value(record.text)}, but the row is empty"
            self.difference.unsaid["records that are not read as JSON"] += 1
            return ""
        difference = self._parsed_difference(record.fields, rescued_values, values)
        if difference and record.text is not None and has_twins(record.text):
            self.difference.unsaid["records with a duplicate field"] += 1
            return ""
        return difference

    def _rescued_values(self, rescued: str | None) -> dict[str, Any] | str:
        """Return values in the rescued data, or what is wrong with these."""
        if rescued is None:
            return {}
        try:
            rescued_values = parse_json(rescued)
        except ValueError:
            return "its _rescued_data is not valid JSON"
        if not isinstance(rescued_values, dict):
            return "its _rescued_data names another file"
        file = rescued_values.pop(FILE_PATH, None)
        if file is None or layout.to_ledger_path(file) != self.path:
            return "its _rescued_data names another file"
        if rescued.count(FILE_PATH) > 1:
            landed, *of_file = [value for name, value in pairs(rescued) if name == FILE_PATH]
            if of_file:  # a field has that name, too, and comes first
                rescued_values[FILE_PATH] = landed
        return dict(rescued_values)

    def _corrupt_difference(
        self, record: Record, corrupt: str, values: Mapping[str, Any], rescued_values: Mapping[str, Any]
    ) -> str:
        """Describe how a corrupt row differs: its text must equal the record, and its other values must have landed."""
        if difference := self._text_difference(record, corrupt):
            return difference
        if not self.columns.rescues:  # there Spark keeps the values that it could read
            return ""
        fields = record.fields or {}
        landed = {column: value for name, value in fields.items() if (column := self.columns.find_column(name))}
        for column, stored in values.items():
            if column in self._in_path or self._is_no_value(stored):
                continue
            if self._cell(landed.get(column), stored, self.columns.comparers[column], True) is False:
                return self._mismatch(column, stored, landed.get(column))
        for name, value in rescued_values.items():
            if compare_shown(fields.get(name), value) is False:
                return f"_rescued_data has {self._format_value(value)} for {name}, but the file does not"
        return ""

    def _is_no_value(self, stored: Any) -> bool:
        """Return whether a stored value may be missing in the file: NULL, and in CSV an empty text."""
        return stored is None or (self.csv and stored == "")

    def _text_difference(self, record: Record, corrupt: str) -> str:
        if record.text is None:
            if record.fields is not None and _is_same_json(record.fields, corrupt):
                return ""
            return f"the file has a valid record, but _corrupt_record has {self._format_value(corrupt)}"
        verdict = compare_text(record.text.strip(), corrupt.strip())
        self.difference.unsaid[OF_BYTES] += verdict is None
        if verdict is not False or _is_same_json(record.text, corrupt):
            return ""
        return f"the file has {self._format_value(record.text)}, but _corrupt_record has {self._format_value(corrupt)}"

    def _parsed_difference(
        self, fields: Mapping[str, Any], rescued_values: dict[str, Any], values: dict[str, Any]
    ) -> str:
        if difference := self._path_difference(fields, rescued_values, values):
            return difference
        for name, value in fields.items():
            if name in rescued_values:
                difference = self._rescued_difference(name, value, rescued_values.pop(name), values)
            else:
                difference = self._field_difference(name, value, values)
            if difference:
                return difference
        for name, stored in values.items():
            if not self._is_no_value(stored):
                return self._mismatch(name, stored, None)
        for name in rescued_values:
            return f"_rescued_data has {name!r}, but the file does not"
        return ""

    def _path_difference(
        self, fields: Mapping[str, Any], rescued_values: dict[str, Any], values: dict[str, Any]
    ) -> str:
        """Return how the columns of the file's path differ from it; they are taken out of ``values``."""
        for name, expected in self._in_path.items():
            stored, rescued = values.pop(name), name in rescued_values
            if name not in fields:  # what was rescued is the path's, and no field's
                rescued = rescued_values.pop(name, None) is not None
            if rescued and stored is None:
                continue
            if self._cell(expected, stored, self.columns.comparers[name], False) is False:
                return self._mismatch(name, stored, expected)
        return ""

    def _rescued_difference(self, name: str, value: Any, rescued: Any, values: dict[str, Any]) -> str:
        """Return how the rescued data differ from a field.

        A part of the value may be in its column, which is taken out of ``values`` then.
        """
        verdict = None
        if not str(rescued).startswith(NOT_READ):
            verdict = (is_nothing(value) and rescued == "") or compare_shown(value, rescued)
        if verdict is False:
            stored, landed = self._format_value(rescued), self._format_value(value)
            return f"_rescued_data has {stored} for {name}, but the file has {landed}"
        self.difference.unsaid["_rescued_data"] += verdict is None
        column = self.columns.find_column(name)
        if column is None or values.get(column) is None:
            return ""
        # Else it is of another field whose name differs in case, and looked at with that.
        if self._cell(value, values[column], self.columns.comparers[column], True) is not False:
            values.pop(column)
        return ""

    def _field_difference(self, name: str, value: Any, values: dict[str, Any]) -> str:
        """Return how the column of a field differs from it; it is taken out of ``values``."""
        column, has_landed = self.columns.find_column(name), not is_nothing(value) and value != ""
        if column is None or column not in values:
            if has_landed and self.columns.rescues:
                return f"{name} is {self._format_value(value)} in the file, but is missing from the row"
            return ""
        stored = values.pop(column)
        verdict = self._cell(value, stored, self.columns.comparers[column], not self.columns.rescues)
        if stored is None and has_landed and not self.columns.rescues:
            verdict = None  # one that does not fit its column, or one that was lost
        self.difference.unsaid[column] += verdict is None
        if verdict is False:
            return self._mismatch(column, stored, value)
        return ""

    def _mismatch(self, column: str, stored: Any, landed: Any) -> str:
        if self.columns.private:
            return f"{column} differs from the file"
        return f"{column} is {self._format_value(stored)}, but the file has {self._format_value(landed)}"

    def _format_value(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if self.columns.private:
            return "another value"
        if isinstance(value, str):  # also of a kind of its own, which shows otherwise
            value = str(value)
        text = ascii(value)
        if len(text) <= 60:
            return text
        return f"{text[:57]}..."


def _is_same_json(landed: Any, stored: str) -> bool:
    try:
        if isinstance(landed, str):
            landed = parse_json(landed)
        return compare_shown(landed, parse_json(stored)) is not False
    except ValueError:
        return False

"""What the comparison of a landed file with the rows of a table came to, and how a finding says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

# Numbers of records in a finding; all are counted.
SHOWN = 3


@dataclass
class Difference:
    """What the comparison of a file came to.

    Attributes:
        landed: records of the file.
        stored: rows of the table.
        changed: how many records differ from their row.
        first_changed: number of the first of them, from 1, and how it differs.
        missing: how many records no row has.
        first_missing: numbers of the first of them, from 1.
        added: how many rows are no record.
        unsaid: values of which it cannot be said whether they are right, by their column.
    """

    landed: int = 0
    stored: int = 0
    changed: int = 0
    first_changed: tuple[int, str] = (0, "")
    missing: int = 0
    first_missing: list[int] = field(default_factory=list)
    added: int = 0
    unsaid: Counter[str] = field(default_factory=Counter)

    @property
    def has_differences(self) -> bool:
        """Whether the rows are not those of the file."""
        return bool(self.changed or self.missing or self.added)

    def note_missing(self, numbers: Sequence[int]) -> None:
        """Note records that no row has."""
        self.missing += len(numbers)
        self.first_missing += numbers[: SHOWN - len(self.first_missing)]

    def note_changed(self, number: int, difference: str) -> None:
        """Note a record that differs from its row."""
        self.changed += 1
        if self.changed == 1:
            self.first_changed = (number, difference)

    def __str__(self) -> str:
        return "; ".join(filter(None, [self._missing_records, self._added_rows, self._changed_records]))

    @property
    def _missing_records(self) -> str:
        if not self.missing:
            return ""
        text = f"no row matches its record {', '.join(f'{number:,}' for number in self.first_missing)}"
        if self.missing > len(self.first_missing):
            text += f" and {self.missing - len(self.first_missing):,} more"
        return text

    @property
    def _added_rows(self) -> str:
        if not self.added:
            return ""
        if self.added == 1:
            return "1 row matches no record"
        return f"{self.added:,} rows match no record"

    @property
    def _changed_records(self) -> str:
        if not self.changed:
            return ""
        number, difference = self.first_changed
        text = f"record {number:,} differs from its row: {difference}"
        if self.changed > 1:
            text += f", and {self.changed - 1:,} more differ"
        return text

"""A column of a table that is to be."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from sluicegate.tools.scaffold.infer_types import TIMES, Found, words

_ID = {"id", "uuid", "guid", "key", "mrn", "sku", "isbn", "ean"}
_NUMBERED = {"number", "nr", "no", "code"}  # these name things if they are unique, and often count or sort them


@dataclass(frozen=True)
class Column:
    """A column of a table that is to be.

    Attributes:
        field: its name in the files.
        name: its name in silver.
        found: what its values are.
        values: its values in the rows that were looked at, NULL for the words that stand for it.
    """

    field: str
    name: str
    found: Found
    values: list[Any] = dataclasses.field(repr=False)

    @property
    def words(self) -> set[str]:
        """The words of its name."""
        return set(words(self.field))

    @property
    def full(self) -> bool:
        """Whether each row has a value."""
        return bool(self.values) and all(value is not None for value in self.values)

    @property
    def id_like(self) -> bool:
        """Whether it names things, by its own name."""
        return bool((_ID | _NUMBERED) & self.words) and self.found.kind in ("BIGINT", "STRING", "DECIMAL")

    @property
    def is_time(self) -> bool:
        """Whether its values are times or days."""
        return self.found.kind in TIMES

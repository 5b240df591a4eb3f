"""Column of a new table."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from sluicegate.tools.scaffold.infer_types import TIMES, InferredType, words

_ID = {"id", "uuid", "guid", "key", "mrn", "sku", "isbn", "ean"}
_NUMBERED = {"number", "nr", "no", "code"}  # these identify if they are unique, and often count or sort


@dataclass(frozen=True)
class NewColumn:
    """Column of a new table.

    Attributes:
        field: its name in the files.
        name: its name in silver.
        inferred_type: the inferred type.
        values: its values in the sampled rows, None for words that stand for NULL.
    """

    field: str
    name: str
    inferred_type: InferredType
    values: list[Any] = dataclasses.field(repr=False)

    @property
    def words(self) -> set[str]:
        """The words of its name."""
        return set(words(self.field))

    @property
    def is_full(self) -> bool:
        """Whether each row has a value."""
        return bool(self.values) and all(value is not None for value in self.values)

    @property
    def is_id_like(self) -> bool:
        """Whether its name says that it identifies things."""
        return bool((_ID | _NUMBERED) & self.words) and self.inferred_type.kind in ("BIGINT", "STRING", "DECIMAL")

    @property
    def is_time(self) -> bool:
        """Whether its values are timestamps or dates."""
        return self.inferred_type.kind in TIMES

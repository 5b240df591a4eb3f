"""Column of a new table."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from sluicegate.tools.scaffold.infer_types import TEXT_WORDS, InferredType
from sluicegate.tools.scaffold.naming import words
from sluicegate.tools.scaffold.readings import TIMES

_ID = {"id", "uuid", "guid", "key", "mrn", "sku", "isbn", "ean"}
_NUMBERED = {"number", "nr", "no", "code"}  # these identify if they are unique, and often count or sort

_ID_TYPES = ("BIGINT", "STRING", "DECIMAL")


@dataclass(frozen=True)
class NewColumn:
    """Column of a new table.

    Attributes:
        field: its name in the files.
        name: its name in silver.
        inferred_type: the inferred type.
        place: its number among the fields of the files.
        values: its values in the sampled rows, None for words that stand for NULL.
    """

    field: str
    name: str
    inferred_type: InferredType
    place: int
    values: list[Any] = dataclasses.field(repr=False)

    @property
    def words(self) -> set[str]:
        """The words of its name."""
        return set(words(self.field))

    @property
    def is_full(self) -> bool:
        """Whether each row has a value."""
        return bool(self.values) and not self.inferred_type.missing

    @property
    def is_id(self) -> bool:
        """Whether its name says that it identifies things of some kind."""
        return bool(_ID & self.words) and self.inferred_type.kind in _ID_TYPES

    @property
    def is_id_like(self) -> bool:
        """Whether its name says that it may identify things."""
        numbered = bool(_NUMBERED & self.words) and not TEXT_WORDS & self.words
        return self.is_id or (numbered and self.inferred_type.kind in _ID_TYPES)

    @property
    def is_time(self) -> bool:
        """Whether its values are timestamps or dates."""
        return self.inferred_type.kind in TIMES

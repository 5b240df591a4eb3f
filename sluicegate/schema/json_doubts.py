"""Detect signs in JSON text that Spark's reader may not read a value as the type that it infers.

A number is read as the nearest DOUBLE whatever its digits, and an empty string in place of a number or an object
rejects the whole record. Schema inference reports neither, so a text with such a sign gets an additional field for that
pass, and these fields of the ledger batch are then read as text and converted value by value.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence, Set
from dataclasses import dataclass

from pyspark.sql.types import StructField

from sluicegate.schema.evolution import DOUBTFUL, Schema
from sluicegate.spark_sql.engine_columns import working_column
from sluicegate.spark_sql.identifiers import literal
from sluicegate.spark_sql.type_parts import has_double, has_typed_map, inner_names, is_text
from sluicegate.spark_sql.types import as_text

# Fields of a text for schema inference.
# Names of another process than this are others, so that no field of a file can have one.
_ONCE = secrets.token_hex(4)
LONG, EMPTY = working_column(f"long_{_ONCE}"), working_column(f"empty_{_ONCE}")
# An empty text anywhere: a doubt about fields that only inference tells.
ANY_EMPTY = working_column(f"any_empty_{_ONCE}")
ALL = frozenset({LONG, EMPTY})
_OURS = ALL | {ANY_EMPTY}

# Signs of a number that a DOUBLE may not hold: more than 17 digits, whole ones of 16, an exponent of hundreds. The
# first search is all that most texts need. What is before a number is looked at behind its first digit, not at each
# character.
_PERHAPS_LONG = r"[0-9.]{16}|[0-9][eE][+-]?[0-9]{3}"
_LONG = r"[1-9](?<![0-9.][1-9])[0-9]{15}|[1-9](?:[0-9]{17}|[0-9.]{18})|[0-9.][eE][+-]?[0-9]{3}"

# An empty text as the value of a field with one of some names, or in its array, or in an array within that.
_EMPTY = r'"(?:NAMES)"\s*:\s*(?:\[(?:[^\[\]{}]*|[^{}"]*))?""'

# An empty text as a value of any field.
_ANY_EMPTY = r'[:,\[]\s*""\s*[,}\]]'

# Beginning of an object with a field, whose name may be in single quotes or, by the reader's options, in none.
_OBJECT = r"^\s*[{](?=\s*[^\s}])"


@dataclass(frozen=True)
class Doubts:
    """Signs that matter for a table.

    Attributes:
        typed: names of fields, inner ones too, whose columns are not text.
        texts: names of fields whose columns are text.
        doubles: whether there may be a DOUBLE column.
        infers: whether new columns get the types of their values.
        maps: whether values that are not text may have any name, as in a map.
    """

    typed: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    doubles: bool = False
    infers: bool = False
    maps: bool = False

    @classmethod
    def from_schema(cls, schema: Schema) -> Doubts:
        """Return the signs that matter for a table's files."""
        kinds = {**schema.expected_types, **schema.known}
        landed = {schema.landed.get(name, name): kind for name, kind in kinds.items()}
        texts = frozenset(field for field, kind in landed.items() if is_text(kind))
        inner = {name for kind in kinds.values() for name in inner_names(kind)}
        infers = schema.definition.inferColumnTypes
        doubles = infers or any(map(has_double, kinds.values()))
        maps = any(map(has_typed_map, kinds.values()))
        return cls(frozenset(landed.keys() - texts | inner), texts, doubles, infers, maps)

    @property
    def signs(self) -> dict[str, str]:
        """SQL conditions on the text ``value`` by the name of the sign's field."""
        conditions = {}
        if self.doubles:
            conditions[LONG] = f"value RLIKE {literal(_PERHAPS_LONG)} AND value RLIKE {literal(_LONG)}"
        if self.typed:
            empty = _EMPTY.replace("NAMES", "|".join(map(re.escape, sorted(self.typed))))
            conditions[EMPTY] = f"""contains(value, '""') AND value RLIKE {literal(empty)}"""
        conditions[ANY_EMPTY] = f"""contains(value, '""') AND value RLIKE {literal(_ANY_EMPTY)}"""
        return conditions

    def add_sign_fields(self, text: str) -> str:
        """Return SQL of a text for schema inference, with a field for each sign in it."""
        signs = self.signs
        fields = ", ".join(f"if({sign}, '\"{name}\":0,', '')" for name, sign in signs.items())
        any_of = " OR ".join(f"({sign})" for sign in signs.values())
        return f"if({any_of}, regexp_replace({text}, {literal(_OBJECT)}, concat('{{', {fields})), {text})"

    def find_doubts(self, fields: Sequence[StructField], signs: Set[str]) -> Set[str]:
        """Return the doubts about fields of files, from the signs in their text.

        Args:
            fields: the inferred fields, with or without our signs.
            signs: signs in their text.
        """
        if ANY_EMPTY not in signs:
            return signs & ALL
        return signs & ALL | ({EMPTY} if self.maps or self._has_new_types(fields) else set())

    def _has_new_types(self, fields: Sequence[StructField]) -> bool:
        """Return whether unknown fields, or parts of fields, get columns that are not text."""
        names: set[str] = set()
        for field in fields:
            kind = field.dataType
            if not self.infers:
                kind = as_text(field.dataType)
            if not is_text(kind) and field.name not in self.texts | _OURS:
                names.update([field.name], inner_names(kind))
        return not names <= self.typed


def record_doubts(fields: Sequence[StructField], doubts: Set[str]) -> list[StructField]:
    """Return the fields of files without our signs, with the doubts in their metadata."""
    file_fields = [field for field in fields if field.name not in _OURS]
    about = {DOUBTFUL: sorted(doubts & ALL)}
    if not about[DOUBTFUL]:
        return file_fields
    return [StructField(field.name, field.dataType, metadata=about) for field in file_fields]


def has_doubtful_digits(fields: Sequence[StructField]) -> bool:
    """Return whether a DOUBLE may fail to hold all numbers of some fields."""
    return any(LONG in field.metadata.get(DOUBTFUL, ()) for field in fields)

"""Columns' names that every tool can say, made of the names that fields have in landed files."""

from __future__ import annotations

import re
import unicodedata

from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.types import UNNAMED

# Ends of words within a name: usGross, USGross.
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def normalize_name(field: str) -> str:
    """Return the name of the column for a field: ``us_gross`` for ``US Gross``, ``usGross`` and ``US-Gross``.

    It has small letters, digits and ``_``, with a letter first. Letters of other scripts stay; accents go. It is empty
    where no letter or digit is left. The name of a name is that name.
    """
    if field == UNNAMED:
        return ""
    plain = "".join(
        char
        for char in unicodedata.normalize("NFKD", field.replace("ß", "ss").replace("ẞ", "SS"))
        if not unicodedata.combining(char)
    )
    # Small letters of some scripts are two characters, of which one combines.
    small = "".join(char for char in _WORDS.sub("_", plain).lower() if not unicodedata.combining(char))
    name = re.sub(r"[\W_]+", "_", small).strip("_")
    if name and not name[0].isalpha():
        name = f"c_{name}"
    if name in RESERVED:
        return f"{name}_"
    return name


def unnormalized_fault(name: str) -> tuple[str, str]:
    """Return message and hint for a name that no normalized column has."""
    hint = "rename it with letters"
    if column := normalize_name(name):
        hint = f"write {column}"
    return f"no column is named {name}, because columnNames is normalized", hint

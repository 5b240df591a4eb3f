"""Which values may be shown of a pipeline that has personal data.

The definition names the silver columns with personal data. The same values lie in bronze, in records as they came and
in gold, under whatever names they have there. So in such a pipeline a value is shown only if its column is known to be
none of them: a silver column that no table marks, or, in gold, a number or a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline

HIDDEN = "••••"
"""What stands in place of a value that is not shown."""

# Columns that the engine adds, which have no value of a record in them.
_OURS = ("_chunk", "_pos", "_record_row", "_record_flow", "receipt_time", "_file_modification_time", "source_file",
         "_failed_expectations", "_quarantined_at", "_sequence")  # fmt: skip

Shows = Callable[[str], bool]


def shown(pipeline: Pipeline, layer: str, kinds: Mapping[str, str], of_silver: frozenset[str]) -> Shows:
    """Whether values of a column may be shown, by its name.

    Args:
        pipeline: the definition.
        layer: layer of the table.
        kinds: types of its columns by name.
        of_silver: lower-case names of all columns that the silver tables have.
    """
    if not pipeline.pii:
        return lambda _: True
    harmless = of_silver - pipeline.pii

    def allowed(name: str) -> bool:
        low = name.lower()
        if low in _OURS or low in harmless:
            return True
        return layer == "gold" and low not in pipeline.pii and not kinds.get(name, "STRING").startswith(_TEXTS)

    return allowed


_TEXTS = ("STRING", "BINARY", "ARRAY", "MAP", "STRUCT", "VARIANT")


def masked_record(text: str | None, shows: Shows, *, masks: bool) -> str | None:
    """A record as it came, its values hidden where ``shows`` does not allow them; what is no JSON object as a whole."""
    if text is None or not masks:
        return text
    try:
        record = json.loads(text)
    except ValueError:
        return HIDDEN
    if not isinstance(record, dict):
        return HIDDEN
    return json.dumps({name: value if shows(name) else HIDDEN for name, value in record.items()}, ensure_ascii=False)


def text_of(value: Any) -> str:
    """A value as it is shown, at most some 200 characters of it."""
    if value is None:
        return "NULL"
    if isinstance(value, (dict, list, tuple)):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"

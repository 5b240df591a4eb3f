"""Which values may be shown of a pipeline that has personal data.

The definition names the silver columns with personal data. The same values lie in bronze, in records as they came and
in gold, under whatever names they have there. ``personal_columns`` says by lineage where; here stands what follows for
a table. A value is shown only if its column is known to have none of them: in doubt it is hidden.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sluicegate.dashboard import personal_columns
from sluicegate.dashboard.column_links import kinds
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline

HIDDEN = "••••"
"""What stands in place of a value that is not shown."""

Shows = Callable[[str], bool]


def has_personal_data(source: Source, pipeline: Pipeline) -> bool:
    """Whether a pipeline has personal data, of its own or of another pipeline whose tables it reads."""
    return personal_columns.find_columns(source, pipeline) is not None


def column_visibility(source: Source, pipeline: Pipeline, layer: str, table: str) -> Shows:
    """Whether values of a column may be shown, by its name.

    Args:
        source: where things are.
        pipeline: the definition.
        layer: layer of the table.
        table: the table, or the quarantine of a silver table.

    Raises:
        SluicegateError: the table cannot be read.
    """
    columns = personal_columns.find_columns(source, pipeline)
    if columns is None:
        return lambda _: True
    types = kinds(source, pipeline, layer, table)
    return lambda name: columns.shows(layer, table, name.lower(), types.get(name.lower(), "STRING"))


def record_visibility(source: Source, pipeline: Pipeline, table: str) -> Shows:
    """Whether values of a field may be shown in records as they came to a silver table, by the field's name."""
    of_sources = [
        column_visibility(source, pipeline, pipeline.table(name)[0], name) for name in pipeline.silver[table].streams
    ]
    return lambda name: bool(of_sources) and all(shows(name) for shows in of_sources)


def masked_record(text: str | None, shows: Shows, *, masks: bool) -> str | None:
    """A record as it came, its values hidden where ``shows`` does not allow them.

    Of a value with fields or items of its own, all is hidden: their names say nothing of what ``shows`` knows. So is
    what is no JSON object.
    """
    if text is None or not masks:
        return text
    try:
        record = json.loads(text)
    except ValueError:
        return HIDDEN
    if not isinstance(record, dict):
        return HIDDEN
    masked = {name: value if shows(name) and not isinstance(value, (dict, list)) else HIDDEN
            for name, value in record.items()}  # fmt: skip
    return json.dumps(masked, ensure_ascii=False)


def text_of(value: Any) -> str:
    """A value as it is shown, at most some 200 characters of it."""
    if value is None:
        return "NULL"
    if isinstance(value, (dict, list, tuple)):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text = str(value)
    if len(text) <= 200:
        return text
    return f"{text[:200]}…"

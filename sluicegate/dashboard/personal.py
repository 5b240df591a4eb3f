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
    """Return whether a pipeline has personal data, its own or from pipelines whose tables it reads."""
    return personal_columns.find_columns(source, pipeline) is not None


def column_visibility(source: Source, pipeline: Pipeline, layer: str, table: str) -> Shows:
    """Return a predicate that says by a column's name whether its values may be shown.

    Args:
        source: the source of the lake's tables.
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
    """Return a predicate that says by a field's name whether a silver table's records may show its values."""
    of_sources = [
        column_visibility(source, pipeline, pipeline.table(name)[0], name) for name in pipeline.silver[table].streams
    ]
    return lambda name: bool(of_sources) and all(shows(name) for shows in of_sources)


def masked_record(text: str | None, shows: Shows, *, masks: bool) -> str | None:
    """Hide the values of a source record that ``shows`` does not allow.

    Values with fields or items of their own are hidden entirely: ``shows`` does not know their names. So is any text
    that is not a JSON object.
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
    """Format a value for display, cut to about 200 characters."""
    if value is None:
        return "NULL"
    if isinstance(value, (dict, list, tuple)):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text = str(value)
    if len(text) <= 200:
        return text
    return f"{text[:200]}…"

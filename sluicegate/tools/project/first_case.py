"""First case for a pipeline of given files: one record of each table, with as few values of the files as can be."""

from __future__ import annotations

import json
from typing import Any

from sluicegate.tools.scaffold.create import NewPipeline
from sluicegate.tools.scaffold.table import NewTable

_HEAD = """\
# `sluicegate test {name}` lands these records in a lake of their own, and compares the tables. Replace them by records
# that matter to you, without data of real persons. Only keys and times have values of your files.
cases:
  a record of each table arrives:
    given:
"""


def case_text(created: NewPipeline) -> str:
    """Write the text of the cases, empty if no table is of CSV or JSON, whose records a case can have as they are."""
    tables = [table for table in created.tables if table.samples[0].format in ("csv", "json")]
    if not tables:
        return ""
    lines = [_HEAD.format(name=created.name)]
    for table in tables:
        lines.append(f"      {table.bronze}:\n        - {json.dumps(_record(table), ensure_ascii=False)}\n")
    lines.append("    expect:\n")
    for table in tables:
        lines.append(f"      {table.name}: {{count: 1}}\n      {table.name}_quarantine: []\n")
    return "".join(lines)


def _record(table: NewTable) -> dict[str, Any]:
    """Return a record with values in the columns without which it would go to quarantine, and in texts."""
    needed = {*table.guess.keys, table.guess.event_time, table.guess.sequence_by}
    record: dict[str, Any] = {}
    for column in table.columns:
        record[column.field] = None
        if column.name in needed and column.name not in table.guess.pii:
            record[column.field] = next((value for value in column.values if value is not None), None)
        elif column.inferred_type.kind == "STRING":
            record[column.field] = "text"
    return record

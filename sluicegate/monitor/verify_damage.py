"""Verification that the files of all tables are what was written: what cannot be read cannot be compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.flow.finding import Finding
from sluicegate.lake import layout
from sluicegate.lake.damage import damages, files, set_aside

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings

# Files that are named of one table; the others are counted.
SHOWN = 3

NOT_COMPARED = "files and records were not compared, as tables have damaged files"


def findings(pipeline: Pipeline, settings: Settings) -> list[Finding]:
    """Names damaged log entries and data files of a pipeline's tables on a local disk; empty if all are whole.

    If there are any, the last finding says that nothing else was looked at.
    """
    at = layout.Lake(settings.lake, pipeline.name)
    found = [finding for table in set_aside.local_tables(at) for finding in _of_table(at, table)]
    return [*found, Finding("unproved", pipeline.name, NOT_COMPARED)] if found else []


def _of_table(at: layout.Lake, table: Path) -> list[Finding]:
    damaged = files.damaged_files(table) or files.changed_files(table)
    if not damaged:
        return []
    newest, checkpoint = damages.newest_version(table), damages.of_checkpoint(table)
    # What a run sets aside, and makes again.
    by_a_run = all(one.version == newest or one == checkpoint for one in damaged)
    mend = f"sluicegate run {at.pipeline}" if by_a_run else ""
    name = table.name if table.parent.name in layout.LAYERS else f"{table.parent.name}/{table.name}"
    found = [Finding("wrong", name, str(one), mend) for one in damaged[:SHOWN]]
    if rest := len(damaged) - SHOWN:
        found += [Finding("wrong", name, f"{rest:,} more files of it are damaged", mend)] if rest > 0 else []
    return found

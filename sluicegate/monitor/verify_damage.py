"""Verification that the files of all tables are what was written: what cannot be read cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sluicegate.definition import Pipeline
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import layout, tables
from sluicegate.lake.damage import damages, files, set_aside
from sluicegate.settings import Settings

# Files that are named of one table; the others are counted.
SHOWN = 3

NOT_COMPARED = "files and records were not compared, because tables have damaged files"


def findings(pipeline: Pipeline, settings: Settings) -> list[Finding]:
    """Name damaged log entries and data files of a pipeline's tables on a local disk, and tables that no job can read.

    If there are any, the last finding says that nothing else was looked at.
    """
    lake = layout.Lake(settings.lake, pipeline.name)
    damages = [finding for table in set_aside.local_tables(lake) for finding in _damage_findings(lake, table)]
    damages = damages or list(_feature_findings(pipeline, lake))
    if damages:
        return [*damages, Finding(FindingKind.UNPROVED, pipeline.name, NOT_COMPARED)]
    return []


def _feature_findings(pipeline: Pipeline, lake: layout.Lake) -> Iterator[Finding]:
    """Yield tables with features of Delta that hide rows or columns from delta-rs, by which jobs read."""
    for name, uri in _tables_without_spark(pipeline, lake):
        table = tables.delta_table(uri)
        if table is None:
            continue
        features = tables.unreadable_features(table)
        if features:
            folder = uri.rstrip("/").rpartition("/")[2]
            text = (
                f"another program enabled {', '.join(features)} on {folder}, which jobs cannot read: its rows "
                f"differ from its files. Remove it in Spark with ALTER TABLE … DROP FEATURE"
            )
            yield Finding(FindingKind.WRONG, name, text)


def _tables_without_spark(pipeline: Pipeline, lake: layout.Lake) -> Iterator[tuple[str, str]]:
    """Yield the address of each table that is read by delta-rs, with the name by which it is told."""
    for name in pipeline.bronze:
        yield from ((name, uri) for uri in (lake.table("bronze", name), lake.ledger(name), lake.file_status(name)))
    for name in (*pipeline.silver, *pipeline.deidentified_tables):
        yield from ((name, uri) for uri in (lake.table("silver", name), lake.quarantine(name), lake.set_aside(name)))


def _damage_findings(lake: layout.Lake, table: Path) -> list[Finding]:
    damaged = files.damaged_files(table) or files.changed_files(table)
    if not damaged:
        return []
    newest, checkpoint = damages.newest_version(table), damages.checkpoint_damage(table)
    # What a run sets aside, and makes again.
    by_a_run = all(damage.version == newest or damage == checkpoint for damage in damaged)
    mend = f"sluicegate run {lake.pipeline}" if by_a_run else ""
    name = table.name if table.parent.name in layout.LAYERS else f"{table.parent.name}/{table.name}"
    shown = [Finding(FindingKind.WRONG, name, str(damage), mend) for damage in damaged[:SHOWN]]
    if len(damaged) > SHOWN:
        text = f"{len(damaged) - SHOWN:,} more of its files are damaged"
        shown.append(Finding(FindingKind.WRONG, name, text, mend))
    return shown

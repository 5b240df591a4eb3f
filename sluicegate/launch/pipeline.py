"""Run the layers that have work in one spark-submit, without Airflow; without Spark if nothing is new.

What only a run with work needs is imported where it is used: a run with nothing to do takes as long as its imports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sluicegate.console import files, program
from sluicegate.errors import AccountingError, DamagedTable, UserError
from sluicegate.flow.model import ProgressKind
from sluicegate.flow.report import RunReport
from sluicegate.lake import layout, log
from sluicegate.lake.damage import files as damaged_files
from sluicegate.lake.exclusion import renamed
from sluicegate.launch import submit
from sluicegate.launch.run_mode import demand_layer
from sluicegate.monitor import plan
from sluicegate.spark import metastore

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.flow.selection import Interval
    from sluicegate.launch.request import Request
    from sluicegate.settings import Settings


# Seconds; files that take longer to settle are left to a later run.
LONGEST_WAIT = 60.0


def run(
    pipeline: Pipeline,
    settings: Settings,
    layer: str | None,
    tell: Callable[[str], None],
    interval: Interval | None = None,
    warm_minutes: float = 0.0,
) -> list[RunReport]:
    """Run the layers that have work.

    Args:
        pipeline: the definition.
        settings: where things are.
        layer: only this one; None for all.
        tell: takes each line for people.
        interval: records to reprocess besides, through silver and what follows it.
        warm_minutes: for which Spark stays ready for the next run; 0 for a Spark of this run alone.

    Returns:
        a report for each layer that ran; empty if nothing was waiting.

    Raises:
        PipelineMissing: the layer is unknown.
        PipelineRenamed: the pipeline was renamed, or is being renamed.
        SluicegateError: a job failed; the layers after it were not run.
    """
    demand_layer(layer)
    renamed.demand_current(layout.Lake(settings.lake, pipeline.name))  # a job asks again, but not where nothing waits
    waiting = _await_settling(pipeline, settings, tell)
    layers = [name for name in waiting.layers if layer in (None, name)]
    if interval is not None:
        return _rebuild(pipeline, settings, layer, tell, waiting, interval, warm_minutes)
    tell(waiting.sentence())
    if not layers:
        blocked = any(table.progress.kind == ProgressKind.BLOCKED for table in waiting.tables)
        tell(f"{'there is nothing to do' if blocked else f'{pipeline.name} is up to date'}; Spark was not started")
        if layer in (None, "bronze"):  # the job does it otherwise
            _clean(pipeline, settings, tell)
        return []
    started, began = time.monotonic(), datetime.now(UTC)
    reports = _submit_layers(pipeline, settings, tell, layers, warm_minutes)
    tell(f"done in {time.monotonic() - started:.1f} s")
    if layer is None:
        _demand_up_to_date(pipeline, settings, reports, began, tell)
    reports += register_tables(pipeline, settings, tell)
    for line in _next_commands(pipeline, reports):
        tell(line)
    return reports


def _clean(pipeline: Pipeline, settings: Settings, tell: Callable[[str], None]) -> None:
    """Move or delete files after their retention, where the definition sets one."""
    if all(table.cleanSource == "OFF" for table in pipeline.bronze.values()):
        return
    from sluicegate.lake.exclusion.target_ownership import lock_for_target
    from sluicegate.landing import readers
    from sluicegate.landing.moves import clean_source

    lake = layout.Lake(settings.lake, pipeline.name)
    other_readers = partial(readers.other_readers, pipeline)
    clean_source.sweep(
        pipeline.bronze, lake, lambda: lock_for_target(lake, "command line", settings.target), tell, other_readers
    )


def _set_damaged_aside(pipeline: Pipeline, settings: Settings, tell: Callable[[str], None]) -> None:
    """Set damaged newest commits aside before work is sought, as jobs do before they fill a table."""
    from sluicegate.lake.damage.set_aside import set_aside_damaged
    from sluicegate.lake.exclusion.target_ownership import lock_for_target

    lake = layout.Lake(settings.lake, pipeline.name)
    with lock_for_target(lake, "command line", settings.target):
        set_aside_damaged(lake, tell)


def _demand_up_to_date(
    pipeline: Pipeline, settings: Settings, reports: Sequence[RunReport], began: datetime, tell: Callable[[str], None]
) -> None:
    """Check that these jobs left no table of theirs behind, and report what else waits.

    Raises:
        AccountingError: a table of these jobs is behind.
    """
    from sluicegate.monitor import backlog

    versions = {table.table: table.version for report in reports for table in report.tables}

    def is_own(table: str, commit: log.Commit) -> bool:
        version = versions.get(table)
        return version is not None and commit.version <= version

    waiting = backlog.waiting_tables(pipeline, settings)
    late = backlog.overdue_tables(waiting, began, is_own)
    if late:
        raise AccountingError(
            f"the run ended, but {', '.join(wait.table for wait in late)} did not read all data that was available",
            cause="\n    ".join(f"{wait.table}: {wait.what}" for wait in late),
            hint=f"run again; if this persists, use sluicegate status {pipeline.name} --verify",
        )
    for wait in waiting:
        tell(f"{wait.table}: {wait.what}")


def refresh(
    pipeline: Pipeline,
    settings: Settings,
    layer: str | None,
    tell: Callable[[str], None],
    request: Request,
    warm_minutes: float = 0.0,
) -> list[RunReport]:
    """Refresh selected tables in full; the tables downstream are updated.

    Args:
        pipeline: the definition.
        settings: where things are.
        layer: must be None, as the tables say which layers are to be run.
        tell: takes each line for people.
        request: which tables.
        warm_minutes: as of ``run``.

    Raises:
        UserError: a layer is given too, or a table reads files.
        SluicegateError: a job failed; the layers after it were not run.
    """
    if layer is not None:
        raise UserError("a full refresh chooses the layers itself", hint="omit --layer")
    bronze_tables = {name: pipeline.bronze[name] for name in request.tables if name in pipeline.bronze}
    for name, table in bronze_tables.items():
        if table.kafka is not None:
            raise UserError(
                f"{name} reads Kafka, whose older records may be gone",
                hint="refresh tables that read it; to read its topics again, define a table with another name",
            )
        if table.reads_files:
            raise UserError(f"{name} reads files", hint=f"sluicegate reset {pipeline.name} {name} reads them again")
    # Tables that follow these are run too, also in their own layer.
    return _submit_layers(
        pipeline, settings, tell, layout.LAYERS, warm_minutes, [*request.arguments("run"), "--follow"]
    )


def _rebuild(
    pipeline: Pipeline,
    settings: Settings,
    layer: str | None,
    tell: Callable[[str], None],
    waiting: plan.Pending,
    interval: Interval,
    warm_minutes: float,
) -> list[RunReport]:
    """Reprocess an interval in silver after bronze has read new data; gold follows if silver changed."""
    tell(f"reprocessing {interval}; {waiting.sentence()}")
    if layer == "gold" and not any(table.layer == "gold" and table.work for table in waiting.tables):
        tell("gold is up to date: no silver row changed")
        return []
    layers = [name for name in layout.LAYERS if layer in (None, name) and (name != "bronze" or name in waiting.layers)]
    if layers:
        return _submit_layers(pipeline, settings, tell, layers, warm_minutes, interval.arguments())
    return []


def _submit_layers(
    pipeline: Pipeline,
    settings: Settings,
    tell: Callable[[str], None],
    layers: Sequence[str],
    warm_minutes: float,
    extra: Sequence[str] = (),
) -> list[RunReport]:
    """Run the layers in one Spark, and return their reports."""
    arguments = [f"--layers={','.join(layers)}", *extra]
    return submit.submit_all(
        "run", pipeline.name, settings, submit.run_info(), tell, arguments, warm_minutes=warm_minutes
    )


def register_tables(pipeline: Pipeline, settings: Settings, tell: Callable[[str], None]) -> list[RunReport]:
    """Register tables that are not in the catalog yet, if there is a catalog."""
    if not metastore.address():
        return []
    from sluicegate.maintenance import catalog

    if catalog.is_due(pipeline, layout.Lake(settings.lake, pipeline.name)):
        return [submit.submit("catalog", pipeline.name, settings, submit.run_info(), tell)]
    return []


def _pending(pipeline: Pipeline, settings: Settings) -> plan.Pending:
    with damaged_files.name_damaged_file(layout.Lake(settings.lake, pipeline.name)):
        return plan.pending(pipeline, settings)


def _await_settling(pipeline: Pipeline, settings: Settings, tell: Callable[[str], None]) -> plan.Pending:
    """Wait for files that landed a moment ago, as a person expects them in this run; return the pending work."""
    try:
        waiting = _pending(pipeline, settings)
    except DamagedTable:
        _set_damaged_aside(pipeline, settings, tell)
        waiting = _pending(pipeline, settings)
    seconds = max((pipeline.bronze[t.table].settleSeconds for t in waiting.tables if t.settling), default=0.0)
    if 0 < seconds <= LONGEST_WAIT:
        tell(f"waiting {seconds:g} s: {files(waiting.settling)} landed a moment ago and may still be being written")
        time.sleep(seconds)
        waiting = plan.pending(pipeline, settings)
    return waiting


def _next_commands(pipeline: Pipeline, reports: list[RunReport]) -> list[str]:
    """Suggest commands for what to do next."""
    lines = []
    quarantined = [table for report in reports for table in report.tables if table.quarantined]
    for table in quarantined[:1]:
        query = f"SELECT * FROM {pipeline.name}.{table.table}_quarantine"
        lines.append(f'next: {program()} sql "{query}" shows what was quarantined and why')
    for name in list(pipeline.gold)[:1]:
        lines.append(f'next: {program()} sql "SELECT * FROM {pipeline.name}.{name} LIMIT 10"')
    return lines

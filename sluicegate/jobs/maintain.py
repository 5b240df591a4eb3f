"""Job for the maintenance that is due."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base, layer_job
from sluicegate.lake import layout
from sluicegate.maintenance.optimize_vacuum import (
    SETTINGS,
    MaintainedTable,
    line_of,
    maintained_tables,
    optimize_by_delta_rs,
    optimize_by_spark,
)
from sluicegate.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import Pipeline


def run(
    pipeline: Pipeline,
    lake: layout.Lake,
    facts: Mapping[str, Any],
    spark: Callable[[], SparkSession],
    keeps: timedelta | None = None,
    tell: Callable[[str], None] = say,
) -> None:
    """Do the maintenance that is due; the caller holds the pipeline's lock.

    Args:
        pipeline: the definition.
        lake: the lake.
        facts: facts on the run.
        spark: opens a session; called only if Spark has work.
        keeps: retention of files; by default the definition's.
        tell: receives each line for people.
    """
    due = [table for table in maintained_tables(pipeline, lake, keeps) if table.is_due]
    for table in due:
        if not table.of_spark:
            optimize_by_delta_rs(table)
    of_spark = [table for table in due if table.of_spark]
    if of_spark:
        _maintain_by_spark(of_spark, pipeline, lake, facts, spark(), tell)
    maintained = {table.name: table for table in maintained_tables(pipeline, lake, keeps)}
    for table in due:
        tell(line_of(table, maintained[table.name]))


def _maintain_by_spark(
    tables: Sequence[MaintainedTable],
    pipeline: Pipeline,
    lake: layout.Lake,
    facts: Mapping[str, Any],
    spark: SparkSession,
    tell: Callable[[str], None],
) -> None:
    """Maintain tables; where rows moved or more history is kept, process the tables that read them at once."""
    with session.override_settings(spark, SETTINGS):
        for table in tables:
            optimize_by_spark(spark, table)
    if any(table.scattered or table.lengthen for table in tables):
        for layer in ("silver", "gold"):
            layer_job.Job(pipeline, lake, layer, facts, spark, tell=tell).run()


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/maintain.py``."""
    return base.parser("maintain")


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/maintain.py``; return the exit code."""
    return base.run_guarded(lambda: _run(parser().parse_args(argv)))


def _run(arguments: argparse.Namespace) -> RunReport:
    pipeline, lake, facts = base.job_context(arguments)
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line.strip())
        say(line)

    with base.hold_job_lock(pipeline, lake, facts, f"maintenance of {pipeline.name}"):
        name = f"{pipeline.name}.maintain"
        run(pipeline, lake, facts, lambda: session.open_session(name, lake, private=bool(pipeline.pii)), tell=tell)
    return RunReport(pipeline.name, "maintain", notes=lines)

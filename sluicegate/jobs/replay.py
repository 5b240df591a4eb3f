"""Replay: evaluate records again after an expectation, a transform or a lookup was corrected."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from sluicegate.errors import UserError, Where
from sluicegate.flow.report import RunReport
from sluicegate.flow.selection import Replay
from sluicegate.jobs import base, layer_job
from sluicegate.jobs.run_job import Run
from sluicegate.launch.request import Request


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/replay.py``."""
    job_parser = base.parser("replay")
    job_parser.add_argument("--table", required=True, help="silver table")
    job_parser.add_argument("--rule", action="append", default=[], help="only records that broke this rule; repeatable")
    job_parser.add_argument("--dropped", action="store_true", help="also records that rules dropped")
    job_parser.add_argument("--everything", action="store_true", help="all records of the table's source")
    job_parser.add_argument("--validate", action="store_true", help="write nothing, and show what would change")
    job_parser.add_argument("--follow", action="store_true", help="then run gold in the same Spark, if silver changed")
    return job_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/replay.py``; return the exit code."""
    return base.run_all_guarded(lambda: _run(parser().parse_args(argv)))


def _run(arguments: argparse.Namespace) -> Iterator[RunReport]:
    pipeline, lake, facts = base.job_context(arguments)
    which = (arguments.dropped, arguments.everything, arguments.validate)
    replay = Replay(arguments.table, tuple(arguments.rule), *which)
    replay.demand(pipeline)
    only = replay.table if replay.validate else None  # else the tables that read it run too
    run = Run(pipeline, lake, facts)
    with base.hold_job_lock(pipeline, lake, facts, f"replay of {replay.table}"):
        report = layer_job.Job(pipeline, lake, "silver", facts, run.spark, choice=replay, only=only).run()
    yield report
    for table in report.tables:
        if (table.table, table.state) == (replay.table, "blocked"):
            raise UserError(
                f"{replay.table} was not replayed: {table.why}",
                where=Where(table=replay.table),
                hint="run the pipeline to fill the tables that it reads, then replay again",
            )
    if arguments.follow and not replay.validate:
        run.spark.clear_cache()
        yield from run.gold(Request())

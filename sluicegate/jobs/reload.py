"""Reload and reset: read selected files again, or all files into a replaced table.

Both are ledger entries like any other: a reload enters its files with the action ``replace`` in ledger batches of the
usual size; a reset enters all files in one ledger batch, since its one commit replaces the table with its columns. So a
kill leaves either nothing entered, or a ledger batch that the next run reads. Neither loses a row: the rows of a file
that is gone or unreadable stay; a reset gives them up only with ``--drop-missing``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sluicegate.definition.pipeline.model import bronze_table
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base, layer_job
from sluicegate.landing.chosen.reread import Reset, choose_reload


def parser(action: str) -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/reset.py`` or ``spark_jobs/tools/reload.py``."""
    job_parser = base.parser(action)
    job_parser.add_argument("--table", required=True, help=f"bronze table to {action}")
    if action == "reset":
        job_parser.add_argument(
            "--drop-missing", action="store_true", help="drop the rows of files that cannot be read again"
        )
    else:
        job_parser.add_argument(
            "--files", action="append", default=[], help="a file below the landing folder; repeatable"
        )
        job_parser.add_argument(
            "--archived", action="store_true", help="files in the archive that are not in the ledger"
        )
        job_parser.add_argument("--pattern", help="pattern that names below the landing folder must match")
    return job_parser


def main(action: str, argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/reset.py`` and ``spark_jobs/tools/reload.py``; return the exit code."""
    return base.run_guarded(lambda: _run(action, parser(action).parse_args(argv)))


def _run(action: str, arguments: argparse.Namespace) -> RunReport:
    pipeline, lake, facts = base.job_context(arguments)
    name = arguments.table
    bronze_table(pipeline, name)
    if action == "reset":
        finder = Reset(arguments.drop_missing).discover
    else:
        chosen_files = choose_reload(arguments.files, arguments.pattern, pipeline, name, archived=arguments.archived)
        finder = chosen_files.discover
    with base.hold_job_lock(pipeline, lake, facts, f"{action} of {name}"):
        return layer_job.Job(pipeline, lake, "bronze", facts, only=name, finder=finder).run()

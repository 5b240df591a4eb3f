"""Job that tests a pipeline: all selected cases, one after the other, in one Spark."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path

from sluicegate import pii_key
from sluicegate.errors import CaseError, CasesFailed
from sluicegate.flow import report
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base
from sluicegate.spark import session
from sluicegate.tools.testing.case_files import choose_cases, load
from sluicegate.tools.testing.case_run import FAILED, MISTAKE, CaseResult, run_case
from sluicegate.tools.testing.model import Case

# Key of pseudonyms in cases: the same for everybody, so that the real key stays out of files with expected pseudonyms.
KEY = b"the key of all cases, which is no secret"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the whole of ``spark_jobs/tools/cases.py``; the exit codes are those of ``jobs.layer_job.main``."""
    return base.run_guarded(lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/cases.py``."""
    command_line = base.parser("cases")
    command_line.description = "Tests a pipeline by its cases."
    command_line.add_argument(
        "--case", action="append", metavar="NAME", help="only the case with this name; repeatable"
    )
    command_line.add_argument("--matching", metavar="WORD", help="only cases whose name or file name contains this")
    command_line.add_argument(
        "--folder", help="keep each case's lake and landing in this folder; else they are deleted"
    )
    return command_line


def _run(arguments: argparse.Namespace) -> RunReport:
    began = time.monotonic()
    pipeline, _, _ = base.job_context(arguments)
    cases = choose_cases(load(pipeline), arguments.matching, arguments.case or ())
    os.environb[pii_key.VARIABLE.encode()] = KEY
    spark = session.open_session(f"{pipeline.name}.cases")
    if arguments.folder:
        place: AbstractContextManager[str] = nullcontext(arguments.folder)
    else:
        place = tempfile.TemporaryDirectory(prefix="sluicegate-test-")
    with place as folder:
        results = run_each_case(
            lambda case, case_folder: run_case(
                spark, pipeline.folder.parent, pipeline.name, case, case_folder, pipeline.settings.target
            ),
            cases,
            Path(folder),
            lambda result: report.send(report.CASE, asdict(result)),
        )
    raise_failures(pipeline.name, results)
    return RunReport(pipeline.name, "cases", seconds=time.monotonic() - began)


def run_each_case(
    run: Callable[[Case, Path], CaseResult], cases: Sequence[Case], folder: Path, tell: Callable[[CaseResult], None]
) -> list[CaseResult]:
    """Run each case in a folder of its own, and report it as it ends."""
    results = []
    for number, case in enumerate(cases, 1):
        case_folder = folder / f"{number:03d}-{re.sub(r'[^a-z0-9]+', '-', case.name.lower()).strip('-')[:60]}"
        case_folder.mkdir(parents=True)
        result = run(case, case_folder)
        result.folder = str(case_folder)
        results.append(result)
        tell(result)
    return results


def raise_failures(pipeline: str, results: Sequence[CaseResult]) -> None:
    """Raise an error unless all cases passed.

    Raises:
        CaseError: some cases are themselves wrong.
        CasesFailed: tables differ from what they expect.
    """
    if mistakes := [mistake for result in results if result.state == MISTAKE for mistake in result.mistakes]:
        raise CaseError(pipeline, mistakes)
    failed = [result.name for result in results if result.state == FAILED]
    if failed:
        count = "the case"
        if len(results) > 1:
            count = f"{len(failed)} of {len(results)} cases"
        raise CasesFailed(f"{count} of {pipeline} failed", cause="\n    ".join(failed))

"""Job that verifies all tables of a pipeline: bronze against its files, silver and gold against the definition.

The command `sluicegate status --verify` proves files and records itself, without a JVM, and has this job do the rest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from sluicegate import console
from sluicegate.definition.verify import percent_of
from sluicegate.errors import NotVerified
from sluicegate.flow import flows, report
from sluicegate.flow.finding import Finding
from sluicegate.flow.report import RunReport
from sluicegate.flow.sample import Sample
from sluicegate.gold import verify as gold_verify
from sluicegate.jobs import base
from sluicegate.lake.lock import pipeline_lock
from sluicegate.monitor import verify_damage
from sluicegate.run import verification
from sluicegate.silver import verify as silver_verify
from sluicegate.spark import session


def parser() -> argparse.ArgumentParser:
    """The command line of ``spark_jobs/tools/verify.py``."""
    made = base.parser("verify")
    made.description = "Proves that the tables of a pipeline are what they should be."
    made.add_argument("--queries", action="store_true", help="only silver and gold, and without the pipeline's lock")
    made.add_argument(
        "--sample", type=percent_of, default=100.0, metavar="N%", help="so much of files, records and rows only"
    )
    made.add_argument("--since-last", action="store_true", help="only what came or changed since the last verification")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The whole of ``spark_jobs/tools/verify.py``; the exit codes are those of ``jobs.layer.main``."""
    return base.guarded(lambda: _run(parser().parse_args(argv)))


def _run(arguments: argparse.Namespace) -> RunReport:
    began = time.monotonic()
    pipeline, at, facts = base.subject(arguments)
    sample = Sample(arguments.sample)
    proofs = verification.proofs_of(pipeline, sample, console.say, since_last=arguments.since_last)
    who = str(facts.get("run_id") or f"verification of {pipeline.name}")
    found: list[Finding] = [] if arguments.queries else verify_damage.findings(pipeline, pipeline.settings)
    if found:
        return _reported(pipeline.name, found, began)
    alone: AbstractContextManager[None] = nullcontext() if arguments.queries else pipeline_lock(at, who)
    with alone:
        if not arguments.queries:
            found += verification.without_spark(pipeline, console.say, sample, proofs)
        if flows.stored_silver(pipeline, at) or gold_verify.provable(pipeline, at):
            spark = session.open_session(f"{pipeline.name}.verify", at, private=bool(pipeline.pii))
            session.say_where(spark)
            found += silver_verify.prove(spark, pipeline, at, console.say, sample, proofs)
            found += gold_verify.prove(spark, pipeline, at, arguments.sample, console.say, proofs)
        found += gold_verify.unprovable(pipeline)
        verification.forget_wrong(pipeline, found, proofs)
    found = verification.in_order(found)
    return _reported(pipeline.name, found, began, people=not arguments.queries)


def _reported(pipeline: str, found: Sequence[Finding], began: float, *, people: bool = True) -> RunReport:
    """The report of a verification, whose findings are told to people unless the command does that.

    Raises:
        NotVerified: something is wrong.
    """
    for one in found:
        report.send(report.FINDING, one.as_dict())
    if people:
        for one in found:
            console.say(*one.lines())
        raise_for(pipeline, found)
    notes = [str(one) for one in found if one.kind != "proved"]
    return RunReport(pipeline, "verify", seconds=time.monotonic() - began, notes=notes)


def raise_for(pipeline: str, found: Sequence[Finding]) -> None:
    """Ends a verification with an error if a finding is ``wrong``.

    Raises:
        NotVerified: something is wrong.
    """
    wrong = [one for one in found if one.kind == "wrong"]
    if wrong:
        commands = dict.fromkeys(one.mend for one in wrong if one.mend)
        said = (
            "1 thing in {0} is not as it should be"
            if len(wrong) == 1
            else "{1:,} things in {0} are not as they should be"
        )
        raise NotVerified(
            said.format(pipeline, len(wrong)),
            cause="\n    ".join(map(str, wrong)),
            hint="run " + ", then ".join(commands) if commands else "",
        )

"""Job that verifies all tables of a pipeline: bronze against its files, silver and gold against the definition.

The command `sluicegate status --verify` proves files and records itself, without a JVM, and has this job do the rest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from sluicegate import console
from sluicegate.definition.pipeline.verify_schedule import parse_percent
from sluicegate.errors import NotVerified
from sluicegate.flow import flows, report
from sluicegate.flow.report import RunReport
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.flow.verification.sample import Sample
from sluicegate.gold import verify_gold
from sluicegate.jobs import base
from sluicegate.lake.exclusion.lock import pipeline_lock
from sluicegate.launch import verification
from sluicegate.monitor import verify_damage
from sluicegate.silver import verify_silver
from sluicegate.spark import session


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/verify.py``."""
    job_parser = base.parser("verify")
    job_parser.description = "Verifies the tables of a pipeline."
    job_parser.add_argument(
        "--queries", action="store_true", help="only silver and gold, and without the pipeline's lock"
    )
    job_parser.add_argument(
        "--sample", type=parse_percent, default=100.0, metavar="N%", help="only this share of files, records and rows"
    )
    job_parser.add_argument(
        "--since-last", action="store_true", help="only what was added or changed since the last verification"
    )
    return job_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/verify.py``; the exit codes are those of ``jobs.layer_job.main``."""
    return base.run_guarded(lambda: _run(parser().parse_args(argv)))


def _run(arguments: argparse.Namespace) -> RunReport:
    began = time.monotonic()
    pipeline, lake, facts = base.job_context(arguments)
    sample = Sample(arguments.sample)
    proofs = verification.proofs_of(pipeline, sample, console.say, since_last=arguments.since_last)
    who = str(facts.get("run_id") or f"verification of {pipeline.name}")
    findings: list[Finding] = []
    alone: AbstractContextManager[None] = nullcontext()
    if not arguments.queries:
        findings = verify_damage.findings(pipeline, pipeline.settings)
        alone = pipeline_lock(lake, who)
    if findings:
        verification.forget_doubtful(pipeline, findings, proofs)
        return _report_findings(pipeline.name, findings, began)
    with alone:
        if not arguments.queries:
            findings += verification.findings_without_spark(pipeline, console.say, sample, proofs)
        if flows.stored_silver(pipeline, lake) or verify_gold.provable_tables(pipeline, lake):
            spark = session.open_session(f"{pipeline.name}.verify", lake, private=bool(pipeline.pii))
            session.say_where(spark)
            findings += verify_silver.prove(spark, pipeline, lake, console.say, sample, proofs)
            findings += verify_gold.prove(spark, pipeline, lake, arguments.sample, console.say, proofs)
        findings += verify_gold.unprovable_findings(pipeline)
        verification.forget_doubtful(pipeline, findings, proofs)
    findings = verification.sort_findings(findings)
    return _report_findings(pipeline.name, findings, began, people=not arguments.queries)


def _report_findings(pipeline: str, findings: Sequence[Finding], began: float, *, people: bool = True) -> RunReport:
    """Return the report of a verification; people see its findings here unless the command prints them.

    Raises:
        NotVerified: a finding is ``wrong``.
    """
    for finding in findings:
        report.send(report.FINDING, finding.as_dict())
    if people:
        for finding in findings:
            console.say(*finding.lines())
        raise_if_wrong(pipeline, findings)
    notes = [str(finding) for finding in findings if finding.kind != FindingKind.PROVED]
    return RunReport(pipeline, "verify", seconds=time.monotonic() - began, notes=notes)


def raise_if_wrong(pipeline: str, findings: Sequence[Finding]) -> None:
    """Raise an error if a finding of a verification is ``wrong``.

    Raises:
        NotVerified: a finding is ``wrong``.
    """
    wrong = [finding for finding in findings if finding.kind == FindingKind.WRONG]
    if not wrong:
        return
    commands = dict.fromkeys(finding.mend for finding in wrong if finding.mend)
    raise NotVerified(
        f"verification found {console.quantity(len(wrong), 'problem')} in {pipeline}",
        cause="\n    ".join(map(str, wrong)),
        hint="run " + ", then ".join(commands) if commands else "",
    )

"""Verify without Spark: records by identity, landed files by a second reader, and waiting work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from shlex import quote
from typing import TYPE_CHECKING

from sluicegate.console import files, ignore_line
from sluicegate.errors import SluicegateError, UserError
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.flow.verification.proofs import Proofs
from sluicegate.flow.verification.sample import EVERYTHING, Sample
from sluicegate.lake import tables
from sluicegate.lake.layout import LAYERS, Lake
from sluicegate.landing import on_record
from sluicegate.monitor import backlog
from sluicegate.monitor import verify as by_identity
from sluicegate.witness import landed_files, statistics

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline

BY_IDENTITY = "each record of its sources is in exactly one place: the table, its quarantine or its set-aside records"
ABOUT_TABLES = "the values of the event log `_events` and of the schema histories in `_schemas`; their files are"
NO_SOURCE = "its records, as a table that it reads is gone or has been replaced, or its flows have changed"


def findings_without_spark(
    pipeline: Pipeline,
    tell: Callable[[str], None] = ignore_line,
    sample: Sample = EVERYTHING,
    proofs: Proofs | None = None,
) -> list[Finding]:
    """Return the findings on bronze and silver that need no Spark: right, wrong, waiting or not verified.

    Args:
        pipeline: the definition.
        tell: receives a line before each table that takes long.
        sample: the landed files whose values are compared; records are always counted.
        proofs: proofs of former verifications; None to neither use nor record them.
    """
    settings = pipeline.settings
    findings = list(statistics.findings(pipeline, Lake(settings.lake, pipeline.name)))
    findings += by_identity.findings(pipeline, settings)
    findings += landed_files.findings(pipeline, settings, tell, sample=sample, proofs=proofs)
    findings += _skipped_file_findings(pipeline)
    findings += _backlog_findings(pipeline)
    return [*findings, *_log_table_findings(pipeline), *_identity_findings(pipeline)]


def _skipped_file_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Yield findings on files that their bronze table was told to skip, which nothing verifies."""
    lake = Lake(pipeline.settings.lake, pipeline.name)
    for name, table in pipeline.bronze.items():
        skipped = on_record.skipped_files(tables.delta_table(lake.ledger(name)) if table.reads_files else None)
        if not skipped.files:
            continue
        reading = f"`sluicegate reload {pipeline.name} {name} --files {quote(skipped.first)}` reads the first"
        text = f"{files(skipped.files)} skipped by the ledger, in no table; {reading}"
        yield Finding(FindingKind.UNSEEN, name, text)


def _backlog_findings(pipeline: Pipeline) -> list[Finding]:
    """Return findings on waiting work, and on tables that cannot continue as their source has another history."""
    try:
        return backlog.findings(pipeline, pipeline.settings)
    except SluicegateError as error:
        if type(error) is not SluicegateError:  # a landing folder that is missing, a store that does not answer
            raise
        return [Finding(FindingKind.WRONG, error.where.table or pipeline.name, f"{error.message}; {error.hint}")]


def _log_table_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Yield a finding that the values of log tables are not compared, if there are such tables."""
    lake = Lake(pipeline.settings.lake, pipeline.name)
    addresses = [lake.events, *map(lake.schemas, pipeline.bronze)]
    if any(tables.delta_table(address) is not None for address in addresses):
        yield Finding(FindingKind.UNSEEN, pipeline.name, ABOUT_TABLES)


def _identity_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Yield what record identities prove about each existing silver table."""
    for name, version, provable in by_identity.provable_tables(pipeline, pipeline.settings):
        if provable:
            yield Finding(FindingKind.PROVED, name, BY_IDENTITY, version=version)
        else:
            yield Finding(FindingKind.UNSEEN, name, NO_SOURCE)


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings for printing, without the success of tables that also have a fault."""
    all_findings = list(findings)
    wrong = {finding.table for finding in all_findings if finding.kind == FindingKind.WRONG}
    others_in_order = [
        finding for finding in all_findings if finding.kind != FindingKind.PROVED or finding.table not in wrong
    ]
    return sorted(others_in_order, key=lambda finding: finding.kind == FindingKind.PROVED)


def proofs_of(
    pipeline: Pipeline, sample: Sample, tell: Callable[[str], None] = ignore_line, *, since_last: bool
) -> Proofs:
    """Open the proofs that a verification uses and records.

    Args:
        pipeline: the definition.
        sample: part to compare; a sample proves no table, so it records nothing.
        tell: receives a line if proofs cannot be written.
        since_last: whether to compare only what was added or changed since the last one.

    Raises:
        UserError: both options are set.
    """
    if since_last and not sample.is_whole:
        raise UserError("--since-last cannot be combined with --sample", hint="omit one of them")
    lake = Lake(pipeline.settings.lake, pipeline.name)
    return Proofs(lake, since_last=since_last, keeps=sample.is_whole, tell=tell)


def forget_doubtful(pipeline: Pipeline, findings: Iterable[Finding], proofs: Proofs) -> None:
    """Remove the proofs of tables with a fault, and of those whose rows could not be proved.

    Findings about damaged files name a table with its folder.
    """
    doubtful = {finding.table for finding in findings if finding.kind in (FindingKind.WRONG, FindingKind.UNPROVED)}
    names = doubtful | {table.rpartition("/")[2] for table in doubtful}
    copies = {name: "silver" for name in pipeline.deidentified_tables}
    layers = copies | {name: layer for layer in LAYERS for name in getattr(pipeline, layer)}
    for name in names & layers.keys():
        proofs.forget(layers[name], name)

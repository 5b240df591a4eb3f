"""``sluicegate status``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import (
    JsonOption,
    PipelineName,
    load_definition,
    pass_settings,
    printer,
    repeat_display,
    show_json,
    show_table,
)
from sluicegate.console import program, say
from sluicegate.errors import SluicegateError, UserError
from sluicegate.flow.verification.finding import FindingKind, FindingReason
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.flow.verification.finding import Finding
    from sluicegate.monitor.status import Status


@pass_settings("lake", "landing", "pipelines", "master", "target")
def status(
    pipeline: PipelineName,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Verify tables: bronze by reading files again, silver and gold by re-evaluating them."
        ),
    ] = False,
    sample: Annotated[
        str,
        typer.Option(
            "--sample", help="With --verify: compare a sample of files, records and gold's rows, for example 10%."
        ),
    ] = "100%",
    since_last: Annotated[
        bool, typer.Option("--since-last", help="With --verify: compare only what changed since the last verification.")
    ] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="With --verify: skip what needs Spark: silver's values and gold.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every two seconds until Ctrl-C. Not with --verify.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Show rows, version, freshness and quarantine of each table, and the files that wait.

    With --verify, the exit code is 1 if something is wrong.

    Example: sluicegate status heart_rate --verify
    """

    if watch:
        if verify or as_json:
            raise UserError("--watch cannot be combined with --verify or --json", hint="omit one of them")
        repeat_display(lambda: _show_tables(api.status(api.load(pipeline, settings))))
        return
    definition = load_definition(pipeline, settings)
    share = _share(sample)
    if verify:
        _show_verified(definition, _verify(definition, share, since_last=since_last, spark=not no_spark), as_json)
        return
    current = api.status(definition)
    if as_json:
        show_json({"pipeline": pipeline, **_facts(current)})
    else:
        _show_tables(current)


def _show_verified(definition: Pipeline, findings: Sequence[Finding], as_json: bool) -> None:
    """Print tables and findings of a verification; exit with 1 if something is wrong."""
    wrong = [finding for finding in findings if finding.kind == FindingKind.WRONG]
    current = _status(definition, wrong)
    if as_json:
        show_json({
            "pipeline": definition.name,
            **({} if current is None else _facts(current)),
            "problems": list(map(str, wrong)),
            "findings": [finding.as_dict() for finding in findings if finding.kind != FindingKind.PROVED],
            "proved": [finding.as_dict() for finding in findings if finding.kind == FindingKind.PROVED],
        })  # fmt: skip
    else:
        if current is not None:
            _show_tables(current)
        say(*_finding_lines(findings))
    if wrong:
        raise typer.Exit(1)


def _status(definition: Pipeline, wrong: list[Finding]) -> Status | None:
    """Return the status of the tables; None if they cannot be read and a finding already explains why."""
    try:
        return api.status(definition)
    except SluicegateError:
        if not wrong:
            raise
        return None


def _facts(current: Status) -> dict[str, Any]:
    return {"tables": list(map(asdict, current.tables)), "waiting": current.waiting.sentence()}


def _show_tables(current: Status) -> None:
    discarded = []
    if any(table.discarded for table in current.tables):
        discarded = ["discarded"]
    sides = ["quarantined", *discarded, "set aside", "rejected"]
    columns = ["layer", "table", "rows", "version", "changed (UTC)", *sides, "state"]
    right = ["rows", "version", *sides]
    rows = list(map(asdict, current.tables))
    values = [[value for name, value in row.items() if name != "discarded" or discarded] for row in rows]
    show_table(columns, values, right=right)
    say("", current.waiting.sentence())


def _share(sample: str) -> float:
    from sluicegate.definition.pipeline.verify_schedule import parse_percent

    try:
        return parse_percent(sample)
    except ValueError:
        raise UserError(f"invalid --sample {sample}", hint="above 0% and at most 100%, for example 10%") from None


def _verify(definition: Pipeline, share: float, *, since_last: bool, spark: bool) -> list[Finding]:
    """Verify the tables, and return the findings; ``share`` is the percentage to compare."""
    if spark:  # what the job says is no part of what is shown here, with or without JSON
        return api.verify(definition, percent=share, since_last=since_last, tell=printer(as_json=True))
    findings = api.verify(definition, percent=share, since_last=since_last, spark=False)
    return list(map(_name_option, findings))


def _name_option(finding: Finding) -> Finding:
    """Name the command line option in a finding that --no-spark caused."""
    if finding.reason == FindingReason.WITHOUT_SPARK:
        return replace(finding, what=f"{finding.what}, as --no-spark says", reason=FindingReason.IN_WORDS)
    return finding


def _finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Return findings as lines for people; only proved tables are listed as verified."""
    lines = [line for finding in findings for line in finding.lines(program())]
    if any(finding.kind == FindingKind.PROVED for finding in findings):
        return lines
    return [*lines, "no table was verified"]

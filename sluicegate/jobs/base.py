"""Common parts of all jobs: arguments, pipeline and lake, report or error at the end."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from sluicegate import channel, processes
from sluicegate.definition import Pipeline, load
from sluicegate.errors import SluicegateError, UserError
from sluicegate.flow import report
from sluicegate.flow.report import RunReport
from sluicegate.lake import layout
from sluicegate.lake.damage import files as damaged_files
from sluicegate.lake.exclusion import fence
from sluicegate.lake.exclusion.target_ownership import take_ownership
from sluicegate.settings import Settings, resolve_settings
from sluicegate.spark import connect
from sluicegate.storage import store_errors


def run_guarded(work: Callable[[], RunReport]) -> int:
    """Do a job's work, end with the message of its report or error, and return the exit code."""
    return run_all_guarded(lambda: [work()])


def run_all_guarded(work: Callable[[], Iterable[RunReport]]) -> int:
    """Do the work of a job with several reports, send each when it is ready, and return the exit code.

    So the reports before a failure are not lost; the error follows them as the last message.
    """
    channel.attach()
    processes.end_with_parent()
    try:
        for layer_report in work():
            report.end_with_report(layer_report)
    except SluicegateError as error:
        report.end_with_error(error)
        return error.exit_code
    except Exception as error:
        report.end_with_error(to_sluicegate_error(error))
        if os.environ.get("SLUICEGATE_DEBUG"):
            raise
        return 1
    return 0


@contextmanager
def hold_write_lock(lake: layout.Lake, owner: str, wait: float = 600.0, *, target: str) -> Iterator[None]:
    """Hold the right to write a pipeline's tables alone; see ``lake.fence.sole_writer``.

    An interrupt, as when the lease was lost, also cancels what a server still runs for it.

    Args:
        lake: the lake.
        owner: name of the run, shown to those who wait.
        wait: seconds to wait for another holder.
        target: target of the loaded definition; empty if it has none.

    Raises:
        TargetConflict: the tables belong to another target.
        DamagedTable: a file of a table is damaged.
    """
    sole = fence.sole_writer(lake, owner, remote=bool(connect.address()), wait=wait, sent=connect.has_opened)
    with damaged_files.name_damaged_file(lake), sole:
        take_ownership(lake, target)
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            connect.interrupt_all()
            raise


def hold_job_lock(
    pipeline: Pipeline, lake: layout.Lake, facts: Mapping[str, Any], work: str
) -> AbstractContextManager[None]:
    """Hold the right to write for a job; those who wait see its run ID, or else its work."""
    return hold_write_lock(lake, str(facts.get("run_id") or work), target=pipeline.settings.target)


def job_context(arguments: argparse.Namespace) -> tuple[Pipeline, layout.Lake, dict[str, Any]]:
    """Return the pipeline, lake and commit info from a job's arguments."""
    flags = {name: getattr(arguments, name) for name in ("lake", "landing", "pipelines", "target")}
    resolved = resolve_settings(flags)
    resolved.export()
    settings = Settings.from_resolved(flags, resolved)
    # Its Spark is there, whatever its target says of one: a variable of that may be set only where it was submitted.
    pipeline = load(arguments.pipeline, replace(settings, given=settings.given | {"master"}))
    return pipeline, layout.Lake(pipeline.settings.lake, pipeline.name), _run_info(arguments.run_info)


def parser(layer: str) -> argparse.ArgumentParser:
    """Return the argument parser of a layer's job; ``docs/reference/commands.md`` is generated from it as well."""
    parser = argparse.ArgumentParser(prog=f"{layer}.py", description=f"Runs the {layer} layer of a pipeline.")
    parser.add_argument("--pipeline", required=True, help="name of the pipeline's folder")
    parser.add_argument("--lake", help="path or URI of the tables' root (default: $SLUICEGATE_LAKE, else ./lake)")
    parser.add_argument("--landing", help="folder that files land in (default: $SLUICEGATE_LANDING, else ./landing)")
    parser.add_argument("--pipelines", help="folder of definitions (default: $SLUICEGATE_PIPELINES, else ./pipelines)")
    parser.add_argument(
        "--target", help="the pipeline's target, if it has targets (default: $SLUICEGATE_TARGET, else none)"
    )
    parser.add_argument(
        "--run-info", default="{}", help="JSON object that identifies this run; every commit records it"
    )
    return parser


def _run_info(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise UserError("--run-info is not JSON", cause=str(error)) from error
    if not isinstance(facts, dict):
        raise UserError("--run-info is not a JSON object", hint='for example {"run_id": "manual"}')
    return facts


def to_sluicegate_error(error: Exception) -> SluicegateError:
    """Return our errors as they are, and any other as one without Java's stack: its first lines say what happened."""
    if isinstance(error, SluicegateError):
        return error
    if (of_store := store_errors.translate_error(error)) is not None:
        return of_store
    if (of_server := connect.lost_server_error(error)) is not None:
        return of_server
    text = str(error).split("JVM stacktrace")[0].split("\n\tat ")[0].strip()
    return SluicegateError(
        f"the job failed: {type(error).__name__}",
        cause="\n    ".join(text.splitlines()[:12]),
        hint="set SLUICEGATE_DEBUG=1 for the full stack trace; a new run continues after the last commit",
    )

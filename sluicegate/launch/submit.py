"""Submit one job by spark-submit; pass on its lines, and return its reports or raise its error."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from sluicegate import processes
from sluicegate.channel import Channel
from sluicegate.console import ignore_line
from sluicegate.errors import JobFailed, SluicegateError
from sluicegate.flow.report import COMMAND, UNREPORTED, ReportLines, RunReport
from sluicegate.launch import warm_job, warm_spark
from sluicegate.spark import spark_submit

if TYPE_CHECKING:
    from sluicegate.settings import Settings


# What the JVM prints at each start of Spark, whatever its log settings.
JVM_CHATTER = "WARNING: Using incubator modules"


def run_info() -> dict[str, str]:
    """Return the commit facts of a command's job: the user, and a unique run ID."""
    return {"run_id": f"{COMMAND} {secrets.token_hex(4)}"}


def submit(
    layer: str,
    pipeline: str,
    settings: Settings,
    facts: Mapping[str, Any],
    tell: Callable[[str], None],
    extra: Sequence[str] = (),
    take: Callable[[str], None] = ignore_line,
) -> RunReport:
    """Run a job with one report; see ``submit_all``."""
    return submit_all(layer, pipeline, settings, facts, tell, extra, take)[-1]


def submit_all(
    layer: str,
    pipeline: str,
    settings: Settings,
    facts: Mapping[str, Any],
    tell: Callable[[str], None],
    extra: Sequence[str] = (),
    take: Callable[[str], None] = ignore_line,
    warm_minutes: float = 0.0,
) -> list[RunReport]:
    """Run one job by spark-submit, or in a Spark that stays ready, and pass its lines on as they come.

    Args:
        layer: bronze, silver or gold, or the name of another job in ``spark_jobs/``.
        pipeline: name of the pipeline.
        settings: where things are.
        facts: who runs this, for the commit info.
        tell: takes each line that is for people.
        extra: arguments of that job alone.
        take: takes each of its messages that is neither a report nor its error, as ``WORD {json}``.
        warm_minutes: for which Spark stays ready after a job that a warm one can do; 0 for a Spark of its own.

    Returns:
        its reports: one, or one for each layer that it ran.

    Raises:
        SluicegateError: the job's error, with its code, exit code and the reports until then.
        JobFailed: the job ended without a report or an error.
        Stopped: this process got a signal to end, and the job has ended.
    """
    arguments = ["--run-info", json.dumps(dict(facts)), *extra]
    lines = ReportLines()
    error: list[str] = []  # the job's own error for people; the command prints it again, so it is not passed on
    tail: list[str] = []

    def take_message(sent: str) -> None:
        if not lines.take(sent):
            take(sent)

    with Channel() as channel, _start_job(layer, pipeline, settings, arguments, channel, warm_minutes, tell) as job:
        for line in channel.lines(job.stdout or (), take_message):
            if error or line.startswith("error["):
                error.append(line)
            elif not line.startswith(JVM_CHATTER):
                tail = [*tail, line][-20:]
                tell(line)
        code = job.wait()
    if code or lines.error is not None:
        raise _error_of(lines, code, layer, tail + error)
    for line in error:  # of a user's function, say, that prints what looks like an error
        tell(line)
    reports = list(map(RunReport.from_dict, lines.reports()))
    if lines.unread or not reports:
        # Its tables are committed: to call that a failure would have it run again.
        tell(f"warning: {UNREPORTED}")
        reports.append(RunReport(pipeline, layer, notes=[UNREPORTED]))
    return reports


@contextmanager
def _start_job(
    layer: str,
    pipeline: str,
    settings: Settings,
    arguments: Sequence[str],
    channel: Channel,
    warm_minutes: float,
    tell: Callable[[str], None],
) -> Iterator[subprocess.Popen[str] | warm_job.WarmJob]:
    """Start a job in a process group of its own, so that Ctrl-C and a kill reach the JVM and its Python alike."""
    command = spark_submit.submit_command(layer, pipeline, settings, arguments)
    if warm_minutes and warm_spark.can_serve(layer, settings):
        warm_arguments = spark_submit.job_arguments(pipeline, settings, arguments)
        warm = warm_job.start(warm_arguments, settings, channel.environment(), warm_minutes, tell)
        if warm is not None:
            with closing(warm), processes.end_job_on_error(warm):
                yield warm
            return
    job = subprocess.Popen(
        command,
        env={
            **spark_submit.job_env(layer, pipeline, settings), **processes.parent_environment(), **channel.environment()
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",  # the JVM may write in another encoding: one byte of its log would end the job
        start_new_session=True,
    )  # fmt: skip
    with processes.end_job_on_error(job):
        yield job


def _error_of(lines: ReportLines, code: int, layer: str, tail: list[str]) -> SluicegateError:
    before = list(map(RunReport.from_dict, lines.reports()))
    error = lines.error
    if error is None:
        until = f"after the report of {before[-1].layer}" if before else "and without a report"
        error = JobFailed(
            f"the {layer} job ended with exit code {code} {until}",
            cause="\n    ".join(tail[-8:]),
            hint="a new run continues after the last commit",
        )
    error.reports = before
    return error

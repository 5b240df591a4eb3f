"""``sluicegate test``."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, PipelineName, pass_settings, show_json
from sluicegate.console import say, warn
from sluicegate.errors import CaseError, CasesFailed, JobFailed, SluicegateError
from sluicegate.flow import report
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.tools.testing.case_run import CaseResult


@pass_settings("pipelines", "target")
def run_cases(
    pipeline: PipelineName,
    word: Annotated[
        str | None, typer.Option("-k", "--matching", help="Only cases whose name or file name contains this.")
    ] = None,
    case: Annotated[list[str], typer.Option("--case", help="Only the case with this name; repeatable.")] = NONE,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the lake and landing of each case, and print their paths.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Run the cases in the pipeline's folder tests/: given rows pass all layers, and tables must match.

    Each case has its own lake and landing in a temporary folder; one local Spark runs them all. Exit code 3
    if a table is not as expected, 2 if a case is invalid.

    Example: sluicegate test heart_rate -k late
    """
    from sluicegate.launch import submit
    from sluicegate.tools.testing.case_files import choose_cases, load

    # The target's own places are not used, and its variables need not be set where cases run.
    definition = api.load(pipeline, replace(settings, given=settings.given | {"lake", "landing", "master"}))
    chosen = choose_cases(load(definition), word, case)
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-test-"))
    results = _Results(len(chosen), as_json=as_json, keep=keep)
    extra = ["--folder", str(folder)]
    if word:
        extra += [f"--matching={word}"]
    extra += [f"--case={name}" for name in case]
    in_folder = replace(
        definition.settings,
        lake=str(folder / "lake"),
        landing=str(folder / "landing"),
        pipelines=settings.pipelines,
        master=_local_master(settings.master),
    )
    ended: SluicegateError | None = None
    try:
        if submit.submit("cases", pipeline, in_folder, submit.run_info(), warn, extra, results.take).unreported:
            raise JobFailed("the job did not report all cases", hint="run it again")
    except SluicegateError as error:
        if error.code not in (CasesFailed.code, CaseError.code):  # those say what each case has said already
            raise
        ended = error
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    results.end(pipeline)
    if ended:
        raise typer.Exit(ended.exit_code)


def _local_master(master: str) -> str:
    """Return a local Spark master: the folder of a case exists on this machine only."""
    if master.startswith("local"):
        return master
    return "local[*]"


@dataclass
class _Results:
    """Results of the cases that the job has reported so far."""

    expected: int
    as_json: bool
    keep: bool
    began: float = field(default_factory=time.monotonic)
    results: list[CaseResult] = field(default_factory=list)

    def take(self, message: str) -> None:
        """Record and print the result of a case, as reported by the job."""
        from sluicegate.tools.testing.case_run import CaseResult
        from sluicegate.tools.testing.show import console, show

        facts = report.facts_of(report.CASE, message)
        if facts is None:
            return
        result = CaseResult.from_dict(facts)
        if not self.keep:
            result.folder = None
        self.results.append(result)
        if not self.as_json:
            show(result, console(None if sys.stdout.isatty() else 200), keep=self.keep)
            sys.stdout.flush()

    def end(self, pipeline: str) -> None:
        states = [result.state for result in self.results]
        counts = {"passed": states.count("ok"), "failed": states.count("failed"), "mistakes": states.count("mistake")}
        whole = time.monotonic() - self.began
        cases = sum(result.seconds for result in self.results)
        if self.as_json:
            facts: dict[str, Any] = {"pipeline": pipeline, **counts, "seconds": whole}
            show_json({**facts, "cases": list(map(asdict, self.results))})
            return
        words = {"passed": "passed", "failed": "failed", "mistakes": "invalid"}
        sentence = ", ".join(f"{count} {words[kind]}" for kind, count in counts.items() if count)
        each = f"; {whole - cases:.1f} s to start and stop Spark, {cases / max(len(self.results), 1):.1f} s per case"
        say("", f"{sentence} in {whole:.1f} s{each}")

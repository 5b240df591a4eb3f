"""Where the seconds of a run go, by Spark's event log: ``python -m bench.run_phases [--input DIR] [--records N]``.

Profiled are the first load of the heart-rate pipeline, a run after one more file, each a command with a JVM of its own,
and a run with nothing new. A phase ends with the line that tells of a layer; of each the table has the seconds, those
in which a Spark job ran, the jobs, their tasks and the CPU seconds of these. What is left of the seconds is Python,
Spark's planning and compiling, and delta-rs. The event log costs a few hundredths of a second itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cases.files import land_files, land_one_more
from bench.sides import heart_rate
from sluicegate.definition import LAYERS

START = "start of Spark"
END = "end"


@dataclass
class Phase:
    """Part of a run.

    Attributes:
        name: the layer, or what comes before and after the layers.
        began: seconds since 1970.
        ended: likewise.
        jobs: beginning and end of each Spark job that began in it.
        tasks: number of tasks that ended in it.
        cpu: CPU seconds of these.
    """

    name: str
    began: float
    ended: float
    jobs: list[tuple[float, float]] = field(default_factory=list)
    tasks: int = 0
    cpu: float = 0.0

    @property
    def busy(self) -> float:
        """Seconds in which at least one of its jobs ran."""
        found, until = 0.0, self.began
        for began, ended in sorted(self.jobs):
            found += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return found


def profile_run(landing: Path, folder: Path) -> list[Phase]:
    """Phases of ``sluicegate run``."""
    logs = folder / "events"
    conf = folder / "conf"
    for made in (logs, conf):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    settings = {"enabled": "true", "dir": logs.as_uri(), "compress": "false", "rolling.enabled": "false"}
    lines = [f"spark.eventLog.{name} {value}\n" for name, value in settings.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines))
    began = time.time()
    moments = list(_lines(heart_rate.run_command(landing, folder), conf))
    phases = _phases(began, moments, time.time())
    for file in logs.iterdir():
        if file.is_file():
            _fill(phases, file)
    return phases


def _lines(command: Sequence[str], conf: Path) -> Iterator[tuple[float, str]]:
    """Lines that a command prints, with their times."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=heart_rate.ROOT,
        env=os.environ | {"SPARK_CONF_DIR": str(conf)},
    ) as process:  # fmt: skip
        said = []
        for line in process.stdout or ():
            said.append(line)
            yield time.time(), line
    if process.returncode:
        sys.exit("".join(said)[-3000:])


def _phases(began: float, moments: Sequence[tuple[float, str]], ended: float) -> list[Phase]:
    """Phases by the last line of each layer; where no layer has a line there is one phase."""
    last = {layer: max((at for at, line in moments if line.split()[:1] == [layer]), default=None) for layer in LAYERS}
    phases, since = [], began
    for layer, at in last.items():
        if at is not None:
            phases.append(Phase(layer, since, at))
            since = at
    return [*phases, Phase(END, since, ended)]


def _fill(phases: list[Phase], log: Path) -> None:
    """Puts the jobs and tasks of an event log into their phases, and the start of Spark before the first."""
    starts: dict[int, float] = {}
    for event in map(json.loads, log.read_text().splitlines()):
        match event["Event"]:
            case "SparkListenerApplicationStart":
                at = event["Timestamp"] / 1000
                phases.insert(0, Phase(START, phases[0].began, at))
                phases[1].began = at
            case "SparkListenerJobStart":
                starts[event["Job ID"]] = event["Submission Time"] / 1000
            case "SparkListenerJobEnd":
                began = starts[event["Job ID"]]
                _phase_at(phases, began).jobs.append((began, event["Completion Time"] / 1000))
            case "SparkListenerTaskEnd" if metrics := event.get("Task Metrics"):
                phase = _phase_at(phases, event["Task Info"]["Finish Time"] / 1000)
                phase.tasks += 1
                phase.cpu += metrics["Executor CPU Time"] / 1e9


def _phase_at(phases: Sequence[Phase], moment: float) -> Phase:
    return next((phase for phase in phases if moment <= phase.ended), phases[-1])


def table(runs: dict[str, list[Phase]]) -> str:
    """All runs as a Markdown table."""
    head = ("run", "phase", "seconds", "in Spark jobs", "jobs", "tasks", "CPU seconds of tasks")
    rows: list[tuple[Any, ...]] = []
    for run, phases in runs.items():
        rows += [
            (
                run,
                one.name,
                f"{one.ended - one.began:.1f}",
                f"{one.busy:.1f}",
                len(one.jobs),
                one.tasks,
                f"{one.cpu:.1f}",
            )
            for one in phases
        ]
        total = phases[-1].ended - phases[0].began
        rows.append((run, "**all**", f"**{total:.1f}**", f"{sum(one.busy for one in phases):.1f}",
                     sum(len(one.jobs) for one in phases), sum(one.tasks for one in phases),
                     f"{sum(one.cpu for one in phases):.1f}"))  # fmt: skip
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def main() -> None:
    """Profiles and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, help="landing folder with real files (default: simulated ones)")
    parser.add_argument("--records", type=int, default=1_000, help="records of the one more file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, landing = Path(scratch), Path(scratch) / "landing"
        if given.input:
            shutil.copytree(given.input, landing)
        else:
            land_files(landing, 12, 8_900)
        runs = {"first load": profile_run(landing, folder)}
        land_one_more(landing, given.records)
        runs[f"{given.records:,} new records"] = profile_run(landing, folder)
        runs["nothing new"] = profile_run(landing, folder)
    print(table(runs))


if __name__ == "__main__":
    main()

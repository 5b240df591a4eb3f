"""Measures all cases, ours against rivals in turn on this machine, and writes docs/bench: ``make bench``.

A side or a case that fails is put down with its reason, and the others go on. What is measured is written at once, so
a run that was stopped is continued by ``--resume``, which leaves out the cases that came to their end.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench import cases, measure, page
from bench.case import SCALES, SMALL, Absence, Case, Scene, Side
from bench.results import CaseResult, Figure, Results

ROOT = Path(__file__).resolve().parent.parent


def run_case(kind: type[Case], scene: Scene, rounds: int, results: Results) -> None:
    """Measures a case; whatever goes wrong becomes part of its result.

    Args:
        kind: the case.
        scene: what it is given.
        rounds: times each side has its turn.
        results: where what was measured is put down.
    """
    case = kind(scene)
    done = CaseResult(case.name, case.sentence, case.baseline, scene.scale, rounds, commit(), case.points)
    done.aims = case.aims()
    results.cases[case.name] = done
    try:
        sides = _open_sides(case, done)
        for number in range(rounds):
            for point in case.points:
                case.before(point, number)
                for side in measure.rotate_names([*sides], number if case.rotates else 0):
                    if done.absence_reason(point, side) is None:
                        _run_side(case, done, sides[side], point, number)
                        page.write(results, names())
                done.check(point, number)
            case.after(number)
        done.ended = True
    except Exception as error:
        done.error = f"{type(error).__name__}: {error}"
        print(f"{case.name}: {done.error}", flush=True)
    finally:
        scene.close()
        page.write(results, names())


def _open_sides(case: Case, done: CaseResult) -> dict[str, Side]:
    sides = [side for side in case.open() if not case.scene.only or _name(side) in case.scene.only]
    done.sides = [_name(side) for side in sides]
    for side in sides:
        if isinstance(side, Absence):
            done.leave_out(side)
    return {side.name: side for side in sides if isinstance(side, Side)}


def _name(side: Side | Absence) -> str:
    return side.side if isinstance(side, Absence) else side.name


def _run_side(case: Case, done: CaseResult, side: Side, point: str, number: int) -> None:
    try:
        side.ready(point, number)
        cost, rows = side.run(point, number)
    except Exception as error:
        done.leave_out(Absence(side.name, f"failed: {error}"), point)
        print(f"{case.name}, {point}, {side.name}: failed: {error}", flush=True)
        return
    done.figures.append(Figure(point, side.name, number, cost.seconds, cost.cpu, cost.peak, rows))
    print(f"{case.name}, {point}, round {number + 1}: {side.name} {cost.seconds:.2f} s", flush=True)


def names() -> list[str]:
    """Names of all cases, in order."""
    return [case.name for case in cases.ALL]


def commit() -> str:
    """The commit of the repository, with a plus sign if files are changed."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


def machine() -> dict[str, str]:
    """What figures depend on besides the program."""
    facts = {"when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "cores": str(os.cpu_count())}
    if hasattr(os, "sysconf"):
        facts["memory"] = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    if hasattr(os, "getloadavg"):
        facts["load when it began"] = f"{os.getloadavg()[0]:.1f}"
    facts |= {"Python": platform.python_version()}
    return facts | {name: version(name) for name in ("pyspark", "delta-spark", "deltalake", "duckdb")}


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", action="append", choices=names(), help="only this case; may be repeated")
    parser.add_argument("--side", action="append", metavar="NAME", help="only this side of a case; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="times each side has its turn (default: 5)")
    parser.add_argument(
        "--scale", choices=SCALES, default=SMALL, help="sizes: small to see that all works (default), or full"
    )
    parser.add_argument("--largest", type=float, default=math.inf, metavar="N", help="leave out sizes above N")
    parser.add_argument(
        "--input", type=Path, help="landing folder with recordings/ and patients/ (default: simulated files)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "bench", help="where results go (default: docs/bench)"
    )
    parser.add_argument("--scratch", type=Path, help="folder for scratch files (default: the system's)")
    parser.add_argument("--resume", action="store_true", help="leave out cases that came to their end at this scale")
    parser.add_argument("--write", action="store_true", help="measure nothing: make the page again from the figures")
    parser.add_argument("--list", action="store_true", help="print the cases")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what the command line says; exit code 1 if a case did not come to its end."""
    given = parse_arguments(argv)
    if given.list:
        for kind in cases.ALL:
            print(f"{kind.name}: {kind.sentence}")
        return 0
    results = Results.read(given.out)
    if given.write:
        page.write(results, names())
        return 0
    chosen = [kind for kind in cases.ALL if given.case is None or kind.name in given.case]
    if given.resume:
        chosen = [kind for kind in chosen if not _is_complete(results.cases.get(kind.name), given)]
    results.machine = machine()
    scratch = Path(tempfile.mkdtemp(prefix="sluicegate-bench-", dir=given.scratch))
    began = time.monotonic()
    try:
        for kind in chosen:
            (scratch / kind.name).mkdir()
            landing, log = given.input and given.input.resolve(), scratch / f"{kind.name}.log"
            log.touch()
            scene = Scene(scratch / kind.name, given.scale, landing, log, given.side or (), given.largest)
            run_case(kind, scene, given.rounds, results)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(chosen)} cases in {(time.monotonic() - began) / 60:.1f} minutes; see {given.out / 'README.md'}")
    return 0 if all(results.cases[kind.name].ended for kind in chosen) else 1


def _is_complete(found: CaseResult | None, given: argparse.Namespace) -> bool:
    return found is not None and found.ended and found.scale == given.scale and found.rounds >= given.rounds


if __name__ == "__main__":
    raise SystemExit(main())

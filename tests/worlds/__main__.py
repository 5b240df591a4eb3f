"""``python -m tests.worlds FIRST LAST [shaped]``: tries the worlds of these seeds and says what was not right there."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from sluicegate.flow import thresholds
from sluicegate.spark import session
from tests.support.techniques import by_lot
from tests.worlds.world import World, failures


def main() -> int:
    """Tries the worlds; 1 if any was not right."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    spark = session.session_inside("worlds")
    thresholds.SMALL = -1
    wrong, tried, strategies, techniques = 0, 0, Counter[str](), Counter[str]()
    for seed in range(first, last + 1):
        started = time.monotonic()
        lot = by_lot(pytest.MonkeyPatch(), seed)
        with tempfile.TemporaryDirectory(prefix="worlds-") as folder:
            try:
                problems = failures(
                    [seed], Path(folder), spark, shaped=sys.argv[3:] == ["shaped"], strategies=strategies
                )
            except Exception as error:  # the next seeds are tried all the same
                problems = [f"the world came to an end: {type(error).__name__}: {str(error)[:2000]}"]
        tried += 1
        techniques.update(lot.taken)
        wrong += bool(problems)
        print(f"seed {seed}: {len(problems)} wrong, {time.monotonic() - started:.0f} s", flush=True)
        for problem in problems:
            print(problem, flush=True)
    print(f"{tried} worlds, {wrong} with a difference; tables by strategy: {dict(strategies)}", flush=True)
    print(f"batches by technique: {dict(techniques)}", flush=True)
    return int(wrong > 0)


def show(seed: int) -> None:
    """Prints the queries of a world."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(seed, Path(folder), session.session_inside("worlds"))
        for text in world.texts.values():
            print(text.spark, "\n   ", text.duck)
        print("\n".join(line for line in world.told))


if __name__ == "__main__":
    sys.exit(main())

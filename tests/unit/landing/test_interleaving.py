"""Discoveries at the same time, in every order of their steps, on real Delta tables.

A step ends where a run is about to commit to the ledger, or has looked at the landing folder. Each run is a thread
that waits at these seams until the schedule lets it go on, so that exactly one of them runs at any time.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.definition import load
from sluicegate.lake import layout, tables
from sluicegate.landing import discovery, intake, ledger_index
from sluicegate.landing.file_states import LedgerAction
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable

pytestmark = pytest.mark.unit

NAME = "things"


class Place:
    """A landing folder with files of known times, and a lake, in a folder of their own."""

    def __init__(self, folder: Path, files: int, options: str = "") -> None:
        self.folder = folder
        (folder / "pipelines/orders").mkdir(parents=True)
        (folder / "pipelines/orders/pipeline.yaml").write_text(
            "name: orders\nbronze:\n  things: {path: '${landing}/things', format: json, schemaHints: id BIGINT, "
            f"settleSeconds: 0, maxFilesPerTrigger: 2{options}}}\n"
        )
        (folder / "landing/things").mkdir(parents=True)
        self.settings = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
        self.at = layout.Lake(self.settings.lake, "orders")
        self.landed: Counter[tuple[str, int, int]] = Counter()
        self.table = load("orders", self.settings).bronze[NAME]
        for number in range(files):
            self.land(number)

    def land(self, number: int) -> None:
        path = self.folder / "landing/things" / f"{number}.json"
        path.write_text("1" * number)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        self.landed[str(path), number, 1_700_000_000 + number] += 1

    def seen(self) -> tuple[int, int]:
        """What changes if anything does: the commits of the ledger, and the files that landed."""
        log = Path(self.at.ledger(NAME)) / "_delta_log"
        return len(list(log.glob("*.json"))), len(self.landed)

    def entries(self) -> list[dict[str, Any]]:
        ledger = tables.delta_table(self.at.ledger(NAME))
        assert ledger is not None
        return tables.dataset(ledger).to_table().to_pylist()

    def assert_right(self, action: str = LedgerAction.READ) -> None:
        """All files once; each chunk is the commit of its number, in order and no larger than asked; one table."""
        entries = self.entries()
        got = Counter(
            (e["path"], e["size"], int(e["modification_time"].timestamp())) for e in entries if e["action"] == action
        )
        assert got == self.landed
        ledger = tables.delta_table(self.at.ledger(NAME))
        assert ledger is not None
        commits = {}
        for version in range(ledger.version() + 1):
            log = Path(self.at.ledger(NAME)) / "_delta_log" / f"{version:020}.json"
            commits[version] = [json.loads(line) for line in log.read_text().splitlines()]
        metadata = [v for v, actions in commits.items() if any(action.get("metaData") for action in actions)]
        assert metadata == [0]
        of_chunk: dict[int, list[str]] = {}
        for entry in sorted(entries, key=lambda entry: entry["chunk"]):
            of_chunk.setdefault(entry["chunk"], []).append(entry["path"])
        for version, actions in commits.items():
            added = [action["add"] for action in actions if action.get("add")]
            new = sum(1 for add in added if add["dataChange"])
            assert new == (1 if version in of_chunk else 0), f"version {version} has {new} files of its own"
        if action == LedgerAction.READ:
            assert all(len(paths) <= 2 for paths in of_chunk.values())


class Run(threading.Thread):
    """One discovery, which goes on to its next seam each time it is let."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self.place = place
        self.go, self.stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        self.go.acquire()
        try:
            intake.enter(NAME, self.place.table, self.place.at, self._look)
        except BaseException as failure:
            self.failure = failure
        self.over = True
        self.stopped.release()

    def _look(self, name: str, table: BronzeTable, at: layout.Lake) -> discovery.Discovery:
        found = discovery.discover(name, table, at)
        self.pause()
        return found

    def pause(self) -> None:
        self.stopped.release()
        self.go.acquire()

    def step(self) -> None:
        self.go.release()
        assert self.stopped.acquire(timeout=60), "the run hangs"


@pytest.fixture(autouse=True)
def seams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each fault point a seam for the runs that are threads here."""

    def point(name: str) -> None:
        current = threading.current_thread()
        if isinstance(current, Run) and name == "ledger.before_commit":
            current.pause()

    monkeypatch.setattr(_faults, "point", point)


class Arrival(Run):
    """A file that lands, as one step."""

    def run(self) -> None:
        self.go.acquire()
        self.place.land(7)
        self.over = True
        self.stopped.release()


Choose = Callable[[int, list[int]], int]
"""Which run goes on: by the number of steps so far, and the runs that are not over."""


def play(place: Place, kinds: Sequence[type[Run]], choose: Choose) -> tuple[list[int], list[list[int]], list[bool]]:
    """Plays one schedule.

    Returns:
        the schedule that was played, and at each of its steps the runs that could have gone on, and whether it changed
        anything that another run sees.
    """
    runs = [kind(place) for kind in kinds]
    played: list[int] = []
    could: list[list[int]] = []
    changed: list[bool] = []
    while alive := [number for number, run in enumerate(runs) if not run.over]:
        chosen = choose(len(played), alive)
        could.append(alive)
        before = place.seen()
        runs[chosen].step()
        changed.append(place.seen() != before)
        played.append(chosen)
    for run in runs:
        run.join(60)
        assert run.failure is None, (played, run.failure)
    return played, could, changed


def schedules(make: Callable[[], Place], kinds: Sequence[type[Run]]) -> Iterator[Place]:
    """Plays every schedule there is, by depth first, each on a place of its own.

    Of two that differ in nothing but the order of two steps that change nothing, only one is followed further: whatever
    comes after them sees the same.
    """
    # Runs are alike: which of them begins makes no difference.
    waiting = [[number] for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    while waiting:
        prefix = waiting.pop()

        def choose(step: int, alive: list[int], prefix: list[int] = prefix) -> int:
            return prefix[step] if step < len(prefix) else alive[0]

        place = make()
        played, could, changed = play(place, kinds, choose)
        yield place
        swapped = (
            step + 2
            for step, (one, after) in enumerate(pairwise(played))
            if after < one and not changed[step] and not changed[step + 1]
        )
        for step in range(len(prefix), next(swapped, len(played))):
            waiting += [[*played[:step], other] for other in could[step] if other != played[step]]


@pytest.fixture
def places(tmp_path: Path) -> Callable[..., Callable[[], Place]]:
    """Gives a maker of places."""

    numbers = count()

    def maker(**options: Any) -> Callable[[], Place]:
        def make() -> Place:
            return Place(tmp_path / str(next(numbers)), **options)

        return make

    return maker


def test_two_first_runs_in_every_order(places: Callable[..., Callable[[], Place]]) -> None:
    played = 0
    for place in schedules(places(files=3), [Run, Run]):
        place.assert_right()
        played += 1
    assert played > 20


def test_three_first_runs_in_many_orders(places: Callable[..., Callable[[], Place]]) -> None:
    """All orders take minutes: here are some, drawn the same way each time."""
    chance = random.Random(4)
    for _ in range(60):
        place = places(files=3)()
        play(place, [Run, Run, Run], lambda _step, alive: chance.choice(alive))
        place.assert_right()


def test_two_first_runs_that_leave_out_what_is_there(places: Callable[..., Callable[[], Place]]) -> None:
    for place in schedules(places(files=3, options=", includeExistingFiles: false"), [Run, Run]):
        place.assert_right(LedgerAction.SKIP)
        assert {entry["chunk"] for entry in place.entries()} == {0}


def test_two_runs_and_a_file_that_lands_meanwhile_with_a_ledger_to_put_together(
    places: Callable[..., Callable[[], Place]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MANY_FILES", 2)
    made = places(files=3)

    def make() -> Place:
        place = made()
        intake.enter(NAME, place.table, place.at)
        place.land(5)
        return place

    for place in schedules(make, [Run, Run, Arrival]):
        intake.enter(NAME, place.table, place.at)  # what landed after both had looked
        place.assert_right()
        ledger = tables.delta_table(place.at.ledger(NAME))
        assert ledger is not None
        copied = ledger_index.entries(ledger, "", "\U0010ffff")
        assert Counter(copied["path"].to_pylist()) == Counter(path for path, _, _ in place.landed)
        assert len(ledger.file_uris()) < ledger.version() + 1


@pytest.mark.parametrize("existing", [True, False])
def test_a_run_killed_at_any_step_and_the_next(
    places: Callable[..., Callable[[], Place]], monkeypatch: pytest.MonkeyPatch, existing: bool
) -> None:
    """Killed at its n-th fault point, for every n; before that the ledger had chunks, or there was none."""
    monkeypatch.setattr(tables, "MANY_FILES", 2)
    kills = 0
    for last in range(1, 100):
        place = places(files=5)()
        if existing:
            intake.enter(NAME, place.table, place.at)
            for number in range(5, 10):
                place.land(number)
        passed: list[str] = []

        def point(name: str, passed: list[str] = passed, last: int = last) -> None:
            passed.append(name)
            if len(passed) == last:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(_faults, "point", point)
            try:
                intake.enter(NAME, place.table, place.at)
            except KeyboardInterrupt:
                kills += 1
        intake.enter(NAME, place.table, place.at)
        place.assert_right()
        if len(passed) < last:
            break
    assert kills == 6  # before and after each of three chunks


def test_a_run_whose_chunks_another_one_comes_between_looks_again(
    places: Callable[..., Callable[[], Place]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a chunk it goes on from its own commit. From the newest one it would enter the other's files once more."""
    place = places(files=6)()
    commits: list[str] = []

    def point(name: str) -> None:
        if name != "ledger.after_commit":
            return
        commits.append(name)
        if len(commits) == 1:
            intake.enter(NAME, place.table, place.at)  # all that the first chunk has left

    monkeypatch.setattr(_faults, "point", point)
    intake.enter(NAME, place.table, place.at)
    assert len(commits) == 3
    place.assert_right()

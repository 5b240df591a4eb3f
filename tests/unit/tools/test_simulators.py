"""The simulator: files like those of real trackers, the same by seed, each going on where the former one ended."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluicegate.errors import UserError
from sluicegate.tools.simulators import NONE, SIMULATIONS, Faults, Landed, Simulator, engine
from sluicegate.tools.simulators import heart_rate as simulator
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


def simulate(
    landing: str,
    files: int = 1,
    records: int = 1000,
    seed: int | None = None,
    pipeline: str = "heart_rate",
    faults: Faults = NONE,
    begin: datetime | None = None,
) -> Iterator[Landed]:
    return Simulator(pipeline, landing, records, seed, faults, begin).land(files)


def readings(landed: Landed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(landed.path).read_text())
    return found


def of(landed: Landed, fault: str) -> int:
    return landed.faults.get(fault, 0)


def patients(landing: Path) -> dict[int, str]:
    with (landing / "patients" / "patients.csv").open() as file:
        return {int(row["mrn"]): row["name"] for row in csv.DictReader(file)}


def contents(landing: Path) -> dict[str, bytes]:
    return {str(p.relative_to(landing)): p.read_bytes() for p in sorted(landing.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Landed]]:
    """A landing with some three weeks of recordings, in two files."""
    landing = tmp_path_factory.mktemp("landing")
    return landing, list(simulate(str(landing), files=2, records=10_000, seed=3))


def test_a_file_is_a_multi_line_array_of_typed_records(tmp_path: Path) -> None:
    [landed] = simulate(str(tmp_path), records=50, seed=1)
    text = Path(landed.path).read_text()
    assert text.startswith("[\n")
    assert text.count("\n") == 52
    for reading in json.loads(text):
        assert list(reading) == ["device_id", "mrn", "time", "heartrate"]
        assert [type(value) for value in reading.values()] == [int, int, float, float]


def test_what_is_said_of_a_file_is_true(weeks: tuple[Path, list[Landed]]) -> None:
    landing, files = weeks
    known = patients(landing)
    for landed in files:
        found = readings(landed)
        assert landed.records == len(found) == 10_000
        assert landed.first == datetime.fromtimestamp(found[0]["time"], UTC)
        assert landed.last == datetime.fromtimestamp(found[-1]["time"], UTC)
        assert of(landed, "invalid") == sum(reading["heartrate"] <= 0 for reading in found) == pytest.approx(30, abs=1)
        assert (
            of(landed, "unknown") == sum(reading["mrn"] not in known for reading in found) == pytest.approx(40, abs=1)
        )


def test_a_device_belongs_to_one_patient_and_some_patients_have_two(weeks: tuple[Path, list[Landed]]) -> None:
    landing, files = weeks
    wearers: dict[int, set[int]] = defaultdict(set)
    for reading in itertools.chain.from_iterable(map(readings, files)):
        wearers[reading["device_id"]].add(reading["mrn"])
    assert {len(mrns) for mrns in wearers.values()} == {1}
    worn = [next(iter(mrns)) for mrns in wearers.values()]
    assert len(patients(landing)) >= 5
    assert set(worn) > set(patients(landing))
    assert len(worn) > len(set(worn))


def test_time_goes_on_from_file_to_file_and_no_device_reads_twice_at_a_time(weeks: tuple[Path, list[Landed]]) -> None:
    _, files = weeks
    found = list(itertools.chain.from_iterable(map(readings, files)))
    times = [reading["time"] for reading in found]
    assert all(a < b for a, b in itertools.pairwise(times))
    assert len({(reading["device_id"], reading["time"]) for reading in found}) == len(found)
    assert files[0].last < files[1].first
    assert (files[1].first - files[0].last).total_seconds() < simulator.EVERY


def test_hearts_beat_slower_at_night_and_faster_in_exercise(weeks: tuple[Path, list[Landed]]) -> None:
    by_hour: dict[int, list[float]] = defaultdict(list)
    for reading in itertools.chain.from_iterable(map(readings, weeks[1])):
        if reading["heartrate"] > 0:
            by_hour[datetime.fromtimestamp(reading["time"], UTC).hour].append(reading["heartrate"])
    night = [rate for hour in (1, 2, 3, 4) for rate in by_hour[hour]]
    day = [rate for hour in (11, 12, 13, 14, 15, 16) for rate in by_hour[hour]]
    assert 40 < statistics.mean(night) < 70
    assert statistics.mean(day) > statistics.mean(night) + 15
    assert max(day) > 130
    assert max(day) < 220
    assert max(night) < 110


def test_the_same_seed_lands_the_same_bytes(tmp_path: Path) -> None:
    list(simulate(str(tmp_path / "a"), files=3, records=200, seed=5))
    list(simulate(str(tmp_path / "b"), files=3, records=200, seed=5))
    list(simulate(str(tmp_path / "c"), files=3, records=200, seed=6))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a").keys() == contents(tmp_path / "c").keys()
    assert contents(tmp_path / "a") != contents(tmp_path / "c")


def test_without_a_seed_no_two_landings_are_the_same(tmp_path: Path) -> None:
    list(simulate(str(tmp_path / "a")))
    list(simulate(str(tmp_path / "b")))
    assert contents(tmp_path / "a") != contents(tmp_path / "b")


def test_one_by_one_is_the_same_as_all_at_once(tmp_path: Path) -> None:
    list(simulate(str(tmp_path / "a"), files=4, records=200, seed=5))
    for _ in range(4):
        list(simulate(str(tmp_path / "b"), records=200, seed=5))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_files_are_numbered_on_and_their_names_sort_in_time(tmp_path: Path) -> None:
    files = list(simulate(str(tmp_path), files=12, records=5, seed=1))
    assert Path(files[0].path).name == "recordings-000001.json"
    assert sorted(files, key=lambda landed: landed.path) == sorted(files, key=lambda landed: landed.first) == files


def test_the_first_reading_goes_on_from_the_newest_file_that_has_one(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "recordings-000041.json").write_text(json.dumps([{"time": 1e9 + 5.0}, {"time": 1e9}]))
    (folder / "recordings-000042.json").write_text("[]")
    (folder / "others.json").write_text("not ours")
    [landed] = simulate(str(tmp_path), seed=1)
    assert Path(landed.path).name == "recordings-000043.json"
    assert 0 < landed.first.timestamp() - (1e9 + 5.0) < simulator.EVERY


def test_patients_who_are_there_already_are_used_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "patients" / "patients.csv"
    file.parent.mkdir()
    file.write_bytes(b"name,mrn\r\nAda,7\r\nBo,8\r\n")
    [landed] = simulate(str(tmp_path), records=1000, seed=1)
    assert file.read_bytes() == b"name,mrn\r\nAda,7\r\nBo,8\r\n"
    mrns = {reading["mrn"] for reading in readings(landed)}
    assert mrns > {7, 8}
    assert len(mrns) == 2 + simulator.STRANGERS
    assert of(landed, "unknown") == sum(reading["mrn"] not in (7, 8) for reading in readings(landed))


def test_a_file_appears_whole_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    replace = os.replace

    def watched(part: Path, path: Path) -> None:
        assert part.parent == path.parent
        assert part.name == f".{path.name}.tmp"
        assert not path.exists()
        seen.append((path.name, part.read_bytes()))
        replace(part, path)

    monkeypatch.setattr(os, "replace", watched)
    list(simulate(str(tmp_path), files=2, records=20, seed=1))
    assert [name for name, _ in seen] == ["patients.csv", "recordings-000001.json", "recordings-000002.json"]
    assert sorted(data for _, data in seen) == sorted(contents(tmp_path).values())


def test_what_a_killed_simulator_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / ".recordings-000001.json.tmp").write_text("[half")
    list(simulate(str(tmp_path), records=20, seed=1))
    assert os.listdir(tmp_path / "recordings") == ["recordings-000001.json"]


def test_two_simulators_at_once_do_not_write_over_each_other(tmp_path: Path) -> None:
    def land() -> None:
        list(simulate(str(tmp_path), files=10, records=50, seed=1))

    threads = [threading.Thread(target=land) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [
        reading["time"] for p in sorted((tmp_path / "recordings").iterdir()) for reading in json.loads(p.read_text())
    ]
    assert len(times) == 3 * 10 * 50
    assert times == sorted(times)


def test_continuously_lands_a_file_at_a_time_until_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    slept = []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    landing = Simulator("heart_rate", str(tmp_path / "a"), 20, seed=9).land_continuously(2.5)
    assert 0 <= next(landing).first.timestamp() - engine.BEGIN < simulator.EVERY
    assert slept == []
    next(landing)
    now += 1.0  # the reader takes a second: the next file comes a second sooner after
    next(landing)
    assert slept == [2.5, 1.5]
    list(simulate(str(tmp_path / "b"), files=3, records=20, seed=9))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("records", [1, 2, 3])
def test_even_the_smallest_files_are_sound(tmp_path: Path, records: int) -> None:
    for landed in simulate(str(tmp_path), files=100, records=records, seed=1):
        assert landed.records == records
        assert of(landed, "invalid") + of(landed, "unknown") <= records


@pytest.mark.parametrize("uri", ["s3://bucket/landing", "file:///tmp/landing"])
def test_a_uri_is_refused(uri: str) -> None:
    with pytest.raises(UserError, match="local folder only") as caught:
        simulate(uri)
    assert caught.value.hint
    with pytest.raises(UserError, match="local folder only"):
        Simulator("heart_rate", uri).land_continuously(1.0)


def test_senseless_numbers_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    with pytest.raises(UserError, match="0 files"):
        simulate(str(landing), files=0)
    with pytest.raises(UserError, match="-1 records"):
        simulate(str(landing), records=-1)
    for every in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="every"):
            Simulator("heart_rate", str(landing)).land_continuously(every)
    assert not landing.exists()


def test_a_landing_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("")
    with pytest.raises(UserError, match="cannot land files in"):
        list(simulate(str(tmp_path / "landing")))


@pytest.mark.parametrize("text", ["", "[{", "7", '["a"]', '[{"heartrate": 1}]', '[{"time": "noon"}]'])
def test_a_former_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    list(simulate(str(tmp_path), files=2, records=5))
    last = tmp_path / "recordings" / "recordings-000002.json"
    last.write_text(text)
    with pytest.raises(UserError, match=r"recordings-000002\.json is not a file of recordings"):
        list(simulate(str(tmp_path)))


@pytest.mark.parametrize("text", ["", "mrn,name\n", "id,name\n1,Ada\n", "mrn,name\nx,Ada\n"])
def test_patients_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "patients" / "patients.csv"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UserError, match=r"patients\.csv has no patients"):
        list(simulate(str(tmp_path)))


@pytest.mark.parametrize("name", ["heart_rate", "online_school", "retail"])
def test_the_samples_in_the_repository_are_made_by_the_command_beside_them(tmp_path: Path, name: str) -> None:
    text = (ROOT / "data" / "README.md").read_text()
    asked = re.search(rf"simulate {name} --landing data/{name} --files (\d+) --records (\d+) --seed 1", text)
    assert asked
    list(simulate(str(tmp_path), int(asked[1]), int(asked[2]), 1, name))
    assert contents(ROOT / "data" / name) == contents(tmp_path)


# The other pipelines, and what goes wrong on request

KINDS = {
    "heart_rate": {"recordings"},
    "online_school": {"students", "enrollments"},
    "retail": {"products", "customers", "purchase_orders", "inventory_movements", "orders"},
}
FACTS = {"recordings", "enrollments", "orders", "purchase_orders", "inventory_movements"}


def lines(landed: Landed) -> list[dict[str, Any] | None]:
    """The records of a file; None for each that is cut off."""
    text = Path(landed.path).read_text()
    found: list[dict[str, Any] | None] = []
    for line in json.loads(text) if text.startswith("[") else text.splitlines():
        try:
            found.append(line if isinstance(line, dict) else json.loads(line))
        except ValueError:
            found.append(None)
    return found


def kind_of(landed: Landed) -> str:
    return Path(landed.path).parent.name


@pytest.mark.parametrize("name", KINDS)
def test_every_simulator_is_the_same_by_seed_one_by_one_or_at_once(tmp_path: Path, name: str) -> None:
    some = Faults(drift=True, duplicates=0.1, bad=0.1, late=0.1)
    list(simulate(str(tmp_path / "a"), 3, 50, 7, name, some))
    one_by_one = Simulator(name, str(tmp_path / "b"), 50, 7, some)
    for _ in range(3):
        assert {kind_of(landed) for landed in one_by_one.load()} == KINDS[name]
    list(simulate(str(tmp_path / "c"), 3, 50, 8, name, some))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a").keys() == contents(tmp_path / "c").keys()
    assert contents(tmp_path / "a") != contents(tmp_path / "c")


@pytest.mark.parametrize("name", KINDS)
def test_a_landing_begins_at_a_time_of_choice_and_goes_on_from_there(tmp_path: Path, name: str) -> None:
    begin = datetime(2020, 1, 17, tzinfo=UTC)
    simulated = Simulator(name, str(tmp_path), 50, 1, begin=begin)
    first = [landed for landed in simulated.load() if landed.first]
    assert all(0 <= (landed.first - begin).total_seconds() < simulator.EVERY for landed in first)
    more = [landed for landed in simulate(str(tmp_path), 2, 50, 1, name) if landed.first]
    others = [
        landed for landed in simulate(str(tmp_path), 1, 50, 1, name, begin=begin - timedelta(days=9)) if landed.first
    ]
    for kind in KINDS[name] & FACTS:
        files = [landed for landed in [*first, *more, *others] if kind_of(landed) == kind]
        assert len(files) == 4
        for one, following in itertools.pairwise(files):
            assert timedelta(0) < following.first - one.last < timedelta(hours=12)
    updated = {line["updated"][:13] for file in tmp_path.rglob("*-000001.json") for line in lines_of(file)}
    assert updated <= {"2020-01-17T00"}
    assert bool(updated) is (name != "heart_rate")


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of a dimension."""
    if file.parent.name in ("students", "products", "customers"):
        yield from map(json.loads, file.read_text().splitlines())


@pytest.mark.parametrize("name", KINDS)
def test_the_usual_begin_gives_the_same_bytes_if_it_is_named(tmp_path: Path, name: str) -> None:
    list(simulate(str(tmp_path / "a"), 2, 50, 1, name))
    list(simulate(str(tmp_path / "b"), 2, 50, 1, name, begin=datetime(2025, 3, 3, 6)))
    list(simulate(str(tmp_path / "c"), 2, 50, 1, name, begin=datetime(2025, 3, 3, 6, tzinfo=UTC)))
    assert contents(tmp_path / "a") == contents(tmp_path / "b") == contents(tmp_path / "c")


@pytest.mark.parametrize("name", KINDS)
def test_without_faults_files_have_as_many_records_and_no_key_twice(tmp_path: Path, name: str) -> None:
    facts = [landed for landed in simulate(str(tmp_path), 3, 40, 1, name) if kind_of(landed) in FACTS]
    assert {landed.records for landed in facts} == {40}
    for kind in KINDS[name] & FACTS:
        found = [one for landed in facts if kind_of(landed) == kind for one in lines(landed)]
        keys = {
            (one["device_id"], one["time"]) if kind == "recordings" else next(iter(one.values()))
            for one in found
            if one
        }
        assert len(keys) == len(found) == 120
        times = [landed.first for landed in facts if kind_of(landed) == kind]
        assert times == sorted(times, key=lambda first: first or datetime.max)
        assert not any(set(landed.faults) - {"invalid", "unknown"} for landed in facts)


@pytest.mark.parametrize("name", KINDS)
def test_each_fault_is_there_as_often_as_is_said(tmp_path: Path, name: str) -> None:
    clean = [f for f in simulate(str(tmp_path / "clean"), 1, 200, 3, name) if kind_of(f) in FACTS]
    wrong = [
        f
        for f in simulate(str(tmp_path / "wrong"), 1, 200, 3, name, Faults(True, duplicates=0.1, bad=0.05, late=0.1))
        if kind_of(f) in FACTS
    ]
    number = "heartrate" if name == "heart_rate" else "quantity"
    for before, after in zip(clean, wrong, strict=True):
        found = lines(after)
        assert after.records == len(found)
        assert of(after, "duplicates") == len(found) - 200 == pytest.approx(20, abs=1)
        told = found[:200]
        assert of(after, "bad") == sum(one is None or one[number] in ("n/a", None) for one in told)
        assert of(after, "bad") == pytest.approx(10, abs=1)
        assert all(one is None or set(one) > set(first or ()) for one, first in zip(told, lines(before), strict=True))
        assert of(after, "late") == pytest.approx(20, abs=1)
        moved = ("time", "product_id", "ordered_at", "moved_at")
        pairs = zip(told, lines(before), strict=True)
        late = [one for one, first in pairs if one and first and any(one.get(n) != first.get(n) for n in moved)]
        if name != "online_school":
            assert 0 < len(late) <= of(after, "late")


def test_late_enrollments_are_of_students_who_are_told_of_next(tmp_path: Path) -> None:
    landed = list(simulate(str(tmp_path), 2, 100, 1, "online_school", Faults(late=0.1)))
    students = [{one["student_id"] for one in lines(file) if one} for file in landed if kind_of(file) == "students"]
    first = next(file for file in landed if kind_of(file) == "enrollments")
    unknown = [one["student_id"] for one in lines(first) if one and one["student_id"] not in students[0]]
    assert len(unknown) == of(first, "late") == pytest.approx(10, abs=1)
    assert set(unknown) <= students[1]


def test_load_goes_on_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    landed = Simulator("retail", str(tmp_path), records=5, seed=1).load(continuous=True, every=0.0)
    assert len(landed) == 3 * len(KINDS["retail"])
    assert all(Path(file.path).exists() for file in landed)


def test_what_cannot_be_simulated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no simulator for hart_rate") as caught:
        simulate(str(tmp_path), pipeline="hart_rate")
    assert "heart_rate" in str(caught.value.hint)
    with pytest.raises(UserError, match="late must be a share"):
        simulate(str(tmp_path), faults=Faults(late=1.5))
    assert list(tmp_path.iterdir()) == []


def test_every_pipeline_that_reads_files_has_a_simulator() -> None:
    reads_files = {
        file.parent.name
        for file in (ROOT / "pipelines").glob("*/pipeline.yaml")
        if "format: delta" not in file.read_text()
    }
    assert set(SIMULATIONS) == reads_files

"""Benches measure what they say: rounds in turn, ratios within a round, the same rows; and what failed is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from bench import __main__ as bench
from bench import cases, measure, page
from bench.case import FULL, SCALES, SMALL, Absence, Aim, Case, Scene, Side
from bench.cases import many_tables
from bench.measure import Cost
from bench.results import PAGE, PLOT, RESULTS, TABLE, CaseResult, Figure, Results
from sluicegate.definition import LAYERS, load
from sluicegate.monitor import plan

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]


class Race(Case):
    """Three sides with known seconds; one of them breaks, and one leaves too few rows."""

    name: ClassVar[str] = "race"
    sentence: ClassVar[str] = "Nothing at all."
    baseline: ClassVar[str] = "theirs"
    turns: ClassVar[list[tuple[str, int]]] = []

    @property
    def points(self) -> list[str]:
        return ["short", "long"]

    def open(self) -> Sequence[Side | Absence]:
        def side(name: str, seconds: list[float], rows: int = 7) -> Side:
            def run(point: str, number: int) -> tuple[Cost, int]:
                self.turns.append((name, number))
                return Cost(seconds[number] * (3 if point == "long" else 1), 2.0, 100.0), rows

            return Side(name, run)

        def broken(point: str, number: int) -> tuple[Cost, int]:
            raise measure.CommandFailed("it said | no\nand more")

        return [side("ours", [1.0, 4.0, 2.0]), side("theirs", [2.0, 4.0, 8.0]), side("other", [0.1] * 3, rows=6),
                Side("broken", broken), Absence("gone", "it is not installed")]  # fmt: skip

    def aims(self) -> list[Aim]:
        return [
            Aim("short", "ours", 0.5, "theirs"),
            Aim("short", "ours", 1.9),
            Aim("long", "ours", 3.0, of_point="short"),
            Aim("short", "other", 1.0, "theirs"),
        ]


@pytest.fixture
def measured(tmp_path: Path) -> Results:
    """Three rounds of the race."""
    Race.turns.clear()
    results = Results(tmp_path / "out")
    (tmp_path / "race").mkdir()
    bench.run_case(Race, Scene(tmp_path / "race", SMALL, None, tmp_path / "log"), 3, results)
    return results


def test_rounds_begin_with_one_side_after_the_other(measured: Results) -> None:
    first = [next(name for name, number in Race.turns if number == round_) for round_ in range(3)]
    assert first == ["ours", "theirs", "ours"]  # "other" was to be the third's, but has been left out by then


def test_ratios_are_of_one_round_and_aims_are_held_against_them(measured: Results) -> None:
    found = [(aim.point, aim.side, figure) for _, aim, figure in measured.aims()]
    # 1/2, 4/4 and 2/8 have the median 0.5; the ratio of the medians would be 2/4.
    assert found == [("short", "ours", 0.5), ("short", "ours", 2.0), ("long", "ours", 3.0), ("short", "other", None)]
    assert measured.cases["race"].ended
    text = page.page(measured)
    assert "| race | short | ours | at most 0.5 × theirs | 0.50 | met |" in text
    assert "| race | short | ours | at most 1.9 s | 2.00 | missed |" in text
    assert "| race | short | other | at most 1 × theirs |  | not measured |" in text


def test_a_side_that_fails_or_leaves_other_rows_has_no_figures_but_its_reason(measured: Results) -> None:
    lines = page.table(measured).splitlines()
    assert lines[0].startswith("case,at,side,seconds,least seconds,most seconds,ratio,growth,")
    assert len(lines) == 1 + 2 * 5  # each side at each point
    assert "race,long,ours,6.00,3.00,12.0,0.50,3.00,2.00,100,7," in lines
    assert 'race,short,other,,,,,,,,,"its table has 6 rows, and that of ours 7"' in lines
    assert "race,short,broken,,,,,,,,,failed: it said | no and more" in lines
    assert "race,long,gone,,,,,,,,,it is not installed" in lines


def test_the_page_has_the_seconds_of_each_side_and_why_some_have_none(measured: Results) -> None:
    text = page.page(measured)
    assert "| race | short | long |\n| --- | --- | --- |\n| ours | 2.00 | 6.00 |\n| theirs | 4.00 | 12.0 |\n\n" in text
    assert "- other (short, long): its table has 6 rows, and that of ours 7\n" in text
    assert "- gone: it is not installed\n" in text


def test_numbers_of_the_table_have_no_commas(tmp_path: Path) -> None:
    figure = Figure("short", "ours", 0, 1234.0, 5678.0, 2048.0, 1_000_000)
    race = CaseResult("race", "Nothing.", "ours", SMALL, 1, points=["short"], sides=["ours"], figures=[figure])
    assert "race,short,ours,1234,1234,1234,1.00,,5678,2048,1000000," in page.table(
        Results(tmp_path, cases={"race": race})
    )


def test_the_page_and_the_plot_are_made_again_from_the_figures(measured: Results) -> None:
    written = {name: (measured.folder / name).read_text() for name in (RESULTS, PAGE, TABLE, PLOT)}
    assert bench.main(["--write", "--out", str(measured.folder)]) == 0
    assert {name: (measured.folder / name).read_text() for name in written} == written
    assert written[PLOT].count("<rect") == 1 + 2 * 2  # the page, and two sides at two points
    assert len(json.loads(written[RESULTS])["cases"][0]["figures"]) == 2 * 2 * 3 + 2


def test_the_committed_page_is_that_of_the_committed_figures() -> None:
    folder = ROOT / "docs" / "bench"
    results = Results.read(folder)
    assert results.cases
    assert page.page(results) == (folder / PAGE).read_text()
    assert page.table(results) == (folder / TABLE).read_text()
    assert {*results.cases} <= {kind.name for kind in cases.ALL}


@pytest.mark.parametrize("scale", SCALES)
def test_cases_have_names_and_points_of_their_own(scale: str, tmp_path: Path) -> None:
    found = [kind(Scene(tmp_path, scale, None, tmp_path / "log")) for kind in cases.ALL]
    assert len({case.name for case in found}) == len(found) > 5
    for case in found:
        points = case.points
        assert len({*points}) == len(points) > 0
        assert all(aim.point in points and aim.of_point in (None, *points) for aim in case.aims()), case.name


def test_sizes_above_the_largest_are_left_out(tmp_path: Path) -> None:
    kind = next(kind for kind in cases.ALL if kind.name == "groups")
    points = {
        most: kind(Scene(tmp_path, SMALL, None, tmp_path / "log", largest=most)).points for most in (5_000, 4_999)
    }
    assert points == {5_000: ["100 groups", "5,000 groups"], 4_999: ["100 groups"]}


def test_each_source_of_many_has_a_table_in_each_layer_and_a_file_that_settled(tmp_path: Path) -> None:
    many_tables.write_pipeline(tmp_path, 3)
    settings = many_tables.settings_of(tmp_path)
    pipeline = load(many_tables.PIPELINE, settings)
    assert [len(pipeline.names(layer)) for layer in LAYERS] == [3, 3, 3]
    assert plan.pending(pipeline, settings).late_layers == [*LAYERS]


def test_what_a_command_costs_has_the_processes_that_it_starts(tmp_path: Path) -> None:
    spin = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}], check=True)"
    cost = measure.run([sys.executable, "-c", script], tmp_path / "log")
    assert cost.seconds >= 0.3
    assert cost.cpu is None or cost.cpu >= 0.3
    with pytest.raises(measure.CommandFailed, match="no such thing"):
        measure.run([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path / "log")


def test_an_unfinished_case_is_measured_again_and_an_ended_one_is_left(measured: Results) -> None:
    of = measured.cases["race"]
    given = bench.parse_arguments(["--rounds", "3"])
    assert bench._is_complete(of, given)
    assert not bench._is_complete(of, bench.parse_arguments(["--rounds", "4"]))
    assert not bench._is_complete(of, bench.parse_arguments(["--rounds", "3", "--scale", FULL]))
    assert not bench._is_complete(None, given)

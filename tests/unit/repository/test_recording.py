"""The recording of ``make try`` in the README: how it is drawn, and that it is of the run that README shows.

That it has what a run prints is held by tests/e2e/test_demo.py.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from scripts import recording
from tests.conftest import ROOT
from tests.support.pages import shows
from tests.unit.repository.test_readme import block

pytestmark = pytest.mark.unit

DRAWN = recording.PICTURE.read_text()


def frames(drawn: str, name: str) -> list[tuple[float, int]]:
    """The moments of a motion, in percent, with the pixels by which the thing is down then."""
    [steps] = re.findall(rf"@keyframes {name} {{(.*)}}$", drawn, re.MULTILINE)
    return [(float(at), int(by)) for at, by in re.findall(r"([\d.]+)% { transform: translateY\((-?\d+)px\); }", steps)]


def test_the_recording_shows_the_command_and_what_readme_quotes_of_it() -> None:
    command, *lines = recording.text_of(DRAWN)
    assert command == "$ make try"
    assert "make try\n" in block("sh")
    quoted = recording.SECONDS.sub("… s", block(""))
    assert shows(f"{quoted}\n…\n", "\n".join(lines))


def test_the_recording_is_of_this_program_as_it_draws_it() -> None:
    assert ET.fromstring(DRAWN).findtext("{http://www.w3.org/2000/svg}title") == recording.TITLE
    assert recording.STYLE in DRAWN


def test_a_line_appears_when_it_did_but_after_no_long_pause() -> None:
    long, short = recording.LONGEST, recording.SHORTEST
    drawn = recording.picture([(long + 5, "a"), (long - 0.2, "b"), (0.0, "c"), (short + 0.1, "d")])
    total = long + (long - 0.2) + short + (short + 0.1) + recording.HOLD
    moments = [0, long, 2 * long - 0.2, 2 * long - 0.2 + short, 2 * long - 0.1 + 2 * short]
    assert [at for at, _ in frames(drawn, "curtain")] == pytest.approx([100 * at / total for at in moments], abs=0.001)
    assert [by // recording.LINE for _, by in frames(drawn, "curtain")] == [1, 2, 3, 4, 5]
    assert {by for _, by in frames(drawn, "screen")} == {0}


def test_the_screen_goes_up_when_it_is_full() -> None:
    drawn = recording.picture([(0.1, str(number)) for number in range(recording.ROWS + 1)])
    ups = [-by // recording.LINE for _, by in frames(drawn, "screen")]
    assert ups == [0] * recording.ROWS + [1, 2]
    assert f".screen {{ transform: translateY(-{2 * recording.LINE}px)" in drawn


def test_a_long_line_is_broken_and_appears_at_once() -> None:
    columns = recording.COLUMNS
    drawn = recording.picture([(0.1, "x" * columns), (0.1, "y" * (columns + 1))])
    assert recording.text_of(drawn) == ["$ make try", "x" * columns, "y" * columns, "y"]
    assert len(frames(drawn, "curtain")) == 3


def test_what_a_run_prints_is_kept_letter_by_letter() -> None:
    line = "  a  <b> & 'c' \"d\" → 5"
    assert recording.text_of(recording.picture([(0.1, line)]))[1:] == [line]
    ET.fromstring(recording.picture([(0.1, line)]))


def test_runs_are_the_same_but_for_seconds_and_the_order_of_tables() -> None:
    one = ["  gold a 5 rows   1.5 s", "  gold b 6 rows   12.0 s", ""]
    assert recording.comparable_lines(one) == recording.comparable_lines(
        ["  gold b 6 rows   2.0 s", "  gold a 5 rows   1 s"]
    )
    assert recording.comparable_lines(one) != recording.comparable_lines(
        ["  gold b 7 rows   2.0 s", "  gold a 5 rows   1 s"]
    )


def test_the_recording_is_small() -> None:
    assert recording.PICTURE.stat().st_size < 60_000
    assert ROOT / "docs" / "img" in recording.PICTURE.parents

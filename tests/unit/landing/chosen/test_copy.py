"""Which files a COPY INTO enters into the ledger. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluicegate.errors import LandingMissing
from sluicegate.landing import file_status
from sluicegate.landing.chosen.copy import Copy
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Three files, each a second younger than the one before."""
    place = Place(tmp_path)
    for seconds, name in enumerate(("a.json", "b.json", "c.json")):
        place.land(name, name, seconds=seconds)
    return place


def found(place: Place, **arguments: Any) -> list[tuple[str, str]]:
    """Names and ledger actions of the files that a copy of the folder enters."""
    discovered = Copy(str(place.folder), **arguments).discover(NAME, place.table, place.at)
    return [(row["path"].rsplit("/", 1)[-1], row["action"]) for row in discovered.new.to_pylist()]


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + seconds, UTC)


def test_files_between_two_times_exclude_both(place: Place) -> None:
    assert found(place, modified_after=moment(0)) == [("b.json", "read"), ("c.json", "read")]
    assert found(place, modified_before=moment(2)) == [("a.json", "read"), ("b.json", "read")]
    assert found(place, modified_after=moment(0), modified_before=moment(2)) == [("b.json", "read")]


def test_a_file_that_was_skipped_is_read_and_one_that_was_read_is_not(place: Place) -> None:
    place.enter(includeExistingFiles=False)
    place.land("d.json", "d", seconds=3)
    place.enter()
    assert found(place) == [("a.json", "read"), ("b.json", "read"), ("c.json", "read")]


def test_a_file_that_could_not_be_read_is_read_again(place: Place) -> None:
    place.enter()
    place.take({"b.json": ("no JSON", False)})
    file_status.copy(place.at, NAME)
    assert found(place) == [("b.json", "replace")]


def test_a_pattern_and_names_choose_files(place: Place) -> None:
    assert found(place, pattern="[ab].json") == [("a.json", "read"), ("b.json", "read")]
    assert found(place, files=("c.json",)) == [("c.json", "read")]
    assert found(place, files=("a.json", "c.json"), pattern="c*") == [("c.json", "read")]
    with pytest.raises(LandingMissing, match=r"d\.json"):
        found(place, files=("a.json", "d.json"))


def test_force_reads_all_chosen_files_once_more(place: Place) -> None:
    place.enter()
    assert found(place) == []
    assert found(place, force=True, files=("b.json",)) == [("b.json", "read")]

"""What the log of archived files says of a file, and of which ledger it says it. No Spark."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sluicegate.landing import file_status
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.ledger import LEDGER
from sluicegate.landing.moves import archive
from sluicegate.landing.moves.archive import ARCHIVE
from sluicegate.storage.listings import FILES
from tests.unit.landing.moves.test_clean_source import Landed
from tests.unit.landing.test_file_status import NAME

pytestmark = pytest.mark.unit

LANDED = datetime(2026, 3, 1, tzinfo=UTC)


def read_and_moved(landed: Landed, seconds: int) -> None:
    landed.place.land("export.csv", "x" * seconds, seconds=seconds)
    landed.place.enter()
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert landed.clean().removed == 1


@pytest.fixture
def daily(tmp_path: Path) -> Landed:
    """Three files of one name, each moved away once it was read."""
    landed = Landed(tmp_path)
    for seconds in (1, 2, 3):
        read_and_moved(landed, seconds)
    return landed


def test_of_files_of_one_name_those_of_the_same_size_and_time_are_meant(daily: Landed) -> None:
    ledger = daily.place.ledger()
    archived = archive.table(daily.at, NAME, ledger)
    assert sorted(archived["size"].to_pylist()) == [1, 2, 3]
    first_and_last = archived.filter(pc.is_in(archived["size"], value_set=pa.array([1, 3]))).select(FILES.names)
    found = archive.match_files(daily.at, NAME, ledger, first_and_last)
    assert sorted(found["size"].to_pylist()) == [1, 3]
    places = {row["size"]: row["place"] for row in archived.to_pylist()}
    assert {facts[1] for facts in archive.landed_facts(daily.at, NAME, ledger, [places[2]]).values()} == {2}


def test_what_was_archived_for_a_former_ledger_does_not_count(daily: Landed) -> None:
    places = archive.table(daily.at, NAME, daily.place.ledger())["place"].to_pylist()
    shutil.rmtree(daily.at.ledger(NAME))
    daily.place.land("other.csv", seconds=9)
    daily.place.enter()
    ledger = daily.place.ledger()
    assert archive.table(daily.at, NAME, ledger).num_rows == 0
    assert archive.landed_facts(daily.at, NAME, ledger, places) == {}


def test_a_file_that_was_skipped_first_is_the_first_to_arrive_under_its_name() -> None:
    """A later one begins with each entry that is to be read, and none is before the first."""
    name, place = "/landing/a.csv", "/out/a.csv"

    def entry(path: str, size: int, action: str, chunk: int) -> dict[str, object]:
        facts = {"path": path, "size": size, "modification_time": LANDED}
        return {**facts, "action": action, "chunk": chunk, "discovered": LANDED}

    away = {"path": name, "size": 7, "modification_time": LANDED, "mode": "MOVE", "place": place, "archived": LANDED}
    archived = pa.Table.from_pylist([{**away, "ledger_id": "id"}], ARCHIVE)
    for first, arrival in ((LedgerAction.SKIP, 0), (LedgerAction.READ, 0)):
        entries = [entry(name, 7, first, 1), entry(place, 7, LedgerAction.REPLACE, 2)]
        assert archive.arrivals_of(pa.Table.from_pylist(entries, LEDGER), archived) == {1: (name, arrival)}
    entries = [
        entry(name, 5, LedgerAction.READ, 1),
        entry(name, 7, LedgerAction.READ, 2),
        entry(place, 7, LedgerAction.REPLACE, 3),
    ]
    assert archive.arrivals_of(pa.Table.from_pylist(entries, LEDGER), archived) == {2: (name, 1)}

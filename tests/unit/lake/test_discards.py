"""Discards: which rows of a quarantine they count for, and commits beside those of others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate import _faults
from sluicegate.errors import SluicegateError
from sluicegate.lake import discards, tables

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def row(pos: int, *rules: str, chunk: int = 1, file: str | None = "a.json", **more: Any) -> dict[str, Any]:
    return {"_chunk": chunk, "_pos": pos, "_failed_expectations": [*rules], "source_file": file,
            "_quarantined_at": NOW, **more}  # fmt: skip


def every(found: pa.Table) -> Any:
    return discards.breach_mask(found, [])


class Lake:
    """A quarantine and its discards."""

    def __init__(self, folder: Path) -> None:
        self.quarantine, self.discarded = str(folder / "t_quarantine"), str(folder / "t_discarded")

    def put(self, *rows: dict[str, Any], mode: Any = "overwrite") -> None:
        write_deltalake(self.quarantine, pa.Table.from_pylist([*rows]), mode=mode, schema_mode="overwrite")

    @property
    def rows(self) -> pa.Table:
        return discards.quarantined_rows(DeltaTable(self.quarantine))

    @property
    def found(self) -> pa.Table:
        return discards.recorded_discards(tables.delta_table(self.discarded))

    def discard(self, *rules: str, id_: str = "one", note: str = "a test") -> int:
        return discards.add(self.discarded, discards.violating_rows(self.rows, rules), id_, "Ada", note)

    def waiting(self) -> list[int]:
        return discards.waiting_rows(self.rows, self.found)["_pos"].to_pylist()  # type: ignore[no-any-return]

    @property
    def count(self) -> int:
        return discards.discarded_rows(DeltaTable(self.quarantine), tables.delta_table(self.discarded))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A quarantine of three rows."""
    made = Lake(tmp_path)
    made.put(row(0, "low"), row(1, "low", "known"), row(2, "known"))
    return made


def test_rows_that_broke_a_rule_are_discarded_with_who_and_why(lake: Lake) -> None:
    assert lake.discard("low") == 2
    assert (lake.waiting(), lake.count) == ([2], 2)
    made = lake.found.to_pylist()
    assert [(one["_pos"], one["rules"], one["discarded_by"], one["note"]) for one in made] == [
        (0, ["low"], "Ada", "a test"), (1, ["low", "known"], "Ada", "a test"),
    ]  # fmt: skip
    assert [one["_record_row"] for one in made] == [None, None]
    assert lake.discard("low") == 0  # they are discarded already
    assert DeltaTable(lake.discarded).version() == 0
    assert lake.discard() == 1
    assert lake.waiting() == []
    assert len(DeltaTable(lake.quarantine).to_pyarrow_table()) == 3  # which is as it was


@pytest.mark.parametrize(
    ("later", "waits"),
    [
        pytest.param([row(1, "low", "known"), row(0, "low"), row(5, "low")], [5], id="a-new-record"),
        pytest.param([row(0, "low"), row(1, "known")], [], id="a-rule-that-it-no-longer-breaks"),
        pytest.param([row(0, "low", "known")], [0], id="one-more-rule"),
        pytest.param([row(0, "known")], [0], id="another-rule"),
        pytest.param([row(0, "low", file="b.json")], [0], id="another-file"),
        pytest.param([row(0, "low", chunk=2)], [0], id="read-once-more"),
        pytest.param([row(0, "low", _record_row=1)], [0], id="numbered"),
        pytest.param([row(0, "low", _record_flow="web")], [0], id="of-a-flow"),
        pytest.param([row(0, "low", name="Ada")], [], id="another-value"),
    ],
)
def test_a_discard_counts_for_the_same_record_and_no_more_rules(
    lake: Lake, later: list[dict[str, Any]], waits: list[int]
) -> None:
    lake.discard("low")
    lake.put(*later)
    assert lake.waiting() == waits
    assert lake.count == len(later) - len(waits)


def test_rows_of_records_that_give_many_rows_are_known_by_their_numbers(lake: Lake) -> None:
    lake.put(*[row(0, "low", _record_row=n, _record_flow="web", source_file=None) for n in (1, 2, 3)])
    chosen = lake.rows.slice(1, 1)
    assert discards.add(lake.discarded, chosen, "one", "Ada", "") == 1
    left = discards.waiting_rows(lake.rows, lake.found)
    assert left["_record_row"].to_pylist() == [1, 3]


def test_the_newest_discard_of_a_row_counts(lake: Lake) -> None:
    lake.discard("low", id_="one", note="first")
    lake.put(row(0, "low", "known"))  # which is news
    lake.discard(id_="two", note="second")
    lake.put(row(0, "low"))
    places, of = discards.match_discards(lake.rows, lake.found)
    assert (places.to_pylist(), lake.found.take(of)["note"].to_pylist()) == ([0], ["second"])
    assert lake.count == 1


def test_a_discard_is_listed_once_with_all_rules_that_its_rows_broke(lake: Lake) -> None:
    lake.put(row(0, "low", "known"), row(1, "low", "known"), row(2, "known"), row(3, "low"))
    lake.discard("low", id_="one")
    lake.discard(id_="two")
    listed = {one.id: (one.rules, one.records, one.by) for one in discards.list_discards(lake.rows, lake.found)}
    assert listed == {"one": (("known", "low"), 3, "Ada"), "two": (("known",), 1, "Ada")}
    lake.put(row(1, "known"))
    assert {one.id: one.records for one in discards.list_discards(lake.rows, lake.found)} == {"one": 1, "two": 0}


@pytest.mark.parametrize("column", ["rules", "discard"])
def test_discards_are_taken_back(lake: Lake, column: str) -> None:
    lake.discard("low", id_="one")
    lake.discard("known", id_="two")
    assert lake.waiting() == []

    def chosen(found: pa.Table) -> Any:
        return discards.breach_mask(found, ["known"]) if column == "rules" else pc.equal(found["discard"], "two")

    assert discards.take_back(lake.discarded, chosen, "Bo") == (2 if column == "rules" else 1)
    assert lake.waiting() == ([1, 2] if column == "rules" else [2])
    assert discards.take_back(lake.discarded, every, "Bo") == (1 if column == "rules" else 2)
    assert discards.take_back(lake.discarded, every, "Bo") == 0
    assert (lake.waiting(), lake.count) == ([0, 1, 2], 0)


def test_of_a_state_that_was_shown_only_what_is_there_still_is_meant(lake: Lake) -> None:
    shown = discards.quarantined_rows(DeltaTable(lake.quarantine, version=0))
    lake.put(row(1, "low", "known"), row(2, "low"), row(7, "low"))
    assert discards.common_rows(lake.rows, shown)["_pos"].to_pylist() == [1]


def test_an_empty_quarantine_has_nothing_to_discard(lake: Lake) -> None:
    lake.put(row(0, "low"))
    DeltaTable(lake.quarantine).delete()
    assert lake.discard() == 0
    assert not Path(lake.discarded).exists()


# --- beside others ---------------------------------------------------------------------------------------------------


def beside(monkeypatch: pytest.MonkeyPatch, others: Sequence[Any]) -> None:
    """Lets others commit, one each time, between what a change has read and its commit."""
    waits = [*others]

    def point(_name: str) -> None:
        if waits:
            waits.pop(0)()

    monkeypatch.setattr(_faults, "point", point)


def test_two_discards_at_once_discard_each_row_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(monkeypatch, [lambda: lake.discard("known", id_="two")])
    assert lake.discard("low", id_="one") == 1  # the other one has made the table, with the row that broke both
    assert sorted(zip(*lake.found.select(["_pos", "discard"]).to_pydict().values(), strict=True)) == [
        (0, "one"), (1, "two"), (2, "two"),
    ]  # fmt: skip
    lake.put(*[row(pos, "low") for pos in range(10, 13)])
    beside(monkeypatch, [lambda: lake.discard(id_="four")])
    assert lake.discard(id_="three") == 0
    assert lake.count == 3


def test_a_discard_beside_an_undo_loses_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.discard("low", id_="one")
    beside(monkeypatch, [lambda: lake.discard("known", id_="two")])
    assert discards.take_back(lake.discarded, lambda found: discards.breach_mask(found, ["low"]), "Bo") == 2
    assert lake.waiting() == [0, 1]  # the discard that came between stays
    beside(monkeypatch, [lambda: discards.take_back(lake.discarded, every, "Bo")])
    assert lake.discard("low", id_="three") == 2
    assert lake.waiting() == [2]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_race_that_is_lost_ATTEMPTS_times_is_reported(lake: Lake, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(discards, "ATTEMPTS", 3)
    others = discards.ATTEMPTS + more
    lake.put(*[row(pos, "low") for pos in range(20)])

    def another(pos: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(_faults, "point", lambda _: None)
            discards.add(lake.discarded, lake.rows.slice(pos, 1), f"other {pos}", "Bo", "")

    beside(monkeypatch, [partial(another, pos) for pos in range(others)])
    if more < 0:
        assert lake.discard() == 20 - others
        assert lake.count == 20
        return
    with pytest.raises(SluicegateError, match="keep discarding records"):
        lake.discard()
    assert lake.count == discards.ATTEMPTS  # those of the others alone


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.put(row(0, "low"))
    (tmp_path / "_state").write_text("")  # no folder, so that root cannot write into it either
    lake.discarded = str(tmp_path / "_state" / "t_discarded")
    with pytest.raises(SluicegateError, match="cannot write") as raised:
        lake.discard()
    assert (raised.value.where.table, raised.value.where.file) == ("t_discarded", lake.discarded)
    assert "Not a directory" in raised.value.cause
    assert "permissions" in (raised.value.hint or "")

"""Which paths of a ledger are one file that was moved. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.ledger import LEDGER
from sluicegate.landing.moves import moved_files

pytestmark = pytest.mark.unit

LANDED = datetime(2026, 3, 1, tzinfo=UTC)
FIRST, SECOND, THIRD = "/2024/a.json", "/2025/a.json", "/2026/a.json"


def ledger(*entries: tuple[int, str, str]) -> pa.Table:
    """Entries of one file, each with its ledger batch, path and action, in any order."""
    rows = [
        {"path": path, "size": 7, "modification_time": LANDED, "action": action, "chunk": chunk, "discovered": LANDED}
        for chunk, path, action in entries
    ]
    return pa.Table.from_pylist(rows, LEDGER)


def test_a_moved_file_has_its_first_path_also_once_it_was_read_again_where_it_is() -> None:
    moved = ledger(
        (1, FIRST, LedgerAction.READ),
        (2, SECOND, LedgerAction.MOVED),
        (3, THIRD, LedgerAction.MOVED),
        (4, THIRD, LedgerAction.RESET),
    )
    assert moved_files.aliases(moved, [FIRST, SECOND, THIRD]) == {SECOND: FIRST, THIRD: FIRST}
    assert moved_files.aliases(moved, [SECOND]) == {SECOND: FIRST}
    assert moved_files.aliases(moved, []) == {}
    assert moved_files.former_paths(moved) == {FIRST}


def test_of_files_that_agree_the_one_with_the_most_of_the_path_is_the_former_one() -> None:
    two_regions = ledger(
        (1, "/old/eu/a.json", LedgerAction.READ),
        (1, "/old/us/a.json", LedgerAction.READ),
        (2, "/new/us/a.json", LedgerAction.MOVED),
    )
    assert moved_files.aliases(two_regions, ["/new/us/a.json"]) == {"/new/us/a.json": "/old/us/a.json"}
    other_name = ledger((1, "/old/b.json", LedgerAction.READ), (2, "/new/a.json", LedgerAction.MOVED))
    assert moved_files.aliases(other_name, ["/new/a.json"]) == {}


@pytest.mark.parametrize(
    ("landed", "superseded"),
    [
        ((), {FIRST, SECOND}),
        ((SECOND,), {FIRST, THIRD}),
        ((THIRD,), {FIRST, SECOND}),
        ((FIRST, THIRD), {SECOND}),
    ],
    ids=["nowhere", "back where it was before", "where it went last", "copied"],
)
def test_a_file_that_was_moved_is_at_one_of_its_paths_and_else_at_the_last(
    landed: tuple[str, ...], superseded: set[str]
) -> None:
    moved = ledger((3, THIRD, LedgerAction.MOVED), (2, SECOND, LedgerAction.MOVED), (1, FIRST, LedgerAction.READ))
    assert moved_files.find_superseded(moved, landed) == superseded

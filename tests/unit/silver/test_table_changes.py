"""What changes of a silver table and its side tables, and in which order rows leave these. No Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from sluicegate.silver.table_changes import SilverChanges, TableChange

pytestmark = pytest.mark.unit


def change(uri: str, **counts: int) -> TableChange:
    return TableChange(uri, cast("Any", None), Counter(counts))


def test_rows_come_by_inserts_and_updates_and_leave_by_deletes() -> None:
    table = change("t", insert=1, update=2, delete=4)
    assert (table.upsert_count, table.delete_count) == (3, 4)


def test_rows_leave_the_quarantine_before_the_set_aside() -> None:
    """Of a record that gives many rows the set-aside says that they are being exchanged, until all is done."""
    nothing = SilverChanges(change("t"), change("quarantine"), change("set_aside"))
    assert [table.uri for table in nothing.side_table_changes] == ["quarantine", "set_aside"]
    assert not nothing.has_changes


@pytest.mark.parametrize("kind", ["insert", "update", "delete"])
@pytest.mark.parametrize("changed", ["t", "quarantine", "set_aside"])
def test_one_row_in_one_of_the_tables_is_a_change(changed: str, kind: str) -> None:
    tables = [change(uri, **({kind: 1} if uri == changed else {})) for uri in ("t", "quarantine", "set_aside")]
    assert SilverChanges(*tables).has_changes

"""What has to change so that a table says what its definition says, by its log, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.flow import source_changes
from sluicegate.lake.table_description import NOTE, Change, Description, difference, is_described, missing_columns
from sluicegate.spark.describe import _merge_notes

pytestmark = pytest.mark.unit

WANTED = Description("all orders", {"ID": "the key"}, {"a.b": "1"})


def table(
    folder: Path, wanted: Description | None = None, comment: str = "", properties: Mapping[str, str] | None = None
) -> DeltaTable:
    """A table that says what a description says, and more besides."""
    columns = {name: text for name, text in (wanted.columns.items() if wanted else ())}
    fields = [pa.field("id", pa.int32(), metadata={"comment": columns.get("ID", "")}), pa.field("n", pa.int32())]
    note = {NOTE: json.dumps(wanted.note)} if wanted else {}
    return DeltaTable.create(
        str(folder),
        schema=pa.schema(fields),
        description=comment or (wanted.comment if wanted else None),
        configuration={**(wanted.properties if wanted else {}), **note, **(properties or {})},
        raise_if_key_not_exists=False,
    )


def test_a_table_that_says_it_already_is_left_alone(tmp_path: Path) -> None:
    assert difference(table(tmp_path, WANTED), WANTED) is None
    assert difference(None, WANTED) is None


def test_a_table_of_which_nothing_is_said_keeps_what_others_said(tmp_path: Path) -> None:
    held = table(tmp_path, comment="of somebody", properties={"x": "y"})
    assert not is_described(held)
    assert difference(held, Description()) is None


def test_all_is_set_the_first_time(tmp_path: Path) -> None:
    change = difference(table(tmp_path), WANTED)
    assert change == Change("all orders", {"id": "the key"}, {"a.b": "1", NOTE: json.dumps(WANTED.note)}, ())
    assert str(change) == "the table's comment and comments of id and properties a.b"


def test_only_what_differs_is_set(tmp_path: Path) -> None:
    held = table(tmp_path, WANTED, properties={"of.others": "stays"})
    other = Description("all orders", {"ID": "another"}, {"a.b": "1"})
    assert difference(held, other) == Change(None, {"id": "another"}, {}, ())


def test_what_is_not_said_any_more_is_taken_away_and_nothing_of_others(tmp_path: Path) -> None:
    held = table(tmp_path, WANTED, properties={"of.others": "stays"})
    assert difference(held, Description()) == Change("", {"id": ""}, {}, ("a.b", NOTE))
    change = difference(held, Description("all orders"))
    assert change == Change(None, {"id": ""}, {NOTE: json.dumps({"comment": True})}, ("a.b",))


def test_a_column_that_is_not_there_is_told_and_waits(tmp_path: Path) -> None:
    wanted = Description(columns={"id": "the key", "gone": "x"})
    held = table(tmp_path)
    assert missing_columns(held, wanted) == ["gone"]
    change = difference(held, wanted)
    assert change is not None
    assert change.columns == {"id": "the key"}


def test_a_note_of_both_has_what_is_to_be_taken_away_still() -> None:
    before, after = json.dumps(WANTED.note), json.dumps(Description(columns={"n": "x"}).note)
    assert json.loads(_merge_notes(before, after)) == {"comment": True, "columns": ["id", "n"], "properties": ["a.b"]}
    assert json.loads(_merge_notes(None, after)) == {"columns": ["n"]}


def test_comments_change_no_row_of_a_table_that_others_read(tmp_path: Path) -> None:
    held = table(tmp_path)
    held.alter.set_table_properties({"x": "y"}, raise_if_not_exists=False)
    held.alter.set_column_metadata("id", {"comment": "the key"})
    assert source_changes.has_same_rows(str(tmp_path), 0, held.version())
    write_deltalake(str(tmp_path), pa.table({name: pa.array([2], pa.int32()) for name in ("id", "n")}), mode="append")
    assert not source_changes.has_same_rows(str(tmp_path), 0, held.version() + 1)
    assert source_changes.has_same_rows(str(tmp_path), held.version() + 1, held.version() + 1)


def test_a_new_column_and_a_history_that_is_gone_are_changes(tmp_path: Path) -> None:
    held = table(tmp_path)
    rows = pa.table({"id": pa.array([], pa.int32()), "more": pa.array([], pa.int32())})
    write_deltalake(str(tmp_path), rows, mode="append", schema_mode="merge")
    assert not source_changes.has_same_rows(str(tmp_path), 0, 1)
    (tmp_path / "_delta_log" / f"{1:020d}.json").unlink()
    assert not source_changes.has_same_rows(str(tmp_path), held.version(), 1)

"""What the log of a source says about the commits after an offset, on real Delta tables. No Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.flow.source_changes import SourceChanges

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})


class Source:
    """A table with one commit, which further ones follow."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "source")
        self.append()

    def append(self) -> None:
        write_deltalake(self.uri, ROWS, mode="append")

    def overwrite(self) -> None:
        write_deltalake(self.uri, ROWS, mode="overwrite")

    def rename_column(self) -> None:
        table = pa.table({"other": [1]})
        write_deltalake(self.uri, table, mode="overwrite", schema_mode="overwrite")

    def entry(self, version: int) -> Path:
        return Path(self.uri) / "_delta_log" / f"{version:020}.json"

    def forget(self, version: int) -> None:
        """Loses an entry of the log, as when old ones are cleaned away."""
        DeltaTable(self.uri).create_checkpoint()
        self.entry(version).unlink()

    def changes(self, offset: int, until: int) -> SourceChanges:
        return SourceChanges.of(self.uri, offset, until, name="source")


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_added_rows_are_no_reason(source: Source) -> None:
    source.append()
    source.append()
    changes = source.changes(0, 2)
    assert [commit.version for commit in changes.commits] == [1, 2]
    assert (changes.overwritten, changes.revised, changes.rewritten, changes.other_columns) == ("", "", "", "")
    assert changes.only_gained_columns
    assert source.changes(2, 2) == SourceChanges("source")


def test_before_the_first_version_there_are_no_columns_to_compare(source: Source) -> None:
    """A first load in parts asks about the whole history."""
    source.append()
    changes = source.changes(-1, 1)
    assert (changes.revised, changes.rewritten, changes.other_columns) == ("", "", "")
    assert changes.only_gained_columns
    source.overwrite()
    assert source.changes(-1, 2).revised == "source was changed by WRITE in version 2"


def test_only_commits_after_the_offset_and_up_to_the_end_count(source: Source) -> None:
    source.overwrite()
    source.append()
    source.overwrite()
    assert source.changes(1, 2).overwritten == ""
    assert source.changes(0, 2).overwritten == "source was changed by WRITE in version 1"


def test_the_newest_overwrite_and_the_oldest_removal_are_named(source: Source) -> None:
    source.overwrite()
    source.overwrite()
    changes = source.changes(0, 2)
    assert changes.overwritten == changes.revised == "source was changed by WRITE in version 2"
    assert changes.rewritten == "source was changed by WRITE in version 1"


def test_a_delete_removes_rows_and_a_compaction_does_not(source: Source) -> None:
    source.append()
    DeltaTable(source.uri).optimize.compact()
    assert (source.changes(1, 2).revised, source.changes(1, 2).rewritten) == ("", "")
    DeltaTable(source.uri).delete("id = 1")
    changes = source.changes(2, 3)
    assert changes.revised == changes.rewritten == "source was changed by DELETE in version 3"
    assert changes.overwritten == ""


def test_columns_are_compared_commit_by_commit(source: Source) -> None:
    """That a column came back does not help: Delta reads no change feed over the commit that took it away."""
    source.rename_column()
    write_deltalake(source.uri, ROWS, mode="overwrite", schema_mode="overwrite")
    changes = source.changes(0, DeltaTable(source.uri).version())
    assert changes.other_columns == "the columns of source were changed by WRITE in version 1"
    assert not changes.only_gained_columns
    write_deltalake(source.uri, ROWS.append_column("new", ROWS["id"]), mode="append", schema_mode="merge")
    later = source.changes(DeltaTable(source.uri).version() - 1, DeltaTable(source.uri).version())
    assert (later.other_columns, later.rewritten, later.only_gained_columns) == ("", "", True)


def test_a_gap_in_the_log_hides_what_is_on_its_other_side(source: Source) -> None:
    """Commits are read up to the gap from the offset on, and back to it from the newest one."""
    source.overwrite()
    source.append()
    source.rename_column()
    source.forget(2)
    changes = source.changes(0, 3)
    assert changes.gone == [2]
    assert changes.other_columns == ""
    assert changes.overwritten == "source was changed by WRITE in version 3"
    assert changes.rewritten == "source was changed by WRITE in version 1"
    assert source.changes(1, 3).rewritten == "the history of source is gone up to version 2"
    assert not changes.only_gained_columns


def test_columns_at_an_offset_that_is_gone_are_not_known_to_be_the_same(source: Source) -> None:
    write_deltalake(source.uri, ROWS.append_column("new", ROWS["id"]), mode="append", schema_mode="merge")
    source.forget(0)
    changes = source.changes(0, 1)
    assert changes.other_columns == ""
    assert changes.rewritten == "the columns of source were changed by WRITE in version 1"
    assert not changes.only_gained_columns


def test_a_commit_whose_writer_says_nothing_is_of_another_program(source: Source) -> None:
    source.append()
    actions = [json.loads(line) for line in source.entry(1).read_text().splitlines()]
    source.entry(1).write_text("\n".join(json.dumps(action) for action in actions if "commitInfo" not in action))
    assert source.changes(0, 1).revised == "source was changed by another program in version 1"
    assert source.changes(0, 1).rewritten == ""

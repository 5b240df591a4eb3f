"""What the log of a source says about the commits after an offset, on real Delta tables. No Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from sluicegate.flow import source_changes
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

    def append_other(self) -> None:
        """Adds rows to the table with the other column."""
        write_deltalake(self.uri, pa.table({"other": [1]}), mode="append")

    def entry(self, version: int) -> Path:
        return Path(self.uri) / "_delta_log" / f"{version:020}.json"

    def forget(self, version: int) -> None:
        """Loses an entry of the log, as when old ones are cleaned away."""
        DeltaTable(self.uri).create_checkpoint()
        self.entry(version).unlink()

    def changes(self, offset: int, until: int) -> SourceChanges:
        return SourceChanges.read(self.uri, offset, until, name="source")


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_added_rows_are_no_reason(source: Source) -> None:
    source.append()
    source.append()
    changes = source.changes(0, 2)
    assert [commit.version for commit in changes.commits] == [1, 2]
    assert (changes.why_overwritten, changes.why_revised, changes.why_rewritten, changes.why_other_columns) == (
        "",
        "",
        "",
        "",
    )
    assert changes.only_adds_columns
    assert source.changes(2, 2) == SourceChanges("source")


def test_before_the_first_version_there_are_no_columns_to_compare(source: Source) -> None:
    """A first load in parts asks about the whole history."""
    source.append()
    changes = source.changes(-1, 1)
    assert (changes.why_revised, changes.why_rewritten, changes.why_other_columns) == ("", "", "")
    assert changes.only_adds_columns
    source.overwrite()
    assert source.changes(-1, 2).why_revised == "source was changed by WRITE in version 2"


def test_only_commits_after_the_offset_and_up_to_the_end_count(source: Source) -> None:
    source.overwrite()
    source.append()
    source.overwrite()
    assert source.changes(1, 2).why_overwritten == ""
    assert source.changes(0, 2).why_overwritten == "source was changed by WRITE in version 1"


def test_the_newest_overwrite_and_the_oldest_removal_are_named(source: Source) -> None:
    source.overwrite()
    source.overwrite()
    changes = source.changes(0, 2)
    assert changes.why_overwritten == changes.why_revised == "source was changed by WRITE in version 2"
    assert changes.why_rewritten == "source was changed by WRITE in version 1"


def test_a_delete_removes_rows_and_a_compaction_does_not(source: Source) -> None:
    source.append()
    DeltaTable(source.uri).optimize.compact()
    assert (source.changes(1, 2).why_revised, source.changes(1, 2).why_rewritten) == ("", "")
    DeltaTable(source.uri).delete("id = 1")
    changes = source.changes(2, 3)
    assert changes.why_revised == changes.why_rewritten == "source was changed by DELETE in version 3"
    assert changes.why_overwritten == ""


def test_columns_are_compared_commit_by_commit(source: Source) -> None:
    """That a column came back does not help: Delta reads no change feed over the commit that took it away."""
    source.rename_column()
    write_deltalake(source.uri, ROWS, mode="overwrite", schema_mode="overwrite")
    changes = source.changes(0, DeltaTable(source.uri).version())
    assert changes.why_other_columns == "the columns of source were changed by WRITE in version 1"
    assert not changes.only_adds_columns
    write_deltalake(source.uri, ROWS.append_column("new", ROWS["id"]), mode="append", schema_mode="merge")
    later = source.changes(DeltaTable(source.uri).version() - 1, DeltaTable(source.uri).version())
    assert (later.why_other_columns, later.why_rewritten, later.only_adds_columns) == ("", "", True)


def test_a_column_that_came_and_went_between_two_commits_is_gone(source: Source) -> None:
    """Each commit is compared with the one before it, and not with the offset, whose columns are those of the last."""
    write_deltalake(source.uri, ROWS.append_column("new", ROWS["id"]), mode="append", schema_mode="merge")
    write_deltalake(source.uri, ROWS, mode="overwrite", schema_mode="overwrite")
    assert source.changes(0, 2).why_other_columns == "the columns of source were changed by WRITE in version 2"


def test_a_new_column_leaves_the_rows_other_than_they_were(source: Source) -> None:
    """A comment and other files do not: they are no news for who has read all rows."""
    source.append()
    table = DeltaTable(source.uri)
    table.optimize.compact()
    table.alter.set_table_description("a source")
    assert source_changes.has_same_rows(source.uri, 1, 3)
    DeltaTable(source.uri).alter.add_columns([Field("new", PrimitiveType("long"))])
    assert not source_changes.has_same_rows(source.uri, 1, 4)
    assert not source_changes.has_same_rows(source.uri, 3, 4)
    assert source_changes.has_same_rows(source.uri, 4, 4)


def test_of_two_gaps_the_first_ends_what_follows_the_offset_and_the_last_what_leads_to_the_end(source: Source) -> None:
    source.append()
    source.append()
    source.rename_column()
    source.append_other()
    source.append_other()
    source.forget(2)
    source.entry(4).unlink()
    changes = source.changes(0, 5)
    assert changes.gone == [2, 4]
    assert (changes.why_other_columns, changes.why_overwritten) == ("", "")


def test_a_gap_in_the_log_hides_what_is_on_its_other_side(source: Source) -> None:
    """Commits are read up to the gap from the offset on, and back to it from the newest one."""
    source.overwrite()
    source.append()
    source.rename_column()
    source.forget(2)
    changes = source.changes(0, 3)
    assert changes.gone == [2]
    assert changes.why_other_columns == ""
    assert changes.why_overwritten == "source was changed by WRITE in version 3"
    assert changes.why_rewritten == "source was changed by WRITE in version 1"
    assert source.changes(1, 3).why_rewritten == "the history of source is no longer available up to version 2"
    assert not changes.only_adds_columns


def test_columns_at_an_offset_that_is_gone_are_not_known_to_be_the_same(source: Source) -> None:
    write_deltalake(source.uri, ROWS.append_column("new", ROWS["id"]), mode="append", schema_mode="merge")
    source.forget(0)
    changes = source.changes(0, 1)
    assert changes.why_other_columns == ""
    assert changes.why_rewritten == "the columns of source were changed by WRITE in version 1"
    assert not changes.only_adds_columns


def test_a_commit_whose_writer_says_nothing_is_of_another_program(source: Source) -> None:
    source.append()
    actions = [json.loads(line) for line in source.entry(1).read_text().splitlines()]
    source.entry(1).write_text("\n".join(json.dumps(action) for action in actions if "commitInfo" not in action))
    assert source.changes(0, 1).why_revised == "source was changed by another program in version 1"
    assert source.changes(0, 1).why_rewritten == ""

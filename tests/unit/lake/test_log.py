"""What is read of a table's log, on logs that delta-rs wrote."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from sluicegate.lake import log, tables

pytestmark = pytest.mark.unit


def add(uri: str, number: int) -> None:
    """A commit of ours that says its number."""
    said = {"userMetadata": json.dumps({log.METADATA: {"number": number}})}
    rows = pa.table({"n": [number]})
    write_deltalake(uri, rows, mode="append", commit_properties=CommitProperties(custom_metadata=said))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the commits 0, 1 and 2; delta-rs makes a URL of its address, where a space is %20."""
    made = str(tmp_path / "größe 1" / "t")
    Path(made).parent.mkdir()
    for number in range(3):
        add(made, number)
    return made


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 9])
@pytest.mark.parametrize("version", [0, 1, 2, None])
def test_commits_are_those_of_the_version_that_was_opened(uri: str, version: int | None, limit: int | None) -> None:
    """delta-rs numbers the newest commits of the log down from the version that a table was opened at."""
    table = tables.table_at(uri, version)
    add(uri, 3)
    add(uri, 4)
    found = [(commit.version, (commit.ours or {})["number"]) for commit in log.commits(table, limit)]
    assert found == [(number, number) for number in range(table.version(), -1, -1)][:limit]


@pytest.mark.parametrize("added", [False, True])
def test_actions_of_a_commit_are_read_by_the_address_that_delta_rs_says(uri: str, added: bool) -> None:
    address = tables.table_at(uri).table_uri
    said = [*log.actions(address, 1, added=added)]
    assert said == [*log.actions(uri, 1, added=added)]
    assert [action for action in said if "commitInfo" in action]
    assert any("add" in action for action in said) == added


def test_a_store_that_does_not_answer_is_not_taken_for_a_log_without_a_newer_commit(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits would be numbered wrongly: fsspec says of any error that the file does not exist."""
    table = tables.table_at(uri)
    add(uri, 3)
    stat = os.stat

    def broken(path: Any, *given: Any, **how: Any) -> os.stat_result:
        if str(path).endswith(f"{3:020d}.json"):
            raise OSError(errno.EIO, "the disk does not answer")
        return stat(path, *given, **how)

    monkeypatch.setattr(os, "stat", broken)
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).endswith(f"{3:020d}.json"))
    with pytest.raises(OSError, match="does not answer"):
        [*log.commits(table)]


def test_commits_end_where_the_log_was_cleaned(uri: str) -> None:
    add(uri, 3)
    table = tables.table_at(uri)
    table.create_checkpoint()
    add(uri, 4)
    for version in (0, 1):
        (Path(uri) / "_delta_log" / f"{version:020d}.json").unlink()
    assert [commit.version for commit in log.commits(table)] == [3, 2]
    assert [commit.version for commit in log.commits(tables.table_at(uri))] == [4, 3, 2]

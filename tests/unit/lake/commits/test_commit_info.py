"""What commits of ours say of themselves: read with types, tolerant of other versions, and written as before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluicegate.lake.commits import commit_info
from sluicegate.lake.commits.commit_info import BatchMode, CommitInfo, Fact
from tests.unit.flow.test_batch import BRONZE, GOLD, OF_FULL_REFRESH, OF_INTERVAL, SILVER

pytestmark = pytest.mark.unit

LEDGER = (
    '{"sluicegate": {"copy": {"options": {"sep": ";"}, "columns": ["a"]}, '
    '"command": {"name": "6d1f", "chunks": [1, 2]}, "folders": ["/l/new", "/l/old"]}}'
)
DISCARDED = '{"sluicegate": {"step": "discard", "rows": 1, "discard": "one", "by": "Ada"}}'
LATER = '{"sluicegate": {"since": 3, "of_a_later_version": {"b": [1], "a": null}, "layer": "gold"}}'


def info(text: str) -> CommitInfo:
    found = CommitInfo.from_user_metadata(text)
    assert found is not None
    return found


@pytest.mark.parametrize("text", [BRONZE, SILVER, GOLD, OF_INTERVAL, OF_FULL_REFRESH, LEDGER, DISCARDED, LATER])
def test_what_is_read_is_written_as_it_was(text: str) -> None:
    assert info(text).user_metadata() == text
    assert info(text).properties() == {"userMetadata": text}


@pytest.mark.parametrize("text", [BRONZE, SILVER, GOLD, OF_INTERVAL, OF_FULL_REFRESH, LEDGER, DISCARDED])
def test_each_key_that_is_written_is_declared(text: str) -> None:
    parts = [part for part in vars(commit_info).values() if isinstance(part, type)]
    keys = {fact.key for part in parts for fact in vars(part).values() if isinstance(fact, Fact)}
    assert {*info(text)} - keys == set()


def test_facts_have_types() -> None:
    bronze, silver, gold, ledger = info(BRONZE), info(SILVER), info(GOLD), info(LEDGER)
    assert (bronze.mode, bronze.since, bronze.seen) == (BatchMode.INCREMENTAL, -1, 4)
    assert (bronze.bronze.chunk, bronze.bronze.failed) == (1, {"/a": ["torn", False]})
    assert bronze.commits["sources"] == {"": "def7ec76"}
    assert (silver.mode, silver.streams, silver.numbered) == ("replay", {"a": {"source_id": "ID", "until": 4}}, True)
    assert (silver.silver.op, silver.silver.enters, silver.restores) == (
        "0795d77c",
        ["t_quarantine"],
        [[2, 5], [None, 9]],
    )
    assert (gold.gold.strategy, gold.gold.cost["technique"], gold.gold.all) == ("partial", "whole", True)
    assert (ledger.ledger.folders, ledger.ledger.skip_list) == (["/l/new", "/l/old"], None)


def test_a_fact_has_its_default_where_a_commit_lacks_it_or_says_nothing() -> None:
    for facts in ({}, {"since": None, "inputs": None, "seen": None, "numbered": None}):
        of_commit = CommitInfo(facts)
        assert (of_commit.since, of_commit.inputs, of_commit.seen, of_commit.numbered) == (-1, {}, None, False)
    assert not CommitInfo()
    assert CommitInfo().properties() is None


def test_facts_of_another_version_are_kept_with_their_places() -> None:
    changed = info(LATER).with_facts({"layer": "silver", "since": 4, "new": 1})
    assert json.loads(changed.user_metadata())["sluicegate"] == dict(changed)
    assert [*changed.items()] == [
        ("since", 4), ("of_a_later_version", {"b": [1], "a": None}), ("layer", "silver"), ("new", 1),
    ]  # fmt: skip
    assert info(LATER) == {"since": 3, "of_a_later_version": {"b": [1], "a": None}, "layer": "gold"}


@pytest.mark.parametrize("text", [None, "", "no JSON", "null", "[]", "{}", '{"other": {}}', '{"sluicegate": [1]}'])
def test_metadata_of_other_programs_have_no_facts(text: Any) -> None:
    assert CommitInfo.from_user_metadata(text) is None

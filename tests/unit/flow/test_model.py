"""Which versions of which tables a batch is still to take in. No Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicegate.flow.model import Flow, Progress, StreamProgress

pytestmark = pytest.mark.unit

FLOW = Flow("silver", "t", "source", "target", inputs={"l": "lookup", "again": "source"})


def test_versions_of_the_source_and_of_changed_inputs_are_not_taken_in() -> None:
    progress = Progress("incremental", since=3, until=7, versions={"l": 9, "again": 7}, changed={"l": 5})
    assert progress.unprocessed_versions(FLOW) == {"source": (3, 7), "lookup": (5, 9)}
    assert replace(progress, since=7, changed={}).unprocessed_versions(FLOW) == {}


@pytest.mark.parametrize(("since", "read"), [(3, 5), (5, 3)])
def test_of_a_table_that_is_read_twice_the_earlier_version_counts(since: int, read: int) -> None:
    progress = Progress("incremental", since=since, until=7, versions={"again": 7}, changed={"again": read})
    assert progress.unprocessed_versions(FLOW) == {"source": (3, 7)}


def test_each_of_several_flows_has_versions_of_its_own() -> None:
    flow = replace(FLOW, streams={"a": "first", "b": "second", "c": "first"})
    streams = {
        "a": StreamProgress("id", since=2, until=4), "b": StreamProgress("id", since=6, until=6),
        "c": StreamProgress("id", since=1, until=4),
    }  # fmt: skip
    progress = Progress("incremental", since=0, until=1, streams=streams)
    assert progress.unprocessed_versions(flow) == {"first": (1, 4)}

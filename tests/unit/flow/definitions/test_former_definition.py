"""Whether the last commit of a table was made by another definition. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.flow.definitions.former_definition import needs_full_refresh
from sluicegate.flow.model import Fingerprints, Flow
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.log import Commit

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("today", "facts", "needed"),
    [
        ("new", {"fingerprint": "old"}, True),
        ("same", {"fingerprint": "same"}, False),
        ("new", {}, True),
        ("", {"fingerprint": "old"}, False),
        ("new", None, False),
    ],
    ids=["another", "the same", "none recorded", "not compared", "a commit of others"],
)
def test_another_fingerprint_calls_for_a_full_refresh(today: str, facts: dict[str, Any] | None, needed: bool) -> None:
    flow = Flow("gold", "t", "source", "target", fingerprints=Fingerprints(today))
    info = CommitInfo(facts) if facts is not None else None
    last = Commit(1, 0, "WRITE", info, None, overwrites=False, partly=False)
    assert needs_full_refresh(flow, last) is needed
    assert not needs_full_refresh(flow, None)

"""What waits for a run, in a sentence: also comments and properties, which are work and no reason to begin one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicegate.flow.model import Flow, Progress
from sluicegate.lake.table_description import Change
from sluicegate.monitor.plan import Pending, TableWork

pytestmark = pytest.mark.unit


def test_a_comment_is_work_that_nobody_waits_for() -> None:
    idle = [TableWork(Flow("silver", name, "/source", f"/{name}"), Progress("idle", 1, 1)) for name in ("a", "b")]
    assert Pending(idle).layers == []
    described = TableWork(idle[1].flow, idle[1].progress, described=Change("new", {}, {}, ()))
    waiting = Pending([idle[0], described])
    assert (waiting.layers, waiting.nothing) == (["silver"], True)
    assert waiting.sentence() == "waiting: comments or properties of b"


def test_what_only_brokers_know_is_a_reason_to_begin_a_run() -> None:
    flows = [Flow(layer, name, "/source", f"/{name}") for layer, name in (("bronze", "a"), ("silver", "b"))]
    idle = [TableWork(flow, Progress("idle", 1, 1)) for flow in flows]
    waiting = Pending([replace(idle[0], unknown=True), idle[1]])
    assert (waiting.layers, waiting.late) == (["bronze", "silver"], ["bronze", "silver"])
    assert waiting.sentence() == "waiting: what the brokers have for a, which only a run asks"

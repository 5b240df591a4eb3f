"""What the commits of a batch say of themselves, to the byte: other versions and programs read it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluicegate.flow.batch import Batch
from sluicegate.flow.model import Fingerprints, Flow, Progress, StreamProgress
from sluicegate.flow.policies import RecordPolicy
from sluicegate.flow.refresh_cost import TechniqueChoice, Work
from sluicegate.flow.selection import Interval, Replay
from sluicegate.flow.table_report import TableReport
from sluicegate.spark_sql.refresh.strategy import refresh_strategy

pytestmark = pytest.mark.unit

METADATA = "spark.databricks.delta.commitInfo.userMetadata"
RUN = {"pipeline": "p", "run_id": "command line 44397026", "trigger": "availableNow"}
STAMPS = {"patients": "18bf1c11@0"}


# Of Sluicegate before the facts had types.
BRONZE = (
    '{"sluicegate": {"layer": "bronze", "table": "t", "mode": "incremental", "since": -1, "until": 1, "inputs": '
    '{}, "source_id": "e3caa1bf", "fingerprint": "", "why": "", "seen": 4, "pipeline": "p", "run_id": "command '
    'line 44397026", "trigger": "availableNow", "commits": {"sources": {"": "def7ec76"}, "inputs": {}}, "chunk": '
    '1, "files": 2, "bytes": 181, "failed": {"/a": ["torn", false]}, "collisions": {"a b": "a_b"}, "manifest": '
    '{"/b": 8}, "definition": "266f9224c70dd3cd", "dialect": "rfc4180", "expectations": {"r": {"passed": 8, '
    '"failed": 0}}}}'
)
SILVER = (
    '{"sluicegate": {"layer": "silver", "table": "t", "mode": "replay", "since": 0, "until": 1, "inputs": '
    '{"patients": "18bf1c11@0"}, "streams": {"a": {"source_id": "ID", "until": 4}}, "fingerprint": "f", "why": '
    '"patients changed", "seen": 7, "numbered": true, "by_flow": true, "rules": "r", "key": "k", "replayed": '
    '{"rules": ["valid"], "dropped": true, "everything": false}, "restores": [[2, 5], [null, 9]], "pipeline": '
    '"p", "run_id": "command line 44397026", "trigger": "availableNow", "op": "0795d77c", "enters": '
    '["t_quarantine"], "leaves": [], "read": 3, "written": 2, "mixed": false}}'
)
OF_INTERVAL = (
    '{"sluicegate": {"layer": "silver", "table": "t", "mode": "interval", "since": 0, "until": 1, "inputs": {}, '
    '"source_id": "e3caa1bf", "fingerprint": "", "why": "", "seen": 7, "interval": ["2024-03-01T00:00:00+00:00", '
    '"2024-03-02T00:00:00+00:00"], "pipeline": "p", "run_id": "command line 44397026", "trigger": '
    '"availableNow", "step": "enter"}}'
)
OF_FULL_REFRESH = (
    '{"sluicegate": {"layer": "silver", "table": "t", "mode": "whole", "since": 0, "until": 1, "inputs": {}, '
    '"source_id": "e3caa1bf", "fingerprint": "", "why": "", "seen": 7, "pipeline": "p", "run_id": "command line '
    '44397026", "trigger": "availableNow", "new_table": false}}'
)
GOLD = (
    '{"sluicegate": {"layer": "gold", "table": "t", "mode": "whole", "since": -1, "until": 0, "inputs": '
    '{"patients": "18bf1c11@0"}, "source_id": "e3caa1bf", "fingerprint": "", "why": "its definition changed", '
    '"seen": -1, "pipeline": "p", "run_id": "command line 44397026", "trigger": "availableNow", "read": 3, '
    '"strategy": "partial", "because": "new rows are added to its groups, deleted rows are subtracted", "cost": '
    '{"technique": "whole", "estimated": 1.0, "estimates": {"partial": 2.04, "whole": 1.0}, "rows": {"changed": '
    '1, "all": 2, "held": 3, "touched": 4}, "regret": 0.5, "began": 1795920929091}, "changed": {"update": 1}, '
    '"groups": null, "all": true}}'
)


class Settings(dict[str, str]):
    """Settings of a session, with those of a commit while it is made."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


def committed(flow: Flow, progress: Progress, facts: dict[str, Any], **fields: Any) -> str:
    """Metadata of a commit of a batch with these facts."""
    settings = Settings()
    session = SimpleNamespace(conf=settings)
    delivery = SimpleNamespace(frame=SimpleNamespace(sparkSession=session), prove=lambda: None)
    source = SimpleNamespace(delta=SimpleNamespace(metadata=lambda: SimpleNamespace(id="e3caa1bf")))
    batch = Batch(
        cast("Any", delivery), 3, bool(fields.pop("whole", False)), False, progress, flow, TableReport("t", "silver"),
        RUN, opened=cast("Any", {"source": source}), **fields,
    )  # fmt: skip
    with batch.commit(**facts):
        return settings[METADATA]


def flow(layer: str, **fields: Any) -> Flow:
    return Flow(layer, "t", "source", "target", **fields)


def test_a_commit_of_bronze() -> None:
    facts = {
        "chunk": 1, "files": 2, "bytes": 181, "failed": {"/a": ["torn", False]}, "collisions": {"a b": "a_b"},
        "manifest": {"/b": 8}, "definition": "266f9224c70dd3cd", "seen": 4, "dialect": "rfc4180",
        "expectations": {"r": {"passed": 8, "failed": 0}},
    }  # fmt: skip
    progress = Progress("incremental", -1, 1, seen=-1)  # type: ignore[arg-type]
    commits = {"sources": {"": "def7ec76"}, "inputs": {}}
    assert committed(flow("bronze"), progress, facts, commits_read=commits) == BRONZE


def test_a_commit_of_silver_with_all_that_a_batch_may_say() -> None:
    facts = {"op": "0795d77c", "enters": ["t_quarantine"], "leaves": [], "read": 3, "written": 2, "mixed": False}
    fingerprints = Fingerprints(computation="f", rules="r", key="k")
    of_flow = flow("silver", policy=RecordPolicy(many=True), fingerprints=fingerprints, streams={"a": "/a"})
    progress = Progress(
        "incremental", 0, 1, stamps=STAMPS, seen=7, restores=[(2, 5), (None, 9)], why="patients changed", of_flows=True,
        streams={"a": StreamProgress("ID", 0, 4)},
    )  # type: ignore[arg-type]  # fmt: skip
    replay = Replay("t", ("valid",), dropped=True)
    assert committed(of_flow, progress, facts, choice=replay) == SILVER


def test_a_commit_of_an_interval_and_one_of_a_full_refresh() -> None:
    progress = Progress("incremental", 0, 1, seen=7)  # type: ignore[arg-type]
    interval = Interval(datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 2, tzinfo=UTC))
    assert committed(flow("silver"), progress, {"step": "enter"}, choice=interval) == OF_INTERVAL
    assert committed(flow("silver"), progress, {"new_table": False}, whole=True) == OF_FULL_REFRESH


def test_a_commit_of_gold() -> None:
    strategy = refresh_strategy("SELECT g, sum(x) AS s FROM t GROUP BY g")
    choice = TechniqueChoice("whole", {"partial": 2.04, "whole": 1.0}, Work(1, 2, 3, 4), 0.5, began=1795920929091)  # type: ignore[arg-type, dict-item]
    facts = {
        "read": 3, "strategy": strategy.kind, "because": strategy.why, **choice.commit_facts(),
        "changed": {"update": 1}, "groups": None, "all": True,
    }  # fmt: skip
    progress = Progress("whole", -1, 0, stamps=STAMPS, seen=-1, why="its definition changed")  # type: ignore[arg-type]
    assert committed(flow("gold"), progress, facts, whole=True) == GOLD

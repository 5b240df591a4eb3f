"""Whether stored aggregate state can be used for a batch, by real Delta logs that delta-rs wrote. No Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql.types import DataType, LongType, StringType

from sluicegate.flow import histories
from sluicegate.flow.model import Fingerprints, Flow, Progress
from sluicegate.gold.group_state import GroupState
from sluicegate.gold.partial_aggregates import LAYOUT, Partials
from sluicegate.lake import log, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.table import Tables

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2, 3]})
TYPES: dict[str, DataType] = {"_group_0": StringType(), "_argument_1": LongType()}


def version(uri: str) -> int:
    """Newest version of a table."""
    return tables.table_at(uri).version()


@dataclass
class World:
    """A source, a lookup ``u`` that is joined to it, and the state of a gold table of both."""

    folder: Path
    since: int = 0
    changed: dict[str, int] = field(default_factory=dict)
    types: dict[str, DataType] = field(default_factory=lambda: TYPES)
    definition: str = "d"

    def __post_init__(self) -> None:
        self.source, self.lookup, self.state = (str(self.folder / name) for name in ("source", "lookup", "state"))
        self.add(self.source, self.lookup)

    def add(self, *uris: str) -> None:
        """Commits rows to tables."""
        for uri in uris:
            write_deltalake(uri, ROWS, mode="append")

    @property
    def flow(self) -> Flow:
        return Flow(
            "gold", "q", self.source, str(self.folder / "gold"), inputs={"u": self.lookup},
            fingerprints=Fingerprints(self.definition),
        )  # fmt: skip

    def _stamp(self) -> str:
        return f"{tables.table_id(tables.table_at(self.lookup))}@{version(self.lookup)}"

    def progress(self) -> Progress:
        """Progress of a batch up to the newest versions."""
        return Progress(
            "incremental", self.since, version(self.source), versions={"u": version(self.lookup)},
            stamps={"u": self._stamp()}, app_id="app", changed=self.changed,
        )  # fmt: skip

    def keep(self, **facts: Any) -> None:
        """Commits state of the newest versions, as a run does."""
        progress = self.progress()
        info = {
            "layout": LAYOUT, "source": "app", "types": {name: kind.simpleString() for name, kind in TYPES.items()},
            "fingerprint": "d", "until": progress.until, "inputs": progress.stamps, "restores": [],
            "seen": -1 if not DeltaTable.is_deltatable(self.state) else version(self.state),
            CommitInfo.commits.key: histories.facts(self.flow, progress, Tables()), **facts,
        }  # fmt: skip
        metadata = {"userMetadata": json.dumps({log.METADATA: info})}
        properties = CommitProperties(custom_metadata=metadata)
        write_deltalake(self.state, ROWS, mode="overwrite", commit_properties=properties)

    def usable(self) -> tuple[int, dict[str, int]] | None:
        """How far the state is, where the next batch can use it."""
        batch = SimpleNamespace(flow=self.flow, opened=Tables(), progress=self.progress())
        partials = Partials(cast("Any", SimpleNamespace(joins={"u": ()})), self.types)
        return GroupState(cast("Any", batch), partials, self.state).progress()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """State of the first versions, which the table has, too."""
    world = World(tmp_path)
    world.keep()
    assert world.usable() == (0, {})
    return world


def test_there_is_no_state_before_the_first(tmp_path: Path) -> None:
    assert World(tmp_path).usable() is None


def test_state_that_was_restored_is_not_used(world: World) -> None:
    """Its newest commit of a run says how far the rows were that the RESTORE took away."""
    world.add(world.source)
    world.keep()
    DeltaTable(world.state).restore(0)
    assert world.usable() is None


def test_state_that_was_written_anew_after_a_restore_is_used(world: World) -> None:
    world.keep()
    DeltaTable(world.state).restore(0)
    world.keep(restores=[[0, 2]])
    assert world.usable() == (0, {})


@pytest.mark.parametrize("fact", ["layout", "source", "types", "fingerprint"])
def test_state_that_was_made_for_another_table_is_not_used(world: World, fact: str) -> None:
    world.keep(**{fact: "another"})
    assert world.usable() is None


@pytest.mark.parametrize(("since", "usable"), [(-1, True), (0, True), (1, True), (2, False)])
def test_state_is_used_from_the_tables_offset_on(world: World, since: int, usable: bool) -> None:
    """State is behind the table where a batch was made without it, and ahead of it after a stop."""
    world.add(world.source)
    world.keep()
    world.add(world.source)
    world.since = since
    assert world.usable() == ((1, {}) if usable else None)


def test_state_ahead_of_the_source_is_not_used(world: World) -> None:
    world.keep(until=1)
    assert world.usable() is None


def test_state_of_a_source_that_was_put_back_and_written_on_is_not_used(world: World) -> None:
    world.add(world.source)
    world.keep()
    (Path(world.source) / "_delta_log" / f"{1:020}.json").unlink()
    world.add(world.source)
    assert world.usable() is None


@pytest.mark.parametrize(("taken_in", "usable"), [(0, True), (1, True), (2, False)])
def test_what_changed_in_a_joined_table_since_the_state_is_added(world: World, taken_in: int, usable: bool) -> None:
    """From the version that the table has taken in, or a later one that a stopped run has left state of."""
    world.add(world.lookup)
    world.keep()
    world.add(world.lookup)
    assert version(world.lookup) == 2
    world.changed = {"u": taken_in} if taken_in < 2 else {}
    assert world.usable() == ((0, {"u": 1}) if usable else None)


def test_state_of_a_joined_table_that_is_another_one_is_not_used(world: World) -> None:
    world.keep(inputs={"u": "another table@0"})
    assert world.usable() is None

"""Layers over sources that are written by hand: as many rows, files and commits as a test wants."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.flow.model import Flow
from sluicegate.lake import tables
from sluicegate.landing import intake
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITION = """
name: heart_rate
bronze:
  things: {path: PATH}
silver:
  s: {sql: s.sql}
gold:
  total: GOLD
"""
TOTAL = "sql: total.sql, refresh: incremental"
QUERIES = {"s__sql": "SELECT id, k, p FROM STREAM(things) WHERE id >= 0",
           "total__sql": "SELECT k, count(*) AS n FROM s GROUP BY k"}  # fmt: skip


def without_streams(patch: pytest.MonkeyPatch) -> None:
    """What a flow takes in is read by queries, as where there is no stream to be had."""
    patch.setattr(Flow, "why_without_stream", lambda *_, **__: "a test")


class World:
    """One layer of a pipeline over a source that is written by hand: a row in each of some files of a commit."""

    source, target, layer, rows = "things", "s", "silver", 0

    def __init__(self, spark: SparkSession, workspace: Workspace) -> None:
        self.spark, self.workspace = spark, workspace
        self.define()
        self.grow(1)

    def define(self, path: str = "'${landing}/things', format: json", gold: str = TOTAL) -> None:
        text = DEFINITION.replace("PATH", path).replace("GOLD", f"{{{gold}}}")
        self.workspace.define(text, **QUERIES)
        (self.workspace.folder / "landing" / "things").mkdir(parents=True, exist_ok=True)

    @property
    def uri(self) -> str:
        return self.workspace.uri(self.source)

    def grow(self, rows: int, keys: list[str] | None = None, files: int | None = None) -> None:
        """Commits some rows, each in a file of its own, or all in so many files; ``keys`` are theirs."""
        now, ids = [datetime.now(UTC)] * rows, list(range(self.rows, self.rows + rows))
        none, times = pa.nulls(rows, pa.string()), pa.array(now, pa.timestamp("us", "UTC"))
        parts = [number % files for number in range(rows)] if files else ids
        found = {"id": ids, "k": keys or ["x"] * rows, "p": parts, "_rescued_data": none, "_corrupt_record": none,
                 "receipt_time": times, "source_file": ["file:///f"] * rows, "_file_modification_time": times,
                 "_chunk": [self.rows] * rows, "_pos": list(range(rows))}  # fmt: skip
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(self.uri, pa.table(found), mode="append", partition_by=["p"], configuration=feed)
        self.rows += rows

    def run(self) -> Any:
        return self.workspace.run(self.spark, self.layer)[self.target]

    @property
    def taken(self) -> int:
        return len(self.workspace.rows(self.target, "id"))

    @property
    def version(self) -> int:
        found = tables.delta_table(self.workspace.uri(self.target))
        return -1 if found is None else found.version()


class Ledger(World):
    """Bronze over its ledger, of which each commit has one file, and the batch limit is in commits then."""

    target, layer = "things", "bronze"

    def grow(self, rows: int, keys: list[str] | None = None, files: int | None = None) -> None:
        for number in range(self.rows, self.rows + rows):
            self.workspace.land(f"things/{number}.json", [{"id": number}])
            intake.enter("things", self.workspace.definition.bronze["things"], self.workspace.lake)
        self.rows += rows


class Foreign(World):
    """Bronze over a table of other programs'."""

    target, layer = "things", "bronze"

    def define(self, path: str = "", gold: str = TOTAL) -> None:
        super().define(f"'{self.uri_of_theirs}', format: delta", gold)

    @property
    def uri_of_theirs(self) -> str:
        return str(self.workspace.folder / "theirs")

    @property
    def uri(self) -> str:
        return self.uri_of_theirs


class Again(World):
    """Silver where the source lost a row that was applied before."""

    gone = 0

    def grow(self, rows: int, keys: list[str] | None = None, files: int | None = None) -> None:
        super().grow(rows - 1 if self.rows else rows)
        if self.rows > rows:
            DeltaTable(self.uri).delete(f"id = {self.gone}")
            self.gone += 1

    @property
    def taken(self) -> int:
        return super().taken + self.gone


class Gold(World):
    """Gold that follows its silver table's change feed."""

    source, target, layer = "s", "total", "gold"

    @property
    def taken(self) -> int:
        return sum(n for (n,) in self.workspace.rows(self.target, "n"))


class Streaming(Gold):
    """Gold as a streaming aggregation."""

    def define(self, path: str = "'${landing}/things', format: json", gold: str = TOTAL) -> None:
        super().define(path, "sql: total.sql, mode: complete")


WORLDS = [Ledger, Foreign, World, Again, Gold, Streaming]

"""A landing, a lake and a definition of TPC-H or TPC-DI, in a folder of their own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bench.tpc import landing, tpcdi_rows, tpch_rows
from bench.tpc.landing import Form, Rows
from bench.tpc.oracle import Difference, Oracle
from sluicegate.definition import LAYERS, Pipeline, load
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout, tables
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition.tables.gold import GoldTable
    from sluicegate.flow.table_report import TableReport

DEFINITIONS = Path(__file__).resolve().parent / "pipelines"
FORMS: Mapping[str, Mapping[str, Form]] = {"tpch": tpch_rows.FORMS, "tpcdi": tpcdi_rows.FORMS}
WHOLE = "_whole"
"""End of the name of a table's twin, which is made again whole by each run."""


def generator(name: str, scale: float, seed: int) -> tpch_rows.TpcH | tpcdi_rows.TpcDi:
    """The generator of a benchmark's rows."""
    return tpch_rows.TpcH(scale, seed) if name == "tpch" else tpcdi_rows.TpcDi(scale, seed)


@dataclass(frozen=True)
class World:
    """The world of one benchmark.

    Attributes:
        folder: where landing, lake and definition are.
        name: ``tpch`` or ``tpcdi``.
        scale: of its rows.
        seed: of its rows.
    """

    folder: Path
    name: str
    scale: float
    seed: int = 1

    @property
    def settings(self) -> Settings:
        """Where its things are."""
        at = self.folder
        return Settings.of(str(at / "lake"), str(at / "landing"), at / "pipelines", "local[2]")

    @property
    def lake(self) -> layout.Lake:
        """Its lake."""
        return layout.Lake(self.settings.lake, self.name)

    @cached_property
    def pipeline(self) -> Pipeline:
        """Its definition, once it is made."""
        return load(self.name, self.settings)

    # --- definition --------------------------------------------------------------------------------------------------

    def define(self, *, twins: bool = False, only: Collection[str] = ()) -> None:
        """Copies the definition; each gold table follows what changed, however small the tables are, if it can at all.

        Args:
            twins: whether each gold table gets a twin that is made again whole by each run.
            only: the gold tables, besides those that they read; all if there are none.
        """
        folder = self.folder / "pipelines" / self.name
        shutil.copytree(DEFINITIONS / self.name, folder, dirs_exist_ok=True)
        said = yaml.safe_load((folder / "pipeline.yaml").read_text())
        tables = load(self.name, self.settings).gold
        followed = {name for name, table in tables.items() if table.refresh_strategy().kind != "whole"}
        wanted = _required_tables(tables, only or tables)
        gold = {name: fields for name, fields in said["gold"].items() if name in wanted}
        said["gold"] = {name: {"refresh": "incremental" if name in followed else "auto"} | fields
                        for name, fields in gold.items()}  # fmt: skip
        if twins:
            said["gold"] |= {f"{name}{WHOLE}": fields | {"refresh": "full"} for name, fields in gold.items()}
        (folder / "pipeline.yaml").write_text(yaml.safe_dump(said, sort_keys=False, width=10_000))

    # --- rows --------------------------------------------------------------------------------------------------------

    def land(self, number: int = 0) -> Rows:
        """Lands all rows first, or those of a landing of changes, and gives them."""
        made = generator(self.name, self.scale, self.seed)
        rows = made.changes(number) if number else made.first_landing()
        files = landing.land(self.folder / "landing", rows, FORMS[self.name], f"{number:03d}")
        landing.settle(files, time.time() - 60)
        return rows

    def run(self, spark: SparkSession, *layers: str) -> list[TableReport]:
        """Runs layers, all of them by default."""
        done = []
        for layer in layers or LAYERS:
            job = Job(self.pipeline, self.lake, layer, {"run_id": "tpc"}, spark, tell=lambda _: None)
            done += job.run().tables
        return done

    def run_one(self, spark: SparkSession, layer: str, table: str, *, full_refresh: bool = False) -> str:
        """Runs one table, and gives the state of its report."""
        job = Job(self.pipeline, self.lake, layer, {"run_id": "tpc"}, spark, only=table, full_refresh=full_refresh,
                  tell=lambda _: None)  # fmt: skip
        return job.run().tables[0].state

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table."""
        layer, _ = self.pipeline.table(table)
        found: list[dict[str, Any]] = (
            tables.dataset(tables.table_at(self.lake.table(layer, table))).to_table().to_pylist()
        )
        return found

    def differences(self) -> list[Difference]:
        """What tables, and their twins, have other than DuckDB makes of the landed files."""
        oracle, found = Oracle(self.name, self.folder / "landing"), []
        names = self.pipeline.names("silver") + self.pipeline.names("gold")
        for table in oracle.tables:
            for name in (table, f"{table}{WHOLE}"):
                if name in names and (one := oracle.difference(table, self.rows(name))) is not None:
                    found.append(one)
        return found


def _required_tables(gold: Mapping[str, GoldTable], some: Collection[str]) -> set[str]:
    """Gold tables, and those of gold that they read, in any depth."""
    found = set(some)
    while more := {read for name in found for read in gold[name].reads if read in gold} - found:
        found |= more
    return found

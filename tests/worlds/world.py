"""Random worlds: gold tables of random queries, whose inputs change at random, held against plain Spark and DuckDB."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sluicegate.definition import load
from sluicegate.gold import query_analysis
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout, log
from sluicegate.lake import tables as lake_tables
from sluicegate.settings import Settings
from sluicegate.spark.session import override_settings
from tests.worlds.grammar import Query
from tests.worlds.schema import Table, rows, tables
from tests.worlds.shapes import Shapes
from tests.worlds.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class World:
    """Three silver tables and gold tables of random queries over them, all made of a seed.

    Attributes:
        seed: of all that is random.
        folder: where the lake lies.
        spark: the session.
        queries: how many gold tables.
        shaped: whether queries are of any shape, in place of mostly GROUP BY.
        told: what was done so far, for whoever looks into a failure.
    """

    seed: int
    folder: Path
    spark: SparkSession
    queries: int = 6
    shaped: bool = False
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.tables = tables(self.random)
        self.where = Settings.of(str(self.folder / "lake"), str(self.folder / "landing"), self.folder / "pipelines")
        self.at = layout.Lake(self.where.lake, "w")
        self.texts = self._texts()
        self._define()
        self.next_id = 0
        for table, count in zip(self.tables, (30, 4, 5), strict=True):
            self._add(table, count)

    def _texts(self) -> dict[str, Text]:
        """Queries that Spark takes; what it refuses (a grammar does not know all its rules) is another's turn."""
        for table in self.tables:
            self.spark.createDataFrame([], table.ddl).createOrReplaceTempView(table.name)
        found: dict[str, Text] = {}
        while len(found) < self.queries:
            text = self._text()
            try:
                self.spark.sql(text.spark)
            except Exception as error:
                self.told.append(f"refused by Spark: {text.spark}: {str(error).splitlines()[0]}")
                continue
            found[f"gold_{len(found)}"] = text
        return found

    def _text(self) -> Text:
        if self.shaped:
            return Shapes(self.random, self.tables).make()
        return Query(self.random, self.tables[0], (self.tables[1], self.tables[2])).make()

    def _define(self) -> None:
        silver = "".join(f'  {table.name}: {{sql: "SELECT * FROM STREAM(raw) AS r"}}\n' for table in self.tables)
        folder = self.where.pipelines / "w"
        folder.mkdir(parents=True)
        gold = ""
        for name, text in self.texts.items():
            (folder / f"{name}.sql").write_text(text.spark)
            gold += f"  {name}: {{sql: {name}.sql}}\n"
        (folder / "pipeline.yaml").write_text(
            f"name: w\nbronze:\n  raw: {{path: /nowhere, format: json}}\nsilver:\n{silver}gold:\n{gold}"
        )
        self.pipeline = load("w", self.where)

    # --- what happens ------------------------------------------------------------------------------------------------

    def uri(self, table: Table) -> str:
        """Address of a silver table."""
        return self.at.table("silver", table.name)

    def _add(self, table: Table, count: int) -> None:
        made = rows(self.random, table, count, self.next_id)
        self.next_id += count if table is self.tables[0] else 0
        frame = self.spark.createDataFrame(made, table.ddl)
        frame.coalesce(1).write.format("delta").mode("append").save(self.uri(table))

    def happen(self) -> None:
        """One or two random changes of some tables."""
        facts, *others = self.tables
        touched = [
            [facts],
            [facts],
            [facts, facts],
            [facts, self.random.choice(others)],
            [self.random.choice(others)],
            others,
        ]
        for table in self.random.choice(touched):
            self.random.choice([self._append, self._append, self._update, self._update, self._delete, self._restore,
                                self._rewrite, *([self._repeat] if self.shaped else [])])(table)  # fmt: skip

    def _append(self, table: Table) -> None:
        count = self.random.choice([1, 3, 8]) if table is self.tables[0] else 1
        self.told.append(f"{count} rows into {table.name}")
        self._add(table, count)

    def _update(self, table: Table) -> None:
        column = self.random.choice(table.columns[1:])
        other = next(c for c in table.columns if c.kind in ("BIGINT", "INT", "DOUBLE", "STRING"))
        now = {
            "TIMESTAMP": "{} + INTERVAL '0.000001' SECOND", "DOUBLE": "coalesce(-{}, 0.125)", "BOOLEAN": "NOT {}",
            "BIGINT": "coalesce({} + 1, 5)", "INT": "coalesce({} % 3 + 1, 1)", "STRING": "nullif(concat({}, 'a'), 'a')",
            "DECIMAL(30,4)": "coalesce(-{}, 0.0001)", "MAP<STRING,INT>": "map('a', size({}))",
            "ARRAY<INT>": "array_append({}, 1)", "STRUCT<name:STRING,k:INT>": "named_struct('name', {}.name, 'k', 7)",
        }[column.kind].format(f"`{column.name}`")  # fmt: skip
        self._sql(f"UPDATE {{}} SET `{column.name}` = {now} WHERE hash(`{other.name}`) % 3 = 0", table)

    def _delete(self, table: Table) -> None:
        column = self.random.choice(table.columns)
        self._sql(f"DELETE FROM {{}} WHERE hash(CAST(`{column.name}` AS STRING)) % 4 = 1", table)

    def _repeat(self, table: Table) -> None:
        column = self.random.choice(table.columns)
        self._sql(f"INSERT INTO {{0}} SELECT * FROM {{0}} WHERE hash(CAST(`{column.name}` AS STRING)) % 4 = 2", table)

    def _restore(self, table: Table) -> None:
        found = lake_tables.delta_table(self.uri(table))
        version = found.version() if found is not None else 0
        if version > 0:
            self._sql(f"RESTORE TABLE {{}} TO VERSION AS OF {version - 1}", table)

    def _rewrite(self, table: Table) -> None:
        self.told.append(f"{table.name} written anew with the same rows")
        there = self.spark.read.format("delta").load(self.uri(table))
        there.write.format("delta").mode("overwrite").save(self.uri(table))

    def _sql(self, text: str, table: Table) -> None:
        self.told.append(text.format(table.name))
        self.spark.sql(text.format(f"delta.`{self.uri(table)}`"))

    # --- what must hold ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """A run of gold."""
        Job(self.pipeline, self.at, "gold", {"run_id": "worlds"}, self.spark).run()
        self.told.append("gold was run")

    def differences(self) -> list[str]:
        """In which tables plain Spark, or DuckDB, has other rows than the gold table; empty when all agree."""
        duck = self._duck()
        found = []
        for table in self.tables:
            self.spark.read.format("delta").load(self.uri(table)).createOrReplaceTempView(table.name)
        for name, text in self.texts.items():
            stored = self.spark.read.format("delta").load(self.at.table("gold", name)).collect()
            with override_settings(self.spark, query_analysis.INTERPRETED):
                plain = self.spark.sql(text.spark).collect()
            problem = differ(stored, plain)
            if problem:
                found.append(f"{name} is not what plain Spark gives ({self.strategy(name)}): {problem}\n  {text.spark}")
            elif text.duck is not None and (problem := differ(stored, _asked(duck, text.duck))):
                found.append(f"{name} is not what DuckDB gives: {problem}\n  {text.spark}\n  {text.duck}")
        return found

    def strategy(self, name: str) -> str:
        """How a gold table was made the last time."""
        last = log.last_own_commit(lake_tables.delta_table(self.at.table("gold", name)))
        said = (last.ours or {}) if last is not None else {}
        return f"{said.get('strategy')}, {said.get('because')}, all: {said.get('all')}"

    def _duck(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        for table in self.tables:
            found = lake_tables.delta_table(self.uri(table))
            assert found is not None
            arrow = _without_zones(lake_tables.dataset(found).to_table())
            connection.register(f"{table.name}_arrow", arrow)
            connection.execute(f'CREATE TABLE "{table.name}" AS SELECT * FROM "{table.name}_arrow"')
        return connection


def _asked(duck: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
    return duck.execute(text).fetchall()


def _without_zones(table: pa.Table) -> pa.Table:
    """A table whose times, which are UTC, do not say so: DuckDB then reads them as Spark shows them."""
    fields = [pa.field(f.name, pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def differ(one: Sequence[Any], other: Sequence[Any]) -> str:
    """How two multisets of rows differ, in words; empty if they do not. Doubles may differ in their last digits."""
    left, right = sorted(map(plain, one), key=_order), sorted(map(plain, other), key=_order)
    if len(left) == len(right) and all(map(alike, left, right)):
        return ""
    here, there = Counter(map(_order, left)), Counter(map(_order, right))
    return (f"{len(left)} rows for {len(right)}; only stored: {list((here - there).elements())[:3]}; "
            f"only expected: {list((there - here).elements())[:3]}")  # fmt: skip


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same; doubles but for what adding in another order does to them."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def plain(value: Any) -> Any:
    """A value as both Spark and DuckDB give it."""
    if isinstance(value, dict):
        if value.keys() == {"name", "k"}:  # a struct, as DuckDB gives it
            return tuple(map(plain, value.values()))
        return tuple(sorted((plain(k), plain(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, float) and value == 0:
        return 0.0
    return value


def _order(value: Any) -> str:
    return repr(_rounded(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def failures(
    seeds: Iterable[int],
    folder: Path,
    spark: SparkSession,
    *,
    queries: int = 6,
    runs: int = 3,
    shaped: bool = False,
    strategies: Counter[str] | None = None,
) -> list[str]:
    """Tries worlds, each through some runs, and tells what was not right.

    Args:
        seeds: one a world.
        folder: for their lakes.
        spark: the session.
        queries: gold tables of a world.
        runs: how often gold is run in it.
        shaped: whether the queries are of any shape.
        strategies: counts how each table was made the last time, if given.
    """
    found: list[str] = []
    for seed in seeds:
        world = World(seed, folder / str(seed), spark, queries, shaped)
        for number in range(runs):
            if number:
                world.happen()
            try:
                world.run()
                problems = world.differences()
            except Exception as error:
                problems = [f"{type(error).__name__}: {str(error)[:1500]}"]
            if problems:
                history = "\n  ".join(line for line in world.told if not line.startswith("refused"))
                found += [f"seed {seed}, run {number + 1}: {problem}\n  {history}" for problem in problems]
                break
        if strategies is not None:
            strategies.update(world.strategy(name).partition(",")[0] for name in world.texts)
    return found

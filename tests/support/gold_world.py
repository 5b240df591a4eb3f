"""Silver tables whose rows come, change and go, gold tables over them, and what these should have."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.definition import load
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout, log
from sluicegate.lake import tables as lake_tables
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sluicegate.flow.table_report import TableReport

COLUMNS = "id BIGINT, g STRING, k INT, x DOUBLE, n BIGINT, d DECIMAL(38, 4), p DECIMAL(10, 2), t TIMESTAMP, b BOOLEAN"
"""Columns of the silver table."""

NAMES = "g STRING, name STRING, weight DOUBLE"
"""Columns of the table that it can be joined with."""


class GoldWorld:
    """A lake with silver tables, ``t`` and ``u``, which are written by hand.

    Args:
        folder: where it lies.
        queries: the gold tables by name, each with its query, or its fields as YAML.
        spark: the session.
    """

    def __init__(self, folder: Path, queries: Mapping[str, str], spark: SparkSession) -> None:
        self.spark = spark
        self.where = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
        self.at = layout.Lake(self.where.lake, "w")
        self.silver, self.names = self.at.table("silver", "t"), self.at.table("silver", "u")
        self.define(queries)

    def define(self, queries: Mapping[str, str], views: Mapping[str, str] | None = None) -> None:
        """Writes the definition, with views by name."""
        shared = "".join(f'  {name}: "{query}"\n' for name, query in (views or {}).items())
        tables = "".join(f"  {name}:\n    {_fields(query)}\n" for name, query in queries.items())
        text = (
            'name: w\nbronze:\n  raw: {path: "${landing}", format: json}\n'
            'silver:\n  t: {sql: "SELECT * FROM STREAM(raw) AS r"}\n  u: {sql: "SELECT * FROM STREAM(raw) AS r"}\n'
            f"gold:\n{tables}" + (f"views:\n{shared}" if shared else "")
        )
        path = self.where.pipelines / "w" / "pipeline.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.pipeline = load("w", self.where)

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Commits rows to the silver table."""
        frame = self.spark.createDataFrame(list(rows), COLUMNS)
        frame.coalesce(1).write.format("delta").mode("append").save(self.silver)

    def name(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Commits rows to the table that it can be joined with."""
        frame = self.spark.createDataFrame(list(rows), NAMES)
        frame.coalesce(1).write.format("delta").mode("append").save(self.names)

    def sql(self, text: str) -> None:
        """Runs a statement in which ``{t}`` and ``{u}`` stand for the silver tables."""
        self.spark.sql(text.replace("{t}", f"delta.`{self.silver}`").replace("{u}", f"delta.`{self.names}`"))

    def run(self, *only: str) -> dict[str, TableReport]:
        """Runs gold, all of it or some tables."""
        done = Job(self.pipeline, self.at, "gold", {"run_id": "test"}, self.spark, only=only or None).run()
        return {table.table: table for table in done.tables}

    def rows(self, name: str) -> Counter[Any]:
        """The rows of a gold table, in comparable values."""
        return _counted(self.table(name).collect())

    def table(self, name: str) -> DataFrame:
        """A gold table."""
        return self.spark.read.format("delta").load(self.at.table("gold", name))

    def expected(self, name: str) -> Counter[Any]:
        """What plain Spark makes of the tables that it reads by the same query."""
        return _counted(self.plain(name).collect())

    def plain(self, name: str) -> DataFrame:
        """The query of a gold table, as plain Spark reads it."""
        for table in self.pipeline.gold[name].query.tables:
            uri = self.at.table(self.pipeline.table(table)[0], table)
            self.spark.read.format("delta").load(uri).createOrReplaceTempView(table)
        return self.spark.sql(self.pipeline.gold[name].query.text)

    def silver_rows(self) -> list[Any]:
        """The rows of the silver table."""
        return list(self.spark.read.format("delta").load(self.silver).collect())

    def commits(self, name: str) -> list[Mapping[str, Any]]:
        """What the commits of a gold table say, newest first."""
        table = lake_tables.delta_table(self.at.table("gold", name))
        assert table is not None
        return [commit.ours or {} for commit in log.commits(table)]


def kept(query: str) -> str:
    """A gold table that keeps what it needs of its groups, however small silver is."""
    return f'{{sql: "{query}", refresh: incremental}}'


def exact(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """The sum and the average of doubles, each rounded once; None without any."""
    there = [value for value in values if value is not None]
    if not there:
        return None, None
    odd = [value for value in there if math.isnan(value) or math.isinf(value)]
    if odd:
        return sum(odd), sum(odd)
    total = sum(map(Fraction, there), Fraction(0))
    return _rounded(total), _rounded(total / len(there))


def comparable(value: Any) -> Any:
    """A value so that what is the same is equal: NaN too, but not 0.0 and -0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(comparable, value))
    if isinstance(value, dict):
        return frozenset((comparable(key), comparable(one)) for key, one in value.items())
    return value


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _counted(rows: Iterable[Any]) -> Counter[Any]:
    return Counter(tuple(map(comparable, row)) for row in rows)


def _fields(query: str) -> str:
    return query if query.startswith("{") else f'sql: "{query}"'

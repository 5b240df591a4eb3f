"""Small tables that change at random, and what affected keys must say of their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from sluicegate.gold.affected.keys import Keys, lenient_session
from sluicegate.gold.affected.operators import TouchesAll
from sluicegate.spark_sql.query import Query
from tests.support.gold_world import comparable
from tests.worlds.schema import Table, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KeyedWorld:
    """Tables, as they were and as they are.

    Args:
        spark: the session.
        tables: the tables; the first is the one that queries follow.
        random: what chooses rows and changes.
    """

    def __init__(self, spark: SparkSession, tables: Iterable[Table], random: Random) -> None:
        self.spark, self.tables, self.random = spark, list(tables), random
        self.next_id = 0
        self.now = {table.name: self._rows(table, 14 if n == 0 else 5) for n, table in enumerate(self.tables)}
        self.before = self.now

    def change(self, names: Iterable[str]) -> None:
        """Lets rows of some tables come, change, go and be there twice."""
        self.before, self.now = self.now, dict(self.now)
        for table in self.tables:
            if table.name in names:
                there = list(self.now[table.name])
                for _ in range(self.random.choice([1, 1, 2])):
                    if there and self.random.random() < 0.5:
                        there.pop(self.random.randrange(len(there)))
                    if there and self.random.random() < 0.2:
                        there.append(self.random.choice(there))
                    if self.random.random() < 0.7:
                        there += self._rows(table, 1)
                self.now[table.name] = there

    def clear(self) -> None:
        """Lets all rows of all tables go at once: what met before has nothing to meet any more."""
        self.before, self.now = self.now, {table.name: [] for table in self.tables}

    def result(self, text: str) -> Counter[Any]:
        """Rows of a query, as plain Spark gives them now."""
        for table in self.tables:
            self._frame(table, self.now[table.name]).createOrReplaceTempView(table.name)
        return Counter(tuple(map(comparable, row)) for row in self.spark.sql(text).collect())

    def keys(self, text: str) -> Keys:
        """Keys of a query.

        Raises:
            TouchesAll: it has none.
        """
        query = Query.parse(text)
        by_name = {table.name: table for table in self.tables}
        schemas = {name: self._frame(by_name[name], []).schema for name in query.tables_by_from}
        return Keys.choose(self.spark, query, schemas)

    def touched(self, keys: Keys, reads: Iterable[str]) -> set[Any] | None:
        """Touched keys of the last changes; None if these touch all."""
        current = {table.name: self._frame(table, self.now[table.name]) for table in self.tables if table.name in reads}
        changes: dict[str, DataFrame] = {}
        for table in self.tables:
            was, is_ = (Counter(map(_hashable, of[table.name])) for of in (self.before, self.now))
            rows_ = {_hashable(row): row for of in (self.before, self.now) for row in of[table.name]}
            other = [rows_[key] for key in ((was - is_) + (is_ - was)).elements()]
            if other and table.name in reads:
                changes[table.name] = self._frame(table, other)
        if not changes:
            return set()
        if keys.why_blocked(changes):
            return None
        with lenient_session(self.spark):
            found = keys.affected_keys(changes, current)
            return {tuple(map(comparable, row)) for row in found.collect()} if found is not None else set()

    def _rows(self, table: Table, count: int) -> list[tuple[Any, ...]]:
        made = rows(self.random, table, count, self.next_id)
        self.next_id += count if table is self.tables[0] else 0
        return made

    def _frame(self, table: Table, there: list[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame(there, table.ddl)


def missed(keys: Keys, columns: list[str], was: Counter[Any], is_: Counter[Any], touched: set[Any]) -> Counter[Any]:
    """Rows that came or went and whose keys are not among the touched ones."""
    places = [columns.index(name) for name in keys.names]
    other = (was - is_) + (is_ - was)
    return Counter({row: n for row, n in other.items() if tuple(row[place] for place in places) not in touched})


def strategies(world: KeyedWorld, texts: Mapping[str, str]) -> dict[str, str]:
    """For each query its keys, or why it has none."""
    found = {}
    for name, text in texts.items():
        try:
            found[name] = ", ".join(world.keys(text).names)
        except TouchesAll as reason:
            found[name] = f"whole: {reason.args[0]}"
    return found


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((key, _hashable(one)) for key, one in value.items())
    return repr(value)

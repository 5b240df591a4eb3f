"""Random tables that gold queries are tried on, and their rows: names that clash, odd types, NULL keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

# Names that tables share on purpose, and names that are words of the language.
SHARED = ("name", "k", "n", "since", "order", "value", "group", "date", "Name2", "a-b", "select", "left", "t")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: as it is written.
        kind: its type in Spark's words.
    """

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A table and its columns; ``key`` is the column by which other tables are joined with it."""

    name: str
    columns: tuple[Column, ...]
    key: str = ""

    @property
    def ddl(self) -> str:
        """Its columns as Spark declares them."""
        return ", ".join(f"`{column.name}` {column.kind}" for column in self.columns)

    def of(self, *kinds: str) -> list[Column]:
        """Its columns of some types."""
        return [column for column in self.columns if column.kind in kinds]


TEXTS = [None, "a", "A", "b", "", "ä", "a b", "it's"]
NUMBERS = [None, 0, 1, 2, 3, -7, 61, 70, 2**40]
# Multiples of 1/8 that are not large: their sums are exact, in whatever order they are added.
DOUBLES = [None, 0.5, -1.25, 3.0, 1e6, -0.125, 2.5]
ODD_DOUBLES = [*DOUBLES, float("nan"), float("inf")]
ENDS = [None, Decimal("99999999999999999999999999.9999"), Decimal("-99999999999999999999999999.9999"),
        Decimal("0.0001"), Decimal("-0.0001"), Decimal("12.5000"), Decimal("1")]  # fmt: skip
MOMENT = datetime(2024, 1, 31, 23, 59, 59, 999_999)


def tables(random: Random) -> tuple[Table, Table, Table]:
    """A table of facts and two that it can be joined with, with names that partly are the same."""
    shared = random.sample(SHARED, 6)
    text, number, moment, other = shared[0], shared[1], shared[2], shared[3]
    facts = Table(
        "sales",
        (
            Column("id", "BIGINT"), Column("store", "INT"), Column("customer", "STRING"), Column(text, "STRING"),
            Column(number, "BIGINT"), Column("x", "DOUBLE"), Column("odd", "DOUBLE"), Column("amount", "DECIMAL(30,4)"),
            Column(moment, "TIMESTAMP"), Column("flag", "BOOLEAN"), Column(other, "STRING"),
            Column("tags", "MAP<STRING,INT>"), Column("who", "STRUCT<name:STRING,k:INT>"), Column("days", "ARRAY<INT>"),
        ),
    )  # fmt: skip
    stores = Table(
        "stores",
        (
            Column("store" if random.random() < 0.5 else "store_id", "INT"), Column(text, "STRING"),
            Column(number if random.random() < 0.6 else "size", "BIGINT"), Column("opened", "TIMESTAMP"),
        ),
    )  # fmt: skip
    customers = Table(
        "customers",
        (
            Column("customer" if random.random() < 0.5 else "code", "STRING"), Column(text, "STRING"),
            Column(moment if random.random() < 0.5 else "born", "TIMESTAMP"), Column("weight", "DOUBLE"),
            Column(other if random.random() < 0.5 else "city", "STRING"),
        ),
    )  # fmt: skip
    keyed = [Table(table.name, table.columns, table.columns[0].name) for table in (stores, customers)]
    return facts, keyed[0], keyed[1]


def value(random: Random, column: Column) -> Any:
    """A value of a column, NULL now and then."""
    match column.kind:
        case "STRING":
            return random.choice(TEXTS)
        case "INT":
            return random.choice([None, 1, 2, 3, 4])
        case "BIGINT":
            return random.choice(NUMBERS)
        case "DOUBLE":
            return random.choice(ODD_DOUBLES if column.name == "odd" else DOUBLES)
        case "TIMESTAMP":
            steps = [timedelta(microseconds=1), timedelta(microseconds=2), timedelta(hours=5), timedelta(days=40)]
            return random.choice([None, MOMENT, *[MOMENT + step for step in steps]])
        case "BOOLEAN":
            return random.choice([None, True, False])
        case "MAP<STRING,INT>":
            return random.choice([None, {}, {"a": 1}, {"a": 2}, {"a": 1, "b": None}, {"b": 3}])
        case "STRUCT<name:STRING,k:INT>":
            return random.choice([None, ("a", 1), ("a", 2), (None, 1), ("b", None)])
        case "ARRAY<INT>":
            return random.choice([None, [], [1], [1, 2], [None], [2, 1]])
    return random.choice(ENDS)


def rows(random: Random, table: Table, count: int, first: int = 0) -> list[tuple[Any, ...]]:
    """Rows of a table; of the table of facts each has an ``id`` of its own."""
    return [
        tuple(first + number if column.name == "id" else value(random, column) for column in table.columns)
        for number in range(count)
    ]

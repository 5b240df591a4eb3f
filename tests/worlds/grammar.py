"""Random gold queries, each written for Spark and, where both mean the same by it, for DuckDB.

Both texts are written here side by side; neither is made of the other, and nothing of the engine is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.worlds.schema import Column, Table
from tests.worlds.text import Text, joined, listed, name


@dataclass(frozen=True)
class Read:
    """A table of a query: what it calls it, and which of its columns can be seen."""

    table: Table
    alias: str
    visible: bool = True


@dataclass
class Query:
    """A query of a random shape over three tables.

    Attributes:
        random: what chooses.
        facts: the table of facts.
        others: the tables that it can be joined with.
    """

    random: Random
    facts: Table
    others: tuple[Table, Table]
    reads: list[Read] = field(default_factory=list)
    using: set[str] = field(default_factory=set)

    def make(self) -> Text:
        """The query."""
        often: list[Callable[[], Text]] = [self.grouped] * 12 + [self.star] * 5 + [self.shadowing] * 3
        others = [
            self.one_row, self.distinct, self.projection, self.derived, self.with_, self.union, self.windowed,
            self.rollup, self.semi_by_in, self.full,
        ]  # fmt: skip
        return self.random.choice([*often, *others])()

    # --- FROM --------------------------------------------------------------------------------------------------------

    def from_(self, most: int = 2) -> Text:
        """The tables, with aliases that may be the name of another table or of a column."""
        aliases = self.random.sample(["s", "r", "t", "stores", "customers", "sales", "name", "k", "`order`"], 4)
        first = Read(self.facts, self._alias(aliases[0], self.facts))
        self.reads, self.using = [first], set()
        text = joined("{}" + (" AS {}" if first.alias != "sales" else ""), name("sales"), self._called(first))
        others = self.random.sample([*self.others, self.facts], self.random.choice([0, 0, 1, 1, most]))
        for number, other in enumerate(others, 1):
            text = self._join(text, other, self._alias(aliases[number], other))
        return text

    def _alias(self, alias: str, table: Table) -> str:
        alias = alias.strip("`")
        taken = {read.alias for read in self.reads}
        own = table.name if table.name not in taken else f"{table.name}_{len(self.reads)}"
        return own if alias in taken or self.random.random() < 0.3 else alias

    def _called(self, read: Read) -> Text:
        return name(read.alias)

    def _join(self, text: Text, other: Table, alias: str) -> Text:
        first = self.reads[0]
        kind = self.random.choice(["JOIN", "LEFT JOIN", "LEFT JOIN", "INNER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        if other is self.facts:
            ours, theirs = Column("id", "BIGINT"), Column("id", "BIGINT")
        else:
            theirs = other.columns[0]
            ours = next(column for column in self.facts.columns if column.name in ("store", "customer")
                        and column.kind == theirs.kind)  # fmt: skip
        read = Read(other, alias, visible="SEMI" not in kind and "ANTI" not in kind)
        duck_kind = kind.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
        shared = ours.name == theirs.name and len(self.reads) == 1 and other is not self.facts
        if shared and read.visible and self.random.random() < 0.4:
            self.using.add(ours.name)
            condition = joined("USING ({})", name(ours.name))
        else:
            sides = [self.of(first, ours), joined("{}.{}", name(alias), name(theirs.name))]
            sign = Text("<=>", "IS NOT DISTINCT FROM") if self.random.random() < 0.2 else Text("=", "=")
            if self.random.random() < 0.3:
                sides.reverse()
            condition = joined("ON {} {} {}", sides[0], sign, sides[1])
        self.reads.append(read)
        return joined("{} {} {} AS {} {}", text, Text(kind, duck_kind), name(other.name), name(alias), condition)

    # --- expressions -------------------------------------------------------------------------------------------------

    def of(self, read: Read, column: Column) -> Text:
        """A column by its table's name."""
        both = joined("{}.{}", self._called(read), name(column.name))
        return Text(*both.both, column.kind)

    def column(self, *kinds: str) -> Text:
        """A column that can be seen, without its table's name now and then, where only one table has it."""
        there = [(r, c) for r in self.reads if r.visible for c in r.table.columns if not kinds or c.kind in kinds]
        read, column = self.random.choice(there)
        same = [r for r in self.reads if r.visible and column.name.lower() in {c.name.lower() for c in r.table.columns}]
        called = {r.alias.lower() for r in self.reads}
        plain = column.name in self.using or (len(same) == 1 and column.name.lower() not in called)
        short = plain and self.random.random() < (0.75 if column.name in self.using else 0.5)
        return Text(*name(column.name).both, column.kind) if short else self.of(read, column)

    def key(self) -> Text:
        """Something to group by."""
        text, number, moment = (lambda: self.column("STRING")), (lambda: self.column("BIGINT")), self._moment
        makers: list[Callable[[], Text]] = [
            text, text, text, number, self._double, self._int,
            lambda: joined("upper({})", text(), kind="STRING"),
            lambda: joined("coalesce({}, '?')", text(), kind="STRING"),
            lambda: joined("concat({}, '-', {})", self._full(text()), self._full(text()), kind="STRING"),
            lambda: joined("{} % 3", number(), kind="BIGINT"),
            lambda: joined("{} {} 10", number(), Text("DIV", "//"), kind="BIGINT"),
            lambda: joined("{} IS NULL", text(), kind="BOOLEAN"),
            lambda: joined("CASE WHEN {} > 1 THEN 'many' ELSE 'few' END", number(), kind="STRING"),
            lambda: joined("date_trunc('DAY', {})", moment(), kind="TIMESTAMP"),
            lambda: joined("CAST({} AS DATE)", moment(), kind="DATE"),
            lambda: moment(),
        ]  # fmt: skip
        if any(read.table is self.facts and read.visible for read in self.reads):
            makers += [
                lambda: joined("{}['a']", self.column("MAP<STRING,INT>"), kind="INT"),
                lambda: joined("{}.name", self._parent(self.column("STRUCT<name:STRING,k:INT>")), kind="STRING"),
                lambda: self.column("MAP<STRING,INT>"),
                lambda: self.column("ARRAY<INT>"),
                lambda: self.column("DECIMAL(30,4)"),
            ]
        return self.random.choice(makers)()

    def _full(self, text: Text) -> Text:
        """A text that is never NULL: DuckDB's concat leaves NULLs out."""
        return joined("coalesce({}, '')", text, kind="STRING")

    def _parent(self, text: Text) -> Text:
        return Text(text.spark, None if text.duck is None else f"({text.duck})", text.kind)

    def _moment(self) -> Text:
        return self.column("TIMESTAMP")

    def _double(self) -> Text:
        found = self.column("DOUBLE")
        return joined("{} > 0", found, kind="BOOLEAN") if self.random.random() < 0.5 else found

    def _int(self) -> Text:
        return self.column("INT") if self.reads[0].visible else self.column("BIGINT")

    def call(self) -> Text:
        """An aggregate function."""
        number, text = (lambda: self.column("BIGINT")), (lambda: self.column("STRING"))
        x = lambda: self._exact_double()  # noqa: E731
        makers: list[Callable[[], Text]] = [
            lambda: Text("count(*)", "count(*)"), lambda: Text("count(*)", "count(*)"),
            lambda: joined("count({})", text()),
            lambda: joined("sum({})", number()), lambda: joined("sum({})", x()), lambda: joined("avg({})", x()),
            lambda: joined("sum({} * 2)", x()), lambda: joined("avg({})", number()),
            lambda: joined("sum({})", self._amount()), lambda: joined("max({})", self._amount()),
            lambda: joined("min({})", text()), lambda: joined("max({})", self._moment()),
            lambda: joined("min({})", self._moment()), lambda: joined("max({})", self.column("DOUBLE")),
            lambda: joined("count(DISTINCT {})", text()), lambda: joined("count(DISTINCT {})", self._moment()),
            lambda: joined("sum({}) FILTER (WHERE {})", number(), self.condition()),
            lambda: joined("count(*) FILTER (WHERE {})", self.condition()),
            lambda: joined("{}({})", Text("bool_or", "bool_or"), self._flag()),
            # DuckDB 2.0's own count_if gives NULL, not 0, where the condition is NULL for every row.
            lambda: joined("{}{})", Text("count_if(", "count(*) FILTER (WHERE "), self.condition()),
            lambda: joined("{}({}(DISTINCT {}))", Text("array_sort", "list_sort"), Text("collect_set", "list"),
                           self._full(text())),
            lambda: Text(f"stddev_pop({number().spark})", None),
            lambda: Text(f"max_by({text().spark}, {self._id()})", None),
            lambda: joined("coalesce(sum({}), 0) + count(*)", number()),
            lambda: joined("max({}) - min({})", *[number()] * 2),
        ]  # fmt: skip
        return self.random.choice(makers)()

    def _id(self) -> str:
        return self.of(self.reads[0], Column("id", "BIGINT")).spark

    def _exact_double(self) -> Text:
        return self.of(self.reads[0], Column("x", "DOUBLE"))

    def _amount(self) -> Text:
        return self.of(self.reads[0], Column("amount", "DECIMAL(30,4)"))

    def _flag(self) -> Text:
        return self.of(self.reads[0], Column("flag", "BOOLEAN"))

    def condition(self) -> Text:
        """Something that is true of some rows."""
        makers: list[Callable[[], Text]] = [
            lambda: joined("{} > 1", self.column("BIGINT")),
            lambda: joined("{} IS NOT NULL", self.column("STRING")),
            lambda: joined("{} IN ('a', 'b', '')", self.column("STRING")),
            lambda: joined("{} OR {} < 3", self._flag(), self.column("BIGINT")),
            lambda: joined("{} >= TIMESTAMP '2024-02-01 00:00:00'", self._moment()),
            lambda: joined("NOT ({} = 'a')", self.column("STRING")),
        ]
        return self.random.choice(makers)()

    def where(self) -> Text:
        """A WHERE, most often none."""
        return joined(" WHERE {}", self.condition()) if self.random.random() < 0.35 else Text("", "")

    # --- shapes ------------------------------------------------------------------------------------------------------

    def grouped(self) -> Text:
        """A GROUP BY with aliases that may shadow columns."""
        from_ = self.from_()
        keys = [self.key() for _ in range(self.random.choice([1, 1, 2, 2, 3]))]
        if len(self.reads) > 2 and self.random.random() < 0.5:  # columns of one name from two tables
            keys = [self.of(read, read.table.of("STRING")[-1]) for read in self.reads if read.visible][:3]
        calls = [self.call() for _ in range(self.random.choice([1, 2, 3]))]
        if self.random.random() < 0.4:
            calls.append(self.over(keys[0]))
        return self._select(from_, keys, calls)

    def over(self, key: Text) -> Text:
        """An expression over what is grouped by."""
        if key.kind in ("BIGINT", "INT"):
            patterns = ["CASE WHEN {} > 5 THEN 'hi' ELSE 'lo' END", "{} + 1", "10 * ({}) + count(*)", "coalesce({}, 0)"]
        elif key.kind == "STRING":
            patterns = ["coalesce({}, 'none')", "length({}) + count(*)", "upper({})", "{} = 'a'"]
        else:
            patterns = ["{} IS NULL", "CASE WHEN {} IS NOT NULL THEN count(*) END"]
        return joined(self.random.choice(patterns), key)

    def star(self) -> Text:
        """A star: facts with both other tables, by columns of which each table may have one of that name."""
        self.reads, self.using = [Read(self.facts, "f")], set()
        text, aliases = Text("sales AS f", "sales AS f"), self.random.sample(["s", "c", "name", "sales", "k"], 2)
        for other, alias in zip(self.random.sample(self.others, 2), aliases, strict=True):
            ours = "store" if other.name == "stores" else "customer"
            kind = Text(*[self.random.choice(["JOIN", "LEFT JOIN"])] * 2)
            text = joined("{} {} {} AS {} ON f.{} = {}.{}", text, kind, name(other.name), name(alias), name(ours),
                          name(alias), name(other.key))  # fmt: skip
            self.reads.append(Read(other, alias))
        same = self.random.random() < 0.6  # both tables have a first text of one name
        keys = [self.of(read, read.table.columns[1] if same else self.random.choice(read.table.of("STRING")))
                for read in self.reads[1:]]  # fmt: skip
        if self.random.random() < 0.3:
            keys.append(self.of(self.reads[0], self.random.choice(self.facts.of("STRING"))))
        self.random.shuffle(keys)
        calls = [joined("{}(f.x)", Text(*[self.random.choice(["sum", "avg"])] * 2)), self.call()]
        if self.random.random() < 0.4:
            calls.append(self.over(keys[0]))
        return self._select(text, keys, calls)

    def shadowing(self) -> Text:
        """Outputs that have the name of the column that they are made of, or of another one, and use each other."""
        self.reads, self.using = [Read(self.facts, "sales")], set()
        column = self.random.choice(self.facts.of("BIGINT"))
        key = joined("{} {} 10", name(column.name), Text("DIV", "//"), kind="BIGINT")
        shadow = name(self.random.choice([column.name, self.random.choice(self.facts.columns[3:]).name]))
        items = [joined("{} AS {}", key, shadow), joined("{} AS more", self.over(key)),
                 joined("{} AS s", self.call())]  # fmt: skip
        if self.random.random() < 0.5:
            total = joined("sum({})", name(column.name))
            items += [joined("{} AS total", total), Text("total + 1 AS next", joined("{} + 1 AS next", total).duck)]
        return joined("SELECT {} FROM sales{} GROUP BY {}", listed(items), self.where(), Text(key.spark, "1"))

    def _select(self, from_: Text, keys: Sequence[Text], calls: Sequence[Text]) -> Text:
        names = self._names(len(keys), len(calls))
        items = [joined("{} AS {}", part, name(own)) for part, own in zip([*keys, *calls], names, strict=True)]
        order = list(range(len(items)))
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        items = [items[number] for number in order]
        where, having = self.where(), Text("", "")
        if self.random.random() < 0.3:
            having = joined(" HAVING {}", self.random.choice([
                Text("count(*) > 1", "count(*) > 1"), joined("max({}) IS NOT NULL", self.column("BIGINT")),
                joined("count({}) < 5", self.column("STRING")),
            ]))  # fmt: skip
        return joined("SELECT {} FROM {}{}{}{}", listed(items), from_, where, self._group_by(keys, order), having)

    def _names(self, keys: int, calls: int) -> list[str]:
        """Names of outputs: new ones, and those of columns that they are not."""
        taken: list[str] = []
        columns = [column.name for read in self.reads for column in read.table.columns]
        for number in range(keys + calls):
            shadow = self.random.choice(columns) if self.random.random() < 0.4 else ""
            same = shadow.lower() in {one.lower() for one in taken}
            taken.append(shadow if shadow and not same else f"{'key' if number < keys else 'value'}_{number}")
        return taken

    def _group_by(self, keys: Sequence[Text], order: Sequence[int]) -> Text:
        places = [order.index(number) + 1 for number in range(len(keys))]
        ordinals = ", ".join(map(str, places))
        way = self.random.random()
        if way < 0.2:
            return Text(" GROUP BY ALL", f" GROUP BY {ordinals}")
        if way < 0.4:
            return Text(f" GROUP BY {ordinals}", f" GROUP BY {ordinals}")
        return Text(f" GROUP BY {', '.join(key.spark for key in keys)}", f" GROUP BY {ordinals}")

    def one_row(self) -> Text:
        """Aggregates without GROUP BY."""
        from_ = self.from_()
        calls = [self.call() for _ in range(3)]
        items = [joined("{} AS {}", call, name(f"value_{number}")) for number, call in enumerate(calls)]
        return joined("SELECT {} FROM {}{}", listed(items), from_, self.where())

    def distinct(self) -> Text:
        """A DISTINCT."""
        from_ = self.from_()
        items = [joined("{} AS {}", self.key(), name(f"key_{number}")) for number in range(2)]
        return joined("SELECT DISTINCT {} FROM {}{}", listed(items), from_, self.where())

    def projection(self) -> Text:
        """A SELECT without any aggregate."""
        from_ = self.from_()
        own = self.of(self.reads[0], Column("id", "BIGINT"))
        items = [joined("{} AS {}", part, name(f"c{n}")) for n, part in enumerate([own, self.key(), self.key()])]
        return joined("SELECT {} FROM {}{}", listed(items), from_, self.where())

    def derived(self) -> Text:
        """A GROUP BY over a derived table."""
        inner = self.projection()
        return joined("SELECT c1 AS c2, count(*) AS c1, max(c0) AS m FROM ({}) AS d GROUP BY c1", inner)

    def with_(self) -> Text:
        """A GROUP BY over a query of a WITH, which is called as a column is."""
        inner = self.projection()
        return joined("WITH c2 AS ({}) SELECT c2.c1, c2.c2, sum(c2.c0) AS s FROM c2 GROUP BY c2.c1, c2.c2", inner)

    def union(self) -> Text:
        """A UNION ALL of two."""
        from_ = self.from_(1)
        first = joined("SELECT {} AS a, {} AS b FROM {}", self.column("STRING"), self.column("BIGINT"), from_)
        from_ = self.from_(1)
        second = joined("SELECT {}, {} FROM {}{}", self.column("STRING"), self.column("BIGINT"), from_, self.where())
        return joined("{} UNION ALL {}", first, second)

    def windowed(self) -> Text:
        """A window function."""
        from_ = self.from_(1)
        own, key = self.of(self.reads[0], Column("id", "BIGINT")), self.column("STRING")
        number = self.column("BIGINT")
        window = joined("OVER (PARTITION BY {})", key)
        pattern = "SELECT {} AS id, {} AS g, count(*) {} AS c, max({}) {} AS m FROM {}"
        return joined(pattern, own, key, window, number, window, from_)

    def rollup(self) -> Text:
        """A ROLLUP."""
        from_ = self.from_(1)
        a, b = self.column("STRING"), self.column("INT", "BIGINT")
        # Of no rows Spark makes no row of totals; the standard, and DuckDB, make one.
        totals = Text("", " HAVING count(*) > 0")
        select = "SELECT {} AS a, {} AS b, count(*) AS c FROM {} GROUP BY ROLLUP ({}, {}){}"
        return joined(select, a, b, from_, a, b, totals)

    def semi_by_in(self) -> Text:
        """A GROUP BY of rows that another table knows."""
        self.reads, self.using = [Read(self.facts, "sales")], set()
        other = self.random.choice(self.others)
        column = "store" if other.name == "stores" else "customer"
        no = self.random.choice(["", "NOT "])
        theirs = joined("{} FROM {} WHERE {} IS NOT NULL", *[name(other.key), name(other.name), name(other.key)])
        key = self.column("STRING")
        pattern = f"SELECT {{}} AS key, count(*) AS c FROM sales WHERE {{}} {no}IN (SELECT {{}}) GROUP BY {{}}"
        return joined(pattern, key, name(column), theirs, key)

    def full(self) -> Text:
        """A FULL or RIGHT JOIN."""
        other = self.random.choice(self.others)
        side, ours = self.random.choice(["FULL", "RIGHT"]), "store" if other.name == "stores" else "customer"
        self.reads, self.using = [Read(self.facts, "f"), Read(other, "o")], set()
        key = self.of(self.reads[1], other.of("STRING")[-1])
        on = joined("f.{} = o.{}", name(ours), name(other.key))
        from_ = joined(f"sales AS f {side} JOIN {{}} AS o ON {{}}", name(other.name), on)
        return joined("SELECT {} AS key, count(*) AS c, sum(f.x) AS x FROM {} GROUP BY {}", key, from_, key)

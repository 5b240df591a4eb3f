"""Random queries of any shape: operators put on top of each other, each over a derived table of the ones below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.worlds.schema import Column, Table
from tests.worlds.text import Text, joined, listed, name

_KINDS = ("STRING", "BIGINT", "INT")
# Types that are carried along, compared and put in order; a map only the first.
_OTHERS = ("TIMESTAMP", "DECIMAL(30,4)", "DOUBLE", "BOOLEAN", "MAP<STRING,INT>")
# Names that outputs have in many places at once, and those that derived tables have besides the tables themselves.
_CLASHING = ("name", "k", "id", "order", "a-b", "t")
_SHADOWS = ("sales", "stores", "t")

# Expressions that keep the type of a column, and conditions on it.
_VALUES = {
    "STRING": ("upper({})", "coalesce({}, '?')", "nullif({}, 'a')"),
    "BIGINT": ("{} % 3", "coalesce({}, 0)", "-{}"),
    "INT": ("{} % 3", "coalesce({}, 0)", "-{}"),
    "TIMESTAMP": ("coalesce({}, TIMESTAMP '2024-01-31 23:59:59.999999')",),
    "DECIMAL(30,4)": ("-{}", "coalesce({}, 0)"),
    "DOUBLE": ("-{}", "coalesce({}, CAST(0 AS DOUBLE))"),
    "BOOLEAN": ("NOT {}", "coalesce({}, TRUE)"),
}
_CONDITIONS = {
    "STRING": ("{} IS NOT NULL", "{} IN ('a', 'b', '')", "NOT ({} = 'a')"),
    "BIGINT": ("{} > 1", "{} IS NOT NULL", "{} % 2 = 0"),
    "INT": ("{} > 1", "{} IS NOT NULL", "{} % 2 = 0"),
    "TIMESTAMP": ("{} > TIMESTAMP '2024-01-31 23:59:59.999999'", "{} IS NULL"),
    "DECIMAL(30,4)": ("{} > 1", "{} IS NOT NULL"),
    "DOUBLE": ("{} > 1", "{} IS NOT NULL"),
    "BOOLEAN": ("{}",),
}
_NOTHING = Text("", "")
_SAME = Text("<=>", "IS NOT DISTINCT FROM")


@dataclass(frozen=True)
class Rows:
    """A SELECT and its columns."""

    text: Text
    columns: tuple[Column, ...]

    def of(self, *kinds: str) -> list[Column]:
        """Columns of some types."""
        return [column for column in self.columns if column.kind in kinds]


@dataclass
class Shapes:
    """Queries of random operators.

    Attributes:
        random: what chooses.
        tables: the tables; the first has an array ``days`` and an ``id``.
        used: how often each operator was taken.
    """

    random: Random
    tables: Sequence[Table]
    used: Counter[str] = field(default_factory=Counter)
    _count: int = 0

    def make(self, most: int = 3) -> Text:
        """A query of up to so many operators above its tables."""
        return self.rows(self.random.randint(1, most)).text

    def rows(self, depth: int) -> Rows:
        """A query of so many operators."""
        if depth <= 0:
            return self._table()
        operators: list[Callable[[int], Rows]] = [
            self.projected, self.filtered, self.inner, self.outer, self.outer, self.semi, self.semi, self.grouped,
            self.grouped, self.distinct, self.union, self.windowed, self.windowed, self.newest, self.rollup,
            self.exploded, self.shared, self.compared,
        ]  # fmt: skip
        chosen = self.random.choice(operators)
        self.used[chosen.__name__] += 1
        return chosen(depth - 1)

    # --- operators ---------------------------------------------------------------------------------------------------

    def _table(self, table: Table | None = None) -> Rows:
        table = table or self.random.choice([self.tables[0], *self.tables])
        known = table.of(*_KINDS)
        first = [known[0]] if self.random.random() < 0.8 else []
        some = [*first, *self.random.sample(known[1:], min(2, len(known) - 1))]
        if self.random.random() < 0.4:
            some += self.random.sample(table.of(*_OTHERS), 1)
        return self._select([(name(column.name), column.kind) for column in some], name(table.name))

    def projected(self, depth: int) -> Rows:
        """Expressions over columns."""
        below, alias = self._derived(depth)
        return self._select([self._expression(column, alias) for column in self._some(below)], below.text, alias)

    def filtered(self, depth: int) -> Rows:
        """A WHERE."""
        below, alias = self._derived(depth)
        return self._select(self._all(below, alias), below.text, alias, self._condition(below, alias))

    def inner(self, depth: int) -> Rows:
        """An inner join."""
        return self._join(depth, "JOIN")

    def outer(self, depth: int) -> Rows:
        """An outer join."""
        return self._join(depth, self.random.choice(["LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))

    def semi(self, depth: int) -> Rows:
        """Rows that have another, or have none, in one of the ways to write it."""
        left, a = self._derived(depth)
        right, b = self._derived(self.random.choice([0, 0, depth]), shadows=False)
        pair = self._pair(left, right)
        if pair is None:
            return self._select(self._all(left, a), left.text, a)
        ours, theirs = self._of(a, pair[0]), self._of(b, pair[1])
        no = self.random.choice(["", "NOT "])
        sub = joined("(SELECT {} FROM ({}) AS {})", theirs, right.text, name(b))
        exists = joined(no + "EXISTS (SELECT 1 FROM ({}) AS {} WHERE {} = {})", right.text, name(b), theirs, ours)
        more = self._condition(left, a)
        where = self.random.choice([
            joined("{} " + no + "IN {}", ours, sub), exists, joined("({} OR {})", exists, more),
        ])  # fmt: skip
        return self._select(self._all(left, a), left.text, a, where)

    def compared(self, depth: int) -> Rows:
        """Rows compared with one value of others with the same key."""
        left, a = self._derived(depth)
        right, b = self._table(), self._name()
        pair, numbers, others = self._pair(left, right), left.of("BIGINT", "INT"), right.of("BIGINT", "INT")
        if pair is None or not numbers or not others:
            return self._select(self._all(left, a), left.text, a)
        ours, theirs = self._of(a, pair[0]), self._of(b, pair[1])
        number, other = self._of(a, self.random.choice(numbers)), self._of(b, self.random.choice(others))
        where = joined("{} <= (SELECT max({}) FROM ({}) AS {} WHERE {} = {})", number, other, right.text, name(b),
                       theirs, ours)  # fmt: skip
        return self._select(self._all(left, a), left.text, a, where)

    def grouped(self, depth: int) -> Rows:
        """A GROUP BY."""
        below, alias = self._derived(depth)
        keys = [self._expression(column, alias) for column in self._some(below, 2)]
        calls = [self._call(below, alias) for _ in range(2)]
        group = listed([key for key, _ in keys])
        having = Text(" HAVING count(*) > 1", " HAVING count(*) > 1") if self.random.random() < 0.2 else Text("", "")
        return self._select([*keys, *calls], below.text, alias, tail=joined(" GROUP BY {}{}", group, having))

    def rollup(self, depth: int) -> Rows:
        """A GROUP BY of several sets of groups."""
        below, alias = self._derived(depth)
        keys = [(self._of(alias, column), column.kind) for column in self._some(below, 2)]
        how = self.random.choice(["ROLLUP ({})", "CUBE ({})"])
        # Of no rows Spark makes no row of totals; the standard, and DuckDB, make one.
        tail = joined(f" GROUP BY {how}{{}}", listed([key for key, _ in keys]), Text("", " HAVING count(*) > 0"))
        return self._select([*keys, self._call(below, alias)], below.text, alias, tail=tail)

    def distinct(self, depth: int) -> Rows:
        """A DISTINCT."""
        below, alias = self._derived(depth)
        items = [self._expression(column, alias) for column in self._some(below, 2)]
        return self._select(items, below.text, alias, distinct=True)

    def union(self, depth: int) -> Rows:
        """Rows of two queries."""
        left, a = self._derived(depth)
        right, b = self._derived(self.random.choice([0, depth]), shadows=False)
        ours = self._some(left, 2)
        theirs = []
        for column in ours:
            same = right.of(column.kind)
            null = Text(*[f"CAST(NULL AS {column.kind})"] * 2)
            theirs.append(self._of(b, self.random.choice(same)) if same else null)
        first = self._select([(self._of(a, column), column.kind) for column in ours], left.text, a)
        second = self._select([(t, c.kind) for t, c in zip(theirs, ours, strict=True)], right.text, b)
        how = self.random.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
        return Rows(joined(f"{{}} {how} {{}}", first.text, second.text), first.columns)

    def windowed(self, depth: int) -> Rows:
        """A window function over partitions."""
        below, alias = self._derived(depth)
        part = listed([self._of(alias, column) for column in self._some(below, self.random.choice([1, 1, 2]))])
        calls = [
            (joined("count(*) OVER (PARTITION BY {})", part), "BIGINT"),
            (joined("row_number() OVER (PARTITION BY {} ORDER BY {})", part, self._order(below, alias)), "INT"),
            (joined("rank() OVER (PARTITION BY {} ORDER BY {} NULLS FIRST)", part,
                    self._of(alias, self.random.choice(below.columns))), "INT"),
        ]  # fmt: skip
        call, kind = self.random.choice(calls)
        call = call if kind == "BIGINT" else joined("CAST({} AS INT)", call)
        return self._select([*self._all(below, alias), (call, kind)], below.text, alias)

    def newest(self, depth: int) -> Rows:
        """The first row of each partition."""
        below, alias = self._derived(depth)
        part = self._of(alias, self.random.choice(below.columns))
        number = joined("row_number() OVER (PARTITION BY {} ORDER BY {})", part, self._order(below, alias))
        inner = joined("SELECT {}.*, {} AS place FROM ({}) AS {}", name(alias), number, below.text, name(alias))
        outer = self._name()
        return self._select(self._all(below, outer), inner, outer, joined("{}.place = 1", name(outer)))

    def exploded(self, depth: int) -> Rows:
        """A row for each element of an array."""
        known = self.random.sample(self.tables[0].of(*_KINDS), 2)
        columns = [Column(self._name(), column.kind) for column in known]
        items = listed([joined("{} AS {}", name(k.name), name(c.name)) for k, c in zip(known, columns, strict=True)])
        day, outer = self._name(), self.random.random() < 0.3
        view = f"LATERAL VIEW {'OUTER ' if outer else ''}explode(days) e AS {day}"
        text = Text(f"SELECT {items.spark}, {day} FROM sales {view}",
                    None if outer else f"SELECT {items.duck}, unnest(days) AS {day} FROM sales")  # fmt: skip
        made = Rows(text, (*columns, Column(day, "INT")))
        if depth <= 0:
            return made
        alias = self._name()
        return self._select(self._all(made, alias), made.text, alias, self._condition(made, alias))

    def shared(self, depth: int) -> Rows:
        """A WITH that is read twice."""
        below = self.rows(depth)
        shared, a, b = self._name(), self._name(), self._name()
        pair = self._pair(below, below) or (below.columns[0], below.columns[0])
        items = [*self._all(below, a), (self._of(b, below.columns[-1]), below.columns[-1].kind)]
        on = joined("{} = {}", self._of(a, pair[0]), self._of(b, pair[1]))
        from_ = joined("{} AS {} LEFT JOIN {} AS {} ON {}", name(shared), name(a), name(shared), name(b), on)
        columns = self._columns([kind for _, kind in items])
        made = listed([joined("{} AS {}", item, name(c.name)) for (item, _), c in zip(items, columns, strict=True)])
        return Rows(joined("WITH {} AS ({}) SELECT {} FROM {}", name(shared), below.text, made, from_), columns)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _join(self, depth: int, how: str) -> Rows:
        left, a = self._derived(depth)
        right, b = self._derived(self.random.choice([0, 0, depth]), shadows=False)
        pair = self._pair(left, right)
        if pair is None:
            on = joined("{} IS NULL", self._of(a, left.columns[0]))
            how = "LEFT JOIN"
        else:
            sign = _SAME if self.random.random() < 0.2 else Text("=", "=")
            on = joined("{} {} {}", self._of(a, pair[0]), sign, self._of(b, pair[1]))
            if self.random.random() < 0.2:
                on = joined("{} AND {}", on, self._condition(right, b))
        items = [*self._all(left, a)[:3], *self._all(right, b)[:2]]
        self.random.shuffle(items)
        if pair is not None and how == "FULL JOIN":
            both = joined("coalesce({}, {})", self._of(a, pair[0]), self._of(b, pair[1]))
            items = [(both, pair[0].kind), *items[:3]]
        from_ = joined(f"({{}}) AS {{}} {how} ({{}}) AS {{}} ON {{}}", left.text, name(a), right.text, name(b), on)
        return self._select(items, from_)

    def _derived(self, depth: int, *, shadows: bool = True) -> tuple[Rows, str]:
        """Rows and the name of a derived table of them, which may be that of a table."""
        below = self.rows(depth)
        return below, self.random.choice(_SHADOWS) if shadows and self.random.random() < 0.15 else self._name()

    def _columns(self, kinds: Sequence[str]) -> tuple[Column, ...]:
        """Outputs of some types, with names that others have, too, or with new ones."""
        clashing = self.random.sample(_CLASHING, len(_CLASHING))
        names = [clashing.pop() if clashing and self.random.random() < 0.3 else self._name() for _ in kinds]
        return tuple(map(Column, names, kinds))

    def _select(
        self,
        items: Sequence[tuple[Text, str]],
        from_: Text,
        alias: str = "",
        where: Text | None = None,
        tail: Text = _NOTHING,
        *,
        distinct: bool = False,
    ) -> Rows:
        columns = self._columns([kind for _, kind in items])
        made = listed([joined("{} AS {}", item, name(c.name)) for (item, _), c in zip(items, columns, strict=True)])
        from_ = joined("({}) AS {}", from_, name(alias)) if alias else from_
        text = joined(f"SELECT {'DISTINCT ' if distinct else ''}{{}} FROM {{}}", made, from_)
        if where is not None:
            text = joined("{} WHERE {}", text, where)
        return Rows(joined("{}{}", text, tail), columns)

    def _all(self, rows: Rows, alias: str) -> list[tuple[Text, str]]:
        return [(self._of(alias, column), column.kind) for column in rows.columns]

    def _some(self, rows: Rows, most: int = 3) -> list[Column]:
        return self.random.sample(rows.columns, min(most, len(rows.columns)))

    def _of(self, alias: str, column: Column) -> Text:
        return joined("{}.{}", name(alias), name(column.name))

    def _pair(self, left: Rows, right: Rows) -> tuple[Column, Column] | None:
        """Columns of one type, of either side."""
        pairs = [(a, b) for a in left.columns for b in right.columns if a.kind == b.kind]
        return self.random.choice(pairs) if pairs else None

    def _expression(self, column: Column, alias: str) -> tuple[Text, str]:
        own = self._of(alias, column)
        if self.random.random() < 0.6:
            return own, column.kind
        return joined(self.random.choice(_VALUES.get(column.kind, ("{}",))), own), column.kind

    def _condition(self, rows: Rows, alias: str) -> Text:
        column = self.random.choice(rows.columns)
        own = self._of(alias, column)
        return joined(self.random.choice(_CONDITIONS.get(column.kind, ("{} IS NOT NULL",))), own)

    def _call(self, rows: Rows, alias: str) -> tuple[Text, str]:
        column = self.random.choice(rows.columns)
        own = self._of(alias, column)
        if self.random.random() < 0.3 and column.kind not in ("MAP<STRING,INT>", "BOOLEAN"):
            return joined(self.random.choice(["min({})", "max({})"]), own), column.kind
        return joined(self.random.choice(["count({})", "count(DISTINCT {})", "count(*) - count({})"]), own), "BIGINT"

    def _order(self, rows: Rows, alias: str) -> Text:
        """All columns, so that only rows that are the same are tied."""
        return listed([joined("{} NULLS FIRST", self._of(alias, column)) for column in rows.columns])

    def _name(self) -> str:
        self._count += 1
        return f"c{self._count}"

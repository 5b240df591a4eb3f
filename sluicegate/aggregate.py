"""How a gold query is kept up to date, and why: decided by its text alone, without Spark.

Three ways exist (the theory: Gupta and Mumick, "Maintenance of Materialized Views", 1995; Budiu and others, "DBSP",
https://arxiv.org/abs/2203.16684, section 7, on which aggregates can be undone):

*partial*: each group's counts, sums and extremes are kept beside the table; rows that come add to them, rows that go
take away. A run costs what has changed.

*groups*: the user's own query is run over all rows of the groups that were touched. A run reads the source once.

*whole*: the user's own query is run over everything.

What is not known to be safe is done the next way. The tree of sqlglot and the tokens decide; what Spark runs are the
user's own expressions, cut out of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate import query_shape
from sluicegate.grouped import ONE_ROW, SUMS, Call, Grouped
from sluicegate.joined import CannotFollow, read_from
from sluicegate.sql_clauses import select_list
from sluicegate.sql_expressions import Expressions
from sluicegate.sql_functions import BARE, CHANCE, OF_GROUP, PARTIAL, SCALAR, WORDS
from sluicegate.sql_tokens import QuerySyntax, Span, Tokens, parsed

Way = Literal["partial", "groups", "whole", "stream"]

# Parts of a SELECT that a query may have that is kept up to date.
_PLAIN = {"expressions", "from_", "joins", "where", "group", "having", "order"}
_NAMES = {"hint": "it has a hint", "with_": "it has a WITH", "distinct": "it has a DISTINCT", "limit": "it has a LIMIT",
          "offset": "it has an OFFSET", "qualify": "it has a QUALIFY", "windows": "it has windows",
          "laterals": "it has a LATERAL VIEW"}  # fmt: skip
# Spark takes such a text for a time wherever it casts it.
_MOMENT = re.compile(r"""['"]\s*(now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
_IN_SILVER = "join and reshape in a silver table, so that this query is a GROUP BY over it"


@dataclass(frozen=True)
class Upkeep:
    """How a gold table is kept up to date.

    Attributes:
        way: partial, groups or whole; stream where the definition asks for a streaming aggregation.
        why: the reason, as a part of a sentence.
        cheaper: what would make it cheaper; empty if nothing is known to.
        grouped: the query taken apart; None where it cannot be, so that it is made again whole.
    """

    way: Way
    why: str
    cheaper: str = ""
    grouped: Grouped | None = field(default=None, repr=False)


class _Whole(Exception):
    """The query cannot be taken apart: why, and what would help."""


def upkeep(text: str, columns: Sequence[str] | None = None) -> Upkeep:
    """Decides how a query is kept up to date.

    Args:
        text: the query, one that ``Query.parse`` has read.
        columns: the columns of the table that it reads, where they are known. A name in GROUP BY is a column's if there
            is one of that name, and else an output's.
    """
    try:
        return _Reading(text, columns).upkeep()
    except _Whole as reason:
        why, *cheaper = reason.args
        return Upkeep("whole", why, cheaper[0] if cheaper else "")
    except CannotFollow as reason:
        return Upkeep("whole", str(reason), _IN_SILVER)
    except QuerySyntax:
        return Upkeep("whole", "it cannot be taken apart", _IN_SILVER)


class _Reading:
    """Takes a query apart."""

    def __init__(self, text: str, columns: Sequence[str] | None) -> None:
        self.tokens = Tokens(text)
        tree = parsed(text)
        if not isinstance(tree, exp.Select):
            raise _Whole("it is more than one SELECT", _IN_SILVER)
        self.tree = tree
        self.columns = None if columns is None else {column.lower() for column in columns}
        if query_shape.has_subqueries(tree):
            raise _Whole("it is made of several queries", _IN_SILVER)
        if tree.args.get("from_") is None:
            raise _Whole("it reads no table")
        self.tables = read_from(tree, text)
        self.words = Expressions(self.tokens, self.tables.aliases)
        self._demand_plain()
        self._demand_plain_words()
        self.first, self.from_ = select_list(self.tokens)
        self.first += self.tokens.word(self.first) == "ALL"
        self.clauses = dict(self._clauses())

    def upkeep(self) -> Upkeep:
        functions = self._functions()
        items = self._items()
        groups = self._groups(items) if "group" in self.clauses else []
        calls = self._calls()
        if not groups and not (calls or functions & OF_GROUP):
            raise _Whole("it has no GROUP BY and no aggregate function", _IN_SILVER)
        odd = self._odd_calls(calls)
        grouped = Grouped(
            table=self.tables.table,
            alias=self.tables.alias,
            joins=self.tables.joins,
            from_=self.tables.text,
            where=self.words.text(*self.clauses.get("where", (0, 0))),
            groups=tuple(self.words.text(*group) for group in groups) or ONE_ROW,
            keys=self._keys(groups, items),
            calls=tuple(call for call, _ in calls),
            outputs=tuple((self.words.over_groups(start, end, groups, calls), name) for start, end, name in items),
            having=self.words.over_groups(*self.clauses["having"], groups, calls) if "having" in self.clauses else "",
            sums=tuple(one for number, one in enumerate(calls) if one[0].function in SUMS and number not in odd),
        )
        others = sorted(functions & OF_GROUP) + list(odd.values()) + self._double_meanings(grouped)
        if not others:
            return Upkeep("partial", f"rows that come add to its groups, rows that go are taken away{self._of_joins()}",
                          "", grouped)  # fmt: skip
        needs = f"{', '.join(others)} {'needs' if len(others) == 1 else 'need'} all rows"
        if grouped.one_row:
            return Upkeep("whole", f"it has no GROUP BY, and {needs}", f"without {', '.join(others)}", grouped)
        if not grouped.located:
            missing = [text for number, text in enumerate(grouped.groups) if number not in grouped.keys]
            return Upkeep("whole", f"it groups by {', '.join(missing)}, which is not in its SELECT list",
                          "put it there, so that the rows of a group can be found", grouped)  # fmt: skip
        why = f"{needs} of a group{self._of_joins()}"
        return Upkeep("groups", why, f"without {', '.join(others)} a run would not have to read the source", grouped)

    def _of_joins(self) -> str:
        """What a change of a joined table touches, in words."""
        found = [
            f"; a row that changes in {name} touches those with its {' and '.join(', '.join(t.columns) for t in ties)}"
            for name, ties in self.tables.joins.items()
        ]
        return "".join(found)

    # --- what it is made of ------------------------------------------------------------------------------------------

    def _demand_plain(self) -> None:
        for part, value in self.tree.args.items():
            if value and part not in _PLAIN:
                raise _Whole(_NAMES.get(part, f"its {part.upper()} needs all rows"))
        if self.tree.find(exp.Window):
            raise _Whole("a window function looks at rows of other groups")
        group = self.tree.args.get("group") or exp.Group()
        if any(group.find(kind) for kind in (exp.Cube, exp.Rollup, exp.GroupingSets)) or group.args.get("totals"):
            raise _Whole("a row of it is of several groups (ROLLUP, CUBE or GROUPING SETS)")
        if self.tree.find(exp.Star) and any(name is None for name in query_shape.output_names(self.tree)):
            raise _Whole("its SELECT list has a star")
        if any(isinstance(expression, exp.Aliases) for expression in self.tree.expressions):
            raise _Whole("one expression of its SELECT list has several names")

    def _demand_plain_words(self) -> None:
        for index in range(len(self.tokens)):
            if self.tokens.is_type(index, TokenType.ARROW):
                raise _Whole("it has a lambda")
            if self._is_star(index):
                raise _Whole("a star in it means whatever columns there are")
            if self.tokens.is_type(index, TokenType.STRING) and _MOMENT.match(self.tokens.raw(index)):
                raise _Whole(f"{self.tokens.raw(index)} is another time with each run")

    def _is_star(self, index: int) -> bool:
        """Whether it is a star for columns, but for that of ``count(*)``."""
        if not self.tokens.is_type(index, TokenType.STAR):
            return False
        if self.tokens.is_type(index - 1, TokenType.L_PAREN) and self.tokens.word(index - 2) == "COUNT":
            return False
        begins = self.tokens.is_type(index - 1, TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT)
        return begins or self.tokens.word(index - 1) == "DISTINCT"

    def _clauses(self) -> Iterator[tuple[str, tuple[int, int]]]:
        kinds = {TokenType.WHERE: "where", TokenType.GROUP_BY: "group", TokenType.HAVING: "having",
                 TokenType.ORDER_BY: "order"}  # fmt: skip
        found = [(kinds[self.tokens[i].token_type], i) for i in self.tokens.top_level(self.from_, len(self.tokens))
                 if self.tokens[i].token_type in kinds and self.tokens.word(i)]  # fmt: skip
        ends = [start for _, start in found[1:]] + [len(self.tokens)]
        return ((name, (start + 1, end)) for (name, start), end in zip(found, ends, strict=False))

    def _items(self) -> list[tuple[int, int, str]]:
        """The outputs: their tokens without the alias, and their names."""
        found = []
        names = query_shape.output_names(self.tree)
        parts = self.words.parts(self.first, self.from_)
        if len(parts) != len(self.tree.expressions):
            raise _Whole("its SELECT list cannot be taken apart")
        for (start, end), name, node in zip(parts, names, self.tree.expressions, strict=True):
            if isinstance(node, exp.Alias):
                end -= 2 if self.tokens.word(end - 2) == "AS" else 1
            found.append((start, end, name or ""))
        return found

    def _groups(self, items: Sequence[tuple[int, int, str]]) -> list[tuple[int, int]]:
        start, end = self.clauses["group"]
        if self.tokens.word(start) == "ALL" and end == start + 1:
            inside = [(a, b) for a, b, _ in items if not any(self._is_aggregate(i) for i in range(a, b))]
            if not inside:
                raise _Whole("it groups by nothing", _IN_SILVER)
            return inside
        named = {name.lower(): (a, b) for a, b, name in items}
        found = []
        for a, b in self.words.parts(start, end):
            name = self.words.names(a, b)[0] if b == a + 1 else ""
            if b == a + 1 and self.tokens.is_type(a, TokenType.NUMBER):
                number = int(self.tokens.raw(a)) if self.tokens.raw(a).isdigit() else 0
                if not 1 <= number <= len(items):
                    raise _Whole("it groups by a number that is no output's", _IN_SILVER)
                found.append(items[number - 1][:2])
            elif name in named and not self._is_column(name, named[name]):
                found.append(named[name])
            else:
                found.append(self.words.inside(a, b))
        return found

    def _is_column(self, name: str, its: tuple[int, int]) -> bool:
        """Whether a name in GROUP BY is a column's, which goes before an output's."""
        return name in self.columns if self.columns is not None else self.words.names(*its) == [name]

    def _keys(self, groups: Sequence[tuple[int, int]], items: Sequence[tuple[int, int, str]]) -> dict[int, str]:
        found: dict[int, str] = {}
        for number, group in enumerate(groups):
            its = self.words.names(*group)
            name = next((name for start, end, name in items if self.words.names(start, end) == its), None)
            if name is not None and name not in found.values():
                found[number] = name
        return found

    # --- functions ---------------------------------------------------------------------------------------------------

    def _functions(self) -> set[str]:
        """Names of all functions of the query.

        Raises:
            _Whole: one of them is not known, or may have another value next time.
        """
        found = set()
        for index in range(len(self.tokens)):
            word = self.tokens.word(index).lower()
            call = self.words.is_call(index)
            behind_dot = index > 0 and self.tokens.is_type(index - 1, TokenType.DOT)
            quotes = self.tokens.is_type(index, TokenType.IDENTIFIER)
            if (behind_dot or quotes) and self.words.opens(index + 1):
                raise _Whole(f"it is not known here what {self.tokens.raw(index)}() does")
            # Some are called without parentheses, also in quotes, unless they are the name of a column.
            name = self.tokens.raw(index).strip("`").lower() if quotes else word
            if (call and word in CHANCE) or (name in BARE and name not in (self.columns or ())):
                raise _Whole(f"{name} may have another value with each run")
            if call and word not in WORDS:
                if word not in SCALAR and word not in OF_GROUP and word not in PARTIAL:
                    raise _Whole(f"it is not known here what {word}() does")
                found.add(word)
        return found

    def _is_aggregate(self, index: int) -> bool:
        return self.words.is_call(index) and self.tokens.word(index).lower() in PARTIAL.keys() | OF_GROUP

    def _calls(self) -> list[tuple[Call, Span]]:
        """The calls of aggregate functions, and their tokens; equal ones share a number."""
        found: list[tuple[Call, Span]] = []
        places = [(self.first, self.from_), *([self.clauses["having"]] if "having" in self.clauses else [])]
        for start, end in places:
            for index in range(start, end):
                if self.words.is_call(index) and self.tokens.word(index).lower() in PARTIAL:
                    call, last = self._call(index, [one for one, _ in found])
                    found.append((call, Span(index, last, call.value)))
        return found

    def _call(self, index: int, known: Sequence[Call]) -> tuple[Call, int]:
        close = self.tokens.closing(index + 1)
        inside = self.words.parts(index + 2, close) if close > index + 2 else []
        arguments = tuple(self.words.text(*part) for part in inside)
        function, condition = PARTIAL[self.tokens.word(index).lower()], ""
        last = close
        if self.tokens.word(close + 1) == "FILTER":
            last = self.tokens.closing(close + 2)
            condition = self.words.text(close + 4, last)
        if function == "count" and (arguments == ("*",) or all(argument.isdigit() for argument in arguments)):
            arguments = ()
        alike = (call.number for call in known if (call.function, call.arguments, call.condition)
                 == (function, arguments, condition))  # fmt: skip
        number = next(alike, len({call.number for call in known}))
        return Call(number, function, arguments, condition), last

    def _odd_calls(self, calls: Sequence[tuple[Call, Span]]) -> dict[int, str]:
        """What of them asks for more than to add and to take away, in words, by their places among them."""
        found = {}
        for number, (call, span) in enumerate(calls):
            behind = self.tokens.word(span.last + 1)
            if self.tokens.word(span.first + 2) in ("DISTINCT", "ALL"):
                found[number] = f"{call.function}({self.tokens.word(span.first + 2)} …)"
            elif behind in ("WITHIN", "IGNORE", "RESPECT", "OVER"):
                found[number] = f"{call.function}(…) {behind}"
            elif (call.function != "count" and len(call.arguments) != 1) or "*" in call.arguments:
                found[number] = f"{call.function}({', '.join(call.arguments)})"
        return found

    def _double_meanings(self, grouped: Grouped) -> list[str]:
        """Names in HAVING that could be an output's or what it groups by."""
        own = {text.lower() for number, text in enumerate(grouped.groups) if grouped.keys.get(number, "") != text}
        names = [name for _, name in grouped.outputs if name.lower() in own]
        return [f"{name} in HAVING" for name in names if grouped.having]

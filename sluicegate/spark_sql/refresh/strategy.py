"""Refresh strategy of a gold query and the reason for it, from its text, without Spark.

There are four (theory: Gupta and Mumick, "Maintenance of Materialized Views", 1995; Budiu and others, "DBSP",
https://arxiv.org/abs/2203.16684, section 7, on which aggregates are invertible):

*partial* (incremental): each group's counts, sums and extremes are stored as aggregate state, to which row deltas are
applied. A run costs what has changed.

*groups* (affected groups): the user's query is run over all rows of the changed groups. A run reads the source once.

*keys* (affected keys): rows whose keys the changes touch are replaced. Spark's plan tells the keys (gold/affected), for
queries of any other shape; the text only does not exclude it.

*whole* (full recompute): the user's query is run over the whole source.

The result is a proposal. sqlglot's tree and the tables' columns decide how to take the query apart; Spark runs the
user's own expressions, cut out of the text. A run uses the parts only if Spark confirms that, recomposed, they are the
user's query (see gold/query_analysis.py), and otherwise takes the next strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.clauses import select_list
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.refresh.expressions import Exchange, Expressions, Item, Left
from sluicegate.spark_sql.refresh.group_by import MOMENTS, ONE_ROW, PARTIAL, SUMS, Call, Grouped
from sluicegate.spark_sql.refresh.joins import CannotFollow, read_from
from sluicegate.spark_sql.refresh.refusals import CLAUSES, Never, Whole, check_lasting, check_plain, check_tokens
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind
from sluicegate.spark_sql.refresh.time_windows import FIELDS, TimeWindow, has_sliding_window
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens, parse_sql

READING = "3"
"""Version of this analysis: a table made with another version is fully refreshed once."""


@dataclass(frozen=True)
class RefreshStrategy:
    """Refresh strategy of a gold table.

    Attributes:
        kind: how the table is kept up to date.
        why: the reason, as a part of a sentence.
        cheaper: a change of the query that would make it cheaper; empty if none is known.
        grouped: the query taken apart; None if it cannot be. Of *keys*, it is for a query that turns out to have none.
        expected: whether it is derived from the text alone, not yet confirmed by Spark.
        of_the_run: what makes the result depend on when, or by whom, it is run; empty if nothing does.
        keys: of *keys*, the columns of the table by which its rows are found.
        reads: of *keys*, each table and column that the result depends on.
    """

    kind: StrategyKind
    why: str
    cheaper: str = ""
    grouped: Grouped | None = field(default=None, repr=False)
    expected: bool = False
    of_the_run: str = ""
    keys: tuple[str, ...] = ()
    reads: frozenset[tuple[str, str]] = frozenset()


def refresh_strategy(text: str, schemas: Mapping[str, Sequence[str]] | None = None) -> RefreshStrategy:
    """Choose the refresh strategy of a query.

    Args:
        text: the query, one that ``Query.parse`` accepts.
        schemas: columns of the tables that it reads, as far as they are known: name resolution depends on them.
    """
    try:
        reading = _Reading(text, schemas or {})
        strategy = reading.refresh_strategy()
        window = reading.time_window()
        if window is None or strategy.kind != StrategyKind.AFFECTED_KEYS or strategy.grouped is None:
            return strategy
        return _window_strategy(window, schemas or {}, strategy, strategy.grouped)
    except Never as reason:
        return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, *reason.args)
    except (Whole, CannotFollow) as reason:
        return RefreshStrategy(StrategyKind.AFFECTED_KEYS, str(reason))
    except QuerySyntax:
        return RefreshStrategy(StrategyKind.AFFECTED_KEYS, "it cannot be parsed")


def _window_strategy(
    window: TimeWindow, schemas: Mapping[str, Sequence[str]], strategy: RefreshStrategy, grouped: Grouped
) -> RefreshStrategy:
    """Return the strategy of a query grouped by fields of its window, if it is incremental; else its own.

    The parts are those of the query grouped by fields. Recomposed, they are grouped by the window as the query is, and
    Spark compares this.
    """
    named = _Reading(window.text, schemas).refresh_strategy().grouped
    for fields in FIELDS:
        by_fields = _Reading(window.text_grouped_by(fields), schemas).refresh_strategy()
        parts = by_fields.grouped
        if named and parts and parts.is_locatable and by_fields.kind == StrategyKind.INCREMENTAL:
            # Two texts of one field are calls of two numbers in the query, and of one in the parts.
            sums = tuple((call, span) for (call, _), (_, span) in zip(parts.sums, grouped.sums, strict=True))
            return replace(by_fields, grouped=replace(parts, recomposed=named.recomposed, sums=sums))
    return strategy


def _is_named(node: exp.Expr) -> bool:
    """Return whether an output has the name that its text ends with: Spark names a field of a call by all its text."""
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, (exp.Alias, exp.Column))


def _unselected_groups(grouped: Grouped) -> list[str]:
    """Return the grouping expressions that are not in the SELECT list."""
    return [text for number, text in enumerate(grouped.groups) if number not in grouped.keys]


class _Reading:
    """Analysis that takes a query apart."""

    def __init__(self, text: str, schemas: Mapping[str, Sequence[str]]) -> None:
        self.tokens = Tokens(text)
        tree = parse_sql(text)
        if part := next(filter(tree.args.get, ("limit", "offset")), ""):
            raise Never(CLAUSES[part], "the query without it: `sluicegate sql` returns the first rows by ORDER BY")
        if not isinstance(tree, exp.Select):
            raise Whole("it is not a single SELECT")
        self.tree = tree
        if query_shape.has_subqueries(tree):
            raise Whole("it is made of several queries")
        if tree.args.get("from_") is None:
            raise Never("it does not read a table")
        self.tables = read_from(tree, text, schemas)
        self.words = Expressions(self.tokens, tree, self.tables.scope)
        check_plain(tree)
        check_tokens(self.tokens)
        check_lasting(tree, self.tables.scope)
        self.first, self.from_ = select_list(self.tokens)
        self.first += self.tokens.word(self.first) == "ALL"
        self.clauses = dict(self._clauses())
        self.places = [(self.first, self.from_), self.clauses.get("having", (0, 0))]
        self.items = self._items()
        self.calls = self._calls()
        self.odd = self._unmaintained_calls()
        self.listed = self._groups()

    def time_window(self) -> TimeWindow | None:
        """Return the window in GROUP BY that is no item of the SELECT list."""
        unselected = [group for group in self.listed if group[0] > self.from_]
        return TimeWindow.of_groups(self.words, unselected, self.items)

    def refresh_strategy(self) -> RefreshStrategy:
        listed = self.listed
        groups = list({tuple(self.words.names(*part)): part for part in reversed(listed)}.values())[::-1]
        needing_all_rows = self._unmaintained_functions()
        if not groups and not (self.calls or needing_all_rows):
            raise Whole("it has no GROUP BY and no aggregate function")
        grouped = self._grouped_query(groups)
        grouped = replace(grouped, recomposed=self._recompose(grouped, groups, listed))
        if not needing_all_rows:
            try:
                return self._partial_strategy(self._add_outputs(grouped, groups))
            except Left as left:
                needing_all_rows = [str(left)]
        return self._recompute_strategy(grouped, needing_all_rows)

    def _grouped_query(self, groups: Sequence[tuple[int, int]]) -> Grouped:
        """Return the parts of the query, without outputs and HAVING."""
        return Grouped(
            table=self.tables.table,
            alias=self.tables.alias,
            joins=self.tables.joins,
            from_=self.tables.text,
            where=self.words.text(*self.clauses.get("where", (0, 0))),
            groups=tuple(self.words.text(*group) for group in groups) or ONE_ROW,
            keys=self._keys(groups),
            calls=tuple(call for call, _ in self.calls),
            outputs=(),
            having="",
            sums=tuple(plain for plain in self._plain_calls if plain[0].function in SUMS | MOMENTS),
            one_row=not groups,
            repeats_rows=has_sliding_window(self.tokens),
        )

    def _partial_strategy(self, grouped: Grouped) -> RefreshStrategy:
        """Return the strategy of a query whose groups can be computed from their former values."""
        missing = _unselected_groups(grouped)
        cheaper = ""
        if missing and not grouped.one_row:
            cheaper = f"select {', '.join(missing)}, or all of its rows are rewritten"
        reason = f"new rows are added to its groups, deleted rows are subtracted{self._join_sentence()}"
        return RefreshStrategy(StrategyKind.INCREMENTAL, reason, cheaper, grouped)

    def _recompute_strategy(self, grouped: Grouped, needing_all: Sequence[str]) -> RefreshStrategy:
        """Return the strategy of a query with parts that need all rows of a group."""
        names = ", ".join(needing_all)
        if len(needing_all) == 1:
            needs = f"{names} needs all rows"
        else:
            needs = f"{names} need all rows"
        if grouped.one_row:
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, f"it has no GROUP BY, and {needs}", grouped=grouped)
        if not grouped.is_locatable:
            reason = f"it groups by {', '.join(_unselected_groups(grouped))}, which is not in its SELECT list"
            return RefreshStrategy(
                StrategyKind.AFFECTED_KEYS, reason, "add it there, so that the rows of a group can be located", grouped
            )
        reason = f"{needs} of a group{self._join_sentence()}"
        return RefreshStrategy(StrategyKind.AFFECTED_GROUPS, reason, grouped=grouped)

    def _add_outputs(self, grouped: Grouped, groups: Sequence[tuple[int, int]]) -> Grouped:
        """Return the parts with outputs and HAVING over the values of groups and calls.

        Raises:
            Left: one of them needs more than these values.
        """
        names = [f"_group_{number}" for number in range(len(groups))]
        outputs_before: dict[str, str] = {}  # lateral column aliases: a name that no table has is an output before it
        outputs = []
        for item in self.items:
            text = self.words.replace_parts(item.start, item.end, groups, self.calls,
                                        Exchange(names, lambda call: call.value, outputs_before))  # fmt: skip
            outputs.append((text, item.name))
            outputs_before = outputs_before | {item.name.lower(): f"({text})"}
        having = ""
        if "having" in self.clauses:
            if table_name := next((item.name for item in self.items if self.tables.scope.is_table(item.name)), None):
                # t.x could be a field of it
                raise Left(f"HAVING with the output {table_name}, which has the name of a table")
            over = Exchange(names, lambda call: call.value, outputs_before)
            having = self.words.replace_parts(*self.clauses["having"], groups, self.calls, over)
        return replace(grouped, outputs=tuple(outputs), having=having)

    def _recompose(self, grouped: Grouped, groups: Sequence[tuple[int, int]], listed: Sequence[tuple[int, int]]) -> str:
        """Return the query recomposed from its parts.

        In HAVING a bare name could be an output or a column, so columns are qualified there.
        """
        once, calls = grouped.distinct_calls, self._plain_calls
        texts = [f"({text})" for text in grouped.groups]
        over = Exchange(texts, lambda call: f"({once[call.number].sql()})", None)
        items = [
            self.words.replace_parts(item.start, item.end, groups, calls, over) + item.alias for item in self.items
        ]
        parts = [f"SELECT {', '.join(items)} FROM {grouped.from_}"]
        if grouped.where:
            parts.append(f"WHERE {grouped.where}")
        if listed:
            numbers = {tuple(self.words.names(*group)): number for number, group in enumerate(groups)}
            which = [numbers[tuple(self.words.names(*part))] for part in listed]
            parts.append("GROUP BY " + ", ".join(self._position(groups[n]) or texts[n] for n in which))
        if "having" in self.clauses:
            full = {call.number: self._call(span.first, self.words.qualify)[0] for call, span in reversed(calls)}
            over = Exchange([f"({self.words.qualify(*group)})" for group in groups],
                            lambda call: f"({once[call.number].sql(full[call.number])})", None)  # fmt: skip
            parts.append(f"HAVING {self.words.replace_parts(*self.clauses['having'], groups, calls, over)}")
        if "order" in self.clauses:
            parts.append(f"ORDER BY {self.words.text(*self.clauses['order'])}")
        return " ".join(parts)

    def _position(self, group: tuple[int, int]) -> str:
        """Return the ordinal of an output that is a number literal: in GROUP BY a bare number is an ordinal."""
        if not self.tokens.is_type(group[0], TokenType.NUMBER) or group[1] - group[0] != 1:
            return ""
        return next((str(n) for n, item in enumerate(self.items, 1) if (item.start, item.end) == group), "")

    def _join_sentence(self) -> str:
        """Return the rows affected by a change of a joined table, as a part of a sentence."""
        return "".join(
            f"; a changed row of {name} affects those with its {' and '.join(', '.join(t.columns) for t in keys)}"
            for name, keys in self.tables.joins.items()
        )

    # --- what it is made of ------------------------------------------------------------------------------------------

    def _clauses(self) -> Iterator[tuple[str, tuple[int, int]]]:
        kinds = {TokenType.WHERE: "where", TokenType.GROUP_BY: "group", TokenType.HAVING: "having",
                 TokenType.ORDER_BY: "order"}  # fmt: skip
        clauses = [(kinds[self.tokens[i].token_type], i) for i in self.tokens.top_level(self.from_, len(self.tokens))
                 if self.tokens[i].token_type in kinds and self.tokens.word(i)]  # fmt: skip
        ends = [start for _, start in clauses[1:]] + [len(self.tokens)]
        return ((name, (start + 1, end)) for (name, start), end in zip(clauses, ends, strict=False))

    def _items(self) -> list[Item]:
        items = []
        names = query_shape.output_names(self.tree)
        parts = self.tokens.split_list(self.first, self.from_)
        if len(parts) != len(self.tree.expressions):
            raise Whole("its SELECT list cannot be parsed")
        for (start, end), name, node in zip(parts, names, self.tree.expressions, strict=True):
            if name is None or not _is_named(node):
                name = ""
            last, alias = end, ""
            if isinstance(node, exp.Alias):
                last, alias = end - 1, f" AS {quote_name(name)}"
            if alias and self.tokens.word(end - 2) == "AS":
                last -= 1
            items.append(Item(start, last, name, alias))
        return items

    def _groups(self) -> list[tuple[int, int]]:
        """Return the grouping expressions, in the order of the text."""
        start, end = self.clauses.get("group", (0, 0))
        if self.tokens.word(start) == "ALL" and end == start + 1:
            return self._all_groups()
        outputs = {item.name.lower(): (item.start, item.end) for item in self.items}
        return [self._group(first, stop, outputs) for first, stop in self.tokens.split_list(start, end)]

    def _all_groups(self) -> list[tuple[int, int]]:
        """Return the outputs that GROUP BY ALL groups by: those without an aggregate, also through another's name."""
        aggregates: set[str] = set()
        for item in self.items:
            names = {name.parts[0] for _, name in self.words.column_names(item.start, item.end) if name.meaning is None}
            if self._aggregates(item.start, item.end) or names & aggregates:
                aggregates.add(item.name.lower())
        groups = [(item.start, item.end) for item in self.items if item.name.lower() not in aggregates]
        if not groups:
            raise Whole("it has no grouping expressions")
        return groups

    def _group(self, first: int, stop: int, outputs: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """Return the tokens that a part of GROUP BY groups by: an output's, by number or name, or its own."""
        name = ""
        if stop == first + 1:
            if self.tokens.is_type(first, TokenType.NUMBER):
                return self._item_range(self.tokens.raw(first))
            name = self.tokens.name(first).lower()
        if name in outputs and not self._is_column(first, outputs[name]):
            return outputs[name]
        return self.tokens.strip_parentheses(first, stop)

    def _item_range(self, number: str) -> tuple[int, int]:
        if not number.isdigit() or not 1 <= int(number) <= len(self.items):
            raise Whole("it groups by a number that is not a position in its SELECT list")
        item = self.items[int(number) - 1]
        return item.start, item.end

    def _is_column(self, index: int, output: tuple[int, int]) -> bool:
        """Return whether a name in GROUP BY is a column, which takes precedence over an output."""
        if not self.tables.scope.known:
            return self.words.names(*output) == self.words.names(index, index + 1)
        name = self.words.columns.get(index)
        return name is not None and name.meaning is not None

    def _keys(self, groups: Sequence[tuple[int, int]]) -> dict[int, str]:
        keys: dict[int, str] = {}
        ranges = [(self.tokens.strip_parentheses(item.start, item.end), item.name) for item in reversed(self.items)]
        outputs = {tuple(self.words.names(*place)): name for place, name in ranges}
        for number, group in enumerate(groups):
            name = outputs.get(tuple(self.words.names(*group)))
            if name and name not in keys.values():
                keys[number] = name
        return keys

    # --- functions ---------------------------------------------------------------------------------------------------

    def _unmaintained_functions(self) -> list[str]:
        """Return the aggregate functions that row deltas cannot maintain, in words."""
        functions = {self.tokens.word(i).lower() for place in self.places for i in self._aggregates(*place)}
        return sorted(functions - {*PARTIAL}) + list(dict.fromkeys(self.odd.values()))

    def _aggregates(self, start: int, end: int) -> list[int]:
        """Return the calls of known aggregate functions."""
        calls = (index for index in range(start, end) if self.words.is_call(index))
        return [i for i in calls if self.tokens.word(i).lower() in PARTIAL or self.words.is_aggregate(i)]

    def _calls(self) -> list[tuple[Call, Span]]:
        """Return the calls of the functions of ``PARTIAL``, with their tokens; equal calls share a number."""
        calls: list[tuple[Call, Span]] = []
        numbers: dict[tuple[str, ...], int] = {}
        for index in (index for place in self.places for index in range(*place)):
            if self.words.is_call(index) and self.tokens.word(index).lower() in PARTIAL:
                call, last = self._call(index, self.words.text)
                meant = (call.function, *self.words.names(index + 1, last + 1))
                number = numbers.setdefault(meant, len(numbers))
                calls.append((replace(call, number=number), Span(index, last, "")))
        return calls

    def _call(self, index: int, text: Callable[[int, int], str]) -> tuple[Call, int]:
        """Parse the call at a token, with the texts of its parts by ``text``, and return its last token, too."""
        close = self.tokens.closing_index(index + 1)
        arguments = tuple(text(*part) for part in self.tokens.split_list(index + 2, close))
        function, condition = PARTIAL[self.tokens.word(index).lower()], ""
        last = close
        if self.tokens.word(close + 1) == "FILTER":
            last = self.tokens.closing_index(close + 2)
            condition = text(close + 4, last)
        if function == "count" and arguments in (("*",), ("1",)):
            arguments = ()
        return Call(0, function, arguments, condition), last

    @property
    def _plain_calls(self) -> list[tuple[Call, Span]]:
        return [call for number, call in enumerate(self.calls) if number not in self.odd]

    def _unmaintained_calls(self) -> dict[int, str]:
        """Return the ``PARTIAL`` calls that row deltas cannot maintain (DISTINCT …), in words, by index."""
        odd_calls = {}
        for number, (call, span) in enumerate(self.calls):
            behind = self.tokens.word(span.last + 1)
            if self.tokens.word(span.first + 2) in ("DISTINCT", "ALL"):
                odd_calls[number] = f"{call.function}({self.tokens.word(span.first + 2)} …)"
            elif behind in ("WITHIN", "IGNORE", "RESPECT", "OVER"):
                odd_calls[number] = f"{call.function}(…) {behind}"
            elif (call.function != "count" and len(call.arguments) != 1) or "*" in call.arguments:
                odd_calls[number] = f"{call.function}({', '.join(call.arguments)})"
        return odd_calls

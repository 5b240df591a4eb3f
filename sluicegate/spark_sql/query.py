"""Query of a definition: tables read, output columns, and the user's text with its tables replaced by views.

sqlglot's tree is used for analysis only. Spark runs the user's own text, edited in place.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from sluicegate.spark_sql import query_shape, unstable_functions
from sluicegate.spark_sql.clauses import from_end, sample_end, select_list
from sluicegate.spark_sql.conversion import casts as sql_casts
from sluicegate.spark_sql.conversion import where_casts
from sluicegate.spark_sql.engine_columns import PREFIX
from sluicegate.spark_sql.first_checks import check_tokens
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.join_keys import JoinKey, join_keys
from sluicegate.spark_sql.order_by import Ordering, ordering
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens, line_at, parse_sql

__all__ = ["IDENTITY", "Query", "QuerySyntax"]

IDENTITY = ("_chunk", "_pos", f"{PREFIX}record")
"""Columns of the stream's view that identify the record of a row."""

CAST_PREFIX = f"{PREFIX}cast_"


@dataclass(frozen=True)
class _Table:
    """A table reference in the text: name, tokens and alias."""

    name: str
    first: int
    last: int
    alias: str
    streamed: bool
    node: exp.Table

    @property
    def qualifier(self) -> str:
        """Name that qualifies its columns: the alias, else the last part of the name."""
        return self.alias or self.name.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Query:
    """Exactly one SELECT.

    Attributes:
        text: the query as the user wrote it, without a closing semicolon and what follows it.
        stream: the table in ``STREAM(…)``, if any, in lower case as all table names here.
        stream_alias: alias of that table, else its own name.
        lookups: the other tables, each once, in order of appearance, without names of a WITH.
        outputs: names of its columns; None if a star is among them. A column without a name is ``""``.
        casts: texts of the casts whose failure ``text_with_identity`` flags, ``casts[n]`` for ``_sluicegate_cast_<n>``.
        keeps_every_record: whether every record of the stream certainly gives at least one row.
    """

    text: str
    stream: str | None
    stream_alias: str | None
    lookups: list[str]
    outputs: list[str] | None
    casts: list[str]
    keeps_every_record: bool
    _tokens: Tokens = field(repr=False, compare=False)
    _tree: exp.Query = field(repr=False, compare=False)
    _read: list[_Table] = field(repr=False, compare=False)
    _casts: list[sql_casts.Watched] = field(repr=False, compare=False)
    _where: list[where_casts.Conjunct] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Query:
        """Parse a query.

        Raises:
            QuerySyntax: it is not one SELECT, or has STREAM in an unsupported place.
        """
        tokens = Tokens(text)
        check_tokens(tokens)
        tree = _tree(tokens)
        read = _tables(tree, tokens)
        stream = _stream(tree, read, tokens)
        casts = sql_casts.find_all(tokens, query_shape.GENERATORS)
        watched: list[sql_casts.Watched] = []
        where: list[where_casts.Conjunct] = []
        stream_name, stream_alias, keeps_every_record = None, None, False
        select = query_shape.first_select(tree)
        if stream:
            stream_name, stream_alias = stream.name, stream.qualifier
            keeps_every_record = query_shape.keeps_every_record(tree, stream.node)
            watched = sql_casts.reportable_casts(tokens, casts, *select_list(tokens))
            where = where_casts.conjuncts_with_casts(tokens, casts, select.args.get("where"))
        flagged = [*watched, *where_casts.casts(where)]
        names = query_shape.output_names(select)
        return cls(
            text=tokens.compose([]),
            stream=stream_name,
            stream_alias=stream_alias,
            lookups=list(dict.fromkeys(table.name for table in read if not table.streamed)),
            outputs=None if None in names else [name for name in names if name is not None],
            casts=[tokens.compose([], cast.index, cast.close + 1, compact=True) for cast in flagged],
            keeps_every_record=keeps_every_record,
            _tokens=tokens,
            _tree=tree,
            _read=read,
            _casts=watched,
            _where=where,
        )

    @property
    def tables(self) -> list[str]:
        """All tables read, the streamed one first."""
        return list(dict.fromkeys(filter(None, [self.stream, *self.lookups])))

    @cached_property
    def tables_by_from(self) -> list[str]:
        """All tables read: first those of the outermost FROM in its order, also through names of a WITH."""
        names = {id(read.node): read.name for read in self._read}
        nodes = query_shape.tables_of_from(self._tree)
        of_from = [names[id(node)] for node in nodes if id(node) in names]
        return list(dict.fromkeys([*of_from, *self.tables]))

    @property
    def join_keys(self) -> dict[str, list[JoinKey]]:
        """Join keys of the lookups that have them everywhere they are read."""
        if self.stream_alias is None:
            return {}
        often = Counter(table.name for table in self._read if not table.streamed)
        return join_keys(query_shape.first_select(self._tree), self.stream_alias, often)

    @property
    def ordering(self) -> Ordering:
        """Order given by its outermost ORDER BY."""
        return ordering(self._tree)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokens as written, without comments and white space."""
        raws = (self._tokens.raw(index) for index in range(len(self._tokens)))
        return hashlib.sha256("\0".join(raws).encode()).hexdigest()

    @property
    def first_line(self) -> int:
        """Line on which it begins."""
        return self._tokens.line(0)

    def line_of(self, table: str) -> int:
        """Return the line of the first reference to a table, 1 if there is none."""
        return next((self._tokens.line(read.first) for read in self._read if read.name == table), 1)

    def line_of_output(self, name: str) -> int:
        """Return the line of an output column, 1 if there is none."""
        outputs = query_shape.outputs(query_shape.first_select(self._tree))
        return next((self._line_of_node(node) for column, node in outputs if column == name), 1)

    def is_passed_through(self, name: str) -> bool:
        """Return whether an output column is a table's column, passed through under its name."""
        node = self.output(name)
        return isinstance(node, exp.Column) and node.name.lower() == name.lower()

    @property
    def cast_outputs(self) -> list[str | None]:
        """Output column that each of ``casts`` makes; None where that is not one alone, as in a WHERE."""
        outputs = query_shape.first_select(self._tree).expressions
        places = []
        if self._casts:
            places = sql_casts.items(self._tokens, self._casts, *select_list(self._tokens))
        names = [outputs[place].alias_or_name or None if place < len(outputs) else None for place in places]
        return [*names, *[None] * (len(self.casts) - len(names))]

    def streamed_column(self, name: str) -> str | None:
        """Return the streamed column that an output is, untouched; None if it is computed, or may be a lookup's.

        A name that is no output is the record's own column, which a sequence may be.
        """
        select, output = query_shape.first_select(self._tree), self.output(name)
        if output is None:
            if self.lookups and None in query_shape.output_names(select):
                return None
            return name
        if not isinstance(output, exp.Column) or len(output.parts) > 2:
            return None
        qualifiers = {(self.stream_alias or "").lower()}
        if not self.lookups:
            qualifiers.add("")
        if output.table.lower() in qualifiers:
            return output.name
        return None

    def output(self, name: str, names: Sequence[str] | None = None) -> exp.Expr | None:
        """Return the expression of an output column without its alias, as ``query_shape.output`` does."""
        return query_shape.output(query_shape.first_select(self._tree), name, names)

    def text_over_views(self, views: Mapping[str, str], replacements: Sequence[Span] = (), join: str = "") -> str:
        """Return the text with each table replaced by its view, and nothing else changed.

        Args:
            views: name of the view, as SQL, for each of ``tables``.
            replacements: further replacements, none of them a table.
            join: SQL of a join to append to its FROM.

        Raises:
            KeyError: a table has no view.
        """
        spans = [*self._views(views), *replacements]
        if not join:
            return self._tokens.compose(spans)
        end = from_end(self._tokens)
        return f"{self._tokens.compose(spans, 0, end)} {join} {self._tokens.compose(spans, end)}"

    def from_clause(self, views: Mapping[str, str]) -> str:
        """Return the text of the FROM clause over views, without the keyword.

        Args:
            views: name of the view, as SQL, for each of ``tables``.
        """
        _, from_ = select_list(self._tokens)
        return self._tokens.compose(self._views(views), from_ + 1, from_end(self._tokens), compact=True)

    def text_with_identity(
        self,
        views: Mapping[str, str],
        identity: Sequence[str] = IDENTITY,
        *,
        many: bool = False,
        by_place: bool = False,
    ) -> str:
        """Return the text over views, with ``TRY_CAST`` for ``CAST``, and hidden columns at the end of its SELECT list.

        The hidden columns are those of ``identity`` (without those that a star selects) and a boolean
        ``_sluicegate_cast_<n>`` for each of ``casts``, true for a value that is not NULL and does not cast. A record
        that WHERE would filter out only because of a failed cast is kept.

        Args:
            views: name of the view, as SQL, for each of ``tables``; the stream's has the columns of ``identity``.
            identity: columns that identify the record of a row.
            many: True if a record may give many rows.
            by_place: True if columns are matched by position, so that their names do not matter.

        Raises:
            KeyError: a table has no view.
            QuerySyntax: rows of this query cannot be attributed to records (see ``stream_objections``).
        """
        for objection in self.stream_objections(many=many, by_place=by_place):
            raise objection
        return self._text_with_identity(views, identity)

    def stream_objections(self, *, many: bool = False, by_place: bool = False) -> list[QuerySyntax]:
        """Return the reasons why this query cannot define a silver table, record by record; empty if it can.

        Args:
            many: True if a record may give many rows.
            by_place: True if columns are matched by position, as in a later branch of a UNION ALL.
        """
        if self.stream is None:
            message = "STREAM(…) is missing: mark the table whose new records are processed, FROM STREAM(table)"
            return [QuerySyntax(message, self._tokens.line(0))]
        node = next(table.node for table in self._read if table.streamed)
        shape = query_shape.record_objections(query_shape.first_select(self._tree), node, many=many)
        faults = [QuerySyntax(message, self._line_of_node(where)) for message, where in shape]
        faults += unstable_functions.objections(self._tokens, self._tree)
        faults += sql_casts.spelling_objections(self._tokens) + ([] if by_place else self._name_objections())
        faults += sql_casts.hidden_cast_objections(self._tokens, self._casts, *select_list(self._tokens))
        faults += sql_casts.generator_objections(self._tokens, query_shape.GENERATORS, *select_list(self._tokens))
        if self.stream in self.lookups:
            message = f"{self.stream} is read as a stream, so the same query cannot use it as a lookup"
            lookups = (table for table in self._read if not table.streamed)
            line = next(self._tokens.line(table.first) for table in lookups if table.name == self.stream)
            faults.append(QuerySyntax(message, line))
        if not faults:
            # Cross-check: the rewritten text must parse to the same query plus our columns.
            faults = self._rewriting_objections()
        return faults

    def table_objections(self) -> list[QuerySyntax]:
        """Return the reasons why this query cannot define a gold table; empty if it can."""
        faults = self._name_objections()
        if self.stream is not None:
            message = f"STREAM(…) is only for silver: a gold query reads whole tables, write {self.stream}"
            faults.insert(0, QuerySyntax(message, self.line_of(self.stream)))
        return faults

    def _views(self, views: Mapping[str, str]) -> list[Span]:
        spans = []
        for table in self._read:
            view, last = views[table.name], table.last
            if not table.alias:
                # Columns may be qualified by the table's name, so the view gets it as its alias.
                last = sample_end(self._tokens, table.last)
                sample = self._tokens.compose([], table.last + 1, last + 1)
                view = " ".join(filter(None, [view, sample, "AS", _name(table.qualifier)]))
            spans.append(Span(table.first, last, view))
        return spans

    def _text_with_identity(self, views: Mapping[str, str], identity: Sequence[str]) -> str:
        first, end = select_list(self._tokens)
        spans = sql_casts.replacement_spans(
            self._tokens, [*self._casts, *where_casts.casts(self._where)], self._views(views)
        )
        added = [
            f"{_name(self.stream_alias or '')}.{_name(column)} AS {_name(column)}"
            for column in self._missing_columns(identity)
        ]
        failures = sql_casts.failures(self._tokens, self._casts, spans, first, end)
        failures += [failed for part in self._where for failed in where_casts.failures(self._tokens, part, spans)]
        added += [f"{failed} AS {CAST_PREFIX}{number}" for number, failed in enumerate(failures)]
        spans = where_casts.rewritten_spans(self._tokens, self._where, spans)
        head, tail = self._tokens.compose(spans, 0, end), self._tokens.compose(spans, end)
        gap = self._tokens.text[self._tokens[end - 1].end + 1 : self._tokens[end].start]
        return "".join([head, *(f", {column}" for column in added), gap, tail])

    def _missing_columns(self, identity: Sequence[str]) -> list[str]:
        brought = query_shape.star_columns(query_shape.first_select(self._tree), self.stream_alias or "", identity)
        return [column for column in identity if column not in brought]

    def _rewriting_objections(self) -> list[QuerySyntax]:
        identity = IDENTITY
        text = self._text_with_identity({name: f"_view_{number}" for number, name in enumerate(self.tables)}, identity)
        before = query_shape.output_names(query_shape.first_select(self._tree))
        hidden = [*self._missing_columns(identity), *(f"{CAST_PREFIX}{number}" for number in range(len(self.casts)))]
        try:
            reparsed = Query.parse(text)
        except QuerySyntax as error:
            return [QuerySyntax(f"this query cannot be processed record by record ({error.message}); simplify it", 1)]
        if query_shape.output_names(query_shape.first_select(reparsed._tree)) == [*before, *hidden]:
            return []
        return [QuerySyntax("this query cannot be processed record by record; simplify it", 1)]

    def _name_objections(self) -> list[QuerySyntax]:
        faults = []
        names_before: set[str] = set()
        select = query_shape.first_select(self._tree)
        for name, node in query_shape.outputs(select):
            if name == "":
                names = "AS name"
                if query_shape.generator(node):
                    names = "AS (name, …)"
                message = f"an expression has no column name: add {names}"
                faults.append(QuerySyntax(message, self._line_of_node(node)))
            elif name is not None and name.lower() in names_before:
                faults.append(QuerySyntax(f"duplicate column name {name}", self._line_of_node(node)))
            names_before.add((name or "").lower())
        return faults

    def _line_of_node(self, node: exp.Expr) -> int:
        return line_at(self._tokens.text, query_shape.offset(node) or 0)


def _tree(tokens: Tokens) -> exp.Query:
    text = tokens.compose([])
    try:
        tree = parse_sql(text)
    except QuerySyntax as error:
        raise QuerySyntax(f"invalid Spark SQL: {error.message}", error.line) from None
    if not isinstance(tree, exp.Query):
        raise QuerySyntax(f"a query must be one SELECT, not {type(tree).__name__.upper()}", 1)
    for fault, node in query_shape.construct_objections(tree):
        raise QuerySyntax(fault, line_at(text, query_shape.offset(node) or 0))
    return tree


def _tables(tree: exp.Query, tokens: Tokens) -> list[_Table]:
    """Return all table references, in the order of the text."""
    tables = []
    for node in tree.find_all(exp.Table):
        if node.find_ancestor(exp.Hint) or query_shape.is_from_with(node):
            continue
        streamed = query_shape.is_stream(node)
        if not streamed and not isinstance(node.this, exp.Identifier):
            continue  # a table function, such as range(10)
        offset = query_shape.offset(node)
        if offset is None:
            raise QuerySyntax(f"the table {node.sql('spark')} could not be located in the query; simplify it", 1)
        first = tokens.index_at[offset]
        last = first + 2 * (len(node.parts) - 1)
        if streamed:
            last = tokens.closing_index(first + 1)
        tables.append(_Table(query_shape.table_name(node), first, last, node.alias, streamed, node))
    return sorted(tables, key=lambda table: table.first)


def _stream(tree: exp.Query, read: Sequence[_Table], tokens: Tokens) -> _Table | None:
    """Return the table in STREAM, if any.

    Raises:
        QuerySyntax: there are several, or it is not in the FROM of the outermost SELECT.
    """
    streams = [table for table in read if table.streamed]
    for call in tree.find_all(exp.Anonymous):
        if call.name.upper() == "STREAM" and not isinstance(call.parent, exp.Table):
            line = line_at(tokens.text, query_shape.offset(call) or 0)
            raise QuerySyntax("STREAM(…) is only allowed around a table name after FROM or JOIN", line)
    if not streams:
        return None
    if len(streams) > 1:
        message = "duplicate STREAM(…): a query streams one table, and all others are lookups"
        raise QuerySyntax(message, tokens.line(streams[1].first))
    stream = streams[0]
    if not query_shape.is_outermost(tree, stream.node):
        raise QuerySyntax(
            "STREAM(…) must be in the FROM of the outermost SELECT, not in a WITH, a subquery or a branch of a UNION: "
            "rows of different records could not be distinguished there",
            tokens.line(stream.first),
        )
    return stream


def _name(name: str) -> str:
    """Quote a name if it needs backticks."""
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    return quote_name(name)

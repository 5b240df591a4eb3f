"""Which layer each dataset of a source is of here, and what its table says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.definition_fields import IDENTIFIER, name_fault
from sluicegate.imports import bronze
from sluicegate.imports.model import FILES, Changes, Dataset, Rule, Source
from sluicegate.query import Query
from sluicegate.scaffold.naming import ident, table_name
from sluicegate.sql_clauses import select_list
from sluicegate.sql_tokens import QuerySyntax, Span, Tokens, parsed

_AGGREGATING = (
    exp.AggFunc, exp.Group, exp.Distinct, exp.Limit, exp.Order, exp.Window, exp.SetOperation, exp.Having,
)  # fmt: skip


@dataclass
class Draft:
    """The tables of a definition that is to be.

    Attributes:
        bronze: fields of each bronze table.
        silver: fields of each silver table.
        gold: fields of each gold table.
        queries: the query of each table that has one.
        comments: what is to be told above a table: its comment, and what it was.
    """

    bronze: dict[str, dict[str, Any]] = field(default_factory=dict)
    silver: dict[str, dict[str, Any]] = field(default_factory=dict)
    gold: dict[str, dict[str, Any]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    comments: dict[str, list[str]] = field(default_factory=dict)

    @property
    def known(self) -> set[str]:
        """The names of all tables."""
        return {*self.bronze, *self.silver, *self.gold}


def draft(source: Source) -> Draft:
    """The tables that a source becomes; what has no place is left in it."""
    return _Mapping(source).draft()


class _Mapping:
    def __init__(self, source: Source) -> None:
        self.source, self.made = source, Draft()
        self.views: dict[str, str] = {}  # queries that are made part of those that read them

    def draft(self) -> Draft:
        for dataset in [*self.source.datasets]:
            if name_fault(dataset.name):
                dataset.name = self._renamed(dataset)
        for dataset in self.source.datasets:
            self._files(dataset)
        targets: dict[str, Changes] = {}
        for changes in self.source.changes:
            if changes.target in targets:
                self.source.leave(changes.line, f"a second flow into {changes.target}", "one source for each table")
            targets.setdefault(changes.target, changes)
        for dataset in self.source.datasets:
            if dataset.query is not None:
                self._query(dataset)
            elif dataset.name not in self.made.bronze and dataset.name not in targets:
                self.source.leave(dataset.line, dataset.name, "nothing that is taken over fills it")
        for changes in targets.values():
            self._changes(changes)
        self._inline()
        self._others()
        return self.made

    def _renamed(self, dataset: Dataset) -> str:
        name = table_name(dataset.name) or f"table_{dataset.line}"
        self.source.leave(
            dataset.line, f"the name {dataset.name}", f"it is called {name} here: so are all that read it"
        )
        return name

    def _told(self, dataset: Dataset, *more: str) -> None:
        self.made.comments[dataset.name] = [*([dataset.comment] if dataset.comment else []), *more]

    # --- bronze ------------------------------------------------------------------------------------------------------

    def _files(self, dataset: Dataset) -> None:
        """The bronze table of a dataset that reads files: the dataset itself, if it has no more to say."""
        if dataset.files is None:
            return
        plain = dataset.query is None or re.fullmatch(
            rf"SELECT \* FROM (STREAM\({FILES}\)|{FILES})( AS)?( \w+)?", " ".join(dataset.query.split()), re.IGNORECASE
        )
        if plain and not dataset.rules:
            dataset.query = None
            self.made.bronze[dataset.name] = bronze.fields(dataset.files, dataset.name, dataset.schema, self.source)
            self._told(dataset)
            return
        landed = f"{dataset.name}_landed"
        self.made.bronze[landed] = bronze.fields(dataset.files, landed, "", self.source)
        self.made.comments[landed] = [f"The files of {dataset.name}, as they come."]
        query = dataset.query or f"SELECT *\nFROM STREAM({FILES})"
        dataset.query = re.sub(rf"\b{FILES}\b", landed, query)

    # --- queries -----------------------------------------------------------------------------------------------------

    def _query(self, dataset: Dataset) -> None:
        try:
            text = self._plain_names(str(dataset.query))
            tree = parsed(Tokens(text).compose([]))
            streams = Query.parse(text).stream is not None
        except QuerySyntax as error:
            self.source.leave(dataset.query_line + error.line - 1, f"the query of {dataset.name}", error.message)
            return
        told = ["It was a view: here it is a table."] if dataset.kind == "view" else []
        if _aggregates(tree):
            self._gold(dataset, text, streams)
            return
        if not streams and (streamed := _with_stream(text)) is not None:
            text, streams = streamed, True
        objections = Query.parse(text).stream_objections() if streams else [None]
        if objections:
            self._gold(dataset, str(dataset.query), streams)
            return
        self._told(dataset, *told)
        self._silver(dataset, {"sql": f"{dataset.name}.sql"})
        self.made.queries[dataset.name] = text

    def _plain_names(self, text: str) -> str:
        """A query with its datasets by their own names, without a catalog and a schema."""
        names = {dataset.name for dataset in self.source.datasets}

        def plain(name: str) -> str | None:
            before, _, last = name.rpartition(".")
            return ident(last) if before and last in names else None

        return _with_names(text, plain)

    def _silver(self, dataset: Dataset, fields: dict[str, Any]) -> None:
        if dataset.schema and "__" in dataset.schema:
            self.source.leave(dataset.line, f"the schema of {dataset.name}", "its history columns are the engine's own")
        elif dataset.schema:
            fields |= {"schema": dataset.schema, "schemaEvolutionMode": "failOnNewColumns"}
        rules = {self._rule_name(rule): {rule.action: rule.condition} for rule in dataset.rules}
        if rules:
            fields["expectations"] = rules
        self.made.silver[dataset.name] = fields

    def _rule_name(self, rule: Rule) -> str:
        if IDENTIFIER.fullmatch(rule.name):
            return rule.name
        name = re.sub(r"\W+", "_", rule.name, flags=re.ASCII).strip("_")
        name = name if IDENTIFIER.fullmatch(name) else f"rule_{rule.line}"
        self.source.leave(rule.line, f"the name of the rule {rule.name}", f"it is called {name} here")
        return name

    def _gold(self, dataset: Dataset, text: str, streams: bool) -> None:
        text = _without_stream(self._plain_names(text))
        if streams:
            why = "it is gold here, kept over all rows and not over those of a stream: watermarks have no effect"
            self.source.leave(dataset.line, f"STREAM in {dataset.name}", why)
        for rule in dataset.rules:
            self.source.leave(
                rule.line, f"the rule {rule.name} of {dataset.name}", "rules are for silver, this is gold"
            )
        if dataset.schema:
            self.source.leave(dataset.line, f"the schema of {dataset.name}", "gold has the columns of its query")
        self._told(dataset)
        self.made.gold[dataset.name] = {"sql": f"{dataset.name}.sql"}
        self.made.queries[dataset.name] = text
        self.views[dataset.name] = text
        if dataset.kind == "view":
            self.made.comments[dataset.name].append("It was a view: here it is a table.")

    def _changes(self, changes: Changes) -> None:
        dataset = self.source.named(changes.target)
        if dataset is None:
            dataset = Dataset(changes.target, changes.line, "streaming")
        if dataset.query is not None or dataset.name in self.made.known:
            self.source.leave(changes.line, f"changes into {changes.target}", "it has a query as well")
            return
        self._told(dataset)
        self._silver(dataset, {"from": changes.source, "apply_changes": changes.fields})

    # --- tables that read what is no table here ----------------------------------------------------------------------

    def _inline(self) -> None:
        """Gold reads bronze and silver only: a gold query that another one reads is made a WITH of that."""
        for name in self.made.gold:
            seen: set[str] = set()
            while (read := self._gold_read(self.made.queries[name], seen)) is not None:
                seen.add(read)
                self.made.queries[name] = _with(self.made.queries[name], read, self.views[read])
                self.made.comments.setdefault(name, []).append(f"{read} is a part of the query: gold reads no gold.")
        for name, fields in self.made.silver.items():
            text = self.made.queries.get(name)
            reads = Query.parse(text).tables if text else [str(fields.get("from"))]
            for read in reads:
                if read in self.made.gold:
                    dataset = self.source.named(name)
                    line = dataset.line if dataset else 1
                    self.source.leave(line, f"{name} reads {read}", "it aggregates, so it is gold, which is made last")

    def _gold_read(self, text: str, seen: set[str]) -> str | None:
        try:
            return next((read for read in Query.parse(text).tables if read in self.views and read not in seen), None)
        except QuerySyntax:
            return None

    def _others(self) -> None:
        """Tables that are read and made elsewhere: Delta tables, of which a person says where they are."""
        for name, fields in {**self.made.silver, **self.made.gold}.items():
            text = self.made.queries.get(name)
            dataset = self.source.named(name)
            line = dataset.line if dataset else 1
            for read in Query.parse(text).tables if text else [str(fields.get("from"))]:
                plain = read.rpartition(".")[2]
                if read in self.made.known:
                    continue
                if name_fault(plain) or plain in self.source.declared or self.source.named(plain) is not None:
                    self.source.leave(line, f"{read}, which {name} reads", "it is not made here")
                    continue
                if text and plain != read:
                    changed = {read.lower(): ident(plain)}
                    self.made.queries[name] = _with_names(self.made.queries[name], changed.get)
                self._elsewhere(read, plain, name, line)

    def _elsewhere(self, read: str, plain: str, reader: str, line: int) -> None:
        where = f"${{landing}}/{plain}"
        self.made.bronze.setdefault(plain, {"path": where, "format": "delta"})
        self.made.comments[plain] = [f"TODO: {read} is made elsewhere; write the path of that Delta table."]
        self.source.leave(line, f"{read}, which {reader} reads", f"made elsewhere: a Delta table at {where}, TODO")


def _with_names(text: str, other: Callable[[str], str | None]) -> str:
    """A query with other names of tables: what ``other`` gives, as SQL, for one in small letters; None lets it be."""
    tokens = Tokens(text)
    spans = []
    for at in range(1, len(tokens)):
        in_stream = tokens.word(at - 2) == "STREAM" and tokens.is_type(at - 1, TokenType.L_PAREN)
        if not in_stream and tokens.word(at - 1) not in ("FROM", "JOIN"):
            continue
        last = at
        while tokens.is_type(last + 1, TokenType.DOT) and last + 2 < len(tokens):
            last += 2
        name = other(".".join(tokens.name(part) for part in range(at, last + 1, 2)).lower())
        spans += [] if name is None else [Span(at, last, name)]
    return tokens.compose(spans)


def _aggregates(tree: exp.Expr) -> bool:
    """Whether rows of a query are made of several rows, or depend on others."""
    return any(isinstance(node, _AGGREGATING) for node in tree.walk())


def _without_stream(text: str) -> str:
    """A query with each ``STREAM(table)`` as the table."""
    tokens = Tokens(text)
    spans = [
        Span(at, close := tokens.closing(at + 1), tokens.compose([], at + 2, close))
        for at in range(len(tokens))
        if tokens.word(at) == "STREAM" and tokens.is_type(at + 1, TokenType.L_PAREN)
    ]
    return tokens.compose(spans)


def _with_stream(text: str) -> str | None:
    """A query of tables with its first table as the stream; None if that is no table."""
    tokens = Tokens(text)
    try:
        _, from_ = select_list(tokens)
    except QuerySyntax:
        return None
    last = from_ + 1
    if not tokens.is_type(last, TokenType.VAR, TokenType.IDENTIFIER) or tokens.is_type(last + 1, TokenType.L_PAREN):
        return None
    while tokens.is_type(last + 1, TokenType.DOT):
        last += 2
    begin, end = tokens[from_ + 1].start, tokens[last].end + 1
    found = f"{text[:begin]}STREAM({text[begin:end]}){text[end:]}"
    try:
        Query.parse(found)
    except QuerySyntax:
        return None
    return found


def _with(text: str, name: str, query: str) -> str:
    """A query with another one as its first WITH."""
    tokens = Tokens(text)
    one = f"WITH {ident(name)} AS (\n{query.strip()}\n)"
    if tokens.word(0) == "WITH":
        return f"{one},{text[tokens[0].end + 1 :]}"
    return f"{one}\n{text[tokens[0].start :]}"

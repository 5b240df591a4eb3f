"""Mapping of a source's datasets to layers and table definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sluicegate.definition.fields import IDENTIFIER
from sluicegate.spark_sql import union_all
from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.spark_sql.unstable_functions import use_receipt_time
from sluicegate.tools.migrate import auto_loader, casts, flows, layers, underscores
from sluicegate.tools.migrate.draft import Draft
from sluicegate.tools.migrate.model import FILES, ChangeFlow, Dataset, ParsedSource, Rule
from sluicegate.tools.migrate.rewriting import count_reads, remove_streams, rename_tables, stream_first_table, tables_of
from sluicegate.tools.migrate.table_names import Ambiguous, addresses, unique_name
from sluicegate.tools.scaffold.naming import ident

_PLAIN_READ = re.compile(rf"SELECT \* FROM (STREAM\({FILES}\)|{FILES})( AS)?( \w+)?", re.IGNORECASE)


def draft(source: ParsedSource) -> Draft:
    """Map a source to tables, and note in the draft what cannot be converted."""
    return _Mapping(source).draft()


class _Mapping:
    def __init__(self, source: ParsedSource) -> None:
        self.source, self._draft = source, Draft()
        self.gold: set[str] = set()
        self.elsewhere: dict[str, str] = {}  # addresses of tables made elsewhere, by their names here

    def draft(self) -> Draft:
        self._name()
        for dataset in self.source.datasets:
            self._files(dataset)
        targets = self._targets()
        for dataset in self.source.datasets:
            if dataset.query is not None:
                dataset.query = casts.standardize_casts(dataset.query)
        underscores.rename(self.source)
        queries = {dataset.name: dataset.query for dataset in self.source.datasets if dataset.query is not None}
        followed = {changes.source for flows_ in targets.values() for changes in flows_}
        ruled = self._tables_with_rules(lambda rule: rule.action != "expect_or_fail")
        timed = self._tables_with_rules(lambda rule: layers.depends_on_time(rule.condition))
        self.gold = layers.gold(queries, ruled, timed, followed)
        self._tables({*targets, *(dataset.into for dataset in self.source.datasets)})
        for flows_of_target in targets.values():
            self._changes(flows_of_target)
        flows.take_over(self.source, self._draft, self.gold, self._silver)
        self._tell_gold()
        self._declare_external_tables()
        self._split_declared()
        return self._draft

    def _tables_with_rules(self, chosen: Callable[[Rule], bool]) -> set[str]:
        """Return the datasets that have a rule of a kind."""
        return {dataset.name for dataset in self.source.datasets if any(map(chosen, dataset.rules))}

    def _targets(self) -> dict[str, list[ChangeFlow]]:
        """Group change flows by the table that they write, and leave out flows that do not fit the first."""
        targets: dict[str, list[ChangeFlow]] = {}
        for changes in self.source.changes:
            into_same = targets.setdefault(changes.target, [])
            sources = {other.source for other in into_same}
            if into_same and (into_same[0].fields != changes.fields or changes.source in sources):
                reason = "all change flows into one table need the same keys, sequence and columns"
                self.source.leave(changes.line, f"a second flow into {changes.target}", reason)
                self.source.unnamed[f"the second flow into {changes.target}"] = changes.line
            else:
                into_same.append(changes)
        return targets

    def _tables(self, written: Collection[str]) -> None:
        """Add the tables of the datasets with a query; ``written`` are the tables that flows write to."""
        for dataset in self.source.datasets:
            if dataset.into:
                continue
            if dataset.query is not None:
                self._query(dataset)
            elif dataset.name not in self._draft.bronze and dataset.name not in written:
                self.source.leave(dataset.line, dataset.name, "no imported flow writes to this table")

    # --- names -------------------------------------------------------------------------------------------------------

    def _name(self) -> None:
        """Give each table its name here, and rename it in all queries that read it."""
        source = self.source
        reads = {dataset.name: tables_of(dataset.query) for dataset in source.datasets if dataset.query is not None}
        for changes in source.changes:
            reads.setdefault(changes.target, []).append(changes.source)
        declared = {**source.declared, **{changes.target: changes.line for changes in source.changes}}
        pairs = [(reader, read) for reader, tables in reads.items() for read in tables]
        pairs += [(dataset.name, dataset.into) for dataset in source.datasets if dataset.into]
        self.found = addresses([*declared, *(dataset.name for dataset in source.datasets)], dict.fromkeys(pairs))
        self.elsewhere = {self.found.names[address]: address for address in self.found.elsewhere}
        self._name_in_datasets(reads)
        self._name_in_changes()
        self._tell_names(declared)

    def _name_in_datasets(self, reads: Mapping[str, list[str]]) -> None:
        for dataset in [*self.source.datasets]:
            try:
                dataset.query = self._rename_tables(dataset, reads.get(dataset.name, []))
                if dataset.into:
                    dataset.into = self._table_name(dataset.name, dataset.into)
            except (Ambiguous, QuerySyntax) as error:
                self.source.leave(dataset.line, dataset.name, str(error))
                self.source.datasets.remove(dataset)

    def _name_in_changes(self) -> None:
        named: list[ChangeFlow] = []
        for changes in self.source.changes:
            try:
                read = self._table_name(changes.target, changes.source)
            except Ambiguous as error:
                self.source.leave(changes.line, f"changes into {changes.target}", str(error))
                continue
            named.append(ChangeFlow(self.found.names[changes.target], read, changes.fields, changes.line))
        self.source.changes[:] = named

    def _table_name(self, reader: str, read: str) -> str:
        """Return the name of a table that a dataset reads, and refuse one declared twice, which is ambiguous."""
        if self.found.means[reader, read] in self.source.twice:
            raise Ambiguous(f"{read} is declared more than once in this source: qualify each with its schema")
        return self.found.resolve_name(reader, read)

    def _rename_tables(self, dataset: Dataset, reads: list[str]) -> str | None:
        """Return the query of a dataset with the tables' names in the draft."""
        if dataset.query is None or not reads:
            return dataset.query
        names = {read: self._table_name(dataset.name, read) for read in reads}
        text = rename_tables(dataset.query, lambda read: ident(names[read]) if read in names else None)
        if {*tables_of(text)} != {*names.values()} or count_reads(text) != count_reads(dataset.query):
            raise Ambiguous("a table is read at an unsupported place: read tables after FROM or JOIN only")
        for read, name in names.items():
            if self.found.means[dataset.name, read] != read:
                message = f"{read}, which {dataset.name} reads"
                reason = f"assumed to be {name} of this source; if it is another table, declare its location"
                self.source.leave(dataset.query_line, message, reason)
        return text

    def _tell_names(self, declared: dict[str, int]) -> None:
        for dataset in self.source.datasets:
            name = self.found.names[dataset.name]
            if dataset.into:
                dataset.name = name
                continue
            if name != dataset.name.rpartition(".")[2]:
                reason = f"it is renamed to {name}, also in all tables that read it"
                self.source.leave_harmless(dataset.line, f"the name {dataset.name}", reason)
            dataset.name = name
        self.declared = {self.found.names[address]: (address, line) for address, line in declared.items()}

    def _split_declared(self) -> None:
        """Split the declared tables into imported and missing."""
        for name, (address, line) in self.declared.items():
            if name in self._draft.table_names:
                self._draft.imported.append(address)
            else:
                self._draft.missing[address] = line
        self._draft.missing |= self.source.unnamed

    def _comment(self, dataset: Dataset, *more: str) -> None:
        comments = [dataset.comment] if dataset.comment else []
        if dataset.kind == "view":
            comments.append("It was a view: here it is a table.")
        self._draft.comments[dataset.name] = [*comments, *more]

    # --- bronze ------------------------------------------------------------------------------------------------------

    def _files(self, dataset: Dataset) -> None:
        """Add the bronze table of a dataset that reads files: the dataset itself, if it does nothing else."""
        if dataset.files is None:
            return
        plain = dataset.query is None or _PLAIN_READ.fullmatch(" ".join(dataset.query.split()))
        if plain and all(rule.action != "expect_or_drop" for rule in dataset.rules):
            dataset.query = None
            fields = auto_loader.fields(dataset.files, dataset.name, dataset.schema, self.source)
            self._draft.bronze[dataset.name] = fields | self._expectations(dataset)
            self._comment(dataset)
            return
        landed = f"{dataset.name}_landed"
        while landed in self.found.names.values():
            landed += "_files"
        self._draft.bronze[landed] = auto_loader.fields(dataset.files, landed, "", self.source)
        self._draft.comments[landed] = [f"The files of {dataset.name}, as they come."]
        query = dataset.query or f"SELECT *\nFROM STREAM({FILES})"
        dataset.query = re.sub(rf"\b{FILES}\b", landed, query)

    # --- queries -----------------------------------------------------------------------------------------------------

    def _query(self, dataset: Dataset) -> None:
        try:
            text = str(dataset.query)
            if branches := union_all.branches(text):
                self._union(dataset, text, list(map(Query.parse, branches)))
                return
            query = Query.parse(text)
        except QuerySyntax as error:
            self.source.leave(dataset.query_line + error.line - 1, f"the query of {dataset.name}", error.message)
            return
        streams = query.stream is not None
        if dataset.name in self.gold:
            self._gold(dataset, text, streams, "its rows are not each made of one record")
            return
        streamed = text if streams else stream_first_table(text)
        if streamed is None:
            self._gold(dataset, text, streams, "")
            return
        remarks = []
        joined = layers.shape(text)
        if joined and joined.joins and not streams:
            remarks.append("A record that gives several rows stops the run: where it is to, write `rows: many`.")
        streamed = self._use_receipt_time(dataset, streamed, streams)
        objections = Query.parse(streamed).stream_objections(many=True)
        if objections:
            self._gold(dataset, text, streams, objections[0].message)
            return
        fields: dict[str, Any] = {"sql": f"{dataset.name}.sql"}
        if Query.parse(streamed).stream_objections():
            fields["rows"] = "many"
        lookups = flows.lookups_as_of_run([query])
        if lookups:
            remarks.append(flows.AS_OF_RUN)
        self._comment(dataset, *remarks)
        self._silver(dataset, fields | lookups)
        self._draft.queries[dataset.name] = streamed

    def _use_receipt_time(self, dataset: Dataset, text: str, streams: bool) -> str:
        """Replace the time of the run by receipt_time in a query over a bronze table.

        The source may compute again what it does not stream, at another time.
        """
        if Query.parse(text).stream not in self._draft.bronze:
            return text
        by_receipt_time = use_receipt_time(text)
        if by_receipt_time != text:
            part = f"the time of the run in {dataset.name}"
            reason = "replaced by receipt_time, which stays the same when a record is re-evaluated"
            self.source.leave(dataset.query_line, part, reason, changes_meaning=not streams)
        return by_receipt_time

    def _union(self, dataset: Dataset, text: str, branches: list[Query]) -> None:
        """Add a table with a flow for each branch of a UNION ALL over streams."""
        objections = [objection for query in branches for objection in query.stream_objections(many=True)]
        if dataset.name in self.gold or objections:
            self._gold(dataset, text, True, objections[0].message if objections else "it combines rows")
            return
        lookups = flows.lookups_as_of_run(branches)
        self._comment(dataset, *([flows.AS_OF_RUN] if lookups else []))
        many = {}
        if any(query.stream_objections() for query in branches):
            many = {"rows": "many"}
        many |= lookups
        if all(query.outputs is not None for query in branches):
            self._silver(dataset, {"sql": f"{dataset.name}.sql", **many})
            self._draft.queries[dataset.name] = text
            return
        flows_: dict[str, dict[str, str]] = {}
        for query in branches:
            name = f"{query.stream}{'' if query.stream not in flows_ else f'_{len(flows_) + 1}'}"
            flows_[name] = {"sql": f"{dataset.name}__{name}.sql"}
            self._draft.queries[f"{dataset.name}__{name}"] = query.text.strip()
        reason = "with *, the columns of its flows are matched by name here, not by position"
        self.source.leave(dataset.query_line, f"UNION ALL in {dataset.name}", reason)
        self._silver(dataset, {"flows": flows_, **many})

    def _silver(self, dataset: Dataset, fields: dict[str, Any]) -> None:
        if dataset.schema and "__" in dataset.schema:
            self.source.leave(dataset.line, f"the schema of {dataset.name}", "its history columns are reserved")
        elif dataset.schema:
            fields |= {"schema": dataset.schema, "schemaEvolutionMode": "failOnNewColumns"}
        self._draft.silver[dataset.name] = fields | self._expectations(dataset)

    def _expectations(self, dataset: Dataset) -> dict[str, Any]:
        """Return the field with the rules of a dataset, without rules that are not conditions on a row."""
        rules: dict[str, Any] = {}
        for rule in dataset.rules:
            condition = casts.standardize_casts(rule.condition)
            try:
                Condition.parse(condition)
            except QuerySyntax as error:
                self._draft.rules_left.append(f"{rule.name} of {dataset.name}")
                self.source.leave(rule.line, f"the rule {rule.name} of {dataset.name}", error.message)
            else:
                rules[self._rule_name(rule, rules)] = {rule.action: condition}
                self._tell_time(rule, dataset)
        if rules:
            return {"expectations": rules}
        return {}

    def _tell_time(self, rule: Rule, dataset: Dataset) -> None:
        """Note a time-dependent rule that the source evaluates again for old rows, as only gold does here."""
        recomputed = dataset.kind != "streaming" and dataset.name not in self.gold
        if recomputed and layers.depends_on_time(rule.condition):
            reason = "it is evaluated once for each record here, and in each update in the source"
            self.source.leave(rule.line, f"the rule {rule.name} of {dataset.name}", reason)

    def _rule_name(self, rule: Rule, taken: Collection[str]) -> str:
        """Return a name for a rule that no other rule of its table has."""
        name = re.sub(r"\W+", "_", rule.name, flags=re.ASCII).strip("_")
        if IDENTIFIER.fullmatch(rule.name):
            name = rule.name
        elif not IDENTIFIER.fullmatch(name):
            name = f"rule_{rule.line}"
        name = unique_name(name, taken)
        if name == rule.name:
            return name
        self.source.leave_harmless(rule.line, f"the name of the rule {rule.name}", f"it is called {name} here")
        return name

    def _gold(self, dataset: Dataset, text: str, streams: bool, because: str) -> None:
        text = remove_streams(text)
        if streams:
            self._leave_stream(dataset, text, because)
        if dataset.schema:
            reason = "a gold table has the columns of its query"
            self.source.leave(dataset.line, f"the schema of {dataset.name}", reason)
        self._comment(dataset)
        self._draft.gold[dataset.name] = {"sql": f"{dataset.name}.sql", **self._expectations(dataset)}
        self._draft.queries[dataset.name] = text

    def _leave_stream(self, dataset: Dataset, text: str, because: str) -> None:
        """Note that a stream becomes a gold table, whose old rows change where they depend on more than the stream."""
        reason = f"it becomes a gold table over all rows instead of a stream: {because}"
        shape = layers.shape(text)
        stable = shape is not None and count_reads(text) == 1 and not shape.unstable
        self.source.leave(dataset.line, f"STREAM in {dataset.name}", reason, changes_meaning=not stable)

    def _changes(self, changes_of_target: list[ChangeFlow]) -> None:
        changes = changes_of_target[0]
        dataset = self.source.find_dataset(changes.target)
        if dataset is None:
            dataset = Dataset(changes.target, changes.line, "streaming")
        if dataset.query is not None or dataset.name in self._draft.table_names:
            self.source.leave(changes.line, f"changes into {changes.target}", "it also has a query")
            self.source.unnamed[f"the flow of changes into {changes.target}"] = changes.line
            return
        self._comment(dataset)
        fields = dict(changes.fields)
        if "apply_as_deletes" in fields:
            fields["apply_as_deletes"] = casts.standardize_casts(str(fields["apply_as_deletes"]))
        flows_ = {flow.source: {"from": flow.source} for flow in changes_of_target}
        source = {"from": changes.source} if len(changes_of_target) == 1 else {"flows": flows_}
        self._silver(dataset, {**source, "apply_changes": fields})

    # --- tables that read what is no table here ----------------------------------------------------------------------

    def _tell_gold(self) -> None:
        """Note the silver tables that read gold."""
        for name, fields in self._draft.silver.items():
            for read in flows.reads(name, fields, self._draft):
                if read in self._draft.gold:
                    reason = "its rows are not each made of one record, so it is a gold table, built after silver"
                    self.source.leave(self._line_of(name), f"{name} reads {read}", reason)

    def _line_of(self, name: str) -> int:
        dataset = self.source.find_dataset(name)
        if dataset is None:
            return 1
        return dataset.line

    def _declare_external_tables(self) -> None:
        """Declare the tables of other sources as Delta tables, whose paths a person fills in."""
        for name, fields in {**self._draft.silver, **self._draft.gold}.items():
            line = self._line_of(name)
            tables = flows.reads(name, fields, self._draft)
            if not tables:
                self.source.leave(line, name, "its query reads no table: land its rows, or read one")
            for read in tables:
                if read in self._draft.table_names:
                    if address := self.elsewhere.get(read):
                        self._note_external_table(read, address, name, line)
                elif re.match(r"(json|csv|parquet|orc|text|avro|xml|binaryfile)\b.*/", self.elsewhere.get(read, "")):
                    reason = "declare a table that reads these files, with read_files"
                    self.source.leave(line, f"{self.elsewhere[read]}, which {name} reads", reason)
                elif read in self.elsewhere:
                    self._draft.bronze[read] = {"path": f"${{landing}}/{read}", "format": "delta"}
                    self._note_external_table(read, self.elsewhere[read], name, line)
                else:
                    label = self.declared.get(read, (read, 0))[0]
                    self.source.leave(line, f"{label}, which {name} reads", "it was not imported")

    def _note_external_table(self, name: str, address: str, reader: str, line: int) -> None:
        self._draft.comments[name] = [f"TODO: {address} is made elsewhere; write the path of that Delta table."]
        reason = f"made elsewhere: a Delta table at ${{landing}}/{name}, TODO"
        self.source.leave_harmless(line, f"{address}, which {reader} reads", reason)

"""Checks of queries and conditions by the columns of the tables that they read, as far as the definition has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake
from sluicegate.definition.tables.ruled import Ruled
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql.analysis.kinds import kind_of_type
from sluicegate.spark_sql.analysis.queries import QueryAnalysis, Schema, analyze
from sluicegate.spark_sql.analysis.signatures import UNKNOWN
from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.query import Query

# Codes of mistakes that are none where Spark has functions or settings that are not its own.
OF_PLAIN_SPARK = ("unknown-function", "wrong-arguments", "type-mismatch")


class QueryChecks:
    """Checks of all queries of a definition.

    Args:
        tables: its tables.

    Attributes:
        unchecked: tables and views whose queries only Spark can check completely, each with the reason.
    """

    def __init__(self, tables: DefinedTables) -> None:
        self.tables = tables
        self.unchecked: dict[str, str] = {}
        self._schemas: dict[str, Schema] = {}
        self._analyses: dict[int, QueryAnalysis] = {}

    def findings(self) -> Iterator[LocatedMistake]:
        """Yield what Spark would refuse."""
        for path, query in self._queries():
            analysis = self._analysis(query)
            if analysis.unsure:
                self.unchecked.setdefault(str(path[1]), analysis.unsure)
            for mistake in analysis.mistakes:
                yield LocatedMistake(mistake.code, path, mistake.message, mistake.hint, mistake.line)
        for path, table in self._ruled():
            for place, rule, expectation in table.rules:
                if not expectation.unique:
                    yield from self._condition_findings((*path, place, rule), expectation.text)

    def _ruled(self) -> Iterator[tuple[Path, Ruled]]:
        tables = self.tables
        yield from ((("bronze", name), bronze) for name, bronze in tables.bronze.items())
        yield from ((("silver", name), silver) for name, silver in tables.silver.items())
        yield from ((("gold", name), gold) for name, gold in tables.gold.items())

    def _queries(self) -> Iterator[tuple[Path, Query]]:
        """Yield all queries as written."""
        yield from ((("views", name), view) for name, view in self.tables.views.written.items())
        made: list[tuple[Path, Query | None]] = []
        for name, silver in self.tables.silver.items():
            made += [(("silver", name, *path, "sql"), maker.written_query) for path, maker in silver.located_makers]
        made += [(("gold", name, "sql"), gold.written_query) for name, gold in self.tables.gold.items()]
        yield from ((path, query) for path, query in made if query is not None)
        for path, table in self._ruled():
            queries = {name: rule.written_query for name, rule in table.expect_table.items() if rule.sql is not None}
            yield from (((*path, "expect_table", name, "sql"), query) for name, query in queries.items())

    def _condition_findings(self, path: Path, text: str) -> Iterator[LocatedMistake]:
        """Yield mistakes of a condition, except unknown columns, which are reported elsewhere."""
        name = str(path[1])
        query = f"SELECT 1 FROM {name} WHERE {Condition.parse(text).text}"
        for mistake in analyze(query, {name: Schema(self._schema(name).columns)}).mistakes:
            yield LocatedMistake(mistake.code, path, mistake.message, mistake.hint)

    def _analysis(self, query: Query | None) -> QueryAnalysis:
        if query is None:
            return QueryAnalysis()
        if id(query) not in self._analyses:
            self._analyses[id(query)] = QueryAnalysis()  # of a cycle, which is reported elsewhere
            schemas = {read: self._schema(read) for read in query.tables}
            if query.stream is not None and query.stream in self.tables.views.names:  # reported elsewhere, too
                schemas[query.stream] = Schema()
            self._analyses[id(query)] = analyze(query.text, schemas)
        return self._analyses[id(query)]

    def _schema(self, name: str) -> Schema:
        if name not in self._schemas:
            self._schemas[name] = Schema()  # of a cycle, too
            self._schemas[name] = self._new_schema(name)
        return self._schemas[name]

    def _new_schema(self, name: str) -> Schema:
        tables = self.tables
        if name in tables.views.written:
            return self._analysis(tables.views.written[name]).schema
        if name in tables.gold:
            return self._analysis(tables.gold[name].written_query).schema
        if name in tables.bronze:
            return _typed(tables.columns(name), tables.bronze[name].declared_columns, Schema())
        if name not in tables.silver:
            return Schema()
        table = tables.silver[name]
        computed, columns = self._computed(table), tables.columns(name)
        if columns is None and computed.complete and table.changes is None:
            columns = [*computed.columns]
        return _typed(columns, table.declared_columns, computed)

    def _computed(self, table: SilverTable) -> Schema:
        """Return the columns that the one query of a table computes, or those that come as they are."""
        if table.flows_or_branches or table.is_python:
            return Schema()
        if table.from_:
            return self._schema(table.from_)
        return self._analysis(table.written_query).schema


def _typed(columns: list[str] | None, declared: Mapping[str, str] | None, computed: Schema) -> Schema:
    """Return the schema of some columns with their declared types, else those that a query gives them."""
    if columns is None:
        return Schema()
    kinds = {name.lower(): kind for name, kind in computed.columns.items()}
    kinds |= {name.lower(): kind_of_type(kind) for name, kind in (declared or {}).items()}
    return Schema({name: kinds.get(name.lower(), UNKNOWN) for name in columns}, complete=True)

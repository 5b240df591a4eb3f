"""Analysis of a query without Spark: its columns, and what Spark would refuse as far as that is certain.

https://spark.apache.org/docs/latest/sql-ref-name-resolution.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.analysis.checked_expressions import CheckedExpressions, Notes
from sluicegate.spark_sql.analysis.functions import function_mistakes
from sluicegate.spark_sql.analysis.kinds import stored_kind
from sluicegate.spark_sql.analysis.plain_tree import SqlMistake, parse_plainly
from sluicegate.spark_sql.analysis.signatures import UNKNOWN
from sluicegate.spark_sql.lineage.model import IDENTITY, TRANSFORMATION, Columns, Origins, apply_use
from sluicegate.spark_sql.lineage.names import Names, Relation, Unsure
from sluicegate.spark_sql.lineage.queries import Ctes, QueryReader
from sluicegate.spark_sql.tokens import QuerySyntax


@dataclass(frozen=True)
class Schema:
    """What is known of the columns of a table.

    Attributes:
        columns: kind of each column, by name.
        complete: whether these are all.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False


@dataclass(frozen=True)
class QueryAnalysis:
    """What is known of a query.

    Attributes:
        schema: its columns.
        mistakes: what Spark would refuse.
        unsure: why only Spark can check it further; empty if all of its names were checked.
    """

    schema: Schema = Schema()
    mistakes: tuple[SqlMistake, ...] = ()
    unsure: str = ""


class _Reader(QueryReader):
    """Reader of queries in which a column of a set operation may have another type than those of its branches."""

    def sets(self, node: exp.SetOperation, outer: Names | None, ctes: Ctes) -> Relation:
        relation = super().sets(node, outer, ctes)
        columns = tuple((name, apply_use(TRANSFORMATION, origins)) for name, origins in relation.columns)
        return replace(relation, columns=columns)


def analyze(text: str, schemas: Mapping[str, Schema]) -> QueryAnalysis:
    """Analyze the columns, types and mistakes of a query.

    Args:
        text: the query.
        schemas: known schemas of the tables that the query reads, by lower-case name.
    """
    try:
        tree = parse_plainly(text)
    except QuerySyntax:
        return QueryAnalysis(unsure="it has a syntax that only Spark knows")
    if not isinstance(tree, exp.Query):
        return QueryAnalysis(unsure="it is not a query")
    kinds = {(table, name.lower()): kind for table, of in schemas.items() for name, kind in of.columns.items()}
    notes = Notes(kinds)
    unsure, schema = "", Schema()
    columns = {name: Columns(tuple(of.columns), complete=of.complete) for name, of in schemas.items()}
    try:
        schema = _schema(tree, _Reader(columns, partial(CheckedExpressions, notes)).query(tree, None, {}), notes)
    except Unsure as reason:
        unsure = str(reason)
    except RecursionError:
        unsure = "it is nested too deeply"
    open_tables = [name for name, of in schemas.items() if not of.complete]
    if open_tables:
        unsure = unsure or f"the columns of {', '.join(open_tables)} are not in the definition"
    return QueryAnalysis(schema, (*notes.mistakes(), *function_mistakes(tree)), unsure)


def _schema(tree: exp.Query, relation: Relation, notes: Notes) -> Schema:
    names = [name.lower() for name, _ in relation.columns]
    complete = not relation.rest and "" not in names and len({*names}) == len(names)
    nodes: dict[str | None, exp.Expr] = {}
    if isinstance(tree, exp.Select):
        nodes = dict(query_shape.outputs(tree))
    kinds = {name: _output_kind(origins, nodes.get(name), notes) for name, origins in relation.columns if name}
    return Schema(kinds, complete)


def _output_kind(origins: Origins, node: exp.Expr | None, notes: Notes) -> str:
    if node is not None:
        return stored_kind(notes.kinds_of_nodes.get(id(node), UNKNOWN))
    sources = [source for source, use in origins if use == IDENTITY]
    if len(sources) != 1 or len(origins) != 1:
        return UNKNOWN
    return notes.kinds.get((sources[0].table, sources[0].column), UNKNOWN)

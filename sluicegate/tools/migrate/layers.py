"""Selection of a source's gold datasets: those whose rows are not each made of one record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.spark_sql import union_all, unstable_functions
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.query_shape import generator
from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, parse_sql
from sluicegate.tools.migrate.model import FILES
from sluicegate.tools.migrate.rewriting import stream_first_table

_AGGREGATING = (
    exp.AggFunc, exp.Group, exp.Distinct, exp.Limit, exp.Order, exp.Window, exp.SetOperation, exp.Having,
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Shape of a dataset's query.

    Attributes:
        reads: the tables that it reads.
        streams: whether one of them is read as a stream.
        aggregates: whether a row is made of several rows, depends on others, or is of no table that can be streamed.
        joins: whether one row may become several, by a join or a generator.
        unstable: whether a row depends on when it is made, or on chance.
    """

    reads: list[str]
    streams: bool
    aggregates: bool
    joins: bool
    unstable: bool


def shape(text: str) -> Shape | None:
    """Return the shape of a query, None if it cannot be parsed."""
    try:
        branches = list(filter(None, map(shape, union_all.branches(text))))
    except QuerySyntax:
        return None
    if branches:  # each is a flow of one table
        return _union(branches)
    try:
        tokens = Tokens(text)
        tree = parse_sql(tokens.compose([]))
        query = Query.parse(text)
    except QuerySyntax:
        return None
    joins = any(isinstance(node, (exp.Join, exp.Lateral)) or generator(node) for node in tree.walk())
    unstreamable = query.stream is None and stream_first_table(text) is None
    aggregates = unstreamable or any(isinstance(node, _AGGREGATING) for node in tree.walk())
    sampled = tree.find(exp.TableSample) is not None
    unstable = sampled or (isinstance(tree, exp.Query) and any(unstable_functions.objections(tokens, tree)))
    reads = [name for name in query.tables if name != FILES]
    return Shape(reads, query.stream is not None, aggregates, joins, unstable)


def _union(branches: Sequence[Shape]) -> Shape:
    streams = all(branch.streams for branch in branches)
    return Shape(
        reads=list(dict.fromkeys(name for branch in branches for name in branch.reads)), streams=streams,
        aggregates=not streams or any(branch.aggregates for branch in branches),
        joins=any(branch.joins for branch in branches), unstable=any(branch.unstable for branch in branches),
    )  # fmt: skip


def depends_on_time(condition: str) -> bool:
    """Return whether a condition may hold for a row in one run and not in another."""
    query_shape = shape(f"SELECT * FROM {FILES} WHERE {condition}")
    return query_shape is not None and query_shape.unstable


def gold(queries: Mapping[str, str], ruled: set[str], timed: set[str], followed: Collection[str]) -> set[str]:
    """Choose the datasets that become gold.

    One without a stream is recomputed whole in the source, so it is gold where a record may give several of its rows,
    and where it reads gold. It stays silver if rules or a stream need that: a record with several rows then stops the
    run, and none is lost. One that depends on the time is gold too, unless a stream reads it: each run recomputes it.

    Args:
        queries: the query of each dataset that has one.
        ruled: datasets with rules.
        timed: datasets with a rule that depends on the time.
        followed: tables that changes are read from.
    """
    shapes = {name: query_shape for name, text in queries.items() if (query_shape := shape(text))}
    streamed = _streamed_tables(shapes, followed)
    silver = {*ruled, *streamed}
    datasets = {name for name, dataset in shapes.items() if dataset.aggregates}
    datasets |= {name for name, dataset in shapes.items() if dataset.joins and not dataset.streams} - silver
    changing = {*timed, *(name for name, dataset in shapes.items() if dataset.unstable)}
    datasets |= {name for name in changing & shapes.keys() if not shapes[name].streams} - streamed
    return _with_readers(datasets, {name: dataset for name, dataset in shapes.items() if not dataset.streams})


def _with_readers(datasets: set[str], readers: Mapping[str, Shape]) -> set[str]:
    """Return datasets with all that read them, directly or through others."""
    size = -1
    while size != len(datasets):
        size = len(datasets)
        datasets = datasets | {name for name, dataset in readers.items() if datasets & {*dataset.reads}}
    return datasets


def _streamed_tables(shapes: Mapping[str, Shape], followed: Collection[str]) -> set[str]:
    """Return the tables whose changes or streams are read, and all that these read in turn."""
    tables = set(followed)
    for dataset in shapes.values():
        if dataset.streams:
            tables.update(dataset.reads)
    size = -1
    while size != len(tables):
        size = len(tables)
        tables |= {read for name in tables if name in shapes for read in shapes[name].reads}
    return tables

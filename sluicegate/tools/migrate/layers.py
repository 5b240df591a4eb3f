"""Selection of a source's gold datasets: those whose rows are not each made of one record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.sql import union_all
from sluicegate.sql.query import Query
from sluicegate.sql.query_shape import generator
from sluicegate.sql.tokens import QuerySyntax, Tokens, parsed
from sluicegate.tools.migrate.model import FILES

_AGGREGATING = (
    exp.AggFunc, exp.Group, exp.Distinct, exp.Limit, exp.Order, exp.Window, exp.SetOperation, exp.Having,
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Shape of a dataset's query.

    Attributes:
        reads: the tables that it reads.
        streams: whether one of them is read as a stream.
        aggregates: whether a row is made of several rows, or depends on others.
        joins: whether one row may become several, by a join or a generator.
    """

    reads: list[str]
    streams: bool
    aggregates: bool
    joins: bool


def shape(text: str) -> Shape | None:
    """Shape of a query; None if it cannot be parsed."""
    try:
        branches = [found for one in union_all.branches(text) if (found := shape(one))]
    except QuerySyntax:
        return None
    if branches:  # each is a flow of one table
        reads = list(dict.fromkeys(name for one in branches for name in one.reads))
        streams = all(one.streams for one in branches)
        odd = any(one.aggregates for one in branches) or not streams
        return Shape(reads, streams, odd, any(one.joins for one in branches))
    try:
        tree = parsed(Tokens(text).compose([]))
        query = Query.parse(text)
    except QuerySyntax:
        return None
    joins = any(isinstance(node, (exp.Join, exp.Lateral)) or generator(node) for node in tree.walk())
    aggregates = any(isinstance(node, _AGGREGATING) for node in tree.walk())
    return Shape([name for name in query.tables if name != FILES], query.stream is not None, aggregates, joins)


def gold(queries: Mapping[str, str], ruled: Collection[str], followed: Collection[str]) -> set[str]:
    """Datasets that become gold.

    One without a stream is recomputed whole in the source, so it is gold where a record may give several of its rows,
    and where it reads gold. It stays silver if rules or a stream need that: a record with several rows then stops the
    run, and none is lost.

    Args:
        queries: the query of each dataset that has one.
        ruled: those with rules.
        followed: tables that changes are read from.
    """
    shapes = {name: found for name, text in queries.items() if (found := shape(text))}
    needed = {*followed, *(read for found in shapes.values() if found.streams for read in found.reads)}
    grown = -1
    while grown != len(needed):
        grown = len(needed)
        needed |= {read for name in [*needed] if name in shapes for read in shapes[name].reads}
    made = {
        name
        for name, found in shapes.items()
        if found.aggregates or (found.joins and not found.streams and name not in needed and name not in ruled)
    }
    grown = -1
    while grown != len(made):
        grown = len(made)
        made |= {name for name, found in shapes.items() if not found.streams and made & {*found.reads}}
    return made

"""The FROM of a gold query: the table whose changes are followed, and the others that it joins to that one's rows.

A query may join other tables where it is seen by which equality (see ties.py), and where every row of the result
belongs to a row of the first table: then it is the rows of that one with a certain key that a changed row of another
table touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.query import Query
from sluicegate.ties import Tie, ties
from sluicegate.values import quoted

ROWS = "_sluicegate_rows"
"""View of the first table's rows."""

_SIDES = {"", "LEFT"}
_KINDS = {"", "INNER", "OUTER", "SEMI", "ANTI"}
_ODD = ("pivots", "sample", "laterals", "joins")


class CannotFollow(Exception):
    """The tables of a query cannot be followed: why."""


@dataclass(frozen=True)
class From:
    """The tables of a query.

    Attributes:
        table: the first.
        alias: what the query calls it.
        joins: the others by name, each with how it is tied to the first one's rows.
        text: SQL of the FROM over the view ``ROWS`` and those of ``view``.
        aliases: what the query calls its tables, in small letters, each with the columns that mean something else
            without that name before them.
    """

    table: str
    alias: str
    joins: Mapping[str, tuple[Tie, ...]]
    text: str
    aliases: Mapping[str, frozenset[str]]


def view(table: str) -> str:
    """Name of the view of a joined table."""
    return f"_sluicegate_joined_{table.replace('.', '_')}"


def read_from(tree: exp.Select, text: str) -> From:
    """Reads the FROM of a query without subqueries.

    Raises:
        CannotFollow: it joins in a way of which it is not known what a change touches.
    """
    first = tree.args["from_"].this
    joins = tree.args.get("joins") or []
    tables = [first, *(join.this for join in joins)]
    if not all(isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) for table in tables):
        raise CannotFollow("it is made of several queries")
    if any(table.args.get(part) for table in tables for part in _ODD):
        raise CannotFollow("it reads a table in a way that cannot be followed")
    names, alias = [_name(table) for table in tables], str(first.alias or first.name)
    aliases = {_alias(table): frozenset[str]() for table in tables}
    if not joins:
        return From(names[0], alias, {}, f"{ROWS} AS {quoted(alias)}", aliases)
    if any(join.side not in _SIDES or join.kind not in _KINDS or join.method for join in joins):
        raise CannotFollow("it has a join that is no inner, left, semi or anti join")
    tied = ties(tree, alias, Counter(names[1:]))
    for name in names[1:]:
        if name not in tied or name == names[0]:
            raise CannotFollow(f"no equality with a column of {names[0]} says which rows a row of {name} touches")
    for join in joins:
        shared = {column.name.lower() for column in join.args.get("using") or []}
        aliases[_alias(join.this)] = frozenset(shared)  # of a row that finds none they are NULL there
    views = {names[0]: ROWS, **{name: view(name) for name in names[1:]}}
    joined = {name: tuple(its) for name, its in tied.items()}
    return From(names[0], alias, joined, Query.parse(text).from_clause(views), aliases)


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts).lower()


def _alias(table: exp.Table) -> str:
    return str(table.alias or table.name).lower()

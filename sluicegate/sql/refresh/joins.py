"""The FROM of a gold query: the table whose changes are followed, and the others that it joins to that one's rows.

A query may join other tables where it is seen by which equality (see sql/join_keys.py), and where every row of the
result belongs to a row of the first table: then it is the rows of that one with a certain key that a changed row of
another table touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.sql.identifiers import quoted
from sluicegate.sql.join_keys import JoinKey, join_keys
from sluicegate.sql.query import Query
from sluicegate.sql.scopes import Scope, Source, columns_of

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
        scope: what names in the other clauses mean.
    """

    table: str
    alias: str
    joins: Mapping[str, tuple[JoinKey, ...]]
    text: str
    scope: Scope


def view(table: str) -> str:
    """Name of the view of a joined table."""
    return f"_sluicegate_joined_{table.replace('.', '_')}"


def read_from(tree: exp.Select, text: str, schemas: Mapping[str, Sequence[str]] | None = None) -> From:
    """Reads the FROM of a query without subqueries.

    Args:
        tree: the query.
        text: the same as it is written.
        schemas: the columns of its tables, where they are known.

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
    if any(table.args["alias"].columns for table in tables if table.args.get("alias")):
        raise CannotFollow("it gives the columns of a table other names")
    names, alias = [_name(table) for table in tables], str(first.alias or first.name)
    sources = [Source(_alias(first), columns_of(schemas, names[0]))]
    sources += [_joined(join, columns_of(schemas, name)) for join, name in zip(joins, names[1:], strict=True)]
    scope = Scope(sources, tree)
    if not joins:
        return From(names[0], alias, {}, f"{ROWS} AS {quoted(alias)}", scope)
    if any(join.side not in _SIDES or join.kind not in _KINDS or join.method for join in joins):
        raise CannotFollow("it has a join that is no inner, left, semi or anti join")
    keyed = join_keys(tree, alias, Counter(names[1:]))
    for name in names[1:]:
        if name not in keyed or name == names[0]:
            raise CannotFollow(f"no equality with a column of {names[0]} says which rows a row of {name} touches")
    views = {names[0]: ROWS, **{name: view(name) for name in names[1:]}}
    joined = {name: tuple(its) for name, its in keyed.items()}
    return From(names[0], alias, joined, Query.parse(text).from_clause(views), scope)


def _joined(join: exp.Join, columns: frozenset[str] | None) -> Source:
    shared = frozenset(column.name.lower() for column in join.args.get("using") or [])
    return Source(_alias(join.this), columns, shared, hidden=join.kind in ("SEMI", "ANTI"))


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts).lower()


def _alias(table: exp.Table) -> str:
    return str(table.alias or table.name).lower()

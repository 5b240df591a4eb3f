"""FROM of a gold query: the followed table, and the joins that can be maintained incrementally.

A query may join other tables by equi-join keys (see sql/join_keys.py) if every row of the result belongs to a row of
the first table: then a changed row of another table affects the first table's rows with its key.
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
"""View of the followed table's rows."""

_SIDES = {"", "LEFT"}
_KINDS = {"", "INNER", "OUTER", "SEMI", "ANTI"}
_ODD = ("pivots", "sample", "laterals", "joins")


class CannotFollow(Exception):
    """Raised when changes of a query's tables cannot be followed; its text is the reason."""


@dataclass(frozen=True)
class From:
    """Tables of a query.

    Attributes:
        table: the first table, which is followed.
        alias: its alias in the query.
        joins: join keys of the other tables, by name.
        text: SQL of the FROM over the view ``ROWS`` and those of ``view``.
        scope: name resolution for the other clauses.
    """

    table: str
    alias: str
    joins: Mapping[str, tuple[JoinKey, ...]]
    text: str
    scope: Scope


def view(table: str) -> str:
    """View name of a joined table."""
    return f"_sluicegate_joined_{table.replace('.', '_')}"


def read_from(tree: exp.Select, text: str, schemas: Mapping[str, Sequence[str]] | None = None) -> From:
    """Analyse the FROM of a query without subqueries.

    Args:
        tree: the query.
        text: its text.
        schemas: columns of its tables, as far as they are known.

    Raises:
        CannotFollow: the rows that a change of a table affects cannot be determined.
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

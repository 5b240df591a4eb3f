"""FROM of a gold query: the followed table, and the joins that can be maintained incrementally.

A query may join other tables by equi-join keys (see spark_sql/join_keys.py) if every row of the result belongs to a
row of the first table: then a changed row of another table affects the first table's rows with its key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.join_keys import JoinKey, join_keys
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.scopes import FromTable, Scope, columns_of

ROWS = "_sluicegate_rows"
"""View of the followed table's rows."""

_SIDES = {"", "LEFT"}
_KINDS = {"", "INNER", "OUTER", "SEMI", "ANTI"}
_ODD = {"pivots", "sample", "laterals", "joins"}


class CannotFollow(Exception):
    """Raised when changes of a query's tables cannot be followed; its text is the reason."""


@dataclass(frozen=True)
class JoinedTables:
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
    """Return the view name of a joined table."""
    return f"_sluicegate_joined_{table.replace('.', '_')}"


def read_from(tree: exp.Select, text: str, schemas: Mapping[str, Sequence[str]]) -> JoinedTables:
    """Analyze the FROM of a query without subqueries.

    Args:
        tree: the query.
        text: its text.
        schemas: columns of its tables, as far as they are known.

    Raises:
        CannotFollow: the rows that a change of a table affects cannot be determined.
    """
    first = tree.args["from_"].this
    joins = query_shape.items(tree, "joins")
    tables = [first, *(join.this for join in joins)]
    _check_tables(tables)
    followed, *joined = map(query_shape.table_name, tables)
    alias = str(first.alias or first.name)
    sources = [FromTable(_alias(first), columns_of(schemas, followed))]
    sources += [_joined_table(join, columns_of(schemas, name)) for join, name in zip(joins, joined, strict=True)]
    scope = Scope(sources, tree)
    if not joins:
        return JoinedTables(followed, alias, {}, f"{ROWS} AS {quote_name(alias)}", scope)
    if any(join.side not in _SIDES or join.kind not in _KINDS or join.method for join in joins):
        raise CannotFollow(
            "it has a join other than inner, left, semi or anti"
        )  # a row may be without one of the first
    keys = join_keys(tree, alias, Counter(joined))
    for name in joined:
        if name not in keys or name == followed:
            raise CannotFollow(
                f"{name} is not joined to {followed} by an equality, so the rows that a change affects are unknown"
            )
    views = {followed: ROWS, **{name: view(name) for name in joined}}
    keys_of_tables = {name: tuple(keys_of_table) for name, keys_of_table in keys.items()}
    return JoinedTables(followed, alias, keys_of_tables, Query.parse(text).from_clause(views), scope)


def _check_tables(tables: Sequence[exp.Expression]) -> None:
    """Refuse a FROM that reads anything but plain tables."""
    if not all(isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) for table in tables):
        raise CannotFollow("it is made of several queries")
    if not all(_ODD.isdisjoint(query_shape.clauses(table)) for table in tables):
        raise CannotFollow("it reads a table in a way that is not supported")
    if any(table.alias_column_names for table in tables):
        raise CannotFollow("it renames the columns of a table")


def _joined_table(join: exp.Join, columns: frozenset[str] | None) -> FromTable:
    hidden = join.kind in ("SEMI", "ANTI")
    return FromTable(_alias(join.this), columns, query_shape.using_columns(join), hidden=hidden)


def _alias(table: exp.Table) -> str:
    return str(table.alias or table.name).lower()

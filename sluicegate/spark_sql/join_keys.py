"""Equi-join keys between the streamed table and its lookups.

If a query joins a lookup as ``… JOIN patients AS p ON r.mrn = p.mrn`` (or ``USING (mrn)``), a changed row of the lookup
affects only records with its key, before or after the change. Without such an equality every record may be affected,
and a change of the lookup leads to a full refresh.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from sqlglot import exp

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.identifiers import quote_name

# Expressions allowed on a side of the equality: Spark reads these as sqlglot writes them.
_PLAIN = (exp.Column, exp.Identifier, exp.Cast, exp.TryCast, exp.DataType, exp.Lower, exp.Upper, exp.Trim)


@dataclass(frozen=True)
class JoinKey:
    """Join key of a lookup.

    Attributes:
        stream: alias of the streamed table in the query.
        lookup: alias of the lookup.
        on: the equalities, as SQL over both aliases.
        columns: the lookup's columns in them.
    """

    stream: str
    lookup: str
    on: str
    columns: tuple[str, ...]


def join_keys(select: exp.Select, stream: str, names: Mapping[str, int]) -> dict[str, list[JoinKey]]:
    """Join keys of each lookup that has one everywhere it is read.

    Args:
        select: the outermost SELECT.
        stream: alias of the stream.
        names: the lookups, and how often the whole query reads each.
    """
    keys: dict[str, list[JoinKey]] = {}
    joins = query_shape.items(select, "joins")
    # Columns in the USING of all joins so far: certainly the stream's.
    using_columns = map(query_shape.using_columns, joins)
    for join, using in zip(joins, accumulate(using_columns, operator.and_), strict=True):
        table = join.this
        if isinstance(table, exp.Table) and (key := _join_key(join, stream, table.alias or table.name, using)):
            keys.setdefault(query_shape.table_name(table), []).append(key)
    return {name: keys_of_table for name, keys_of_table in keys.items() if len(keys_of_table) == names.get(name)}


def _join_key(join: exp.Join, stream: str, lookup: str, using: frozenset[str]) -> JoinKey | None:
    columns = [column.name for column in query_shape.items(join, "using") if column.name.lower() in using]
    names = map(quote_name, columns)
    equalities = [f"{quote_name(stream)}.{name} = {quote_name(lookup)}.{name}" for name in names]
    for left, right, sign in _equalities(join.args.get("on")):
        for near, theirs in ((left, right), (right, left)):
            if _is_of_table(near, stream) and _is_of_table(theirs, lookup):
                equalities.append(f"{near.sql('spark')} {sign} {theirs.sql('spark')}")
                columns += [column.parts[1].name for column in theirs.find_all(exp.Column)]
                break
    if equalities:
        return JoinKey(stream, lookup, " AND ".join(equalities), tuple(dict.fromkeys(columns)))
    return None


def _equalities(on: exp.Expr | None) -> Iterator[tuple[exp.Expr, exp.Expr, str]]:
    match on:
        case exp.Paren():
            yield from _equalities(on.this)
        case exp.And():
            yield from _equalities(on.left)
            yield from _equalities(on.right)
        case exp.EQ():
            yield on.left, on.right, "="
        case exp.NullSafeEQ():
            yield on.left, on.right, "<=>"


def _is_of_table(side: exp.Expr, name: str) -> bool:
    """Return whether an expression has only columns of one table, each qualified by it."""
    columns = list(side.find_all(exp.Column))
    qualifiers = {column.parts[0].name.lower() for column in columns if column.table}
    plain = all(isinstance(node, _PLAIN) for node in side.walk())
    return plain and qualifiers == {name.lower()} and all(column.table for column in columns)

"""Equi-join keys between the streamed table and its lookups.

If a query joins a lookup as ``… JOIN patients AS p ON r.mrn = p.mrn`` (or ``USING (mrn)``), a changed row of the lookup
affects only records with its key, before or after the change. Without such an equality every record may be affected,
and a change of the lookup leads to a full refresh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

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
    using: set[str] | None = None  # columns in the USING of all joins so far: certainly the stream's
    for join in select.args.get("joins") or []:
        table, shared = join.this, {column.name.lower() for column in join.args.get("using") or []}
        if using is None:
            using_columns = shared
        else:
            using_columns = shared & using
        if isinstance(table, exp.Table) and (key := _join_key(join, stream, table.alias or table.name, using_columns)):
            keys.setdefault(".".join(part.name for part in table.parts).lower(), []).append(key)
        using = using_columns
    return {name: keys_of_table for name, keys_of_table in keys.items() if len(keys_of_table) == names.get(name)}


def _join_key(join: exp.Join, stream: str, lookup: str, using: set[str]) -> JoinKey | None:
    equalities, columns = [], []
    for column in join.args.get("using") or []:
        if column.name.lower() not in using:
            continue
        name = quote_name(column.name)
        equalities.append(f"{quote_name(stream)}.{name} = {quote_name(lookup)}.{name}")
        columns.append(column.name)
    on = join.args.get("on")
    for left, right, sign in _equalities(on) if on else ():
        for near, theirs in ((left, right), (right, left)):
            if _is_of_table(near, stream) and _is_of_table(theirs, lookup):
                equalities.append(f"{near.sql('spark')} {sign} {theirs.sql('spark')}")
                columns += [column.parts[1].name for column in theirs.find_all(exp.Column)]
                break
    if equalities:
        return JoinKey(stream, lookup, " AND ".join(equalities), tuple(dict.fromkeys(columns)))
    return None


def _equalities(on: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, str]]:
    if isinstance(on, exp.Paren):
        yield from _equalities(on.this)
    elif isinstance(on, exp.And):
        yield from _equalities(on.left)
        yield from _equalities(on.right)
    elif isinstance(on, (exp.EQ, exp.NullSafeEQ)):
        yield on.left, on.right, "=" if isinstance(on, exp.EQ) else "<=>"


def _is_of_table(side: exp.Expr, name: str) -> bool:
    """Whether an expression has only columns of one table, each qualified by it."""
    columns = list(side.find_all(exp.Column))
    plain = all(isinstance(node, _PLAIN) for node in side.walk())
    return plain and bool(columns) and all(len(c.parts) > 1 and _is_same_name(c.parts[0].name, name) for c in columns)


def _is_same_name(first: str, second: str) -> bool:
    return first.lower() == second.lower()

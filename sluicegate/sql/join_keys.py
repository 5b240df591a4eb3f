"""By which equality a query joins a lookup: what tells which records a changed row of the lookup touches.

Where a query joins a lookup as ``… JOIN patients AS p ON r.mrn = p.mrn`` (or ``USING (mrn)``), a changed row of the
lookup can only matter to records with its key, before or after the change. Where no such equality is to be seen, every
record may be touched, and the table is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.sql.identifiers import quoted

# What may stand on one side of the equality: Spark reads these as sqlglot writes them.
_PLAIN = (exp.Column, exp.Identifier, exp.Cast, exp.TryCast, exp.DataType, exp.Lower, exp.Upper, exp.Trim)


@dataclass(frozen=True)
class JoinKey:
    """How a lookup is tied to the records.

    Attributes:
        stream: what the query calls the records.
        lookup: what it calls the lookup.
        on: the equalities, as SQL over both names.
        columns: the lookup's columns in them.
    """

    stream: str
    lookup: str
    on: str
    columns: tuple[str, ...]


def join_keys(select: exp.Select, stream: str, names: Mapping[str, int]) -> dict[str, list[JoinKey]]:
    """The ties of each lookup that has one wherever it is read.

    Args:
        select: the outermost SELECT.
        stream: what it calls the stream.
        names: the lookups, and how often the whole query reads each.
    """
    found: dict[str, list[JoinKey]] = {}
    using: set[str] | None = None  # columns in the USING of all joins so far: certain to be the stream's own
    for join in select.args.get("joins") or []:
        table, shared = join.this, {column.name.lower() for column in join.args.get("using") or []}
        own = shared if using is None else shared & using
        if isinstance(table, exp.Table) and (key := _join_key(join, stream, table.alias or table.name, own)):
            found.setdefault(".".join(part.name for part in table.parts).lower(), []).append(key)
        using = own
    return {name: its for name, its in found.items() if len(its) == names.get(name)}


def _join_key(join: exp.Join, stream: str, lookup: str, using: set[str]) -> JoinKey | None:
    equalities, columns = [], []
    for column in join.args.get("using") or []:
        if column.name.lower() not in using:
            continue
        name = quoted(column.name)
        equalities.append(f"{quoted(stream)}.{name} = {quoted(lookup)}.{name}")
        columns.append(column.name)
    on = join.args.get("on")
    for left, right, sign in _equalities(on) if on else ():
        for ours, theirs in ((left, right), (right, left)):
            if _of(ours, stream) and _of(theirs, lookup):
                equalities.append(f"{ours.sql('spark')} {sign} {theirs.sql('spark')}")
                columns += [column.parts[1].name for column in theirs.find_all(exp.Column)]
                break
    return JoinKey(stream, lookup, " AND ".join(equalities), tuple(dict.fromkeys(columns))) if equalities else None


def _equalities(on: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, str]]:
    if isinstance(on, exp.Paren):
        yield from _equalities(on.this)
    elif isinstance(on, exp.And):
        yield from _equalities(on.left)
        yield from _equalities(on.right)
    elif isinstance(on, (exp.EQ, exp.NullSafeEQ)):
        yield on.left, on.right, "=" if isinstance(on, exp.EQ) else "<=>"


def _of(side: exp.Expr, name: str) -> bool:
    """Whether an expression is made of columns of one table alone, each called by its table's name."""
    columns = list(side.find_all(exp.Column))
    plain = all(isinstance(node, _PLAIN) for node in side.walk())
    return plain and bool(columns) and all(len(c.parts) > 1 and _same(c.parts[0].name, name) for c in columns)


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()

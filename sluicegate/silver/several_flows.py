"""Rows of several flows in one frame: columns by name, types that hold the values of all, and whose row each is.

Databricks' append flows add rows by name, too, and a table's columns and types grow with them:
https://docs.databricks.com/aws/en/ldp/flows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, NullType

from sluicegate.definition.fields import nearest
from sluicegate.errors import SchemaMismatch, Where
from sluicegate.flow import stream_batch
from sluicegate.schema.columns import RECORD_STRUCT, SEQUENCE
from sluicegate.silver.declared_columns import as_type
from sluicegate.sql import types
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True)
class OfFlow:
    """What a flow makes of its records.

    Attributes:
        rows: its rows, with identity, the record itself, and a flag for each failed cast.
        casts: text of each cast by its flag.
    """

    rows: DataFrame
    casts: Mapping[str, str]


def flow_of(column: Column) -> Column:
    """Name of the flow of the table itself in a value of ``_record_flow``."""
    return F.substring_index(column, "/", 1)


def place(column: Column, flows: Sequence[str]) -> Column:
    """Text by which records are ordered by their flows.

    Args:
        column: ``_record_flow``.
        flows: names of the table's flows in their order; empty if the table follows one that several flows fill.
    """
    if not flows:
        return column
    numbers = F.create_map(*[F.lit(one) for n, name in enumerate(flows) for one in (name, f"{n:04d}")])
    inner = F.substring(column, F.length(flow_of(column)) + 1, F.length(column))
    return F.concat(F.coalesce(numbers[flow_of(column)], F.lit("none")), inner)


def united(
    made: Mapping[str, OfFlow], record_id: Sequence[str], table: str, held: StructType | None, named: Sequence[str] = ()
) -> tuple[DataFrame, dict[str, str]]:
    """Rows of all flows, and the text of each cast by its flag.

    Args:
        made: what each flow makes, by its name.
        record_id: columns by which a record is known.
        table: the table, for messages.
        held: the columns that the table has; None if it is made anew.
        named: columns that the definition names. What the table has spells a column, else the definition, else the
            first flow: which one that is depends on which of their sources are there.

    Raises:
        SchemaMismatch: no type holds the values that the flows have for a column.
    """
    parts = {name: _named(name, one, record_id) for name, one in made.items()}
    casts = {f"{flag}_of_{name}": text for name, one in made.items() for flag, text in one.casts.items()}
    kinds = _kinds(parts, {*record_id, *casts, *map(stream_batch.of, made)}, table, held)
    spelled = {name.lower(): name for name in (*named, *(held.names if held is not None else ()))}
    kinds = {spelled.get(name.lower(), name): kind for name, kind in kinds.items()}

    def fitted(name: str, frame: DataFrame) -> DataFrame:
        there = {column.lower(): frame.schema[column] for column in frame.columns}
        values = []
        for column, kind in kinds.items():
            if (
                own := there.get(column.lower())
            ) is not None:  # what is missing becomes NULL where they are put together
                values.append(_as(F.col(quoted(own.name)), own.dataType, kind).alias(column))
        flags = [(F.col(f) if f in frame.columns else F.lit(False)).alias(f) for f in casts]
        return frame.select(*values, *record_id, stream_batch.of(name), *flags)

    every = [fitted(name, frame) for name, frame in parts.items()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), every), casts


def with_declared(frame: DataFrame, declared: Mapping[str, str], table: str, *, awaited: bool) -> DataFrame:
    """Rows of all flows with the declared columns first, in their order.

    Args:
        frame: the rows.
        declared: type of each declared column, as DDL.
        table: the table, for messages.
        awaited: whether there are flows whose source is not there yet: they may make what the others do not.

    Raises:
        SchemaMismatch: no flow makes a declared column.
    """
    there = {column.lower(): column for column in frame.columns}
    values = []
    for name, kind in declared.items():
        own = there.pop(name.lower(), None)
        if own is None and not awaited:
            raise SchemaMismatch(
                f"{table} declares a column {name} that none of its flows makes",
                where=Where(table=table),
                hint=nearest(name, frame.columns) or "make it in the query of one of them",
            )
        values.append((F.lit(None).cast(kind) if own is None else F.col(quoted(own))).alias(name))
    return frame.select(*values, *[F.col(quoted(column)) for column in there.values()])


def _named(name: str, one: OfFlow, record_id: Sequence[str]) -> DataFrame:
    """Rows of a flow with its record and its flags under names that no other flow has."""
    hidden = {*record_id, RECORD_STRUCT, SEQUENCE, *one.casts}
    values = [F.col(quoted(column)) for column in one.rows.columns if column not in hidden]
    flags = [F.col(flag).alias(f"{flag}_of_{name}") for flag in one.casts]
    sequence = [SEQUENCE] if SEQUENCE in one.rows.columns else []
    return one.rows.select(*values, *sequence, *record_id, F.col(RECORD_STRUCT).alias(stream_batch.of(name)), *flags)


def _kinds(
    parts: Mapping[str, DataFrame], hidden: set[str], table: str, held: StructType | None
) -> dict[str, DataType]:
    """Type of each column of the rows of all flows, in the order in which they first stand."""
    found: dict[str, tuple[str, str, DataType]] = {}
    for flow, frame in parts.items():
        for field in frame.schema:
            if field.name in hidden:
                continue
            name, first, known = found.get(field.name.lower(), (field.name, flow, field.dataType))
            kind = types.common(known, field.dataType)
            if kind is None:
                of = "the sequence" if name == SEQUENCE else name
                raise SchemaMismatch(
                    f"{of} of {table} is {known.simpleString().upper()} by the flow {first}, and "
                    f"{field.dataType.simpleString().upper()} by the flow {flow}",
                    where=Where(table=table),
                    cause="no type is certain to hold both without a loss",
                    hint=f"CAST it to one type in the queries of these flows, or declare {of} in `schema`",
                )
            found[field.name.lower()] = (name, first, kind)
    there = {field.name.lower(): field.dataType for field in held or ()}
    return {name: _held(there.get(lower), kind) for lower, (name, _, kind) in found.items()}


def _held(held: DataType | None, kind: DataType) -> DataType:
    """Type of a column that the table has, with the fields that are new, if that holds all values of the flows."""
    wide = None if held is None else types.common(held, kind)
    return wide if held is not None and wide is not None and types.agree(held, wide) else kind


def _as(value: Column, kind: DataType, wanted: DataType) -> Column:
    """A value in a type that holds all values of its own."""
    if kind.simpleString() == wanted.simpleString():
        return value
    plain = isinstance(kind, (AtomicType, NullType))
    return value.cast(types.as_ddl(wanted)) if plain else as_type(value, kind, wanted)

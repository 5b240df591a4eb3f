"""Unite rows of several flows: columns by name, types that hold all values, and the flow of each row.

Databricks' append flows add rows by name, too, and a table's columns and types grow with them:
https://docs.databricks.com/aws/en/ldp/flows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, DataType, NullType, StructType

from sluicegate.definition.fields import suggest_name
from sluicegate.errors import SchemaMismatch, Where
from sluicegate.flow.several import several_batch
from sluicegate.schema.columns import RECORD_STRUCT, SEQUENCE
from sluicegate.silver.columns.declared_columns import as_type
from sluicegate.spark_sql import types
from sluicegate.spark_sql.identifiers import quote_name


@dataclass(frozen=True)
class OfFlow:
    """Result of a flow for its records.

    Attributes:
        rows: rows with identity, the record itself, and a flag for each failed cast.
        casts: text of each cast by its flag.
    """

    rows: DataFrame
    casts: Mapping[str, str]


def flow_of(column: Column) -> Column:
    """Return the table's own flow in a value of ``_record_flow``."""
    return F.substring_index(column, "/", 1)


def place(column: Column, flows: Sequence[str]) -> Column:
    """Return the sort text of records by their flows.

    Args:
        column: ``_record_flow``.
        flows: names of the table's flows in order; empty if the table follows one that several flows fill.
    """
    if not flows:
        return column
    entries = [F.lit(text) for number, name in enumerate(flows) for text in (name, f"{number:04d}")]
    numbers = F.create_map(*entries)
    inner = F.substring(column, F.length(flow_of(column)) + 1, F.length(column))
    return F.concat(F.coalesce(numbers[flow_of(column)], F.lit("none")), inner)


def unite_flows(
    flows: Mapping[str, OfFlow], record_id: Sequence[str], table: str, stored: StructType | None, named: Sequence[str]
) -> tuple[DataFrame, dict[str, str]]:
    """Unite the rows of all flows, and the text of each cast by flag.

    Args:
        flows: result of each flow by name.
        record_id: columns that identify a record.
        table: the table, for messages.
        stored: the columns of the table; None if it is rebuilt.
        named: columns that the definition names. What the table has spells a column, else the definition, else the
            first flow: which one that is depends on which of their sources are there.

    Raises:
        SchemaMismatch: no type holds the values that the flows have for a column.
    """
    parts = {name: _rename_flow_columns(name, flow, record_id) for name, flow in flows.items()}
    casts = {f"{flag}_of_{name}": text for name, flow in flows.items() for flag, text in flow.casts.items()}
    kinds = _united_types(parts, {*record_id, *casts, *map(several_batch.records_column, flows)}, table, stored)
    spelled = {name.lower(): name for name in named}
    if stored is not None:
        spelled |= {name.lower(): name for name in stored.names}
    kinds = {spelled.get(name.lower(), name): kind for name, kind in kinds.items()}
    fitted = [
        frame.select(*_values(frame, kinds), *record_id, several_batch.records_column(name), *_flags(frame, casts))
        for name, frame in parts.items()
    ]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), fitted), casts


def _values(frame: DataFrame, kinds: Mapping[str, DataType]) -> list[Column]:
    """Return a flow's columns in the united types; missing ones become NULL in the union."""
    fields, values = {field.name.lower(): field for field in frame.schema}, []
    for column, kind in kinds.items():
        field = fields.get(column.lower())
        if field is not None:
            values.append(_cast_value(F.col(quote_name(field.name)), field.dataType, kind).alias(column))
    return values


def _flags(frame: DataFrame, names: Iterable[str]) -> list[Column]:
    """Return the flags of the casts of all flows, false for those of others."""
    flags = []
    for name in names:
        flag = F.lit(False)
        if name in frame.columns:
            flag = F.col(name)
        flags.append(flag.alias(name))
    return flags


def order_declared_columns(frame: DataFrame, declared: Mapping[str, str], table: str, *, awaited: bool) -> DataFrame:
    """Put the declared columns first in the rows of all flows, in order.

    Args:
        frame: the rows.
        declared: type of each declared column, as DDL.
        table: the table, for messages.
        awaited: whether the source of a flow does not exist yet, so that this flow may still return the column.

    Raises:
        SchemaMismatch: no flow returns a declared column.
    """
    columns = {column.lower(): column for column in frame.columns}
    values = []
    for name, kind in declared.items():
        column = columns.pop(name.lower(), None)
        if column is None and not awaited:
            raise SchemaMismatch(
                f"{table} declares a column {name} that none of its flows returns",
                where=Where(table=table),
                hint=suggest_name(name, frame.columns) or "add it to the query of one of them",
            )
        value = F.lit(None).cast(kind)
        if column is not None:
            value = F.col(quote_name(column))
        values.append(value.alias(name))
    return frame.select(*values, *[F.col(quote_name(column)) for column in columns.values()])


def _rename_flow_columns(name: str, flow: OfFlow, record_id: Sequence[str]) -> DataFrame:
    """Rename the record and the flags in a flow's rows so that no other flow has these names."""
    hidden = {*record_id, RECORD_STRUCT, SEQUENCE, *flow.casts}
    values = [F.col(quote_name(column)) for column in flow.rows.columns if column not in hidden]
    if SEQUENCE in flow.rows.columns:
        values.append(F.col(SEQUENCE))
    flags = [F.col(flag).alias(f"{flag}_of_{name}") for flag in flow.casts]
    return flow.rows.select(*values, *record_id, F.col(RECORD_STRUCT).alias(several_batch.records_column(name)), *flags)


@dataclass(frozen=True)
class _ColumnOfFlows:
    """Column of several flows: its name, the first flow that has it, and a type for all."""

    name: str
    flow: str
    kind: DataType


def _united_types(
    parts: Mapping[str, DataFrame], hidden: set[str], table: str, stored: StructType | None
) -> dict[str, DataType]:
    """Return the type of each united column, in order of first appearance."""
    columns: dict[str, _ColumnOfFlows] = {}
    for flow, frame in parts.items():
        for field in frame.schema:
            if field.name in hidden:
                continue
            lower = field.name.lower()
            first = columns.get(lower, _ColumnOfFlows(field.name, flow, field.dataType))
            kind = types.common_type(first.kind, field.dataType)
            if kind is None:
                raise _no_common_type_error(first, _ColumnOfFlows(field.name, flow, field.dataType), table)
            columns[lower] = replace(first, kind=kind)
    stored_kinds = {field.name.lower(): field.dataType for field in stored or ()}
    return {column.name: _widen_type(stored_kinds.get(lower), column.kind) for lower, column in columns.items()}


def _no_common_type_error(first: _ColumnOfFlows, second: _ColumnOfFlows, table: str) -> SchemaMismatch:
    name = first.name
    if name == SEQUENCE:
        name = "the sequence"
    return SchemaMismatch(
        f"{name} of {table} is {first.kind.simpleString().upper()} by the flow {first.flow}, and "
        f"{second.kind.simpleString().upper()} by the flow {second.flow}",
        where=Where(table=table),
        cause="no type is sure to hold both without loss",
        hint=f"CAST it to one type in the queries of these flows, or declare {name} in `schema`",
    )


def _widen_type(stored: DataType | None, kind: DataType) -> DataType:
    """Return the type of a stored column with its new fields, if it holds all values of the flows."""
    if stored is None:
        return kind
    wide = types.common_type(stored, kind)
    if wide is None or not types.types_agree(stored, wide):
        return kind
    return wide


def _cast_value(value: Column, kind: DataType, target: DataType) -> Column:
    """Cast a value to a type that holds all its values."""
    if kind.simpleString() == target.simpleString():
        return value
    if isinstance(kind, (AtomicType, NullType)):
        return value.cast(types.as_ddl(target))
    return as_type(value, kind, target)

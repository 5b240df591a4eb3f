"""Apply the declared columns of a silver table: which there are, in which order and types.

``schema`` and ``schemaEvolutionMode`` go by the names that Databricks has for them. There a declared schema is the
whole output, and a query that makes another column is refused: that is ``failOnNewColumns`` here. The default is that
of Auto Loader and of Delta's mergeSchema, ``addNewColumns``, so that drift does not stop a table. Nothing is rescued,
as silver has no column for it: a value that does not fit its type is quarantined with its whole record.
https://docs.databricks.com/aws/en/ldp/developer/partial-schema-inference
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluicegate.definition.fields import suggest_name
from sluicegate.errors import SchemaMismatch, Where
from sluicegate.schema.columns import working_column
from sluicegate.schema.evolution import Column
from sluicegate.schema.typed_values import any_of
from sluicegate.schema.values import Value
from sluicegate.spark import connect
from sluicegate.spark.spark_errors import message
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.types import as_ddl, drop_lengths

# Prefix of hidden columns that flag a value which does not fit the type of its column.
FLAG = working_column("conform_")


def cast_to_declared(
    frame: DataFrame, declared: Mapping[str, str] | None, stored: Sequence[str] | None, evolution: str, table: str
) -> tuple[DataFrame, dict[str, str]]:
    """Cast a transform's rows to the declared columns, and flag values that do not fit.

    A column is new if it is not declared or, where nothing is declared, if the table does not have it so far; of a
    table that does not exist yet none is new then. Names are compared as Spark does, without regard to case.

    Args:
        frame: result of the transform. Columns whose names begin with ``_`` stay as they are, at the end.
        declared: type of each declared column in order, as DDL; None if the definition has no schema.
        stored: columns of the table; None if it does not exist yet.
        evolution: treatment of new columns: ``addNewColumns``, ``none`` or ``failOnNewColumns``.
        table: name of the table, for messages.

    Returns:
        The rows, with the declared columns first and the new ones behind; and for each hidden boolean column
        ``FLAG`` and a number (true where a value was given and does not fit, never NULL) what it says, as in
        ``heartrate as INT``.

    Raises:
        SchemaMismatch: the transform lacks a declared column, or it cannot be cast, or a column is new and
            ``evolution`` is failOnNewColumns.
    """
    names = {name.lower(): name for name in frame.columns if not name.startswith("_")}
    new = _new_columns(names, declared, stored)
    if evolution == "failOnNewColumns":
        _refuse(new, table)
    undeclared = _undeclared_columns(names, declared, new, evolution)
    fitted = [_fit_column(frame, names, name, text, table) for name, text in (declared or {}).items()]
    lossy = {f"{FLAG}{number}": value for number, value in enumerate(part for part in fitted if part.lost is not None)}
    internal = [name for name in frame.columns if name.startswith("_")]
    columns = [value.value.alias(value.name) for value in fitted]
    columns += [F.col(quote_name(name)) for name in [*undeclared, *internal]]
    columns += [_loss_flag([value.lost]).alias(flag) for flag, value in lossy.items()]
    return frame.select(*columns), {flag: value.text for flag, value in lossy.items()}


def _undeclared_columns(
    names: Mapping[str, str], declared: Mapping[str, str] | None, new: Sequence[str], evolution: str
) -> list[str]:
    """List the undeclared columns of the transform that are kept."""
    undeclared = _exclude_names(names, declared or ())
    if evolution == "none":
        return [name for name in undeclared if name not in new]
    return undeclared


def _refuse(new_columns: Sequence[str], table: str) -> None:
    """Raise a SchemaMismatch about the first new column, if there is one."""
    if not new_columns:
        return
    raise SchemaMismatch(
        f"the transform of {table} returns a new column, {new_columns[0]}",
        where=Where(table=table),
        hint=f"add it to the schema of {table}, or choose another schemaEvolutionMode than failOnNewColumns",
    )


def _exclude_names(names: Mapping[str, str], others: Collection[str]) -> list[str]:
    """Return names, keyed by lower case, without others, in any case."""
    lower_names = {name.lower() for name in others}
    return [name for lower, name in names.items() if lower not in lower_names]


def _new_columns(names: dict[str, str], declared: Mapping[str, str] | None, stored: Sequence[str] | None) -> list[str]:
    """Return the new columns of a transform: undeclared or, without declarations, not stored so far."""
    expected: Collection[str] | None = declared
    if declared is None:
        expected = stored
    if expected is None:
        return []
    return _exclude_names(names, expected)


@dataclass(frozen=True)
class _Fitted:
    """Value in its type. ``lost``: condition that the type did not hold it; None if it always does."""

    value: Expression
    lost: Expression | None
    name: str = ""
    text: str = ""


def _fit_column(frame: DataFrame, names: Mapping[str, str], name: str, text: str, table: str) -> _Fitted:
    column = names.get(name.lower())
    if column is None:
        hint = suggest_name(name, names.values()) or f"it returns {', '.join(names.values())}"
        raise SchemaMismatch(
            f"{table} declares a column {name} that its transform does not return", where=Where(table=table), hint=hint
        )
    kind, raw, source = T.DataType.fromDDL(text), F.col(quote_name(column)), frame.schema[column].dataType
    try:
        typed = _cast_value(raw, source, drop_lengths(kind))
        connect.analyze(frame.select(*[part for part in (typed.value, typed.lost) if part is not None]))
    except (AnalysisException, _Unlike) as error:
        cause = ""
        if isinstance(error, AnalysisException):
            cause = message(error)
        raise SchemaMismatch(
            f"{table}.{name} is declared as {text}, but {source.simpleString()} cannot be cast to it",
            where=Where(table=table),
            cause=cause,
            hint=f"change the type of {name} in the transform, or declare the type that it has",
        ) from None
    losses = [typed.lost]
    if isinstance(kind, (T.CharType, T.VarcharType)):
        losses.append(F.length(typed.value) > kind.length)
    return _Fitted(typed.value, any_of(losses), name, f"{name} as {text}")


def as_type(raw: Expression, source: T.DataType, kind: T.DataType) -> Expression:
    """Cast a value to a type that holds all its values; nested ones field by field, by name."""
    return _cast_value(raw, source, kind).value


class _Unlike(Exception):
    """Raised if a nested type would be cast to one of another shape."""


def _cast_value(raw: Expression, source: T.DataType, kind: T.DataType) -> _Fitted:
    """Cast a value to another type; nested ones field by field, by name: CAST goes by position."""
    # Without regard to what may be NULL: a transform's expressions say NOT NULL by chance.
    if source.simpleString() == kind.simpleString():
        return _Fitted(raw, None)
    if isinstance(source, T.StructType) and isinstance(kind, T.StructType):
        return _cast_struct(raw, source, kind)
    if isinstance(source, T.ArrayType) and isinstance(kind, T.ArrayType):
        inner, element = source.elementType, kind.elementType
        lost = F.exists(raw, lambda item: _loss_flag([_cast_value(item, inner, element).lost]))
        return _Fitted(F.transform(raw, lambda item: _cast_value(item, inner, element).value), lost)
    if isinstance(source, T.MapType) and isinstance(kind, T.MapType):
        return _cast_map(raw, source, kind)
    if isinstance(kind, (T.StructType, T.ArrayType, T.MapType)) and not isinstance(source, T.AtomicType):
        raise _Unlike
    return _cast_atomic(raw, source, kind)


def _cast_struct(raw: Expression, source: T.StructType, kind: T.StructType) -> _Fitted:
    undeclared = {field.name.lower(): field for field in source}
    values, lost = [], []
    for field in kind:
        own_field = undeclared.pop(field.name.lower(), None)
        if own_field is None:
            values.append(F.lit(None).cast(as_ddl(field.dataType)).alias(field.name))
            continue
        inner = _cast_value(raw.getField(own_field.name), own_field.dataType, field.dataType)
        values.append(inner.value.alias(field.name))
        lost.append(inner.lost)
    lost += [raw.getField(field.name).isNotNull() for field in undeclared.values()]
    return _Fitted(F.when(raw.isNotNull(), F.struct(*values)), _loss_flag(lost))


def _cast_map(raw: Expression, source: T.MapType, kind: T.MapType) -> _Fitted:
    if source.keyType.simpleString() != kind.keyType.simpleString():
        raise _Unlike  # two keys may become one
    inner, value = source.valueType, kind.valueType
    lost = F.exists(F.map_values(raw), lambda item: _loss_flag([_cast_value(item, inner, value).lost]))
    return _Fitted(F.transform_values(raw, lambda _, item: _cast_value(item, inner, value).value), lost)


def _loss_flag(flags: Sequence[Expression | None]) -> Expression:
    losses = [F.coalesce(flag, F.lit(False)) for flag in flags if flag is not None]
    if not losses:
        return F.lit(False)
    return reduce(or_, losses)


def _cast_atomic(raw: Expression, source: T.DataType, kind: T.DataType) -> _Fitted:
    of_numbers = isinstance(source, T.NumericType) and isinstance(kind, T.NumericType)
    counted = of_numbers and not isinstance(kind, T.FloatType)
    dated = isinstance(source, (T.TimestampType, T.TimestampNTZType)) and isinstance(kind, T.DateType)
    if counted or dated:
        fitted = Value(Column("", source, "value", kind, "typed"), raw, {})
        return _Fitted(fitted.typed_value, fitted.loss)
    if isinstance(source, T.StringType):
        fitted = Value(Column("", source, "value", kind, "cast"), raw, {})
        return _Fitted(fitted.typed_value, fitted.loss)
    value = raw.try_cast(kind)
    if T.BooleanType in (type(source), type(kind)):  # a declared type is the definition's word for the cast
        return _Fitted(value, ~value.try_cast(source).eqNullSafe(raw))
    lost = raw.isNotNull() & value.isNull()
    if isinstance(source, T.VariantType):
        lost &= ~F.is_variant_null(raw)
    if isinstance(kind, T.FloatType) and isinstance(source, T.NumericType):  # a value too great becomes infinite
        lost |= value.isin(*_INFINITE) & ~raw.try_cast("double").isin(*_INFINITE)
    return _Fitted(value, lost)


_INFINITE = (float("inf"), float("-inf"))

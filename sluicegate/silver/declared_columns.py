"""Declared columns of a silver table: which there are, in which order, of which types.

``schema`` and ``schemaEvolutionMode`` go by the names that Databricks has for them. There a declared schema is the
whole output, and a query that makes another column is refused: that is ``failOnNewColumns`` here. The default is that
of Auto Loader and of Delta's mergeSchema, ``addNewColumns``, so that drift does not stop a table. Nothing is rescued,
as silver has no column for it: a value that does not fit its type is quarantined with its whole record.
https://docs.databricks.com/aws/en/ldp/developer/partial-schema-inference
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate.definition.fields import nearest
from sluicegate.errors import SchemaMismatch, Where
from sluicegate.schema.columns import working
from sluicegate.schema.evolution import Column
from sluicegate.schema.values import Value
from sluicegate.spark import connect
from sluicegate.spark.spark_errors import message
from sluicegate.sql.identifiers import quoted
from sluicegate.sql.types import as_ddl, without_lengths

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, MapType, StructType

# Prefix of hidden columns that flag a value which does not fit the type of its column.
FLAG = working("conform_")


def cast_to_declared(
    frame: DataFrame, declared: Mapping[str, str] | None, known: Sequence[str] | None, evolution: str, table: str
) -> tuple[DataFrame, dict[str, str]]:
    """Casts a transform's rows to the declared columns, and flags values that do not fit.

    A column is new if it is not declared or, where nothing is declared, if the table does not have it so far; of a
    table that does not exist yet none is new then. Names are compared as Spark does, without regard to case.

    Args:
        frame: result of the transform. Columns whose names begin with ``_`` stay as they are, at the end.
        declared: type of each declared column, as DDL, in their order; None if the definition has no schema.
        known: columns that the table has; None for a table that is not there yet.
        evolution: ``addNewColumns``, ``none`` or ``failOnNewColumns``: what becomes of new columns.
        table: name of the table, for messages.

    Returns:
        The rows, with the declared columns first and the new ones behind; and for each hidden boolean column
        ``FLAG`` and a number (true where a value was given and does not fit, never NULL) what it says, as in
        ``heartrate as INT``.

    Raises:
        SchemaMismatch: the transform makes no such declared column or none that can be cast, or a column is new and
            ``evolution`` is failOnNewColumns.
    """
    from pyspark.sql import functions as F

    names = {name.lower(): name for name in frame.columns if not name.startswith("_")}
    undeclared = [F.col(quoted(name)) for name in _undeclared(names, declared, known, evolution, table)]
    fitted = [_fitted(frame, names, name, text, table) for name, text in (declared or {}).items()]
    hidden = [F.col(quoted(name)) for name in frame.columns if name.startswith("_")]
    flagged = {f"{FLAG}{n}": one for n, one in enumerate(one for one in fitted if one.lost is not None)}
    flags = [F.coalesce(one.lost, F.lit(False)).alias(flag) for flag, one in flagged.items() if one.lost is not None]
    typed = [one.value.alias(one.name) for one in fitted]
    return frame.select(*typed, *undeclared, *hidden, *flags), {flag: one.text for flag, one in flagged.items()}


def _undeclared(
    names: Mapping[str, str],
    declared: Mapping[str, str] | None,
    known: Sequence[str] | None,
    evolution: str,
    table: str,
) -> list[str]:
    """Columns that the table gets in addition to the declared ones, as they are."""
    settled = {name.lower() for name in (known if declared is None else declared) or ()}
    all_new = declared is not None or known is not None
    new = [name for lower, name in names.items() if all_new and lower not in settled]
    if new and evolution == "failOnNewColumns":
        raise SchemaMismatch(
            f"the transform of {table} makes a new column, {new[0]}",
            where=Where(table=table),
            hint=f"add it to the schema of {table}, or choose another schemaEvolutionMode than {evolution}",
        )
    left_out = new if evolution == "none" else []
    own = {name.lower() for name in declared or ()}
    return [name for lower, name in names.items() if lower not in own and name not in left_out]


@dataclass(frozen=True)
class _Fitted:
    """A value in its type. ``lost``: where one was given and the type does not hold it; None if it always does."""

    value: Expression
    lost: Expression | None
    name: str = ""
    text: str = ""


def _fitted(frame: DataFrame, names: Mapping[str, str], name: str, text: str, table: str) -> _Fitted:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql.types import CharType, DataType, VarcharType

    made = names.get(name.lower())
    if made is None:
        hint = nearest(name, names.values()) or f"it makes {', '.join(names.values())}"
        raise SchemaMismatch(
            f"{table} declares a column {name} that its transform does not make", where=Where(table=table), hint=hint
        )
    kind, raw, source = DataType.fromDDL(text), F.col(quoted(made)), frame.schema[made].dataType
    try:
        typed = _typed(raw, source, without_lengths(kind))
        connect.analyzed(frame.select(typed.value, *([] if typed.lost is None else [typed.lost])))
    except (AnalysisException, _Unlike) as error:
        raise SchemaMismatch(
            f"{table}.{name} is declared as {text}, and {source.simpleString()} cannot be cast to that",
            where=Where(table=table),
            cause="" if isinstance(error, _Unlike) else message(error),
            hint=f"make {name} of another type in the transform, or declare the type that it has",
        ) from None
    lost = typed.lost
    if isinstance(kind, (CharType, VarcharType)):
        too_long = F.length(typed.value) > kind.length
        lost = too_long if lost is None else lost | too_long
    return _Fitted(typed.value, lost, name, f"{name} as {text}")


def as_type(raw: Expression, source: DataType, kind: DataType) -> Expression:
    """A value in another type that holds all values of its own; nested ones field by field, by name."""
    return _typed(raw, source, kind).value


class _Unlike(Exception):
    """Raised where a nested type is to become one of another shape."""


def _typed(raw: Expression, source: DataType, kind: DataType) -> _Fitted:
    """Cast of a value to another type; nested ones field by field, by name: CAST goes by their places."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, AtomicType, MapType, StructType

    # Without regard to what may be NULL: a transform's expressions say NOT NULL by chance.
    if source.simpleString() == kind.simpleString():
        return _Fitted(raw, None)
    if isinstance(source, StructType) and isinstance(kind, StructType):
        return _struct(raw, source, kind)
    if isinstance(source, ArrayType) and isinstance(kind, ArrayType):
        inner, element = source.elementType, kind.elementType
        lost = F.exists(raw, lambda one: _any([_typed(one, inner, element).lost]))
        return _Fitted(F.transform(raw, lambda one: _typed(one, inner, element).value), lost)
    if isinstance(source, MapType) and isinstance(kind, MapType):
        return _map(raw, source, kind)
    if isinstance(kind, (StructType, ArrayType, MapType)) and not isinstance(source, AtomicType):
        raise _Unlike
    return _atomic(raw, source, kind)


def _struct(raw: Expression, source: StructType, kind: StructType) -> _Fitted:
    from pyspark.sql import functions as F

    there = {field.name.lower(): field for field in source}
    values, lost = [], []
    for field in kind:
        found = there.pop(field.name.lower(), None)
        if found is None:
            values.append(F.lit(None).cast(as_ddl(field.dataType)).alias(field.name))
            continue
        inner = _typed(raw.getField(found.name), found.dataType, field.dataType)
        values.append(inner.value.alias(field.name))
        lost.append(inner.lost)
    lost += [raw.getField(left.name).isNotNull() for left in there.values()]
    return _Fitted(F.when(raw.isNotNull(), F.struct(*values)), _any(lost))


def _map(raw: Expression, source: MapType, kind: MapType) -> _Fitted:
    from pyspark.sql import functions as F

    if source.keyType.simpleString() != kind.keyType.simpleString():
        raise _Unlike  # two keys may become one
    inner, value = source.valueType, kind.valueType
    lost = F.exists(F.map_values(raw), lambda one: _any([_typed(one, inner, value).lost]))
    return _Fitted(F.transform_values(raw, lambda _, one: _typed(one, inner, value).value), lost)


def _any(flags: Sequence[Expression | None]) -> Expression:
    from pyspark.sql import functions as F

    losses = [F.coalesce(flag, F.lit(False)) for flag in flags if flag is not None]
    return reduce(lambda a, b: a | b, losses) if losses else F.lit(False)


def _atomic(raw: Expression, source: DataType, kind: DataType) -> _Fitted:
    from pyspark.sql import functions as F
    from pyspark.sql.types import (
        BooleanType,
        DateType,
        FloatType,
        NumericType,
        StringType,
        TimestampNTZType,
        TimestampType,
        VariantType,
    )  # fmt: skip

    counted = isinstance(source, NumericType) and isinstance(kind, NumericType) and not isinstance(kind, FloatType)
    dated = isinstance(source, (TimestampType, TimestampNTZType)) and isinstance(kind, DateType)
    if isinstance(source, StringType) or counted or dated:
        fitted = Value(Column("", source, "value", kind, "typed" if counted or dated else "cast"), raw, {})
        return _Fitted(fitted.typed, fitted.lost)
    value = raw.try_cast(kind)
    if BooleanType in (type(source), type(kind)):  # a declared type is the definition's word for the cast
        return _Fitted(value, ~value.try_cast(source).eqNullSafe(raw))
    lost = raw.isNotNull() & value.isNull()
    if isinstance(source, VariantType):
        lost &= ~F.is_variant_null(raw)
    if isinstance(kind, FloatType) and isinstance(source, NumericType):  # a value too great becomes infinite
        lost |= value.isin(*_INFINITE) & ~raw.try_cast("double").isin(*_INFINITE)
    return _Fitted(value, lost)


_INFINITE = (float("inf"), float("-inf"))

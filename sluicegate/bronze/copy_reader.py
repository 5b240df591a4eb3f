"""Read copied files through the SELECT of the copy, whose columns go into the table as those of typed files do.

A value that fails a cast of the SELECT, or does not fit the table's column, is rescued data: the former by the fields
that the expression reads, the latter by the column's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from sluicegate.bronze.reader import Reader
from sluicegate.definition.fields import suggest_name
from sluicegate.errors import QueryError, SchemaMismatch, Where
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.landing.chosen.copy_select import Output, Select
from sluicegate.schema.columns import CORRUPT, PROVENANCE, RESCUED
from sluicegate.schema.evolution import Schema
from sluicegate.schema.values import MICROSECONDS, Value
from sluicegate.spark import connect
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.tokens import QuerySyntax

_ABOUT = (
    "named_struct('file_path', source_file, 'file_name', element_at(split(source_file, '/'), -1), "
    "'file_modification_time', _file_modification_time)"
)
_OWN = ("receipt_time", "source_file", "_file_modification_time", "_pos")


def read(by: Reader, copy: CopyOptions, paths: Sequence[str], *, strict: bool = False) -> DataFrame:
    """Read some files as ``Reader.read`` does, with the columns that the copy derives from their fields.

    Args:
        by: reader of the table's files by the copy's options, all but its SELECT.
        copy: options of the copy.
        paths: paths as in the ledger.
        strict: whether a field that no file of the copy has is an error; otherwise it is NULL.

    Raises:
        SchemaMismatch: a field is missing, or the SELECT gives columns that are not allowed.
        QueryError: Spark rejects the SELECT.
        SourceError: a file's header or footer cannot be read.
    """
    schema, select = by.schema, copy.query
    raw = _read_all_fields(by, copy, paths)
    fields = [name for name in raw.columns if name not in PROVENANCE]
    absent = [field for output in select.outputs for field in output.fields if field not in fields]
    if absent and strict:
        raise _unknown_field(schema, absent[0], fields)
    try:
        names = select.names(copy.columns, fields)
    except QuerySyntax as error:
        raise _other_columns(schema, copy, fields, error) from None
    if absent:
        raw = raw.withColumns({field: F.lit(None).cast("string") for field in dict.fromkeys(absent)})
    raw = raw.withColumn("_metadata", F.expr(_ABOUT)).alias(select.alias)
    try:
        selected = connect.analyze(_select_values(raw, select, fields))
    except AnalysisException as error:
        cause = str(error).split(";\n")[0].split("\n==")[0].strip()
        message = f"Spark rejects the SELECT of the copy into {schema.table}"
        raise QueryError(message, where=Where(table=schema.table), cause=cause) from None
    return _fit_columns(selected, _landed_names(copy, fields, names, schema.landed), schema)


def _read_all_fields(by: Reader, copy: CopyOptions, paths: Sequence[str]) -> DataFrame:
    """Read some files, with NULL in fields that only other files of their copy have."""
    known_fields = _fields_of_copy(copy)
    reader = _unconstrained_reader(by, known_fields)
    raw = reader.empty_frame()
    if paths:
        raw = reader.read(paths)
    of_other_files = {name: F.lit(None).cast(kind) for name, kind in known_fields.items() if name not in raw.columns}
    if not of_other_files:
        return raw
    return raw.withColumns(of_other_files)


def fields(by: Reader, paths: Sequence[str]) -> str:
    """Return the fields of some files and their types, as Spark's JSON.

    Raises:
        SourceError: a file's header or footer cannot be read.
    """
    schema = _unconstrained_reader(by, {}).read(paths).schema
    return StructType([field for field in schema if field.name not in PROVENANCE]).json()


def _fields_of_copy(copy: CopyOptions) -> dict[str, DataType]:
    """Return the fields of all files of a copy, with their types."""
    if not copy.fields:
        return {}
    return {field.name: field.dataType for field in StructType.fromJson(json.loads(copy.fields))}


def _unconstrained_reader(by: Reader, known_fields: Mapping[str, DataType]) -> Reader:
    """Return a reader of all fields of the files, whatever columns the table has."""
    free = {"schema_": None, "schemaHints": None, "schemaEvolutionMode": "addNewColumns", "columnNames": "landed"}
    definition = by.schema.definition.model_copy(update=free)
    return replace(by, schema=Schema(by.schema.table, definition, known_fields, first=True))


def _select_values(frame: DataFrame, select: Select, fields: Sequence[str]) -> DataFrame:
    """Return the values of the expressions, as ``o0``, ``o1`` and so on.

    ``_failed`` is JSON of the fields that a cast did not convert.
    """
    expressions = []
    for output in select.outputs:
        if output.is_star:
            expressions += [F.col(quote_name(field)) for field in fields]
        else:
            expressions.append(F.expr(output.text))
    values = [expression.alias(f"o{number}", metadata={}) for number, expression in enumerate(expressions)]
    technical = list(map(F.col, (RESCUED, CORRUPT, *_OWN)))
    return frame.select(*values, _failed_casts(select.outputs).alias("_failed"), *technical)


def _failed_casts(outputs: Sequence[Output]) -> Expression:
    """Return JSON of the fields that the failed casts read; NULL where none failed."""
    flags: dict[str, list[Expression]] = {}
    for output in outputs:
        for field in output.fields:
            flags.setdefault(field, []).extend(map(F.expr, output.failures))
    any_of = {field: reduce(or_, failures) for field, failures in flags.items() if failures}
    if not any_of:
        return F.lit(None).cast("string")
    values = [F.when(flag, F.col(quote_name(field))).alias(field) for field, flag in any_of.items()]
    return F.when(reduce(or_, any_of.values()), F.to_json(F.struct(*values), MICROSECONDS))


def _landed_names(copy: CopyOptions, fields: Sequence[str], names: Sequence[str], landed: dict[str, str]) -> list[str]:
    """Return the landed names of the selected columns: a name that is a column's becomes the field of that column.

    Args:
        copy: the copy.
        fields: fields of the files.
        names: a name for each column that is selected.
        landed: landed names of normalized columns.
    """
    named_as_column = []
    for output in copy.query.outputs:
        if output.is_star:
            named_as_column += [bool(copy.columns)] * len(fields)
        else:
            named_as_column.append(True)
    field_of = {column.lower(): field for column, field in landed.items()}
    of_fields = []
    for name, is_column in zip(names, named_as_column, strict=True):
        if is_column:
            name = field_of.get(name.lower(), name)
        of_fields.append(name)
    return of_fields


def _fit_columns(selected: DataFrame, names: Sequence[str], schema: Schema) -> DataFrame:
    """Cast the selected columns to the table's types; what does not fit becomes rescued data."""
    # They have types of their own, as the columns of a Parquet file have.
    typed = schema.definition.model_copy(update={"format": "parquet"})
    target = Schema(schema.table, typed, schema.known, schema.first, schema.landed)
    kinds = [selected.schema[f"o{number}"].dataType for number in range(len(names))]
    columns = target.columns([StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
    values = [Value(column, F.col(f"o{number}"), {}) for number, column in enumerate(columns)]
    made_of = [column.name or column.field for column in columns]
    have = {name.lower() for name in (*made_of, *schema.known)}
    absent = {name: kind for name, kind in target.definition_types.items() if name.lower() not in have}
    return selected.select(
        *[value.typed_value.alias(value.column.name) for value in values if value.column.name],
        *[F.lit(None).cast(kind).alias(name) for name, kind in absent.items()],
        _join_rescued(values).alias(RESCUED), CORRUPT, *_OWN,
    )  # fmt: skip


def _join_rescued(values: Sequence[Value]) -> Expression:
    """Return one JSON object of all rescued values: by the reader, by failed casts and by the types of columns."""
    lost = [(value, fails) for value in values if (fails := value.loss) is not None]
    misfit = F.lit(None).cast("string")
    if lost:
        raw_values = [F.when(fails, value.raw).alias(value.column.field) for value, fails in lost]
        misfit = F.when(reduce(or_, [fails for _, fails in lost]), F.to_json(F.struct(*raw_values), MICROSECONDS))
    path = F.to_json(F.struct(F.col("source_file").alias("_file_path")))
    # What the reader rescued ends with the path of the file.
    parts = [_json_members(misfit), _json_members(F.col("_failed")), _json_members(F.coalesce(F.col(RESCUED), path))]
    whole = F.concat(F.lit("{"), F.concat_ws(",", *parts), F.lit("}"))
    return F.when(F.coalesce(misfit, "_failed", RESCUED).isNotNull(), whole)


def _json_members(text: Expression) -> Expression:
    """Return the members of a JSON object without its braces; NULL if it has none."""
    return F.nullif(F.substring(text, F.lit(2), F.length(text) - 2), F.lit(""))


def _unknown_field(schema: Schema, field: str, fields: Sequence[str]) -> SchemaMismatch:
    return SchemaMismatch(
        f"the SELECT of the copy reads {field}, a field that no file has",
        where=Where(table=schema.table),
        hint=suggest_name(field, fields) or f"fields of the files: {', '.join(fields) or 'none'}",
    )


def _other_columns(schema: Schema, copy: CopyOptions, fields: Sequence[str], error: QuerySyntax) -> SchemaMismatch:
    hint = "list the columns instead of *"
    if copy.columns:
        hint = "list as many names as there are columns"
    return SchemaMismatch(
        f"cannot derive the columns of the copy into {schema.table}: {error.message}",
        where=Where(table=schema.table),
        cause=f"fields of the files: {', '.join(fields) or 'none'}",
        hint=hint,
    )

"""Reads copied files through the SELECT of the copy: its columns go into the table as those of typed files do.

A value that fails a cast of the SELECT, or does not fit the table's column, is rescued data: the former by the fields
that the expression reads, the latter by the column's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate.bronze.reader import Reader
from sluicegate.definition.fields import nearest
from sluicegate.errors import QueryError, SchemaMismatch, Where
from sluicegate.schema.columns import CORRUPT, PROVENANCE, RESCUED
from sluicegate.schema.evolution import Schema
from sluicegate.schema.values import MICROSECONDS, Value
from sluicegate.spark import connect
from sluicegate.sql.identifiers import quoted
from sluicegate.sql.tokens import QuerySyntax

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from sluicegate.landing.copy_options import CopyOptions
    from sluicegate.landing.copy_select import Output, Select

_ABOUT = (
    "named_struct('file_path', source_file, 'file_name', element_at(split(source_file, '/'), -1), "
    "'file_modification_time', _file_modification_time)"
)
_OWN = ("receipt_time", "source_file", "_file_modification_time", "_pos")


def read(by: Reader, copy: CopyOptions, paths: Sequence[str], *, strict: bool = False) -> DataFrame:
    """Records of some files as of ``Reader.read``, with the columns that the copy makes of their fields.

    Args:
        by: reader of the table's files by the copy's options, all but its SELECT.
        copy: options of the copy.
        paths: paths as in the ledger.
        strict: whether a field that neither they nor other files of the copy have is an error. Else it is NULL.

    Raises:
        SchemaMismatch: a field is missing, or other columns are made than may come.
        QueryError: Spark refuses the SELECT.
        SourceError: a file's header or footer cannot be read.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    known, schema = _known(copy), by.schema
    reader = _free(by, known)
    raw = reader.read(paths) if paths else reader.nothing()
    unread = {name: F.lit(None).cast(kind) for name, kind in known.items() if name not in raw.columns}
    raw = raw.withColumns(unread) if unread else raw
    select = copy.query
    own = [name for name in raw.columns if name not in PROVENANCE]
    absent = [field for output in select.outputs for field in output.fields if field not in own]
    if absent and strict:
        raise _unknown(schema, absent[0], own)
    try:
        names = select.names(copy.columns, own)
    except QuerySyntax as error:
        raise _other_columns(schema, copy, own, error) from None
    nothing = {field: F.lit(None).cast("string") for field in dict.fromkeys(absent)}
    raw = raw.withColumns(nothing) if nothing else raw
    try:
        made = connect.analyzed(_selected(raw.withColumn("_metadata", F.expr(_ABOUT)).alias(select.alias), select, own))
    except AnalysisException as error:
        cause = str(error).split(";\n")[0].split("\n==")[0].strip()
        message = f"Spark refuses the SELECT of the copy into {schema.table}"
        raise QueryError(message, where=Where(table=schema.table), cause=cause) from None
    return _fitted(made, _of_fields(copy, own, names, schema.landed), schema)


def fields(by: Reader, paths: Sequence[str]) -> str:
    """Fields of some files, with their types, as JSON of Spark's.

    Raises:
        SourceError: a file's header or footer cannot be read.
    """
    from pyspark.sql.types import StructType

    found = _free(by, {}).read(paths).schema
    return StructType([field for field in found if field.name not in PROVENANCE]).json()


def _known(copy: CopyOptions) -> dict[str, DataType]:
    from pyspark.sql.types import StructType

    known = StructType.fromJson(json.loads(copy.fields)) if copy.fields else ()
    return {field.name: field.dataType for field in known}


def _free(by: Reader, known: Mapping[str, DataType]) -> Reader:
    """Reader of all fields of files, whatever columns the table has."""
    free = {"schema_": None, "schemaHints": None, "schemaEvolutionMode": "addNewColumns", "columnNames": "landed"}
    definition = by.schema.definition.model_copy(update=free)
    return replace(by, schema=Schema(by.schema.table, definition, known, first=True))


def _selected(frame: DataFrame, select: Select, own: Sequence[str]) -> DataFrame:
    """Values of the expressions, as ``o0``, ``o1`` and so on; ``_failed`` is JSON of the fields that did not cast."""
    from pyspark.sql import functions as F

    expressions = [e for o in select.outputs for e in ([F.col(quoted(n)) for n in own] if o.star else [F.expr(o.text)])]
    made = [expression.alias(f"o{number}", metadata={}) for number, expression in enumerate(expressions)]
    technical = [F.col(name) for name in (RESCUED, CORRUPT, *_OWN)]
    return frame.select(*made, _failed(select.outputs).alias("_failed"), *technical)


def _failed(outputs: Sequence[Output]) -> Expression:
    """JSON of the fields that the failed casts read; NULL where none failed."""
    from pyspark.sql import functions as F

    flags: dict[str, list[Expression]] = {}
    for output in outputs:
        for field in output.fields:
            flags.setdefault(field, []).extend(F.expr(failure) for failure in output.failures)
    any_of = {field: reduce(lambda a, b: a | b, found) for field, found in flags.items() if found}
    if not any_of:
        return F.lit(None).cast("string")
    values = [F.when(flag, F.col(quoted(field))).alias(field) for field, flag in any_of.items()]
    return F.when(reduce(lambda a, b: a | b, any_of.values()), F.to_json(F.struct(*values), MICROSECONDS))


def _of_fields(copy: CopyOptions, own: Sequence[str], names: Sequence[str], landed: Mapping[str, str]) -> list[str]:
    """Names of what is selected as fields have them: what is called as a column is of the field that has the column.

    Args:
        copy: the copy.
        own: fields of the files.
        names: a name for each column that is selected.
        landed: landed names of normalized columns.
    """
    named = [bool(copy.columns) or not o.star for o in copy.query.outputs for _ in (own if o.star else [o])]
    fields = {column.lower(): field for column, field in landed.items()}
    return [fields.get(n.lower(), n) if of_column else n for n, of_column in zip(names, named, strict=True)]


def _fitted(made: DataFrame, names: Sequence[str], schema: Schema) -> DataFrame:
    """Selected columns cast to the table's, and all that does not fit these as rescued data."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField

    # They have types of their own, as the columns of a Parquet file have.
    typed = schema.definition.model_copy(update={"format": "parquet"})
    target = Schema(schema.table, typed, schema.known, schema.first, schema.landed)
    kinds = [made.schema[f"o{number}"].dataType for number in range(len(names))]
    columns = target.columns([StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
    values = [Value(column, F.col(f"o{number}"), {}) for number, column in enumerate(columns)]
    made_of = [column.name or column.field for column in columns]
    have = {name.lower() for name in (*made_of, *schema.known)}
    absent = {name: kind for name, kind in target.named.items() if name.lower() not in have}
    return made.select(
        *[value.typed.alias(value.column.name) for value in values if value.column.name],
        *[F.lit(None).cast(kind).alias(name) for name, kind in absent.items()],
        _rescued(values).alias(RESCUED), CORRUPT, *_OWN,
    )  # fmt: skip


def _rescued(values: Sequence[Value]) -> Expression:
    """One JSON object of what the reader rescued, what did not cast, and what did not fit its column."""
    from pyspark.sql import functions as F

    lost = [(value, fails) for value in values if (fails := value.lost) is not None]
    misfit = F.lit(None).cast("string")
    if lost:
        raw_values = [F.when(fails, value.raw).alias(value.column.field) for value, fails in lost]
        misfit = F.when(
            reduce(lambda a, b: a | b, [fails for _, fails in lost]), F.to_json(F.struct(*raw_values), MICROSECONDS)
        )
    path = F.to_json(F.struct(F.col("source_file").alias("_file_path")))
    # What the reader rescued ends with the path of the file.
    parts = [_inner(misfit), _inner(F.col("_failed")), _inner(F.coalesce(F.col(RESCUED), path))]
    whole = F.concat(F.lit("{"), F.concat_ws(",", *parts), F.lit("}"))
    return F.when(F.coalesce(misfit, "_failed", RESCUED).isNotNull(), whole)


def _inner(text: Expression) -> Expression:
    """Members of a JSON object, without its braces; NULL for none."""
    from pyspark.sql import functions as F

    return F.nullif(F.substring(text, F.lit(2), F.length(text) - 2), F.lit(""))


def _unknown(schema: Schema, field: str, own: Sequence[str]) -> SchemaMismatch:
    return SchemaMismatch(
        f"the SELECT of the copy looks at {field}, and no file has such a field",
        where=Where(table=schema.table),
        hint=nearest(field, own) or f"their fields are {', '.join(own) or 'none'}",
    )


def _other_columns(schema: Schema, copy: CopyOptions, own: Sequence[str], error: QuerySyntax) -> SchemaMismatch:
    return SchemaMismatch(
        f"the columns of the copy into {schema.table} cannot be made: {error.message}",
        where=Where(table=schema.table),
        cause=f"the fields of the files are {', '.join(own) or 'none'}",
        hint="name as many columns as there are" if copy.columns else "name the columns that you want instead of *",
    )

"""Infer types of new columns from all values of a ledger batch: a type must reproduce each of them.

Spark infers BIGINT of postal codes and DOUBLE of 0.1234567890123456789, and text of a column that is NULL throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType

from sluicegate.schema import text_values
from sluicegate.spark_sql.identifiers import quote_name

# Texts that are numbers to Spark and often none to their senders: +4930123456, and 12E5 (programs print 1.2E6, 12e+05).
_CODE = r"^\s*[+]|^\s*-?[0-9]+[eE][0-9]+\s*$"

# Records that are looked at first for a value of each column.
_FIRST = 1000


def exact_types(texts: DataFrame, inferred: Mapping[str, DataType], options: Mapping[str, str]) -> dict[str, DataType]:
    """Return the inferred types, with STRING where a type does not hold all values of its column. One job.

    Args:
        texts: the records, with text in each column.
        inferred: inferred types by column.
        options: reader options by lower-case name.
    """
    signs = {}
    for name, kind in inferred.items():
        lost = text_values.fit_unpadded(F.col(name), kind, options).lost
        if lost is not None:
            if isinstance(kind, NumericType):
                code = F.col(name).rlike(_CODE)
            else:
                code = F.lit(False)
            signs[name] = F.max(lost | F.coalesce(code, F.lit(False)))
    if not signs:
        return dict(inferred)
    [row] = texts.select(*[sign.alias(name) for name, sign in signs.items()]).collect()
    return {name: StringType() if name in signs and row[name] else kind for name, kind in inferred.items()}


def null_columns(records: DataFrame, names: Sequence[str]) -> set[str]:
    """Return the columns that are NULL in all records; one small job, and a second if the first records lack values."""
    empty_columns = list(names)
    for part in (records.limit(_FIRST), records):
        if not empty_columns:
            break
        [row] = part.select(
            *[F.max(F.col(quote_name(name)).isNotNull()).alias(name) for name in empty_columns]
        ).collect()
        empty_columns = [name for name in empty_columns if not row[name]]
    return set(empty_columns)

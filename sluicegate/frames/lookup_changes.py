"""Find the records affected by changed rows of a lookup (see spark_sql/join_keys.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.frames.difference.value_equality import exact_form
from sluicegate.schema import columns as schema_columns
from sluicegate.schema.columns import IDENTITY
from sluicegate.spark import connect
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.join_keys import JoinKey

TOUCHED = "_sluicegate_touched"

# All values of a row, and whether it came or went.
_ROW, _SIGN = "_sluicegate_row", "_sluicegate_sign"


def affected_records(
    records: DataFrame,
    changes: DataFrame,
    join_keys: Sequence[JoinKey],
    engine_columns: Sequence[str],
    record_id: Sequence[str] = IDENTITY,
) -> DataFrame:
    """Return the identities of records that match a changed lookup row before or after; there may be duplicates.

    Args:
        records: all records.
        changes: the lookup's changes, with Delta's columns.
        join_keys: the lookup's join keys.
        engine_columns: engine columns of the lookup, which queries do not see.
        record_id: the columns that identify a record.
    """
    parts = [
        _select(record_id, records, [(changed_keys(changes, key.columns, engine_columns), key)], only=True)
        for key in join_keys
    ]
    return reduce(lambda a, b: a.unionByName(b), parts)


def matching_rows(rows: DataFrame, keys: Sequence[tuple[DataFrame, JoinKey]]) -> DataFrame:
    """Return the rows that match one of some lookup keys.

    Args:
        rows: the rows.
        keys: lookup keys, each with its join key.
    """
    return _select(["*"], rows, keys, only=True)


def flag_matches(rows: DataFrame, keys: Sequence[tuple[DataFrame, JoinKey]]) -> DataFrame:
    """Add ``TOUCHED`` to rows: whether a row matches one of the lookup keys."""
    return _select(["*"], rows, keys, only=False)


def changed_keys(changes: DataFrame, keys: Sequence[str], engine_columns: Sequence[str]) -> DataFrame:
    """Return the keys whose lookup rows changed over the whole range; an overwrite with equal rows yields none.

    Args:
        changes: the lookup's changes, with Delta's columns.
        keys: the key columns.
        engine_columns: engine columns of the lookup, which queries do not see.
    """
    # By whole rows, not by hashes: an overwrite deletes and inserts each row, and none may be taken for another.
    theirs = [field for field in changes.schema if field.name not in {*engine_columns, *schema_columns.CHANGE_COLUMNS}]
    row = F.struct(
        *[exact_form(F.col(quote_name(f.name)), f.dataType).alias(f"c{number}") for number, f in enumerate(theirs)]
    )
    sign = F.when(F.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)
    rows = changes.select(*[F.col(quote_name(key)) for key in keys], row.alias(_ROW), sign.alias(_SIGN))
    net = rows.groupBy(*map(quote_name, keys), _ROW).agg(F.sum(_SIGN).alias(_SIGN)).where(f"{_SIGN} != 0")
    return net.select(*map(quote_name, keys)).distinct()


def _select(
    columns: Sequence[str], rows: DataFrame, keys: Sequence[tuple[DataFrame, JoinKey]], *, only: bool
) -> DataFrame:
    stream = quote_name(keys[0][1].stream)
    exist = []
    for number, (frame, join_key) in enumerate(keys):
        frame.createOrReplaceTempView(f"_sluicegate_changed_{number}")
        exist.append(
            f"EXISTS (SELECT 1 FROM _sluicegate_changed_{number} AS {quote_name(join_key.lookup)} WHERE {join_key.on})"
        )
    rows.createOrReplaceTempView("_sluicegate_records")
    items, has_key, condition = [f"{stream}.{column}" for column in columns], " OR ".join(exist), ""
    if only:
        condition = f" WHERE {has_key}"
    else:
        items.append(f"{has_key} AS {TOUCHED}")
    query = f"SELECT {', '.join(items)} FROM _sluicegate_records AS {stream}{condition}"
    # A value that does not cast matches nothing; without ANSI mode more texts cast than with it, and none fewer.
    with override_settings(rows.sparkSession, {"spark.sql.ansi.enabled": "false"}):
        return connect.freeze(rows.sparkSession.sql(query))

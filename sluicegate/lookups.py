"""Which records a changed lookup touches (see ties.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate import lake
from sluicegate.session import configured
from sluicegate.ties import Tie
from sluicegate.values import quoted


def touched(records: DataFrame, changes: DataFrame, its: Sequence[Tie], ours: Sequence[str]) -> DataFrame:
    """The identities of the records whose key a changed row of a lookup has, or had; some may come twice.

    Args:
        records: all records.
        changes: the lookup's changes, with Delta's columns.
        its: how the lookup is tied to the records.
        ours: columns of the lookup that queries do not see.
    """
    found = [_touched(records, _net(changes, tie.columns, ours), tie) for tie in its]
    return reduce(lambda a, b: a.unionByName(b), found)


def _net(changes: DataFrame, keys: Sequence[str], ours: Sequence[str]) -> DataFrame:
    """The keys of the rows that are not now what they were: a table that was written anew need not have changed."""
    theirs = [F.col(quoted(c)) for c in changes.columns if c not in {*ours, *lake.CHANGE_COLUMNS}]
    sign = F.when(F.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)
    rows = changes.select(*[F.col(quoted(key)) for key in keys], F.xxhash64(F.to_json(F.struct(*theirs))).alias("_row"),
                          sign.alias("_sign"))  # fmt: skip
    net = rows.groupBy(*[quoted(key) for key in keys], "_row").agg(F.sum("_sign").alias("_sign")).where("_sign != 0")
    return net.select(*[quoted(key) for key in keys]).distinct()


def _touched(records: DataFrame, keys: DataFrame, tie: Tie) -> DataFrame:
    records.createOrReplaceTempView("_sluicegate_records")
    keys.createOrReplaceTempView("_sluicegate_changed")
    stream, lookup = quoted(tie.stream), quoted(tie.lookup)
    query = (
        f"SELECT {stream}._chunk, {stream}._pos FROM _sluicegate_records AS {stream} "
        f"LEFT SEMI JOIN _sluicegate_changed AS {lookup} ON {tie.on}"
    )
    # A value that does not cast matches nothing; without ANSI rules, more texts cast than with them, and none less.
    with configured(records.sparkSession, {"spark.sql.ansi.enabled": "false"}):
        return records.sparkSession.sql(query)

"""Handle records that give many rows: numbering, records without rows, and half-written records of a stopped run.

A row is identified by its record and its number in it. Spark promises no order for rows of an ``explode`` or a join, so
they are numbered by their values: whatever the plan, a record that is evaluated again has the same rows under the same
numbers. Rows that are equal in all values may swap places without effect.

A run writes three tables in sequence. A stopped run cannot leave a record of one row half-written, and its identity is
then in two places; of a record with many rows, some may be new and others old, without any number occurring twice. So
before such a record is changed it is entered into the set-aside as begun, and removed there last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from sluicegate.frames.difference.merge import OP
from sluicegate.frames.difference.value_equality import is_sortable, sortable_form
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.schema.columns import ROW
from sluicegate.silver.expectations import DISPOSITION, WHOLE, Disposition
from sluicegate.spark_sql.identifiers import quote_name

# Numbers in the set-aside that are no row's, with their reasons: of a record that gives no row, and of one whose rows
# are being exchanged.
NONE, NO_ROWS = 0, "no_rows"
BEGUN, IN_EXCHANGE = -1, "in_exchange"

# Columns with the forms by which rows are sorted; a star may bring columns of any shorter name.
_FORM = "_sluicegate_order_"


def number_rows(rows: DataFrame, outputs: Sequence[str], record_id: Sequence[str]) -> DataFrame:
    """Add ``_record_row`` to rows, their number within their record, by the order of their values.

    Args:
        rows: evaluated rows, all of each record.
        outputs: the value columns. Rows that agree in these and in the rules that they break are equal.
        record_id: the columns that identify a record.
    """
    forms, order = {}, []
    for number, name in enumerate(outputs):
        kind = rows.schema[name].dataType
        if is_sortable(kind):
            order.append(F.col(quote_name(name)))
            continue
        forms[f"{_FORM}{number}"] = sortable_form(F.col(quote_name(name)), kind)
        order.append(F.col(f"{_FORM}{number}"))
    nth = F.row_number().over(Window.partitionBy(*record_id).orderBy(*order, BROKEN))
    if forms:
        rows = rows.withColumns(forms)
    return rows.withColumn(ROW, nth.cast("bigint")).drop(*forms)


def quarantine_whole_records(rows: DataFrame, record_id: Sequence[str]) -> DataFrame:
    """Quarantine all rows of a record if one is: a table has no partial records."""
    record = Window.partitionBy(*record_id)
    broken = F.max(F.col(DISPOSITION) == Disposition.QUARANTINED).over(record)
    sibling = broken & (F.col(DISPOSITION) == Disposition.WRITTEN)
    return rows.withColumns(
        {
            BROKEN: F.when(sibling, F.concat(BROKEN, F.array(F.lit(WHOLE)))).otherwise(F.col(BROKEN)),
            DISPOSITION: F.when(sibling, Disposition.QUARANTINED).otherwise(F.col(DISPOSITION)),
        }
    )


def begun_records(aside: DataFrame, record_id: Sequence[str]) -> DataFrame:
    """Return the records whose rows a stopped run had begun to exchange, by the set-aside."""
    return aside.where(f"reason = '{IN_EXCHANGE}'").select(*record_id)


def final_rows(aside: DataFrame) -> DataFrame:
    """Return the rows of the set-aside with final places of records."""
    return aside.where(f"reason <> '{IN_EXCHANGE}'")


def flag_begun_records(
    changes: dict[str, DataFrame], table: str, set_aside: str, former: DataFrame | None, record_id: Sequence[str]
) -> DataFrame:
    """Add changes of the set-aside that mark and unmark records whose change takes several commits.

    A change of a record within one commit happens or does not. A change that only deletes from a side table is
    different: the offset is committed before, and nothing else would show the row that is still there.

    Args:
        changes: rows to write with ``OP``, by address of their table.
        table: address of the silver table.
        set_aside: address of the set-aside.
        former: records that a stopped run had begun; None without a set-aside.
        record_id: the columns that identify a record.
    """
    steps = []
    for uri, frame in changes.items():
        leaves = F.lit(False)
        if uri != table:
            leaves = F.col(OP) == "delete"
        steps.append(frame.select(*record_id, leaves.alias("leaves"), F.lit(uri).alias("uri")))
    changed = reduce(lambda a, b: a.unionByName(b), steps).groupBy(*record_id)
    counted = changed.agg(F.count_distinct("uri").alias("tables"), F.max("leaves").alias("leaves"))
    records = counted.where("tables > 1 OR leaves").select(*record_id)
    if former is not None:
        records = records.unionByName(former).distinct()
    entries = records.select(
        *record_id, F.lit(BEGUN).cast("bigint").alias(ROW), F.lit(IN_EXCHANGE).alias("reason"),
        F.explode(F.array(F.lit("insert"), F.lit("delete"))).alias(OP),
    )  # fmt: skip
    return changes[set_aside].unionByName(entries, allowMissingColumns=True)

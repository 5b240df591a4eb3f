"""Deletes of ``apply_changes``: which records are deletes, and which rules apply to them.

A delete in a CDC feed has its key and NULLs, or the former values. So only rules on its key and sequence apply: if a
rule on a value, or a failed cast, refused it, a key would stay that the source deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import ApplyChanges, SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.schema.columns import DELETES, SEQUENCE
from sluicegate.silver.side_tables.rescued import PARSED, UNFIT
from sluicegate.spark_sql.query import CAST_PREFIX


def add_deletes(frame: DataFrame, changes: ApplyChanges | None) -> DataFrame:
    """Add whether each row is a delete, where a table has deletes; an unparsed record is not one.

    Args:
        frame: the rows.
        changes: the table's ``apply_changes``; None without it.
    """
    if changes is None or not changes.delete_condition:
        return frame
    deletes = F.expr(changes.delete_condition)
    if UNFIT in frame.columns:
        deletes &= ~F.coalesce(F.array_contains(UNFIT, PARSED), F.lit(False))
    return frame.withColumn(DELETES, deletes)


def identity_columns(table: SilverTable) -> set[str]:
    """Return the key and sequence columns of a delete, in lower case; empty without ``apply_changes``."""
    changes = table.apply_changes
    if not changes:
        return set()
    return {SEQUENCE, *(name.lower() for name in [*changes.keys, changes.sequence_by])}


def deciding_columns(table: SilverTable) -> set[str]:
    """Return the columns that decide key, sequence and deletion of a record, in lower case."""
    changes = table.apply_changes
    if not changes:
        return set()
    return identity_columns(table) | {name.lower() for name in changes.delete_columns}


def value_flags(table: SilverTable, maker: SilverTable | SilverFlow, flags: Mapping[str, str]) -> Iterator[str]:
    """Yield the flags of casts that affect only values, not the key, the sequence or deletion.

    Args:
        table: the table.
        maker: table or flow with the transform.
        flags: meaning of each hidden boolean column.
    """
    if table.apply_changes is None:
        return
    by_place = isinstance(maker, SilverFlow) and maker.first_branch is not None  # and not by the names that it has
    outputs: Sequence[str | None] = ()
    if maker.query and not by_place:
        outputs = maker.query.cast_outputs
    outputs_by_flag = {f"{CAST_PREFIX}{number}": name for number, name in enumerate(outputs)}
    declared = {f"{name} as {kind}": name for name, kind in (table.declared_columns or {}).items()}
    decides = deciding_columns(table)
    for flag, meaning in flags.items():
        name = outputs_by_flag.get(flag) or declared.get(meaning)
        if name is not None and name.lower() not in decides:
            yield flag

"""Replace a silver table by a new one without former versions; see lake/former_versions.py."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from sluicegate import _faults
from sluicegate.flow.batch import Batch
from sluicegate.frames import small_writes
from sluicegate.lake import former_versions
from sluicegate.spark_sql.identifiers import quote_name

# View of the rows to write.
_MADE = "_sluicegate_new_table"


def replace(rows: DataFrame, uri: str) -> None:
    """Commit a new table, with its own ID, in place of the one at an address.

    Tried with Delta 4.4: an overwrite, even with ``overwriteSchema``, keeps the table's ID.

    Args:
        rows: rows of the new table.
        uri: address of the table.
    """
    rows.createOrReplaceTempView(_MADE)
    statement = f"CREATE OR REPLACE TABLE delta.{quote_name(uri)} USING delta"
    rows.sparkSession.sql(f"{statement} AS SELECT * FROM {_MADE}")


def begin(batch: Batch, **facts: Any) -> None:
    """Start the log of a batch's target after the commit of the new table, and delete what was before.

    The commit of the new table cannot be the first of the log, as it removes the files of the former one.

    Args:
        batch: the batch.
        facts: additional facts in the commit of the new table.
    """
    target = batch.flow.target
    with batch.commit(fenced=False, **facts, **former_versions.fact(begins=True)):
        small_writes.commit_only(batch.session, target)
    _faults.point("copy.after_commit")
    count = former_versions.delete(target)
    batch.report.state = "rebuilt"
    batch.report.why = f"{batch.progress.why} ({count:,} files deleted)"

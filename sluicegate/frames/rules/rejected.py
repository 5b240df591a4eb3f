"""Keep ``{table}_rejected``: the rows of a refused batch, until a batch of the table is committed.

The table is written before the run fails, and emptied before the commit of the first batch that passes. So its rows
always belong to a batch that the table does not have, whenever a run is killed: after a kill in between, the batch is
repeated and writes the same rows again. A refused replay or interval is not retried by the next run: its rows stay
until the table's next batch, or a replay that passes, even without a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.errors import ExpectationFailed, TableRuleFailed, Where
from sluicegate.flow.batch import Batch
from sluicegate.lake import layout, log, tables
from sluicegate.lake.commits.commit_info import CommitStep
from sluicegate.spark import table_reader
from sluicegate.spark_sql.identifiers import quote_name

# Column with the names of all rules that a row broke, until it is written: no landed field has such a name.
BROKEN = "_sluicegate_broken"


@dataclass(frozen=True)
class Refusal:
    """Rules that refuse a batch, and the rows that broke them.

    Attributes:
        words: result of each rule by name.
        causes: the conditions of the rules.
        rows: the violating rows, with ``BROKEN``; empty if the rule blames none.
        of_table: whether the rules are about the whole table.
        blames: whether single rows are to blame.
    """

    words: Mapping[str, str]
    causes: Sequence[str]
    rows: DataFrame
    of_table: bool = False
    blames: bool = True


def refuse(batch: Batch, refusals: Sequence[Refusal], facts: Mapping[str, Any], *, writes: bool = True) -> NoReturn:
    """Write the rows for which a batch is refused, and raise.

    Args:
        batch: the batch.
        refusals: refusals of the batch.
        facts: facts on the rules for the commit of these rows.
        writes: whether to store the rows; not if the run only validates.

    Raises:
        ExpectationFailed: always; ``TableRuleFailed`` if one of the rules is about the whole table.
    """
    table = batch.flow.table
    if writes:
        commit_facts = {**facts, "refused": [name for refusal in refusals for name in refusal.words]}
        rows = [refusal.rows for refusal in refusals]
        _write(batch, reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), rows), commit_facts)
    hint = f"{table} is unchanged"
    if writes and any(refusal.blames for refusal in refusals):
        hint += f", and {layout.rejected_table(table)} has the violating rows"
    kind: type[ExpectationFailed] = ExpectationFailed
    if any(refusal.of_table for refusal in refusals):
        kind = TableRuleFailed
    raise kind(
        f"the data of {table} broke {', '.join(words for refusal in refusals for words in refusal.words.values())}",
        where=Where(table=table),
        cause="; ".join(cause for refusal in refusals for cause in refusal.causes),
        hint=f"{hint}; correct the source or the rule, and run again",
    )


def clear(batch: Batch) -> None:
    """Empty the rejected rows of the batch's table, if any, and record that the refusal is over."""
    uri = layout.rejected_table(batch.flow.target)
    table = tables.delta_table(uri)
    if table is not None and (tables.rows(table) or _is_refused(table)):
        _replace(batch, table_reader.read(batch.session, uri, opened=table).limit(0), step=CommitStep.CLEAR)
        _faults.point("rules.after_clearing")


def _is_refused(table: DeltaTable) -> bool:
    """Return whether the last commit is a refusal; one that blames no row leaves the table empty, too."""
    last = log.last_own_commit(table)
    return log.info_of(last).step == CommitStep.REJECT


def _write(batch: Batch, rows: DataFrame, facts: Mapping[str, Any]) -> None:
    added = {"_failed_expectations": F.col(BROKEN), "_rejected_at": F.current_timestamp()}
    columns = [quote_name(column) for column in rows.columns if column not in (BROKEN, *added)]
    rejected_rows = rows.select(*columns, *[column.alias(name) for name, column in added.items()])
    _replace(batch, rejected_rows, step=CommitStep.REJECT, **facts)
    _faults.point("rules.after_rejection")


def _replace(batch: Batch, rows: DataFrame, **facts: Any) -> None:
    # No offset: what is in it may be of any attempt of a batch, and the newest counts.
    with batch.commit(fenced=False, **facts):
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(layout.rejected_table(batch.flow.target))

"""Gold: the user's own query over silver, made again as a whole in one atomic commit when silver has changed.

What a reader sees is always one finished version. Keeping a query up to date from silver's changes alone is another
way to the same rows; until a query is known to allow it, the whole is recomputed, which is right for every query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate import fault, lake
from sluicegate.flow import Batch

if TYPE_CHECKING:
    from sluicegate.definition import GoldTable


def apply(batch: Batch, name: str, table: GoldTable) -> None:
    """Runs the query over its tables as of the batch's versions and replaces the table's rows."""
    source = table.query.tables[0]
    views = {}
    for other in table.query.tables:
        views[other] = f"_sluicegate_{name}_{other}"
        frame = batch.pinned_source() if other == source else batch.pinned(other)
        frame.createOrReplaceTempView(views[other])
    result = batch.session.sql(table.query.with_views(views))
    fault.point("gold.before_commit")
    with batch.commit(read=batch.read, strategy="whole"):
        result.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(batch.flow.target)
    fault.point("gold.after_commit")
    batch.report.read = batch.read
    batch.report.written = lake.rows(lake.delta_table(batch.flow.target))

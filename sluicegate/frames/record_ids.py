"""Record identities, and the rows with them: without a shuffle if there are few, else as Spark decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.flow import thresholds
from sluicegate.frames.data_skipping import chunk_predicate
from sluicegate.schema.columns import IDENTITY
from sluicegate.spark import connect
from sluicegate.spark.session import override_settings

# Up to this many identities are broadcast; with more, both sides are shuffled.
SENT = 1_000_000


@dataclass(frozen=True)
class Identities:
    """Set of records.

    Attributes:
        frame: the columns of ``record_id``, already computed; there may be duplicates.
        record_id: columns that identify a record, ``_chunk`` first.
        rows: number of their rows, if counted because it may exceed the number of records.
    """

    frame: DataFrame
    record_id: tuple[str, ...] = IDENTITY
    rows: int = 0

    def scale_to(self, rows: int) -> Identities:
        """Return the same records, for frames with rows that are too many for one partition."""
        if rows <= thresholds.FEW:
            return self
        return replace(self, rows=rows)

    @cached_property
    def _facts(self) -> tuple[int, list[int]]:
        count, chunks = self.frame.agg(F.count("*"), F.collect_set("_chunk")).collect()[0]
        return count, sorted(chunks)

    @property
    def count(self) -> int:
        """Upper bound of the number of records."""
        return self._facts[0]

    @property
    def are_few(self) -> bool:
        """Whether one partition is faster than a shuffle."""
        return max(self.count, self.rows) <= thresholds.FEW

    @property
    def chunks(self) -> list[int]:
        """Ledger batches of the records, ascending."""
        return self._facts[1]

    def rows_in(self, table: DataFrame) -> DataFrame:
        """Return the rows of the records in a table; files without their ledger batches are skipped."""
        in_chunks = table.where(chunk_predicate(self.chunks))
        return in_chunks.join(self.broadcast(self.frame), [*self.record_id], "left_semi")

    def broadcast(self, frame: DataFrame) -> DataFrame:
        """Broadcast a frame about as large as the identities, up to ``SENT`` of them."""
        if self.count > SENT:
            return frame
        return F.broadcast(frame)

    def materialize(self, frame: DataFrame, *, adaptive: bool = False) -> DataFrame:
        """Materialize a frame about these records; see the function of this name."""
        return materialize(frame, few=self.are_few, adaptive=adaptive)

    def coalesce(self, frame: DataFrame) -> DataFrame:
        """Return the frame in one partition if the records are few: joins and windows then need no shuffle."""
        if not self.are_few:
            return frame
        return frame.coalesce(1)


def materialize(frame: DataFrame, *, few: bool, adaptive: bool = False) -> DataFrame:
    """Materialize a frame: compute it once, independent of the tables and the plan it came from.

    Later plans do not repeat its plan, and it stays when one of these tables is written: Delta recomputes a frame that
    is only persisted (``persist``), and a winner that was deleted would no longer be found.

    Args:
        frame: the frame.
        few: whether the frame is of few records.
        adaptive: whether to keep adaptive query execution although records are few: for frames joined with tables that
            may be large. It costs a job more for each step.
    """
    # Spark 4.2 gives a checkpointed frame the constraints of its columns, and may then fail to plan a union of such
    # frames (NoSuchElementException: key not found, in Union's rewriteConstraints).
    settings = {"spark.sql.constraintPropagation.enabled": "false"}
    if few and not adaptive:
        settings["spark.sql.adaptive.enabled"] = "false"
    connect.activate(frame.sparkSession)
    with override_settings(frame.sparkSession, settings):
        checkpointed = frame.localCheckpoint()
    if not few:
        return checkpointed
    return checkpointed.coalesce(1)

"""Records by their identities, and their rows in tables: few of them without a shuffle, many as Spark sees fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.flow import thresholds
from sluicegate.frames.data_skipping import of_chunks
from sluicegate.schema.columns import IDENTITY
from sluicegate.spark.session import configured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# So many identities are sent to the tasks that read a table; of more, both sides are shuffled.
SENT = 1_000_000


@dataclass(frozen=True)
class Identities:
    """Some records.

    Attributes:
        frame: their ``_chunk`` and ``_pos``, already computed; some may come twice.
    """

    frame: DataFrame

    @cached_property
    def _facts(self) -> tuple[int, list[int]]:
        count, chunks = self.frame.agg(F.count("*"), F.collect_set("_chunk")).collect()[0]
        return count, sorted(chunks)

    @property
    def count(self) -> int:
        """How many they are at most."""
        return self._facts[0]

    @property
    def few(self) -> bool:
        """Whether one task had better work out by itself what becomes of them."""
        return self.count <= thresholds.FEW

    @property
    def chunks(self) -> list[int]:
        """The chunks that they are of, ascending."""
        return self._facts[1]

    def rows_in(self, table: DataFrame) -> DataFrame:
        """Their rows in a table, of which only files with these chunks are read."""
        return table.where(of_chunks(self.chunks)).join(self.sent(self.frame), [*IDENTITY], "left_semi")

    def sent(self, frame: DataFrame) -> DataFrame:
        """A frame of as many rows and as few columns, to be looked up in while a large one is read."""
        return F.broadcast(frame) if self.count <= SENT else frame

    def materialize(self, frame: DataFrame, *, adaptive: bool = False) -> DataFrame:
        """What became of these records; see the function of this name."""
        return materialize(frame, few=self.few, adaptive=adaptive)

    def together(self, frame: DataFrame) -> DataFrame:
        """The frame, in one partition if these records are few: joins and windows over it then need no shuffle."""
        return frame.coalesce(1) if self.few else frame


def materialize(frame: DataFrame, *, few: bool, adaptive: bool = False) -> DataFrame:
    """A frame computed once and cut off from the tables that it was computed of.

    So no later plan has to go through its plan again. And it stays as it is when one of these tables is written: a
    frame that is only kept (``persist``) Delta makes anew then, and a winner that has left would no longer be found.
    The price is that an executor which is lost ends the run; the next one begins the batch again.

    Args:
        frame: what is to be computed.
        few: whether it is of few records.
        adaptive: whether to let Spark plan anew between its steps, although they are few; for frames that other tables,
            large ones perhaps, are joined with. It costs a job more for each step.
    """
    # Spark 4.2 gives a frame that is cut off what it inferred of its columns, and may then fail to plan a union of such
    # frames (NoSuchElementException: key not found, in Union's rewriteConstraints).
    settings = {"spark.sql.constraintPropagation.enabled": "false"}
    if few and not adaptive:
        settings["spark.sql.adaptive.enabled"] = "false"
    with configured(frame.sparkSession, settings):
        checkpointed = frame.localCheckpoint()
    return checkpointed.coalesce(1) if few else checkpointed

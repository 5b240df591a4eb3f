"""Run a foreachBatch stream until nothing is left, with Python's original errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


# How often a stream is asked whether it has ended, where it may be stopped before that: in seconds.
POLL = 0.1


def run_available(
    writer: DataStreamWriter,
    take: Callable[[DataFrame, int], None],
    checkpoint: str,
    *,
    private: bool,
    enough: Callable[[], bool] | None = None,
) -> StreamingQuery:
    """Run an availableNow stream to its end and return the query that has ended.

    Args:
        writer: the stream.
        take: called with each batch's rows and its number.
        checkpoint: URI of the checkpoint.
        private: whether error messages may have values that must not be shown.
        enough: returns whether to stop the stream before all available data was read; None: never.

    Raises:
        BaseException: the error of ``take`` itself, which Spark would turn into text; otherwise Spark's error.
    """
    failure: list[BaseException] = []

    def on_batch(rows: DataFrame, number: int) -> None:
        try:
            take(rows, number)
        except BaseException as error:
            failure.append(error)
            # Py4J answers the JVM only for an Exception: any other would leave the stream waiting for ever.
            raise RuntimeError("the batch failed") from (None if private else error)

    writer = writer.foreachBatch(on_batch).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    try:
        query = writer.start()
        _await(query, enough)
    except Exception:
        if failure:
            raise failure[0] from None
        if enough is None or not enough():  # else what failed is a batch behind the last that is wanted
            raise
    return query


def _await(query: StreamingQuery, enough: Callable[[], bool] | None) -> None:
    if enough is None:
        query.awaitTermination()
        return
    while not query.awaitTermination(POLL):  # type: ignore[arg-type]  # Spark takes fractions of a second
        if enough():
            query.stop()
            return

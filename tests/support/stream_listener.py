"""Count of the streams that Spark started, as its listener bus tells of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STARTED = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent"


class _Listener:
    """Listener of the whole application: a stream listener is of one session, and pipelines open their own."""

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)

    def __init__(self) -> None:
        self.started = 0

    def __getattr__(self, method: str) -> Callable[..., None]:
        if not method.startswith("on"):
            raise AttributeError(method)
        return lambda *_: None

    def onOtherEvent(self, event: Any) -> None:
        self.started += event.getClass().getName() == STARTED


@contextmanager
def streams_started(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Gives a function that returns how many streams were started since."""
    context = spark.sparkContext
    assert context._gateway is not None
    ensure_callback_server_started(context._gateway)
    listener, scala = _Listener(), context._jsc.sc()

    def started() -> int:
        scala.listenerBus().waitUntilEmpty()
        return listener.started

    scala.addSparkListener(listener)
    try:
        yield started
    finally:
        scala.removeSparkListener(listener)

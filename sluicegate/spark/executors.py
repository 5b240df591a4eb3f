"""Work on single files by Spark's executors, so that the driver opens none of many and holds none in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Files for which no job is started: the start of executors' Python costs more than a look at so few from here.
FEW = 16

# Files that are opened from here at the same time.
AT_ONCE = 16

# Tasks of a job at most.
TASKS = 1000


def each(
    session: SparkSession, work: Callable[..., Any], paths: Sequence[str], *given: Any, few: int = FEW
) -> dict[str, Any]:
    """What a function of this package gives of each of some files.

    Executors that have not this package leave it to threads here.

    Args:
        session: the Spark session.
        work: takes a path and ``given``, and gives what JSON can say.
        paths: the files.
        given: what JSON can say.
        few: so many files are looked at from here.
    """
    done: dict[str, Any] = {}
    if len(paths) > few:
        done = _there(session, work.__module__, work.__qualname__, paths, given)
    left = [path for path in paths if path not in done]
    if left:
        with ThreadPoolExecutor(min(AT_ONCE, len(left))) as pool:
            done |= zip(left, pool.map(lambda path: work(path, *given), left), strict=True)
    return done


def _there(session: SparkSession, module: str, name: str, paths: Sequence[str], given: Sequence[Any]) -> dict[str, Any]:
    from pyspark.sql import functions as F

    def done(path: str) -> str | None:
        import importlib
        import json

        try:
            importlib.import_module("sluicegate.storage.filesystems")  # by which fsspec knows S3
            work = getattr(importlib.import_module(module), name)
        except ImportError:
            return None
        return json.dumps(work(path, *given))

    # A function of a function is sent as it is, and need not be found there by its name.
    result_of = F.udf(done, "string", useArrow=False)
    frame = session.createDataFrame([(path,) for path in paths], "path string")
    rows = frame.repartition(min(len(paths), TASKS)).select("path", result_of("path").alias("told")).collect()
    return {row["path"]: json.loads(row["told"]) for row in rows if row["told"] is not None}

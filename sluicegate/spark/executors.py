"""Process single files on Spark's executors, so that the driver does not open many files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Up to this many files no job is started: starting Python on executors costs more than opening them here.
FEW = 16

# Files that are opened here concurrently.
AT_ONCE = 16

# Maximum number of tasks of a job.
TASKS = 1000


def map_files(
    session: SparkSession, work: Callable[..., Any], paths: Sequence[str], *arguments: Any, few: int = FEW
) -> dict[str, Any]:
    """Map a function of this package over files; return the results by path.

    If executors do not have this package installed, threads of the driver do the work.

    Args:
        session: the Spark session.
        work: takes a path and ``arguments``; its result must be JSON-serialisable.
        paths: the files.
        arguments: JSON-serialisable arguments.
        few: up to this many files are opened here, without a job.
    """
    results: dict[str, Any] = {}
    if len(paths) > few:
        results = _map_on_executors(session, work.__module__, work.__qualname__, paths, arguments)
    remaining = [path for path in paths if path not in results]
    if remaining:
        with ThreadPoolExecutor(min(AT_ONCE, len(remaining))) as pool:
            results |= zip(remaining, pool.map(lambda path: work(path, *arguments), remaining), strict=True)
    return results


def _map_on_executors(
    session: SparkSession, module: str, name: str, paths: Sequence[str], arguments: Sequence[Any]
) -> dict[str, Any]:
    from pyspark.sql import functions as F

    # Objects of this package could not be unpickled by executors that do not have it.
    sent = json.dumps(arguments)

    def run_work(path: str) -> str | None:
        import importlib
        import json

        try:
            importlib.import_module("sluicegate.storage.s3")  # registers S3 with fsspec, and needs what opens files
            work = getattr(importlib.import_module(module), name)
        except ImportError:
            return None
        return json.dumps(work(path, *json.loads(sent)))

    # A nested function is pickled by value, so executors need not import this module for it.
    result_of = F.udf(run_work, "string", useArrow=False)
    frame = session.createDataFrame([(path,) for path in paths], "path string")
    rows = frame.repartition(min(len(paths), TASKS)).select("path", result_of("path").alias("result")).collect()
    return {row["path"]: json.loads(row["result"]) for row in rows if row["result"] is not None}

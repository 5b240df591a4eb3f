"""Find the unreadable files of a ledger batch, and distinguish them from transient errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sluicegate.errors import QueryError, SchemaMismatch, SluicegateError
from sluicegate.spark.spark_errors import is_file_error, root_cause
from sluicegate.storage import filesystems

# Why a file could not be read, and whether to try it again though it has not changed.
Failure = tuple[str, bool]

# Error texts of Spark and Java for transient trouble of machines, memory, disks or networks, whatever was read.
PASSING = (
    "ExecutorLostFailure", "Executor heartbeat timed out", "Remote RPC client disassociated", "FetchFailed",
    "Container killed", "Container from a bad node", "executor decommission", "TaskKilled", "OutOfMemoryError",
    "UNABLE_TO_ACQUIRE_MEMORY", "No space left on device", "Disk quota exceeded", "Too many open files",
    "Python worker exited unexpectedly", "Python worker failed to connect back", "SparkContext was shut down",
    "Cannot call methods on a stopped SparkContext", "SocketTimeoutException", "Connection reset", "Connection refused",
    "ConnectTimeoutException", "NoRouteToHostException", "UnknownHostException", "Read timed out",
)  # fmt: skip


def find_unreadable(
    read: Callable[[Sequence[str]], DataFrame], paths: list[str], error: Exception, *,
    private: bool, tried: Callable[[], AbstractSet[str]] = frozenset, others: Sequence[str] = (),
) -> dict[str, Failure]:  # fmt: skip
    """Return the unreadable files, with the reason, among files that could not be processed together.

    A file that failed by a transient error, while others could be read, is retried.

    Args:
        read: reads some files.
        paths: the files.
        error: error of reading and writing them together.
        private: as in ``spark_errors``.
        tried: those that failed before and were to be tried again. With one of them among files of which none can be
            read, all of these are tried again by later runs, and newer files do not wait for them.
        others: files of newer ledger batches; if one can be read, the machines are not the cause either.

    Raises:
        Exception: ``error``, if it is not the files: all can be read, or none can and Spark blames no file, or it is
            transient trouble.
    """
    passing: set[str] = set()
    wrong = isinstance(error, (SchemaMismatch, QueryError))
    failed = {}
    if not wrong:
        failed = _bisect_unreadable(read, paths, passing, private=private)
    if not failed:
        raise error
    if len(passing) == len(paths) or (len(failed) == len(paths) > 1 and not is_file_error(error)):
        if tried().isdisjoint(failed) and not (passing and any(_can_be_read(read, other) for other in others)):
            raise error
        return {path: (reason, True) for path, (reason, _) in failed.items()}
    return failed


def _can_be_read(read: Callable[[Sequence[str]], DataFrame], path: str) -> bool:
    try:
        read([path]).write.format("noop").mode("overwrite").save()
    except (SluicegateError, PySparkException, Py4JError, OSError):
        return False
    return True


def is_transient(error: BaseException) -> bool:
    """Return whether an error is transient: the same files may be read by the next attempt."""
    return isinstance(error, Py4JNetworkError) or any(sign in str(error) for sign in PASSING)


def _bisect_unreadable(
    read: Callable[[Sequence[str]], DataFrame], paths: list[str], passing: set[str], *, private: bool
) -> dict[str, Failure]:
    """Find unreadable files by halving; all are read again, since most errors are transient.

    Files that fail by a transient error again are added to ``passing``.
    """
    try:
        read(paths).write.format("noop").mode("overwrite").save()
    except (SchemaMismatch, QueryError):
        raise
    except (SluicegateError, PySparkException, Py4JError, OSError) as trouble:  # a mistake of ours is no file's
        if len(paths) == 1:
            if is_transient(trouble):
                passing.update(paths)
            transient = is_transient(trouble) or _is_unreachable(paths[0])
            return {paths[0]: (root_cause(trouble, private=private), transient)}
        half = len(paths) // 2
        halves = [_bisect_unreadable(read, part, passing, private=private) for part in (paths[:half], paths[half:])]
        return halves[0] | halves[1]
    return {}


def _is_unreachable(path: str) -> bool:
    """Return whether a file cannot be opened at all: it is gone, or permissions or a connection are missing."""
    try:
        with filesystems.reader(path) as file:
            file.read(1)
    except OSError:
        return True
    return False

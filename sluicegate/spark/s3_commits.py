"""Spark on S3: settings, and put-if-absent commits.

Delta's log store for S3 (``S3SingleDriverLogStore``) checks whether a commit exists and then writes it, so of two
drivers the later may overwrite the other's commit. It writes by ``FileSystem.create(path, overwrite=false)``, which
Hadoop's S3A can turn into a PUT with ``If-None-Match: *``, refused by the store if the object exists: but 3.5.0 does so
only for callers of ``createFile`` that ask for it, and Delta does not. So ``demand_atomic`` turns it on for Delta, and
then probes the store. Source: HADOOP-19256.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate.errors import LakeUnsupported, Where
from sluicegate.storage import aws
from sluicegate.storage.store_errors import has_sign

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark copies keys from the environment into Hadoop's settings, by which executors get them. Without keys there, AWS's
# default chain applies: profiles, the machine's role, a web identity.
PROVIDERS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)

PROBE = "create-if-absent"

# Errors of a PUT whose object exists (the first also in the middle of a commit that another driver made).
REFUSED = ("RemoteFileChangedException", "FileAlreadyExistsException")


def spark_conf() -> dict[str, str]:
    """Return the Spark settings for S3, from the variables that ``storage/aws.py`` reads; without credentials."""
    hadoop = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.aws.credentials.provider": ",".join(PROVIDERS),
        # By default an unreachable store is retried for a quarter of an hour.
        "fs.s3a.attempts.maximum": "4",
        "fs.s3a.retry.limit": "4",
        "fs.s3a.retry.interval": "250ms",
        "fs.s3a.retry.throttle.limit": "10",
        "fs.s3a.retry.throttle.interval": "250ms",
        "fs.s3a.connection.establish.timeout": "15s",  # the minimum
        "fs.s3a.connection.timeout": f"{aws.REQUEST_SECONDS}s",
        # Tables of many small files are read by many threads at once.
        "fs.s3a.connection.maximum": "200",
    }
    if server := aws.endpoint():
        # Servers other than Amazon's seldom have a name in the DNS for each bucket.
        hadoop |= {"fs.s3a.endpoint": server, "fs.s3a.path.style.access": "true"}
        hadoop |= {"fs.s3a.connection.ssl.enabled": str(server.startswith("https:")).lower()}
    if region := aws.region():
        hadoop["fs.s3a.endpoint.region"] = region
    return {f"spark.hadoop.{name}": value for name, value in hadoop.items()}


def is_proven(folder: str) -> bool:
    """Return whether ``demand_atomic`` has passed for a lake; checked before the first write, without Spark."""
    from sluicegate.storage import filesystems  # not above: parsing a DAG file needs no pyarrow

    return filesystems.file_facts(f"{folder}/{PROBE}") is not None


def demand_atomic(session: SparkSession, folder: str) -> None:
    """Make ``create(overwrite=false)`` of this driver atomic on S3, and probe it with one request of milliseconds.

    Args:
        session: session whose JVM is changed.
        folder: folder of the lake's locks, which has the probe object.

    Raises:
        LakeUnsupported: the store, or this Hadoop, overwrites existing objects.
    """
    make_atomic(session)
    jvm: Any = session._jvm
    probe = jvm.org.apache.hadoop.fs.Path(f"{folder}/{PROBE}")
    fs = probe.getFileSystem(session._jsc.hadoopConfiguration())
    # The first call creates the object, once in the life of a lake; the second must fail.
    if _try_create(fs, probe) and _try_create(fs, probe):
        fs.delete(probe, False)
        raise LakeUnsupported(
            f"the store of {folder} has no conditional writes: it overwrites objects that exist",
            where=Where(file=folder),
            cause="it ignores If-None-Match, so two writers could commit the same version",
            hint="keep the lake on a store that honours conditional writes (Amazon S3 does), or on a local disk",
        )


def make_atomic(session: SparkSession) -> None:
    """Make ``create(overwrite=false)`` of a session's JVM atomic on S3, if it has S3's classes."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    jvm: Any = session._jvm
    s3a = jvm.org.apache.hadoop.fs.s3a.impl
    try:
        how = s3a.CreateFileBuilder.OPTIONS_CREATE_FILE_NO_OVERWRITE.writeObjectFlags()
    except (Py4JError, TypeError):  # no jars for S3
        return
    how.add(s3a.write.WriteObjectFlags.ConditionalOverwrite)


def _try_create(fs: Any, probe: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        fs.create(probe, False).close()
    except Py4JJavaError as error:
        if has_sign(error.java_exception, REFUSED):
            return False
        raise
    return True

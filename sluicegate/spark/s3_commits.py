"""Spark on S3: its settings, and commits that two drivers cannot both make.

Delta's log store for S3 (``S3SingleDriverLogStore``) looks whether a commit is there and then writes it, so that of two
drivers the later one may overwrite the commit of the other. It writes by ``FileSystem.create(path, overwrite=false)``,
and Hadoop's S3A can make of that a PUT with ``If-None-Match: *``, which the store itself refuses where the object is
there: but 3.5.0 does so only for callers of ``createFile`` who ask for it, and Delta is none. So ``demand_atomic`` asks
in its place, and then tries it out on the store. Source: HADOOP-19256.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate.errors import LakeUnsupported, Where
from sluicegate.storage import aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark itself takes keys out of the environment and hands them to executors in Hadoop's settings, never by its own;
# those who have none there are looked for as programs of AWS do: profiles, the machine's role, a web identity.
PROVIDERS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)

PROBE = "create-if-absent"

# What the store answers to a PUT of an object that is there: it says so in the middle of a commit that another made.
REFUSED = ("RemoteFileChangedException", "FileAlreadyExistsException")


def spark_conf() -> dict[str, str]:
    """The settings of Spark for S3, from the variables that ``storage/aws.py`` reads; no credentials are among them."""
    hadoop = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.aws.credentials.provider": ",".join(PROVIDERS),
        # By default a store that is gone is asked for a quarter of an hour.
        "fs.s3a.attempts.maximum": "4",
        "fs.s3a.retry.limit": "4",
        "fs.s3a.retry.interval": "250ms",
        "fs.s3a.retry.throttle.limit": "10",
        "fs.s3a.retry.throttle.interval": "250ms",
        "fs.s3a.connection.establish.timeout": "15s",  # the shortest that it takes
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
    """Whether ``demand_atomic`` was content with a lake once; asked before the first write, without Spark."""
    from sluicegate.storage import filesystems  # not above: parsing a DAG file needs no pyarrow

    return filesystems.file(f"{folder}/{PROBE}") is not None


def demand_atomic(session: SparkSession, folder: str) -> None:
    """Lets this driver create no object on S3 that is there, and tries it out, by a request of some milliseconds.

    Args:
        session: whose JVM it is.
        folder: of the lake's locks, where the object lies that it is tried out on.

    Raises:
        LakeUnsupported: the store, or this Hadoop, overwrites it all the same.
    """
    jvm: Any = session._jvm
    s3a = jvm.org.apache.hadoop.fs.s3a.impl
    how = s3a.CreateFileBuilder.OPTIONS_CREATE_FILE_NO_OVERWRITE.writeObjectFlags()
    how.add(s3a.write.WriteObjectFlags.ConditionalOverwrite)
    probe = jvm.org.apache.hadoop.fs.Path(f"{folder}/{PROBE}")
    fs = probe.getFileSystem(session._jsc.hadoopConfiguration())
    # The first one makes the object, once for the whole life of a lake.
    if _created(fs, probe) and _created(fs, probe):
        fs.delete(probe, False)
        raise LakeUnsupported(
            f"the store of {folder} overwrites objects that it is asked to create only where there are none",
            where=Where(file=folder),
            cause="it ignores If-None-Match, so two writers could each believe that a commit is theirs",
            hint="keep the lake on a store that honours conditional writes (Amazon S3 does), or on a local disk",
        )


def _created(fs: Any, probe: Any) -> bool:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        fs.create(probe, False).close()
    except Py4JJavaError as error:
        if any(sign in str(error.java_exception) for sign in REFUSED):
            return False
        raise
    return True

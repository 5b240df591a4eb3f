"""Spark configuration of our jobs."""

from __future__ import annotations

import os

from sluicegate.console import warn
from sluicegate.settings import PACKAGE, Settings
from sluicegate.spark import class_archive, cluster, jars, s3_commits
from sluicegate.storage import aws

# Jobs that run for minutes or hours, for which the optimising compiler (C2) pays.
LONG_LIVED = {"continuous", "serve"}
OF_SHORT_LIVES = "-XX:TieredStopAtLevel=1"

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Nobody but its own processes talks to a driver with a local master, whatever a cluster's drivers need.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# Settings that a session of any Spark can have, whoever started it.
_OF_SESSIONS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Spark's old default, INT96, is deprecated, has no statistics, and not every reader gets early dates right.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Delta rebuilds a table's state with this many tasks; the default, 50, costs seconds on small tables.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Adaptive execution coalesces what it can, but every shuffle starts with as many tasks as this.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "true",
    # Delta refuses time travel beyond a table's retention even if all files are there; after a week without runs we
    # read what a lookup was before it changed. See maintenance/ for what keeps the files.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # One pipeline's batch generates more classes than the 100 that Spark caches: each would be compiled again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.debug.maxToStringFields": "200",
    # Our next layer, and others, read our tables by change data feed.
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    # Every Delta reader opens plain files; deletion vectors are a choice to make with the readers in mind.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    # A log checkpoint is a Spark job of its own; reading a hundred small commits costs less than ten of them.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}


def spark_conf(settings: Settings, *, archive: bool = True, long_lived: bool = False) -> dict[str, str]:
    """Return the settings of a job for spark-submit's command line (a running session is too late for JVM options).

    Args:
        settings: settings whose master decides between local and cluster settings.
        archive: whether the driver uses the class-data archive.
        long_lived: whether the job runs for hours.
    """
    local = settings.master.startswith("local")
    on_s3 = aws.is_on_s3(settings.lake) or aws.is_on_s3(settings.landing)
    jar_files = jars.find_jars(s3=on_s3)
    jvm_options = _jvm_options(archived=archive)
    if long_lived:
        jvm_options.remove(OF_SHORT_LIVES)
    own_settings = cluster.own_settings()
    conf = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jar_files)),
        "spark.driver.extraJavaOptions": " ".join(jvm_options),
        "spark.driver.memory": "2g",
        **_OF_SESSIONS,
        "spark.ui.showConsoleProgress": "false",
        # Else PySpark tells the JVM the place in Python of each call of a column, in four calls more, for a part of
        # Spark's errors that no message of ours has.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if local:
        conf |= {
            **_LOOPBACK,
            "spark.ui.enabled": "false",
            # For that interface alone Spark writes the plan of each query, here without the details of each operator.
            "spark.sql.ui.explainMode": "simple",
            # Each sort, aggregate and broadcast of a few rows takes such a page. Spark's own size, 32 MB of a driver
            # with 2 GB, fills the heap with them, whose collection then costs more than the rows.
            "spark.buffer.pageSize": "4m",
            "spark.sql.streaming.numRecentProgressUpdates": "1",
            # The default manager runs the program `readlink` several times for each small file that it writes.
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        }
        own_settings -= _LOOPBACK.keys()
    else:
        conf |= cluster.conf(jar_files)
    if on_s3:
        conf |= s3_commits.spark_conf()
    return {key: value for key, value in conf.items() if key not in own_settings}


def session_conf() -> dict[str, str]:
    """Return the settings of a job's session on a server; what depends on where tasks run is the server's."""
    return {name: value for name, value in _OF_SESSIONS.items() if name not in cluster.own_settings()}


def _jvm_options(*, archived: bool) -> list[str]:
    options = [
        "-Duser.timezone=UTC", f"-Dlog4j2.configurationFile={PACKAGE}/spark/log4j2.properties", cluster.DEEP_STACKS,
        *class_archive.SHORT_LIVED_JVM,
    ]  # fmt: skip
    if archived:
        archive, reason = class_archive.usable_archive()
        if archive is not None:
            options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        else:
            # To stderr: stdout may be JSON for programs.
            warn(f"starting Spark without its class-data archive, some seconds slower: {reason}")
    return options

"""Private scratch folder of Spark's JVM for shuffles, spilled rows and blocks of uploads.

Spark's default is Java's temporary folder, with the rights that umask gives: rows for everybody on the machine to read.
So Java gets another temporary folder. By ``spark.local.dir``, Spark would warn in each run that a cluster overrides it.
https://spark.apache.org/docs/latest/configuration.html#application-properties
"""

from __future__ import annotations

import os
from typing import Any

from sluicegate.private_folders import PrivateFolder, remove_abandoned_folders

# Variables that come before the setting: by Spark's own, and by those of YARN and of a standalone cluster's workers.
NAMED = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS", "SPARK_EXECUTOR_DIRS")
SETTING = "spark.local.dir"

# Java's property with its temporary folder, which is Spark's where there is no setting.
TEMPORARY = "java.io.tmpdir"

# Where S3A keeps the blocks of a file until they are uploaded.
UPLOADS = "spark.hadoop.fs.s3a.buffer.dir"

# Until this process ends: closing one would let others remove it.
_folders: list[PrivateFolder] = []


def new_folder() -> str:
    """Create a private folder for the Spark of this process; remove those that killed processes left.

    Returns:
        path of the folder; empty if a variable names another place, or there is no temporary folder.
    """
    if any(map(os.environ.get, NAMED)):
        return ""
    remove_abandoned_folders()
    try:
        _folders.append(PrivateFolder())
    except OSError:
        return ""
    return str(_folders[-1].path)


def prepare(jvm: Any) -> None:
    """Give spark-submit's JVM a private scratch before its Spark starts, unless a setting names another."""
    system = jvm.java.lang.System
    if system.getProperty(SETTING) or not (folder := new_folder()):
        return
    system.setProperty(TEMPORARY, folder)
    if str(system.getProperty("spark.master") or "").startswith("local") and not system.getProperty(UPLOADS):
        system.setProperty(UPLOADS, uploads(folder))
    remove_at_end(jvm, folder)


def add_folder(conf: dict[str, str]) -> str:
    """Add a new private folder to the settings of a Spark that is to start; return it, or empty if there is none."""
    folder = new_folder()
    if folder:
        conf["spark.driver.extraJavaOptions"] += f' "-D{TEMPORARY}={folder}"'
        conf[UPLOADS] = uploads(folder)
    return folder


def uploads(folder: str) -> str:
    """Return the folder of S3A's blocks within a folder."""
    return f"{folder}/s3a"


def remove_at_end(jvm: Any, folder: str) -> None:
    """Register a folder for removal when the JVM ends, after Spark."""
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(folder))

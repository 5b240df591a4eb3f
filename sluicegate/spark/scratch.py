"""Spark's scratch: where its JVM keeps shuffles, spilled rows and blocks of uploads, in a folder of this user alone.

Spark's default is Java's temporary folder, with the rights that umask gives: rows for everybody on the machine to read.
So Java gets another temporary folder. By ``spark.local.dir``, Spark would warn in each run that a cluster overrides it.
https://spark.apache.org/docs/latest/configuration.html#application-properties
"""

from __future__ import annotations

import os
from typing import Any

from sluicegate.private_folders import PrivateFolder, remove_left

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
    """A private folder for the Spark that this process starts; those that killed processes left are removed.

    Returns:
        its path; empty if a variable names another place, or there is no temporary folder.
    """
    if any(os.environ.get(name) for name in NAMED):
        return ""
    remove_left()
    try:
        _folders.append(PrivateFolder())
    except OSError:
        return ""
    return str(_folders[-1].path)


def prepare(jvm: Any) -> None:
    """Give the JVM of spark-submit a private scratch, before its Spark starts, unless a setting names another place."""
    system = jvm.java.lang.System
    if system.getProperty(SETTING) or not (folder := new_folder()):
        return
    system.setProperty(TEMPORARY, folder)
    if str(system.getProperty("spark.master") or "").startswith("local") and not system.getProperty(UPLOADS):
        system.setProperty(UPLOADS, uploads(folder))
    remove_at_end(jvm, folder)


def uploads(folder: str) -> str:
    """Where S3A keeps its blocks in a folder."""
    return f"{folder}/s3a"


def remove_at_end(jvm: Any, folder: str) -> None:
    """Have a JVM remove a folder when it ends, after Spark, which ends with it."""
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(folder))

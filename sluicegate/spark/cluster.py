"""Spark on other machines: what jobs need there besides, and whose word counts.

A driver of ours always runs where spark-submit does (client mode): the job's report and its errors come through its
output, and the pipeline's lock is freed with its process. What sizes a cluster is said in Spark's own way, by a
``spark-defaults.conf`` in the folder that ``SPARK_CONF_DIR`` names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

DEFAULTS = "spark-defaults.conf"

# Without these, or with others, a job would not work or would give other tables.
OURS = {
    "spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.jars",
    "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.sql.session.timeZone",
}  # fmt: skip


def conf(jars: Sequence[Path]) -> dict[str, str]:
    """What a job says to a cluster besides.

    Args:
        jars: those that Spark needs besides its own.
    """
    return {
        # Executors fetch them from the driver at their start, so that no machine of the cluster has to have them.
        "spark.jars": ",".join(map(str, jars)),
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        # So that who names another Python for executors (spark.pyspark.python) does not change the driver's.
        "spark.pyspark.driver.python": sys.executable,
        # Adaptive execution begins with many parts and puts small ones together. The number of those where it is off
        # (few rows, see frames/record_ids.py) is that of local runs: each of 200 would be a task, sent to another
        # machine.
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "200",
    }


def defaults() -> Path | None:
    """The ``spark-defaults.conf`` of ``SPARK_CONF_DIR``, if there is one."""
    folder = os.environ.get("SPARK_CONF_DIR")
    file = Path(folder or "") / DEFAULTS
    return file if folder and file.is_file() else None


def properties_file() -> Path | None:
    """That file where it is all there is in its folder.

    Then Spark is told of the file alone. The folder would be on the class path, and the driver could not start by a
    class-data archive.
    """
    file = defaults()
    return file if file and [one.name for one in file.parent.iterdir()] == [DEFAULTS] else None


def conf_folder() -> str:
    """``SPARK_CONF_DIR``, where Spark has to be given the folder itself; empty else."""
    return "" if properties_file() else os.environ.get("SPARK_CONF_DIR", "")


def own_settings() -> set[str]:
    """Names of the settings that ``defaults`` has, and that win over ours.

    Spark itself lets its command line win, where ours are.
    """
    file = defaults()
    lines = file.read_text().splitlines() if file else []
    named = (re.match(r"\s*(spark\.[^\s=:]+)", line) for line in lines)
    return {found[1] for found in named if found} - OURS

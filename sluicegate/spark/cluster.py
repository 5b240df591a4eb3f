"""Settings for a remote Spark master, and precedence of the user's ``spark-defaults.conf``.

The driver always runs where spark-submit does (client mode): the job's report and errors come through its output, and
the pipeline's lock is released with its process. A cluster is sized in Spark's own way, by a ``spark-defaults.conf``
in ``SPARK_CONF_DIR``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

DEFAULTS = "spark-defaults.conf"

# Settings that users cannot override: a job would fail or give other tables.
OURS = {
    "spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.jars",
    "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.sql.session.timeZone",
}  # fmt: skip


# Size of a thread's stack. Types are nested as deep as the landed records, of JSON up to the 1,000 levels of Jackson's
# parser, and Java serializes them by recursion. With the usual 1 MB a driver ended at 600 levels, or its job never did.
DEEP_STACKS = "-Xss8m"


def conf(jars: Sequence[Path]) -> dict[str, str]:
    """Return the additional settings of a job on a cluster.

    Args:
        jars: jars that Spark needs besides its own.
    """
    # Executors fetch them from the driver when they start: the cluster need not have them installed.
    sent = {"spark.jars": ",".join(map(str, jars))}
    if jars and _is_installed(jars[0].parent):
        sent = {}
    return {
        **sent,
        "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {DEEP_STACKS}",
        # A user's spark.pyspark.python for the executors must not change the driver's Python.
        "spark.pyspark.driver.python": sys.executable,
        # Adaptive execution starts with many partitions and coalesces small ones. Without it (few rows, see
        # frames/record_ids.py) the number is that of local runs: each of 200 would be a task sent to another machine.
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "200",
    }


def _is_installed(folder: Path) -> bool:
    """Return whether the user's settings give executors our jars, in the same path as the driver's."""
    matches = (re.match(r"\s*spark\.executor\.extraClassPath[\s=:]+(\S+)", line) for line in _default_lines())
    return any(f"{folder}/*" in match[1].split(os.pathsep) for match in matches if match)


def _default_lines() -> list[str]:
    file = defaults()
    if file is None:
        return []
    return file.read_text().splitlines()


def defaults() -> Path | None:
    """Return the path of ``spark-defaults.conf`` in ``SPARK_CONF_DIR``, if there is one."""
    folder = os.environ.get("SPARK_CONF_DIR", "")
    file = Path(folder, DEFAULTS)
    if folder and file.is_file():
        return file
    return None


def properties_file() -> Path | None:
    """Return the path of ``spark-defaults.conf`` if it is the only file in its folder.

    Then it is passed as ``--properties-file``: the folder would be on the class path, and the driver could not use a
    class-data archive.
    """
    file = defaults()
    if file is None or [entry.name for entry in file.parent.iterdir()] != [DEFAULTS]:
        return None
    return file


def conf_folder() -> str:
    """Return ``SPARK_CONF_DIR`` if Spark needs the folder itself; else empty."""
    if properties_file():
        return ""
    return os.environ.get("SPARK_CONF_DIR", "")


def own_settings() -> set[str]:
    """Return the names of the user's settings that override ours, without ``OURS``.

    Spark's command line takes precedence and has our settings, so these are omitted there.
    """
    matches = (re.match(r"\s*(spark\.[^\s=:]+)", line) for line in _default_lines())
    return {match[1] for match in matches if match} - OURS

"""The JVM's class-data archive, by which Spark starts faster: where it is, and what it was made for."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from sluicegate.spark import cluster, jars, java

# A JVM of ours lives for seconds: the first compiler alone more than halves its CPU time. That compiler's code cache
# defaults to 48 MB, which Spark fills in 40 s and then runs interpreted, so it is given the size of the full one.
# Room for new objects and for classes from the start saves a second and more of collecting.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m",
    "-XX:NewSize=400m", "-XX:MetaspaceSize=256m",
)  # fmt: skip

# Folders that Spark puts on the class path when they are set. The JVM takes a class-data archive only for the class
# path that it was made with, and refuses one with a folder in it that has files.
CLASS_PATH_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def archive_file() -> Path:
    """Where set-up puts the JVM's class-data archive."""
    return jars.folder() / "spark.jsa"


def usable_archive() -> tuple[Path | None, str]:
    """The class-data archive if it was made by this very Java for these very jars, else None and the reason."""
    archive = archive_file()
    for variable in CLASS_PATH_FOLDERS:
        named = os.environ.get(variable, str(conf_folder())) != str(conf_folder())
        if named and not (variable == "SPARK_CONF_DIR" and cluster.properties_file()):
            return None, f"{variable} is set, and the archive is for Spark without a folder of settings"
    try:
        made_for = json.loads(archive.with_suffix(".json").read_text())
    except (OSError, ValueError):
        return None, f"there is none (`{jars.SET_UP}` makes it)"
    if not archive.is_file():
        return None, f"{archive} is gone (`{jars.SET_UP}` makes it again)"
    if made_for != _archive_key():
        return None, f"it was made for another Java or other jars (`{jars.SET_UP}` makes it again)"
    return archive, ""


def conf_folder() -> Path:
    """The empty folder of settings that Spark is given: ours are on its command line."""
    return jars.folder() / "conf"


def _archive_key() -> dict[str, str]:
    """What an archive depends on: the JVM checks the class path by name, size and time, and so do we, beforehand."""
    paths = [*jars.found(), *sorted((java.spark_home() / "jars").glob("*.jar"))]
    facts = "\n".join(f"{path} {(stat := path.stat()).st_size} {int(stat.st_mtime)}" for path in paths)
    program = java.java()
    return {
        "java": f"{Path(program).resolve()} {java.java_version(program)}",
        "options": " ".join(SHORT_LIVED_JVM),
        "jars": hashlib.sha256(facts.encode()).hexdigest(),
    }

"""Class-data archive (CDS), with which the JVM starts faster: its path, and whether it fits."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from sluicegate.spark import cluster, jars, java

# Our JVMs live for seconds: C1 alone more than halves their CPU time. Its code cache defaults to 48 MB, which Spark
# fills in 40 s and then runs interpreted, so it gets the size of the tiered one. A large young generation and metaspace
# from the start save a second and more of garbage collection.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m",
    "-XX:NewSize=400m", "-XX:MetaspaceSize=256m",
)  # fmt: skip

# Folders that Spark puts on the class path if they are set. The JVM uses a class-data archive only with the class path
# that it was made for, and refuses a class path with a non-empty folder.
CLASS_PATH_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def archive_file() -> Path:
    """Return the path of the class-data archive that set-up creates."""
    return jars.folder() / "spark.jsa"


def usable_archive() -> tuple[Path | None, str]:
    """Return the class-data archive if it fits this Java, these jars and options; else None and the reason."""
    archive = archive_file()
    for variable in CLASS_PATH_FOLDERS:
        named = os.environ.get(variable, str(conf_folder())) != str(conf_folder())
        if named and not (variable == "SPARK_CONF_DIR" and cluster.properties_file()):
            return None, f"{variable} is set, and the archive fits only a Spark without a configuration folder"
    try:
        made_for = json.loads(archive.with_suffix(".json").read_text())
    except (OSError, ValueError):
        return None, f"there is none (`{jars.SET_UP}` creates it)"
    if not archive.is_file():
        return None, f"{archive} is gone (`{jars.SET_UP}` creates it)"
    if made_for != _archive_key():
        return None, f"it was created for another Java or other jars (`{jars.SET_UP}` creates it)"
    return archive, ""


def conf_folder() -> Path:
    """Return an empty folder for SPARK_CONF_DIR: our settings are on Spark's command line."""
    return jars.folder() / "conf"


def _archive_key() -> dict[str, str]:
    """Return the facts that an archive depends on: as the JVM does, files count by name, size and time."""
    paths = [*jars.find_jars(), *sorted((java.spark_home() / "jars").glob("*.jar"))]
    facts = "\n".join(f"{path} {(stat := path.stat()).st_size} {int(stat.st_mtime)}" for path in paths)
    program = java.java()
    return {
        "java": f"{Path(program).resolve()} {java.java_version(program)}",
        "options": " ".join(SHORT_LIVED_JVM),
        "jars": hashlib.sha256(facts.encode()).hexdigest(),
    }

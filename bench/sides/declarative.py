"""Projects of Spark Declarative Pipelines, and runs of them by ``spark-pipelines``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from bench import measure
from sluicegate.settings import Settings
from sluicegate.spark import configuration, jars, java, spark_submit

SPEC_FILE = "spark-pipeline.yml"
SPEC = """
name: bench
libraries: [{glob: {include: "transformations/**"}}]
storage: file://%s/storage
"""

# Without which there is no Delta.
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def project(folder: Path, file: str, definitions: str, *, tuned: bool) -> None:
    """Writes a project.

    Its catalog is on disk, since streaming tables go on only where a catalog has them: Hive's, in a Derby database.
    Settings are in a file, since its driver takes no class path from the command line.

    Args:
        folder: its folder.
        file: name of its file of definitions.
        definitions: what is in that.
        tuned: with all Spark settings of our jobs, or only those without which there is no Delta.
    """
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / file).write_text(definitions)
    (folder / SPEC_FILE).write_text(SPEC % folder)
    conf = DELTA | {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars.find_jars()))}
    if tuned:
        conf = configuration.spark_conf(Settings.of(master="local[2]"))
    conf |= {
        "spark.sql.sources.default": "delta",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in conf.items()))


def run(folder: Path, log: Path, variables: Mapping[str, str] | None = None) -> measure.Cost:
    """What a run of a project takes, start included."""
    environment = spark_submit.submit_env() | {"SPARK_CONF_DIR": str(folder), **(variables or {})}
    program = str(java.spark_home() / "bin" / "spark-pipelines")
    return measure.run([program, "run", "--spec", str(folder / SPEC_FILE)], log, environment, folder)


def flows(folder: Path, log: Path) -> measure.Cost:
    """What the flows of a run take, without the start of its process: whole seconds, which is all that it says."""
    began = log.stat().st_size if log.exists() else 0
    whole = run(folder, log)
    with log.open("rb") as lines:
        lines.seek(began)
        said = lines.read().decode(errors="replace")
    at = {
        state: datetime.fromisoformat(time)
        for time, state in re.findall(r"(\d{4}-\S+ [\d:]+): Flow \S+ (?:is|has) (RUNNING|COMPLETED)", said)
    }
    if {"RUNNING", "COMPLETED"} - at.keys():
        raise measure.CommandFailed("spark-pipelines did not say when its flow began and ended")
    return measure.Cost((at["COMPLETED"] - at["RUNNING"]).total_seconds(), None, whole.peak)


def table(folder: Path, name: str) -> Path:
    """Where a table of a project lies."""
    return folder / "warehouse" / name

"""Build the spark-submit command and environment of jobs, and create the class-data archive.

Building a command needs no Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sluicegate import processes
from sluicegate.console import warn
from sluicegate.definition import load
from sluicegate.errors import JavaMissing, SluicegateError
from sluicegate.lake.layout import LAYERS
from sluicegate.settings import HOME, PACKAGE, Settings
from sluicegate.spark import class_archive, cluster, configuration, connect, java, metastore

ROOT = PACKAGE.parent

# Jobs that look into their own JVM: at plans to prove gold, and at the metastore. They run by spark-submit always.
IN_THE_JVM = {"verify", "catalog", "cases", "serve"}

# Jobs that read Kafka, by a client in their own JVM.
OF_BRONZE = {"bronze", "run", "continuous"}

# Jobs that bring gold up to date; a gold table with a ``mode`` is a stream that runs in their own JVM.
OF_GOLD = {"gold", "run", "continuous", "replay", "reload", "reset"}

# Airflow's own variables: its signing keys, its database, connections and variables. A job runs a user's Python, and
# with the keys that could forge a token of any task. It has the two kinds that are no secrets.
OF_AIRFLOW = ("AIRFLOW_", "_AIRFLOW_")
HARMLESS_OF_AIRFLOW = ("AIRFLOW_HOME", "AIRFLOW_CTX_")


def make_archive() -> None:
    """Run a warm-up job that streams into Delta tables, and dump its loaded classes into the class-data archive.

    Source: JEP 350, dynamic class-data sharing archives (``-XX:ArchiveClassesAtExit``).
    """
    if class_archive.usable_archive()[0] is not None:
        return
    archive = class_archive.archive_file()
    archive.unlink(missing_ok=True)
    class_archive.conf_folder().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        new_archive = Path(scratch) / archive.name
        conf = configuration.spark_conf(Settings.of(master="local[2]"), archive=False)
        options = [
            f"-XX:ArchiveClassesAtExit={new_archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off",
        ]  # fmt: skip
        conf["spark.driver.extraJavaOptions"] += " " + " ".join(options)
        command = [*_spark_submit("local[2]", conf), str(PACKAGE / "jobs" / "warmup.py"), scratch]
        process = subprocess.run(command, env=submit_env(), capture_output=True, text=True, check=False)
        if process.returncode or not new_archive.is_file():
            raise JavaMissing("cannot create the class-data archive", cause=process.stderr.strip()[-2000:])
        shutil.copy(new_archive, archive.with_suffix(".new"))
    archive.with_suffix(".new").replace(archive)
    archive.with_suffix(".json").write_text(json.dumps(class_archive._archive_key()))


def job_conf(layer: str, settings: Settings) -> dict[str, str]:
    """Return the Spark settings of a job: the common ones, and the metastore's for ``catalog``."""
    conf = configuration.spark_conf(settings, long_lived=layer in configuration.LONG_LIVED)
    if layer == "catalog":
        conf |= metastore.conf()
    return conf


def _spark_submit(master: str, conf: dict[str, str]) -> list[str]:
    command = [str(java.spark_home() / "bin" / "spark-submit"), "--master", master]
    if file := cluster.properties_file():
        command += ["--properties-file", str(file)]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    return command


def job_file(job: str) -> Path:
    """Return the script of a job: of a layer in ``spark_jobs/``, others in ``spark_jobs/tools/``."""
    scripts = HOME / "spark_jobs"
    if job not in LAYERS:
        scripts /= "tools"
    return scripts / f"{job}.py"


def job_name(job: str, pipeline: str) -> str:
    """Return the application name in Spark: that of a run is the pipeline's."""
    if job == "run":
        return pipeline
    return f"{pipeline}.{job}"


def job_arguments(pipeline: str, settings: Settings, extra: Sequence[str] = ()) -> list[str]:
    """Return the arguments that every job takes."""
    arguments = [
        "--pipeline", pipeline, "--lake", settings.lake, "--landing", settings.landing,
        "--pipelines", str(settings.pipelines),
    ]  # fmt: skip
    if settings.target:
        arguments += ["--target", settings.target]
    return [*arguments, *extra]


def submit_command(layer: str, pipeline: str, settings: Settings, extra: Sequence[str] = ()) -> list[str]:
    """Build the command that runs a job of a pipeline: spark-submit, or this Python with a Spark Connect server.

    Raises:
        JavaMissing: no Java 17 or newer, no pyspark, or no jars.
    """
    if is_of_server(layer, pipeline, settings):
        return [sys.executable, str(job_file(layer)), *job_arguments(pipeline, settings, extra)]
    settings = spark_submit_settings(settings)
    java.java_version(java.java())
    return [
        *_spark_submit(settings.master, job_conf(layer, settings)),
        "--name", job_name(layer, pipeline), str(job_file(layer)), *job_arguments(pipeline, settings, extra),
    ]  # fmt: skip


def serve_command(settings: Settings, host: str, port: int) -> list[str]:
    """Build the command that serves Spark Connect on this machine.

    Args:
        settings: settings whose master is that of the server's Spark.
        host: address to listen on.
        port: port to listen on; 0 for any that is free, which the server prints.

    Raises:
        JavaMissing: see ``submit_command``.
    """
    java.java_version(java.java())
    command = _spark_submit(settings.master, job_conf("serve", settings))
    return [*command, "--name", "sluicegate", str(job_file("serve")), "--host", host, "--port", str(port)]


def is_of_server(layer: str, pipeline: str, settings: Settings) -> bool:
    """Return whether a job of a pipeline runs on a Spark Connect server.

    Raises:
        DefinitionError: the pipeline's definition has mistakes.
    """
    if not settings.remote or layer in IN_THE_JVM:
        return False
    if layer not in OF_GOLD | OF_BRONZE:
        return True
    definition = load(pipeline, settings)
    if layer in OF_BRONZE and any(table.kafka is not None for table in definition.bronze.values()):
        return False
    return layer not in OF_GOLD or all(table.mode is None for table in definition.gold.values())


def spark_submit_settings(settings: Settings) -> Settings:
    """Return the settings with a master for spark-submit: this machine in place of a Spark Connect server."""
    if not settings.remote:
        return settings
    return replace(settings, master="local[*]")


def job_env(layer: str, pipeline: str, settings: Settings) -> dict[str, str]:
    """Return the environment in which the command of a job runs."""
    if is_of_server(layer, pipeline, settings):
        variables = {connect.REMOTE: settings.remote, "PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1"}
        return {name: value for name, value in os.environ.items() if name not in withheld_variables(layer)} | variables
    return submit_env(layer)


def withheld_variables(job: str = "") -> set[str]:
    """Return the variables that a job must not get.

    They are Airflow's, those that this process set for itself, and the metastore's password unless the job opens the
    metastore.
    """
    names = {name for name in os.environ if name.startswith(OF_AIRFLOW) and not name.startswith(HARMLESS_OF_AIRFLOW)}
    if job != "catalog":
        names |= {metastore.PASSWORD} & os.environ.keys()
    return names | processes.own_variables()


def _python_path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def submit_env(job: str = "") -> dict[str, str]:
    """Return the environment of a job: this process's without withheld variables, with the Spark and Python to use.

    Args:
        job: name of the job; the one that opens the metastore gets its password.
    """
    without = withheld_variables(job) | {connect.REMOTE}
    return {
        **{name: value for name, value in os.environ.items() if name not in without},
        "SPARK_HOME": str(java.spark_home()),
        "SPARK_CONF_DIR": cluster.conf_folder() or str(class_archive.conf_folder()), "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def write_defaults(folder: Path | None = None, master: str = "local[*]") -> None:
    """Write ``spark-defaults.conf``, so that a plain ``spark-submit`` or ``spark-sql`` has our settings.

    Without the class-data archive: the file's folder is on the class path, so the archive would not fit.

    Args:
        folder: target folder; by default that of this Python's Spark.
        master: master that the settings are for: a cluster, or this machine.
    """
    conf = configuration.spark_conf(Settings.of(master=master), archive=False) | {
        "spark.pyspark.python": sys.executable
    }
    folder = folder or java.spark_home() / "conf"
    folder.mkdir(exist_ok=True)
    lines = [f"{key} {value}" for key, value in conf.items()]
    (folder / "spark-defaults.conf").write_text("# made by set-up\n" + "\n".join(lines) + "\n")


if __name__ == "__main__" and sys.argv[1:] == ["--make-archive"]:
    try:
        make_archive()
    except SluicegateError as problem:
        warn(*problem.for_people().split("\n"))
        sys.exit(problem.exit_code)
    finally:
        write_defaults()

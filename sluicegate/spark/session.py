"""Spark as Sluicegate runs it: the settings, the class path, the class-data archive, and the spark-submit command.

Building a command needs no Spark; ``pyspark`` is imported only where a session is opened.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.errors import JavaMissing, SluicegateError
from sluicegate.settings import HOME, PACKAGE, Settings
from sluicegate.spark import cluster, jars, metastore, s3_commits
from sluicegate.storage import aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.lake.tables import Lake

ROOT = PACKAGE.parent
JAVA_AT_LEAST = 17

# A JVM of ours lives for seconds: the first compiler alone more than halves its CPU time. That compiler's code cache
# defaults to 48 MB, which Spark fills in 40 s and then runs interpreted, so it is given the size of the full one.
# Room for new objects and for classes from the start saves a second and more of collecting.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m",
    "-XX:NewSize=400m", "-XX:MetaspaceSize=256m",
)  # fmt: skip

# What lives for minutes or hours wants its code compiled well.
LONG_LIVED = {"continuous"}
OF_SHORT_LIVES = {"-XX:TieredStopAtLevel=1"}

CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Folders that Spark puts on the class path when they are set. The JVM takes a class-data archive only for the class
# path that it was made with, and refuses one with a folder in it that has files.
CLASS_PATH_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def java() -> str:
    """The ``java`` that spark-submit will run: that of JAVA_HOME, else of PATH.

    Raises:
        JavaMissing: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if program is None:
        place = f"JAVA_HOME ({home}) has no bin/java" if home else "there is no java on PATH and JAVA_HOME is not set"
        raise JavaMissing(
            f"Spark needs Java {JAVA_AT_LEAST} or newer, and {place}",
            hint="install one, for example `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME",
        )
    return program


@cache
def java_version(program: str) -> str:
    """The version that a ``java`` program prints, such as ``17.0.15``.

    Raises:
        JavaMissing: it is older than Spark needs, or does not run.
    """
    release = Path(program).resolve().parent.parent / "release"
    match = re.search(r'JAVA_VERSION="(\d[^"]*)"', release.read_text()) if release.is_file() else None
    if match is None:  # not every vendor ships the file; asking costs a JVM start of some 50 ms
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r'version "(\d[^"]*)"', answer.stderr + answer.stdout)
    if match is None or int(re.split(r"\D", match[1])[0]) < JAVA_AT_LEAST:
        found = f"is Java {match[1]}" if match else "does not say its version"
        raise JavaMissing(
            f"Spark needs Java {JAVA_AT_LEAST} or newer, and {program} {found}",
            hint="install a newer one, or point JAVA_HOME to it",
        )
    return match[1]


def spark_home() -> Path:
    """The Spark that the ``pyspark`` package of this Python brings.

    Raises:
        JavaMissing: pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaMissing(
            "pyspark is not installed in this Python",
            hint="install sluicegate[spark], or in a checkout run `make setup`",
        )
    return Path(spec.origin).parent


def spark_conf(settings: Settings, *, archive: bool = True, long_lived: bool = False) -> dict[str, str]:
    """Everything a job needs on spark-submit's command line (a running session is too late for JVM options).

    Args:
        settings: their master decides what is for this machine alone and what for a cluster.
        archive: whether the driver is to use the class-data archive.
        long_lived: whether the job goes on for hours.
    """
    local = settings.master.startswith("local")
    on_s3 = aws.on_s3(settings.lake) or aws.on_s3(settings.landing)
    found = jars.found(s3=on_s3)
    conf = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, found)),
        "spark.driver.extraJavaOptions": " ".join(
            option for option in _jvm_options(archived=archive) if not (long_lived and option in OF_SHORT_LIVES)
        ),
        "spark.driver.memory": "2g",
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
        # Delta refuses to read a version that is older than a table's retention, also where all of its files are there:
        # what a lookup was before it changed, after a week of rest. See maintenance/ for what keeps the files.
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
        # One pipeline's batch has more generated classes than the 100 that Spark keeps: each would be compiled anew.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.debug.maxToStringFields": "200",
        # All tables of ours can be followed by others, and by our own next layer.
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
        # Every Delta reader opens plain files; deletion vectors are a choice to make with the readers in mind.
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        # A log checkpoint is a Spark job of its own; reading a hundred small commits costs less than ten of them.
        "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
    }
    if local:
        conf |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.streaming.numRecentProgressUpdates": "1",
            # The default one runs the program `readlink` several times for each small file that it writes.
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        }
    else:
        conf |= cluster.conf(found)
    conf |= s3_commits.spark_conf() if on_s3 else {}
    return {key: value for key, value in conf.items() if key not in cluster.own_settings()}


def _jvm_options(*, archived: bool) -> list[str]:
    options = ["-Duser.timezone=UTC", f"-Dlog4j2.configurationFile={PACKAGE}/spark/log4j2.properties", *SHORT_LIVED_JVM]
    if archived:
        archive, reason = usable_archive()
        if archive is not None:
            options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        else:
            # Not among what a command shows, which may be JSON for programs.
            print(f"starting Spark without its class-data archive, some seconds slower: {reason}", file=sys.stderr)
    return options


# --- the class-data archive ------------------------------------------------------------------------------------------


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
    paths = [*jars.found(), *sorted((spark_home() / "jars").glob("*.jar"))]
    facts = "\n".join(f"{path} {(stat := path.stat()).st_size} {int(stat.st_mtime)}" for path in paths)
    program = java()
    return {
        "java": f"{Path(program).resolve()} {java_version(program)}",
        "options": " ".join(SHORT_LIVED_JVM),
        "jars": hashlib.sha256(facts.encode()).hexdigest(),
    }


def make_archive() -> None:
    """Runs a small stream into Delta tables and lets the JVM write the classes that it loaded into an archive.

    Source: JEP 350, dynamic class-data sharing archives (``-XX:ArchiveClassesAtExit``).
    """
    if usable_archive()[0] is not None:
        return
    archive = archive_file()
    archive.unlink(missing_ok=True)
    conf_folder().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / archive.name
        conf = spark_conf(Settings.of(master="local[2]"), archive=False)
        options = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"]
        conf["spark.driver.extraJavaOptions"] += " " + " ".join(options)
        command = [*_spark_submit("local[2]", conf), str(PACKAGE / "jobs" / "warmup.py"), scratch]
        done = subprocess.run(command, env=submit_env(), capture_output=True, text=True, check=False)
        if done.returncode or not made.is_file():
            raise JavaMissing("the class-data archive could not be made", cause=done.stderr.strip()[-2000:])
        shutil.copy(made, archive.with_suffix(".new"))
    archive.with_suffix(".new").replace(archive)
    archive.with_suffix(".json").write_text(json.dumps(_archive_key()))


# --- the command -----------------------------------------------------------------------------------------------------


def job_conf(layer: str, settings: Settings) -> dict[str, str]:
    """The settings of a job: those of all, and what a job of its kind needs besides."""
    conf = spark_conf(settings, long_lived=layer in LONG_LIVED)
    return conf | metastore.conf() if layer == "catalog" else conf


def _spark_submit(master: str, conf: dict[str, str]) -> list[str]:
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master]
    if file := cluster.properties_file():
        command += ["--properties-file", str(file)]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    return command


def job_file(layer: str) -> Path:
    """The script in ``spark_jobs/`` that runs a layer."""
    return HOME / "spark_jobs" / f"{layer}.py"


def job_arguments(pipeline: str, settings: Settings, extra: Sequence[str] = ()) -> list[str]:
    """The arguments that every job takes."""
    return [
        "--pipeline", pipeline, "--lake", settings.lake, "--landing", settings.landing,
        "--pipelines", str(settings.pipelines), *extra,
    ]  # fmt: skip


def submit_command(layer: str, pipeline: str, settings: Settings, extra: Sequence[str] = ()) -> list[str]:
    """The spark-submit command that runs one layer of a pipeline.

    Raises:
        JavaMissing: no Java 17 or newer, no pyspark, or no jars.
    """
    java_version(java())
    return [
        *_spark_submit(settings.master, job_conf(layer, settings)),
        "--name", f"{pipeline}.{layer}", str(job_file(layer)), *job_arguments(pipeline, settings, extra),
    ]  # fmt: skip


def submit_env() -> dict[str, str]:
    """The environment of a job: this process's, and which Spark and Python it is to use."""
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": cluster.conf_folder() or str(conf_folder()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Within it, a session has other settings."""
    former = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in former.items():
            if before is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, before)


def open_session(name: str, at: Lake | None = None, *, private: bool = False) -> SparkSession:
    """The session of a job started by spark-submit, whose command line or defaults bring the settings.

    Args:
        name: what Spark is to call the job.
        at: the lake that it writes to.
        private: whether values of rows may be personal data, so that Spark's own log must not quote them.

    Raises:
        JavaMissing: they do not: Delta's jars cannot be added to a JVM that already runs.
        LakeUnsupported: on the store of the lake another driver could overwrite a commit of this one.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName(name).getOrCreate()
    if private:
        _hide_texts(session)
    # Both print a whole stack for an error that we turn into a sentence.
    for chatter in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver"):
        logging.getLogger(chatter).setLevel(logging.CRITICAL)
    if "delta" not in (session.conf.get("spark.sql.extensions", "") or ""):
        session.stop()
        raise JavaMissing(
            "this Spark was started without Delta Lake",
            hint="use `sluicegate run`, the DAG, or in a checkout the spark-submit of .venv after `make setup`",
        )
    if at is not None and aws.on_s3(at.root):
        s3_commits.demand_atomic(session, at.locks)
    return session


def session_inside(name: str) -> SparkSession:
    """A session of Spark inside this process, with the settings of a job that goes on for hours: for tests and benches.

    Args:
        name: what Spark is to call it.
    """
    from pyspark.sql import SparkSession

    settings = Settings.of(master="local[2]")
    os.environ.update({k: v for k, v in submit_env().items() if k in ("SPARK_HOME", "PYSPARK_PYTHON")})
    builder = SparkSession.builder.master(settings.master).appName(name)
    for key, value in spark_conf(settings, long_lived=True).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _hide_texts(session: SparkSession) -> None:
    """Lets Spark's log say when, how badly and where something was wrong, but not in which words.

    They quote values: a task that fails tells its whole error, and not in one place. ``log4j2.properties`` puts what
    this property says in the place of a message.
    """
    jvm = session._jvm
    if jvm is None:  # Spark Connect has no JVM here, and no log of it either
        return
    hidden = "(not shown, since it may quote personal data) %ex{short.className}%n"
    jvm.java.lang.System.setProperty("sluicegate.log.message", hidden)
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure()


def write_defaults(folder: Path | None = None, master: str = "local[*]") -> None:
    """Writes the settings down, so that a plain ``spark-submit`` or ``spark-sql`` has them.

    All but the class-data archive: the folder that they lie in is on that class path.

    Args:
        folder: where to; by default where this Python's Spark looks for them.
        master: what they are for: a cluster, or this machine.
    """
    conf = spark_conf(Settings.of(master=master), archive=False) | {"spark.pyspark.python": sys.executable}
    folder = folder or spark_home() / "conf"
    folder.mkdir(exist_ok=True)
    lines = [f"{key} {value}" for key, value in conf.items()]
    (folder / "spark-defaults.conf").write_text("# made by set-up\n" + "\n".join(lines) + "\n")


if __name__ == "__main__" and sys.argv[1:] == ["--make-archive"]:
    try:
        make_archive()
    except SluicegateError as problem:
        print(problem.for_people(), file=sys.stderr)
        sys.exit(problem.exit_code)
    finally:
        write_defaults()

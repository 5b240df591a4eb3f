"""Sessions of Spark. ``pyspark`` is imported only where one is opened."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluicegate.errors import JavaMissing
from sluicegate.settings import Settings
from sluicegate.spark import configuration, s3_commits, submit
from sluicegate.storage import aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.lake.layout import Lake


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
    os.environ.update({k: v for k, v in submit.submit_env().items() if k in ("SPARK_HOME", "PYSPARK_PYTHON")})
    builder = SparkSession.builder.master(settings.master).appName(name)
    for key, value in configuration.spark_conf(settings, long_lived=True).items():
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

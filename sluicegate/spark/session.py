"""Spark sessions. ``pyspark`` is imported only when one is opened."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from sluicegate import console
from sluicegate.errors import JavaMissing
from sluicegate.settings import Settings
from sluicegate.spark import configuration, s3_commits, submit
from sluicegate.storage import aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.lake.layout import Lake


@contextmanager
def configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Override settings of a session within the block."""
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
    """Open the session of a job started by spark-submit, whose command line or defaults have the settings.

    Args:
        name: Spark's application name.
        at: the lake that the job writes to.
        private: whether rows may have personal data, so that Spark's own log must not quote values.

    Raises:
        JavaMissing: Delta is not configured, and its jars cannot be added to a running JVM.
        LakeUnsupported: on the lake's store another driver could overwrite our commits.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName(name).getOrCreate()
    if private:
        _hide_texts(session)
    # These print a stack trace for each error that we turn into a sentence.
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


class SharedSpark:
    """Spark of one application, opened when a table first needs it, and shared by the jobs that run in it.

    Args:
        name: Spark's application name.
        at: the lake that the jobs write to.
        private: whether rows may have personal data; see ``open_session``.
        opened: a session to use instead of one of its own.
    """

    def __init__(self, name: str, at: Lake, *, private: bool, opened: SparkSession | None = None) -> None:
        self._name, self._at, self._private, self._opened = name, at, private, opened
        self._opening = Lock()
        self._sessions: dict[str, SparkSession] = {}

    def session_of(self, table: str) -> SparkSession:
        """Session of one table: settings and temporary views of two tables must not meet.

        A table has the same one in each batch of a long run, since Spark never lets a session go in which a stream ran.
        """
        with self._opening:
            if self._opened is None:
                self._opened = open_session(self._name, self._at, private=self._private)
                console.say_where(self._opened.sparkContext)
            if table not in self._sessions:
                self._sessions[table] = self._opened.newSession()
            return self._sessions[table]

    def clear_cache(self) -> None:
        """Drops frames that are still cached, such as by a user's Python: all sessions share one cache."""
        if self._opened is not None:
            self._opened.catalog.clearCache()


def session_inside(name: str, *jvm_options: str) -> SparkSession:
    """Open a session in this process with the settings of a long-lived job, for tests and benches.

    Args:
        name: Spark's application name.
        jvm_options: options of the JVM besides those of a job.
    """
    from pyspark.sql import SparkSession

    settings = Settings.of(master="local[2]")
    os.environ.update({k: v for k, v in submit.submit_env().items() if k in ("SPARK_HOME", "PYSPARK_PYTHON")})
    builder = SparkSession.builder.master(settings.master).appName(name)
    conf = configuration.spark_conf(settings, long_lived=True)
    conf["spark.driver.extraJavaOptions"] = " ".join([conf["spark.driver.extraJavaOptions"], *jvm_options])
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _hide_texts(session: SparkSession) -> None:
    """Hide message texts in Spark's log; time, level and logger stay.

    The texts quote values: a failed task logs its whole error, in several places. ``log4j2.properties`` prints this
    property in place of the message.
    """
    jvm = session._jvm
    if jvm is None:  # Spark Connect has no JVM here, and no log of it either
        return
    hidden = "(not shown, since it may quote personal data) %ex{short.className}%n"
    jvm.java.lang.System.setProperty("sluicegate.log.message", hidden)
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure()

"""Open Spark sessions. ``pyspark`` is imported only when one is opened."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from sluicegate import console
from sluicegate.errors import JavaMissing, UserError
from sluicegate.settings import Settings
from sluicegate.spark import configuration, connect, s3_commits, scratch, spark_submit
from sluicegate.storage import aws

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from sluicegate.lake.layout import Lake


@contextmanager
def override_settings(session: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Override settings of a session within the block; None unsets one."""
    former = {name: session.conf.get(name, None) for name in settings}
    _configure(session, settings)
    try:
        yield
    finally:
        _configure(session, former)


@contextmanager
def use_session(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread within the block.

    Spark infers the fields of the texts of a frame by the settings of the active session where it merges those of
    several partitions, whichever session the frame is of (``JsonInferSchema.infer``).
    """
    if connect.is_remote(session):  # a server makes it so for each request
        yield
        return
    sessions: Any = session._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    former = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if former.isDefined():
            sessions.setActiveSession(former.get())
        else:
            sessions.clearActiveSession()


def _configure(session: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


def open_session(name: str, at: Lake | None = None, *, private: bool = False) -> SparkSession:
    """Open a job's session: on the server in ``SPARK_REMOTE``, else as spark-submit has started it.

    Args:
        name: Spark's application name.
        at: the lake that the job writes to.
        private: whether rows may have personal data, so that Spark's own log must not quote values.

    Raises:
        JavaMissing: Delta is not configured, and its jars cannot be added to a running JVM.
        LakeUnsupported: on the lake's store another driver could overwrite our commits.
        SparkUnreachable: the server does not answer, or rejects the token.
        UserError: the server's log might quote personal data.
    """
    on_s3 = at is not None and aws.is_on_s3(at.root)
    if url := connect.address():
        session = connect.open_session(url, configuration.session_conf())
        _silence_chatter()
        connect.demand_suitable_server(session, url, private=private, on_s3=on_s3)
        return session
    from pyspark.sql import SparkSession

    _prepare_scratch()
    session = SparkSession.builder.appName(name).getOrCreate()
    if private:
        _hide_texts(session)
    _silence_chatter()
    if "delta" not in str(session.conf.get("spark.sql.extensions", "")):
        session.stop()
        raise JavaMissing(
            "this Spark was started without Delta Lake",
            hint="use `sluicegate run` or the DAG; in a checkout, the spark-submit of .venv after `make setup`",
        )
    if at is not None and on_s3:
        s3_commits.demand_atomic(session, at.locks)
    return session


def _prepare_scratch() -> None:
    """Give a Spark that has not started yet a private scratch."""
    from pyspark import SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ and SparkContext._active_spark_context is None:
        SparkContext._ensure_initialized()  # connects to the JVM of spark-submit
        scratch.prepare(SparkContext._jvm)


def open_server(host: str, port: int, token: str) -> SparkSession:
    """Open a session whose JVM serves Spark Connect, with the settings that clients cannot set.

    Spark's plugin is not used: it accepts connections before the session is complete.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for any that is free.
        token: token that clients must send; empty for none. It is never on a command line, nor in an environment.

    Raises:
        UserError: there is no token, and other machines could connect.
    """
    from pyspark.sql import SparkSession

    if not token and host not in ("127.0.0.1", "localhost", "::1"):
        raise UserError(
            f"a Spark Connect server at {host} needs a token: whoever connects to it can run any code",
            hint=f"write one to {connect.token_file()}, or set {connect.TOKEN_FILE} to its file",
        )
    builder = SparkSession.builder.config("spark.connect.grpc.binding.address", host)
    builder = builder.config("spark.connect.grpc.binding.port", str(port)).config(connect.OURS, "true")
    # What a client that is gone has sent last does not go on for Spark's five minutes.
    builder = builder.config("spark.connect.execute.manager.detachedTimeout", connect.CLIENT_GONE_AFTER)
    builder = builder.config("spark.connect.execute.manager.maintenanceInterval", "10s")
    builder = builder.config("spark.connect.session.manager.defaultSessionTimeout", connect.SESSION_IDLE)
    if token:
        builder = builder.config("spark.connect.authenticate.token", token)
    _prepare_scratch()
    session = builder.getOrCreate()
    _hide_texts(session)
    s3_commits.make_atomic(session)
    _service(session).start(session._jsc.sc())
    return session


def server_port(session: SparkSession) -> int:
    """Return the port on which a session's JVM serves Spark Connect."""
    return int(_service(session).localPort())


def has_stopped(spark: SparkSession | SparkContext) -> bool:
    """Return whether a Spark has stopped, as after an error in its scheduler or with its JVM."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        return bool(spark._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def close_server(session: SparkSession) -> None:
    """Close a session of ``open_server`` and its server."""
    service = _service(session)
    service.stop(getattr(service, "stop$default$1")(), getattr(service, "stop$default$2")())
    session.stop()


def _service(session: SparkSession) -> Any:
    """Return the Spark Connect service of a session's JVM."""
    return getattr(getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")


def new_session(session: SparkSession) -> SparkSession:
    """Return a new session of the same Spark with its settings, without its temporary views.

    On a server it is one of its own, which shares nothing with the former one but the server.
    """
    if connect.is_remote(session):
        return connect.open_session(connect.address(), configuration.session_conf())
    return session.newSession()


class SharedSpark:
    """Spark of one application, opened on first use and shared by the jobs in it.

    Args:
        name: Spark's application name.
        at: the lake that the jobs write to.
        private: whether rows may have personal data; see ``open_session``.
        opened: a session to use instead of a new one.
    """

    def __init__(self, name: str, at: Lake, *, private: bool, opened: SparkSession | None = None) -> None:
        self._name, self._at, self._private, self._opened = name, at, private, opened
        self._opening = Lock()
        self._sessions: dict[str, SparkSession] = {}

    def session_of(self, table: str) -> SparkSession:
        """Return the session of one table, so that settings and temporary views of tables do not mix.

        A table has the same one in each batch of a long run, since Spark never lets a session go in which a stream ran.
        """
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
                say_where(self._opened)
            if table not in self._sessions:
                self._sessions[table] = new_session(self._opened)
            return self._sessions[table]

    def _open(self) -> SparkSession:
        return open_session(self._name, self._at, private=self._private)

    def clear_cache(self) -> None:
        """Drop cached frames, as of a user's Python: all sessions share one cache.

        On a server, they share it with other users' runs, whose frames would be dropped as well: there each frame is
        dropped by the one who cached it.
        """
        if self._opened is not None and not connect.is_remote(self._opened):
            self._opened.catalog.clearCache()


def session_inside(name: str, *jvm_options: str) -> SparkSession:
    """Open a session in this process with the settings of a long-lived job, for tests and benches.

    Args:
        name: Spark's application name.
        jvm_options: options of the JVM besides those of a job.
    """
    from pyspark.sql import SparkSession

    settings = Settings.of(master="local[2]")
    os.environ.update({k: v for k, v in spark_submit.submit_env().items() if k in ("SPARK_HOME", "PYSPARK_PYTHON")})
    builder = SparkSession.builder.master(settings.master).appName(name)
    conf = configuration.spark_conf(settings, long_lived=True)
    conf["spark.driver.extraJavaOptions"] = " ".join([conf["spark.driver.extraJavaOptions"], *jvm_options])
    folder = ""
    if SparkSession.getActiveSession() is None:
        folder = scratch.add_folder(conf)
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if folder:
        scratch.remove_at_end(session._jvm, folder)
    return session


def say_where(session: SparkSession) -> None:
    """Print where to watch Spark: its page and event log, whichever is on, or the server's address."""
    if connect.is_remote(session):
        console.say(f"Spark Connect: {connect.address().partition(';')[0]}")
    else:
        console.say_where(session.sparkContext)


def _silence_chatter() -> None:
    # These print a stack trace for each error that we turn into a sentence.
    for chatter in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver"):
        logging.getLogger(chatter).setLevel(logging.CRITICAL)


def _hide_texts(session: SparkSession) -> None:
    """Hide message texts in Spark's log; time, level and logger stay.

    The texts quote values: a failed task logs its whole error, in several places. ``log4j2.properties`` prints this
    property in place of the message.
    """
    jvm: Any = session._jvm
    hidden = "(not shown, since it may quote personal data) %ex{short.className}%n"
    jvm.java.lang.System.setProperty("sluicegate.log.message", hidden)
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure()

"""Start of the JVM of a Spark that stays ready, from its Python: it ends with that, whatever ends it."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]

from sluicegate.settings import Settings
from sluicegate.spark import scratch, session, spark_submit

# Classes of the JVM whose functions PySpark calls again and again, by the names that it has for them. At each call of
# ``F.col`` it asks the JVM for the class, then for the function, and only then calls it: of three round trips, two have
# always the same answer.
NAMES = (
    "functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils",
    "org.apache.spark.sql.classic.SparkSession",
)  # fmt: skip


class ClassWithNames(JavaClass):  # type: ignore[misc]
    """A class of the JVM that keeps its functions once they were looked up."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def keep_names(jvm: Any) -> None:
    """Keep the classes of ``NAMES`` in a view of the JVM, which asks for those alone that it does not have.

    Args:
        jvm: ``_jvm`` of PySpark's context.
    """
    for name in NAMES:
        java_class = getattr(jvm, name)
        jvm.__dict__[name] = ClassWithNames(java_class._fqn, java_class._gateway_client)


def launch(settings: Settings, output: int) -> subprocess.Popen[bytes]:
    """Start a JVM with the settings of a job, and a Spark in it, which ``session.open_session`` opens then.

    Args:
        settings: where things are; their master is this machine.
        output: open file for what the JVM prints.

    Returns:
        the JVM's process.

    Raises:
        JavaMissing: no Java 17 or newer, no pyspark, or no jars.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = spark_submit.job_conf("run", settings) | {"spark.master": settings.master, "spark.app.name": "sluicegate"}
    folder = scratch.add_folder(conf)
    spark_conf = SparkConf(loadDefaults=False).setAll([*conf.items()])
    # Of its own: a signal to the group of this process reaches both, and closing its input ends it.
    gateway = launch_gateway(spark_conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    os.close(output)
    context = SparkContext(conf=spark_conf, gateway=gateway)
    keep_names(context._jvm)
    if folder:
        scratch.remove_at_end(context._jvm, folder)
    jvm: subprocess.Popen[bytes] = gateway.proc
    return jvm


def has_stopped() -> bool:
    """Return whether the Spark of this process has stopped; not where none has started."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return SparkContext._gateway is not None
    return session.has_stopped(context)


def forget_tables() -> None:
    """Have Delta read the logs of all tables anew, whatever it remembers of them."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

"""Writes Spark's settings into the image: ``python -m docker.defaults``.

They are those of a job, for a cluster, with what is true of the compose stack alone.
"""

from __future__ import annotations

from pathlib import Path

from sluicegate.spark import metastore
from sluicegate.spark.spark_submit import write_defaults

FOLDER = Path(__file__).resolve().parent / "spark"

CLUSTER = "spark://spark-master:7077"

STACK = {
    "spark.master": "local[*]",  # of people's spark-sql; jobs say theirs
    # Without the secret nobody talks to the cluster or to a driver. It is in the environment, which goes before this
    # setting; but Spark does not start without the setting.
    "spark.authenticate": "true",
    "spark.authenticate.secret": "see-_SPARK_AUTH_SECRET",
    # The pages of workers and of jobs are behind that of the master, which alone is published.
    "spark.ui.reverseProxy": "true",
    "spark.master.rest.enabled": "false",  # it would take work from anyone
    "spark.driver.memory": "1g",
    "spark.executor.memory": "768m",
    # Containers have an address in each of their networks, and by default a driver listens at one that the order of its
    # networks decides, of which executors know nothing. Drivers with a master of their own listen at 127.0.0.1.
    "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 (of a container that publishes none of its ports)
    # The image of the workers has the jars, so that no job sends them.
    "spark.executor.extraClassPath": "/opt/sluicegate/.jars/*",
    # Each job has executors of its own, which live for seconds: the second compiler would take half of their time.
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # A job takes no more than this of the cluster, so that the next one is not kept waiting by it.
    "spark.cores.max": "2",
    "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
    "spark.metrics.conf.master.sink.prometheusServlet.path": "/metrics/master/prometheus",
    "spark.eventLog.enabled": "${env:SPARK_EVENT_LOG}",
    "spark.eventLog.dir": "file:///events",
    "spark.sql.warehouse.dir": "/scratch/warehouse",
    # For people's spark-sql; jobs but one open no catalog.
    **{key: value for key, value in metastore.conf().items() if key.startswith("spark.hadoop.")},
}

if __name__ == "__main__":
    write_defaults(FOLDER, CLUSTER)
    file = FOLDER / "spark-defaults.conf"
    # Without those that it says otherwise, and without the jars to send, which the image has.
    general = [line for line in file.read_text().splitlines() if line.split(" ")[0] not in {*STACK, "spark.jars"}]
    file.write_text("\n".join([*general, *(f"{key} {value}" for key, value in STACK.items())]) + "\n")

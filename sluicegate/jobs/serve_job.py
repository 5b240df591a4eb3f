"""Job that serves Spark Connect: a warm JVM with our settings for the jobs of all pipelines, until it is stopped.

The server runs in the JVM of this application. Settings that only a JVM can have are made before any client connects:
its log quotes no values of rows, and commits on S3 do not overwrite each other.
https://spark.apache.org/docs/latest/spark-connect-overview.html
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Sequence

from sluicegate import console, processes
from sluicegate.errors import JobFailed
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base
from sluicegate.settings import SERVER
from sluicegate.spark import connect, session


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/serve.py``."""
    job_parser = argparse.ArgumentParser(prog="serve.py", description="Serves Spark Connect until it is stopped.")
    job_parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    job_parser.add_argument("--port", type=int, default=15002, help="port to listen on; 0 for any that is free")
    return job_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/serve.py``; the exit codes are those of ``jobs.layer_job.main``."""
    return base.run_guarded(lambda: _serve(parser().parse_args(argv)))


def _serve(arguments: argparse.Namespace) -> RunReport:
    ended = threading.Event()
    for number in processes.heeded_signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    opened = session.open_server(arguments.host, arguments.port, connect.token())
    port = session.server_port(opened)
    console.say_and_send(connect.SERVER_ADDRESS, f"{connect.SERVES} ", f"{SERVER}{arguments.host}:{port}")
    jvm = os.getppid()
    while not ended.wait(1):
        if os.getppid() != jvm:  # it was killed, and the server with it
            raise JobFailed("the JVM of the Spark Connect server has ended", hint="start it again")
        if session.has_stopped(opened):  # its port would go on to answer, and every run would fail
            raise JobFailed("the Spark of the Spark Connect server has stopped by itself", hint="start it again")
    session.close_server(opened)
    return RunReport("all", "serve", notes=["stopped"])

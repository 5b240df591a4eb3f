"""A process that stays: a Spark session, or Python alone, in which one function after another is called and measured.

``Worker`` is the side that asks. The process reads a line of JSON with the name of a function and its arguments, calls
it, and answers with a line of JSON; what is printed meanwhile goes to its log. A function that takes ``spark`` is given
the session.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import measure
from sluicegate.spark import spark_submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
OURS, PLAIN, PYTHON = "ours", "plain", "python"
ANSWER = "ANSWER "


class Worker:
    """A process with a session of one kind.

    Args:
        kind: ``OURS``, a session as our long-lived jobs have it; ``PLAIN``, one with Delta and as many shuffle
            partitions as cores; ``PYTHON``, none.
        log: file that all output goes to.
    """

    def __init__(self, kind: str, log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker", kind], cwd=ROOT, env=spark_submit.submit_env(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True,
            )  # fmt: skip

    def call(self, function: Callable[..., Any], **arguments: Any) -> tuple[measure.Cost, Any]:
        """Calls a function of a module there, and tells what that took and what it gave.

        Raises:
            CommandFailed: it raised, or the process ended.
        """
        request = {"function": f"{function.__module__}:{function.__qualname__}", "arguments": arguments}
        watch = measure.Watch(self._process.pid)
        try:
            answer = self._ask(json.dumps(request))
        finally:
            cost = watch.end()
        if "error" in answer:
            raise measure.CommandFailed(answer["error"])
        # Its own clock: ours has the way of the question in it.
        return measure.Cost(answer["seconds"], cost.cpu, cost.peak), answer["value"]

    def _ask(self, question: str) -> dict[str, Any]:
        began = self._log.stat().st_size
        if self._process.stdin is None or self._process.stdout is None:
            raise measure.CommandFailed("the process has no pipes")
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise measure.CommandFailed(f"the process has ended: {measure.last_words(self._log)}") from None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                found: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                return found
        raise measure.CommandFailed(f"the process has ended: {measure.last_words(self._log, began)}")

    def close(self) -> None:
        """Ends the process, its session with it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def session_of(kind: str) -> SparkSession | None:
    """The session of a kind of worker."""
    from sluicegate.spark import jars, session

    if kind == OURS:
        return session.session_inside("bench")
    if kind != PLAIN:
        return None
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bench")
    settings = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars.find_jars())),
        "spark.driver.memory": "2g",  # as much as ours has
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    """Answers until there are no more questions."""
    import time

    # What jobs and libraries print is no answer: it goes to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = session_of(sys.argv[1])
    for question in sys.stdin:
        request = json.loads(question)
        module, name = request["function"].split(":")
        try:
            function = getattr(importlib.import_module(module), name)
            given = {"spark": session} if "spark" in inspect.signature(function).parameters else {}
            clock = time.monotonic()
            value = function(**given, **request["arguments"])
            answer = {"seconds": time.monotonic() - clock, "value": value}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).strip()[:400]}"}
        print(ANSWER + json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

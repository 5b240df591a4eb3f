"""The driver of a Spark that stays ready: its JVM, its sessions, and one run after another in them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sluicegate.jobs import run_job
from sluicegate.spark import warm_gateway
from sluicegate.spark.session import SharedSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import Pipeline
    from sluicegate.lake.layout import Lake
    from sluicegate.settings import Settings


# Exit codes after which the JVM is sound: of success, of a user's mistake, and of a broken expectation.
SOUND = (0, 2, 3)

# Beginnings of variables that Spark sets for its own Python when it starts.
_OF_SPARK = ("SPARK_", "PYSPARK_")


class WarmDriver:
    """Runs jobs ``run`` in one JVM, which begins to start at once.

    Args:
        settings: where things are.
        jvm_ended: called, from another thread, when the JVM has ended, by a kill for want of memory, say.
    """

    def __init__(self, settings: Settings, jvm_ended: Callable[[], None]) -> None:
        self._settings, self._jvm_ended = settings, jvm_ended
        self._output = _JvmOutput()
        self._error: BaseException | None = None
        self._shared: dict[tuple[str, str, bool], SharedSpark] = {}
        self._opening = threading.Thread(target=self._open, name="spark", daemon=True)
        self._opening.start()

    def run(self, arguments: Sequence[str], channel: Mapping[str, str], output: int) -> int:
        """Do a run.

        Args:
            arguments: the command line of the job.
            channel: variables that give it the channel of its parent.
            output: open file for what it prints, which is closed at its end.

        Returns:
            its exit code.
        """
        # A lake may have been removed and made anew since: what Delta remembers of its tables is of the former one.
        warm_gateway.forget_tables()
        with _print_to(output), self._output.pass_to(output), restore_process():
            os.environ.update(channel)
            try:
                code = run_job.main(arguments, self._spark_of)
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 1
        os.close(output)
        return code

    def is_sound(self, code: int) -> bool:
        """Return whether another run can follow one that ended with this exit code."""
        return code in SOUND and self._error is None and not warm_gateway.has_stopped()

    def _open(self) -> None:
        try:
            jvm = warm_gateway.launch(self._settings, self._output.writing)
        except BaseException as error:
            self._error = error
            return
        threading.Thread(target=self._watch, args=(jvm,), name="jvm", daemon=True).start()

    def _watch(self, jvm: subprocess.Popen[bytes]) -> None:
        jvm.wait()
        self._jvm_ended()

    def _wait_until_open(self) -> None:
        """Wait until the JVM has started.

        Raises:
            SluicegateError: it could not be started.
        """
        self._opening.join()
        if self._error is not None:
            raise self._error

    def _spark_of(self, pipeline: Pipeline, lake: Lake) -> SharedSpark:
        """Return the same Spark for each run of a pipeline: Spark keeps each session in which a stream ran."""
        key = (lake.root, pipeline.name, bool(pipeline.pii))
        if key not in self._shared:
            self._shared[key] = _WarmSpark(pipeline, lake, self._wait_until_open)
        return self._shared[key]


class _WarmSpark(SharedSpark):
    """Spark of a pipeline's runs in a JVM that may still be starting.

    Args:
        pipeline: the definition.
        lake: the lake that the runs write to.
        opened: waits until the JVM has started.
    """

    def __init__(self, pipeline: Pipeline, lake: Lake, opened: Callable[[], None]) -> None:
        super().__init__(pipeline.name, lake, private=bool(pipeline.pii))
        self._wait = opened

    def _open(self) -> SparkSession:
        self._wait()
        return super()._open()


class _JvmOutput:
    """What the JVM prints: for the client during a run, in this process's log between two runs.

    Attributes:
        writing: open file that the JVM writes to.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self._log = os.dup(2)
        self._target = self._log
        self._passing = threading.Lock()
        threading.Thread(target=self._pass_on, name="output", daemon=True).start()

    @contextmanager
    def pass_to(self, output: int) -> Iterator[None]:
        """Pass what is printed to a client within the block."""
        self._redirect(output)
        try:
            yield
        finally:
            self._redirect(self._log)

    def _redirect(self, target: int) -> None:
        with self._passing:
            self._target = target

    def _pass_on(self) -> None:
        while data := os.read(self._reading, 65536):
            with self._passing:
                _write_all(self._target, data)


def _write_all(file: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:  # the client is gone, or the disk with the log is full
        return


@contextmanager
def restore_process() -> Iterator[None]:
    """Restore what a user's function may have changed of this process: variables, working folder and import path."""
    variables, folder, path = dict(os.environ), os.getcwd(), list(sys.path)
    try:
        yield
    finally:
        for name in os.environ.keys() - variables.keys():
            if not name.startswith(_OF_SPARK):
                del os.environ[name]
        os.environ.update(variables)
        with suppress(OSError):  # it was removed: a run in a new folder of that name has another fingerprint
            os.chdir(folder)
        sys.path[:] = path


@contextmanager
def _print_to(output: int) -> Iterator[None]:
    """Print to a client within the block, whatever of this process prints: Python, or a library of C."""
    sys.stdout.flush()
    sys.stderr.flush()
    former = os.dup(1), os.dup(2)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, file in enumerate(former, 1):
            os.dup2(file, number)
            os.close(file)

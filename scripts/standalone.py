"""A standalone Spark cluster on this machine, by the programs that PySpark brings: ``python -m scripts.standalone``.

One master and some workers on loopback, on free ports, until Ctrl-C. Tests and benches start theirs here too.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from sluicegate.spark import class_archive, java

LOOPBACK = "127.0.0.1"
STARTED, REGISTERED = r"Starting Spark master at (spark://\S+)", r"Successfully registered with master"
LONGEST_START = 300.0  # seconds


@dataclass
class Cluster:
    """A master and its workers, each in a process group of its own together with the executors that it starts.

    Attributes:
        folder: takes what they write.
        master: its address, for ``--master``.
        workers: those that were started, killed ones too.
    """

    folder: Path
    master: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _master: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What those who submit jobs to it add to their environment."""
        return {"SLUICEGATE_MASTER": self.master, "SPARK_LOCAL_IP": LOOPBACK}

    def start(self) -> None:
        """Starts the master."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._master, log = self._run("master.Master", "master")
        self.master = _wait_for_log(self._master, log, STARTED)

    def add_worker(self, cores: int = 1, memory: str = "1g") -> None:
        """Starts another worker, and comes back when the master knows it.

        Args:
            cores: how many tasks it runs at a time.
            memory: what it gives to executors, with a unit.
        """
        name = f"worker-{len(self.workers) + 1}"
        work = ["--work-dir", str(self.folder / name), "--cores", str(cores), "--memory", memory, self.master]
        worker, log = self._run("worker.Worker", name, *work)
        self.workers.append(worker)
        _wait_for_log(worker, log, REGISTERED)

    def kill_worker(self, number: int) -> None:
        """Takes a worker and its executors away, as a machine goes that loses its power.

        Args:
            number: which, counted from 0.
        """
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()

    def executors(self, number: int) -> int:
        """How many executors a worker has started so far, those of ended jobs too."""
        return len(list((self.folder / f"worker-{number + 1}").glob("app-*/*/stderr")))

    def stop(self) -> None:
        """Ends all of it at once; there is nothing in it to be kept."""
        for process in filter(None, [*self.workers, self._master]):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _run(self, program: str, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        home, log = java.spark_home(), self.folder / f"{name}.log"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", "--host", LOOPBACK]
        # No settings of jobs, and no path to this package: what executors need comes with each job.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(class_archive.conf_folder()),
                        "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}  # fmt: skip
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--port", "0", "--webui-port", "0", *arguments],
                env=environment, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return process, log


def _wait_for_log(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """Waits until a process has logged something, and gives it.

    Raises:
        RuntimeError: it ended, or took too long.
    """
    deadline = time.monotonic() + LONGEST_START
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[found.re.groups]
        time.sleep(0.1)
    raise RuntimeError(f"Spark did not start:\n{log.read_text(errors='replace')[-3000:]}")


@contextmanager
def cluster(folder: Path, workers: int, memory: str = "1g") -> Iterator[Cluster]:
    """A cluster that is there as long as this context.

    Args:
        folder: takes what it writes.
        workers: how many, of one core each.
        memory: what each worker gives to executors.
    """
    started = Cluster(folder)
    try:
        started.start()
        for _ in range(workers):
            started.add_worker(memory=memory)
        yield started
    finally:
        started.stop()


def main() -> None:
    """Starts a cluster and keeps it until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=2, help="how many, of one core each")
    parser.add_argument("--memory", default="1g", help="what each gives to executors")
    arguments = parser.parse_args()
    with (
        TemporaryDirectory(prefix="spark-") as folder,
        cluster(Path(folder), arguments.workers, memory=arguments.memory) as it,
    ):
        print(*(f"export {key}={value}" for key, value in it.environment.items()), sep="\n", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()

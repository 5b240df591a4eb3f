from __future__ import annotations

import fcntl
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.errors import UserError
from sluicegate.launch import warm_job, warm_spark
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture
def place(short_temporary_folder: Path, tmp_path: Path) -> warm_spark.Place:
    return warm_spark.Place.from_lake(str(tmp_path / "lake"))


@pytest.fixture
def server(place: warm_spark.Place) -> Iterator[socket.socket]:
    """A socket in place of a warm Spark's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(place.address))
        listening.listen()
        yield listening


def _close_next(server: socket.socket) -> None:
    server.accept()[0].close()


def test_a_log_that_cannot_be_written_leaves_the_run_to_a_spark_of_its_own(
    place: warm_spark.Place, tmp_path: Path
) -> None:
    place.log.symlink_to(tmp_path / "elsewhere")
    lines: list[str] = []
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines", "local[2]")
    assert warm_job.start([], settings, {}, 1.0, lines.append) is None
    assert [line for line in lines if str(place.log) in line]


def test_an_interrupted_start_leaves_no_process(
    tmp_path: Path, place: warm_spark.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        return started[0]

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("subprocess.Popen", start)
    monkeypatch.setattr("time.sleep", interrupt)
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines", "local[2]")
    try:
        with pytest.raises(KeyboardInterrupt):
            warm_job.start([], settings, {}, 1.0, print)
        monkeypatch.undo()
        assert started[0].wait(timeout=5) == -signal.SIGKILL
    finally:
        started[0].kill()
        started[0].wait()


def test_nothing_is_stopped_where_none_listens(tmp_path: Path, place: warm_spark.Place) -> None:
    assert warm_job.stop(str(tmp_path / "lake")) == "none"


def test_a_spark_that_ends_while_it_is_asked_to_stop_has_stopped(tmp_path: Path, server: socket.socket) -> None:
    thread = threading.Thread(target=_close_next, args=(server,))
    thread.start()
    assert warm_job.stop(str(tmp_path / "lake")) == "stopped"
    thread.join()


def test_a_spark_that_does_not_end_is_no_stopped_one(
    tmp_path: Path, place: warm_spark.Place, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_job, "PATIENCE", 0.1)
    with place.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="not ended"):
            warm_job.stop(str(tmp_path / "lake"))


def test_stop_says_that_the_folder_is_open_to_others(tmp_path: Path, place: warm_spark.Place) -> None:
    place.folder.chmod(0o777)
    with pytest.raises(UserError, match="by others"):
        warm_job.stop(str(tmp_path / "lake"))


def test_a_file_of_the_working_folder_is_no_module_of_the_spark_that_stays_ready(
    short_temporary_folder: Path, place: warm_spark.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may land a file beside a run's data must not run code in it; here it ends as another has the lock."""
    monkeypatch.setenv("TMPDIR", str(short_temporary_folder))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n")
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines", "local[2]")
    with place.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert warm_job.start([], settings, {}, 1.0, print) is None
    assert not (tmp_path / "imported").exists()
    assert place.log.read_text() == ""

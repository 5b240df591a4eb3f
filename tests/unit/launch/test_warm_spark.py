from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from sluicegate.errors import UserError
from sluicegate.jobs import warm
from sluicegate.jobs.imported_files import ImportedFiles
from sluicegate.jobs.warm import Listener
from sluicegate.jobs.warm_driver import restore_process
from sluicegate.launch import warm_spark
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture
def place(short_temporary_folder: Path) -> warm_spark.Place:
    return warm_spark.Place.from_lake("/a/lake")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines", "local[2]")


@pytest.mark.parametrize(
    ("text", "expected"), [("", 10.0), ("0", 0.0), ("0.5", 0.5), ("1440", 1440.0)]
)  # fmt: skip
def test_minutes(text: str, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("AIRFLOW_CTX_DAG_ID", raising=False)
    monkeypatch.setenv(warm_spark.MINUTES, text)
    assert warm_spark.minutes() == expected


@pytest.mark.parametrize("text", ["-1", "1441", "ten", "nan", "inf"])
def test_minutes_that_are_not_minutes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(warm_spark.MINUTES, text)
    with pytest.raises(UserError, match=warm_spark.MINUTES):
        warm_spark.minutes()


@pytest.mark.parametrize("variable", ["CI", "AIRFLOW_CTX_DAG_ID"])
def test_no_spark_stays_where_nobody_waits_unless_asked(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv(warm_spark.MINUTES, "")
    assert warm_spark.minutes() == 0.0
    monkeypatch.setenv(warm_spark.MINUTES, "3")
    assert warm_spark.minutes() == 3.0


def test_a_lake_has_a_place_of_its_own_in_a_private_folder(place: warm_spark.Place) -> None:
    assert place == warm_spark.Place.from_lake("/a/lake")
    assert place != warm_spark.Place.from_lake("/another/lake")
    assert place.folder.stat().st_mode & 0o777 == 0o700
    assert place.connection() is None
    assert not place.is_running()


def test_a_folder_that_others_can_write_to_is_refused(place: warm_spark.Place) -> None:
    place.folder.chmod(0o777)
    with pytest.raises(PermissionError):
        warm_spark.Place.from_lake("/a/lake")


@pytest.mark.parametrize(("surplus", "fits"), [(0, True), (1, False)])
def test_a_folder_longer_than_LONGEST_FOLDER_is_refused(
    short_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch, surplus: int, fits: bool
) -> None:
    length = warm_spark.LONGEST_FOLDER - len(f"{short_temporary_folder}//sluicegate-warm-{os.getuid()}") + surplus
    folder = short_temporary_folder / ("x" * length)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    if fits:
        Listener(warm_spark.Place.from_lake("/a/lake"), "ours", warm.ImportedFiles())
    else:
        with pytest.raises(OSError, match="too long"):
            warm_spark.Place.from_lake("/a/lake")


def test_a_link_in_place_of_the_folder_is_refused(place: warm_spark.Place, tmp_path: Path) -> None:
    place.folder.rename(tmp_path / "elsewhere")
    place.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        warm_spark.Place.from_lake("/a/lake")


def test_jobs_that_a_warm_spark_can_do(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert warm_spark.can_serve("run", settings)
    assert not warm_spark.can_serve("catalog", settings)
    assert not warm_spark.can_serve("run", Settings.of(master="spark://host:7077"))
    assert not warm_spark.can_serve("run", Settings.of(master="sc://host:15002"))
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert not warm_spark.can_serve("run", settings)


def test_the_fingerprint_follows_what_a_spark_cannot_change(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    former = warm_spark.fingerprint(settings)
    monkeypatch.setenv("TERM_SESSION_ID", "of another window")
    monkeypatch.setenv("OLDPWD", "/elsewhere")
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setenv(warm_spark.MINUTES, "3")
    assert warm_spark.fingerprint(settings) == former
    with monkeypatch.context() as patch:
        patch.setenv("AWS_REGION", "eu-north-1")
        assert warm_spark.fingerprint(settings) != former
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        assert warm_spark.fingerprint(settings) != former
    assert warm_spark.fingerprint(Settings.of(settings.lake, master="local[1]")) != former
    mask = os.umask(0o077)
    try:
        os.umask(0o027)
        private = warm_spark.fingerprint(settings)
        os.umask(0o002)
        assert warm_spark.fingerprint(settings) != private
        assert os.umask(mask) == 0o002
    finally:
        os.umask(mask)
    assert warm_spark.fingerprint(settings) == former


def test_the_fingerprint_follows_a_working_folder_that_was_made_anew(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    former = warm_spark.fingerprint(settings)
    folder.rename(tmp_path / "former")
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert warm_spark.fingerprint(settings) != former


def test_a_run_leaves_the_process_to_the_next_one_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHANGED_BY_A_RUN", "former")
    monkeypatch.setenv("REMOVED_BY_A_RUN", "former")
    variables, folder, path = dict(os.environ), Path.cwd(), list(sys.path)
    with restore_process():
        os.environ["CHANGED_BY_A_RUN"] = os.environ["ADDED_BY_A_RUN"] = "new"
        del os.environ["REMOVED_BY_A_RUN"]
        os.chdir(tmp_path)
        sys.path.insert(0, str(tmp_path))
    assert (dict(os.environ), Path.cwd(), sys.path) == (variables, folder, path)


def test_variables_that_spark_sets_when_it_starts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_BUFFER_SIZE", "")
    monkeypatch.delenv("SPARK_BUFFER_SIZE")
    with restore_process():
        os.environ["SPARK_BUFFER_SIZE"] = "65536"
    assert os.environ["SPARK_BUFFER_SIZE"] == "65536"


@pytest.mark.parametrize("name", ["HISTORY_DAYS", "PROMPT_VERSION", "TERMS_FILE", "SSH_KEY_FILE", "GPG_RECIPIENT"])
def test_a_variable_that_begins_as_one_of_a_terminal_does_matters(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = warm_spark.fingerprint(settings)
    monkeypatch.setenv(name, "1")
    assert warm_spark.fingerprint(settings) != former


def _ask(place: warm_spark.Place, message: dict[str, object], *files: int) -> dict[str, object]:
    connection = place.connection()
    assert connection is not None
    with connection:
        warm_spark.send(connection, message, files)
        return warm_spark.receive(connection)[0]


def test_a_listener_hands_over_one_run_at_a_time(place: warm_spark.Place) -> None:
    listener = Listener(place, "ours", ImportedFiles())
    reading, writing = os.pipe()
    client = place.connection()
    assert client is not None
    request: dict[str, object] = {"fingerprint": "ours", "arguments": ["--pipeline", "p"], "channel": {"A": "b"}}
    warm_spark.send(client, request, [writing])
    assert warm_spark.receive(client)[0] == {"pid": os.getpid()}
    os.close(writing)
    run = listener.runs.get(timeout=5)
    assert run is not None
    assert (run.arguments, run.channel) == (["--pipeline", "p"], {"A": "b"})

    assert _ask(place, request, reading) == {"refused": "busy"}
    assert _ask(place, {"stop": True}) == {"refused": "busy"}
    assert not listener.try_close()

    os.write(run.output, b"a line\n")
    os.close(run.output)
    assert os.read(reading, 100) == b"a line\n"
    assert os.read(reading, 100) == b""
    run.end(3)
    assert warm_spark.receive(client)[0] == {"code": 3}
    client.close()
    listener.take_next()

    assert _ask(place, {**request, "fingerprint": "another"}, reading) == {"refused": "other"}
    assert listener.runs.get(timeout=5) is None
    assert _ask(place, request, reading) == {"refused": "busy"}  # it ends, and takes no further run
    os.close(reading)


def test_a_listener_ends_where_a_module_that_a_run_imported_has_changed(
    place: warm_spark.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "library_of_transforms.py"
    file.write_text("RATE = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, file.stem, importlib.import_module(file.stem))
    imported = ImportedFiles()
    imported.note()
    assert not imported.have_changed()
    listener = Listener(place, "ours", imported)
    file.write_text("RATE = 20\n", encoding="utf-8")
    reading, writing = os.pipe()
    request: dict[str, object] = {"fingerprint": "ours", "arguments": [], "channel": {}}
    assert _ask(place, request, writing) == {"refused": "other"}
    assert listener.runs.get(timeout=5) is None
    os.close(reading)
    os.close(writing)


def test_a_listener_closes_at_once_where_no_run_is_at_work(place: warm_spark.Place) -> None:
    listener = Listener(place, "ours", ImportedFiles())
    listener.close_when_idle()
    assert listener.runs.get(timeout=5) is None
    assert _ask(place, {"stop": True}) == {"refused": "busy"}


def test_a_listener_with_a_run_at_work_does_not_close(place: warm_spark.Place) -> None:
    listener = Listener(place, "ours", ImportedFiles())
    reading, writing = os.pipe()
    client = place.connection()
    assert client is not None
    warm_spark.send(client, {"fingerprint": "ours", "arguments": [], "channel": {}}, [writing])
    run = listener.runs.get(timeout=5)
    assert run is not None
    listener.close_when_idle()
    assert listener.runs.empty()
    run.end(0)
    client.close()
    for file in (reading, writing, run.output):
        os.close(file)


@pytest.mark.parametrize("message", [b"", b"\n", b"[]\n", b"nonsense\n", b'{"fingerprint": "ours"}\n'])
def test_a_listener_goes_on_after_what_is_not_a_request(place: warm_spark.Place, message: bytes) -> None:
    listener = Listener(place, "ours", ImportedFiles())
    connection = place.connection()
    assert connection is not None
    connection.sendall(message)
    connection.close()
    request: dict[str, object] = {"fingerprint": "ours", "arguments": [], "channel": {}}
    reading, writing = os.pipe()
    for _ in range(50):  # until the former connection has been answered
        client = place.connection()
        assert client is not None
        warm_spark.send(client, request, [writing])
        answer, _ = warm_spark.receive(client)
        if "pid" in answer:
            break
    assert client is not None
    assert answer == {"pid": os.getpid()}
    run = listener.runs.get(timeout=5)
    assert run is not None
    run.end(0)
    client.close()
    for file in (reading, writing, run.output):
        os.close(file)


def test_a_long_message_arrives_whole() -> None:
    here, there = socket.socketpair()
    message: dict[str, object] = {"arguments": ["a" * 200_000]}
    sender = threading.Thread(target=warm_spark.send, args=(here, message))
    sender.start()
    assert warm_spark.receive(there) == (message, [])
    sender.join()
    here.close()
    assert warm_spark.receive(there) == ({}, [])
    there.close()


@pytest.mark.parametrize(
    ("total_kib", "available_kib", "short"),
    [
        (64 * 2**20, 2**20 - 1, True),
        (64 * 2**20, 2**20, False),
        (4_000_000, 399_999, True),
        (4_000_000, 400_000, False),
    ],
)
def test_memory_is_short_below_SHORT_BYTES_and_SHORT_PART(total_kib: int, available_kib: int, short: bool) -> None:
    text = f"MemTotal:       {total_kib} kB\nMemFree:  1 kB\nMemAvailable:   {available_kib} kB\nHugePages_Total: 0\n"
    assert warm.is_short(text) == short


@pytest.mark.parametrize("text", ["MemTotal:       16 kB\nMemFree:  1 kB\n", "MemTotal:\n", ""])
def test_memory_is_not_short_where_the_system_does_not_say(text: str) -> None:
    assert not warm.is_short(text)


@pytest.mark.parametrize(("missing", "many"), [(1, False), (0, False), (-1, True)])
def test_files_are_many_from_FILES_PART_of_the_limit(missing: int, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _limit: (100, 1000))
    monkeypatch.setattr("os.listdir", lambda _folder: ["file"] * (50 - missing))
    assert warm.has_many_files() == many


@pytest.mark.parametrize(("surplus", "arrives"), [(0, True), (1, False)])
def test_a_message_of_more_than_LONGEST_MESSAGE_is_refused(surplus: int, arrives: bool) -> None:
    here, there = socket.socketpair()
    message = {"a": "x" * (warm_spark.LONGEST_MESSAGE - len('{"a": ""}\n') + surplus)}

    def send() -> None:
        with contextlib.suppress(OSError):
            warm_spark.send(here, message)

    sender = threading.Thread(target=send)
    sender.start()
    if arrives:
        assert warm_spark.receive(there)[0] == message
    else:
        with pytest.raises(ValueError, match="message"):
            warm_spark.receive(there)
    there.close()
    sender.join()
    here.close()

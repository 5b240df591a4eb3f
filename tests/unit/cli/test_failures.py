"""No command ends with a traceback, whatever its arguments, its folders, its settings and its streams are."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.cli import app, failures
from tests.support.page_world import PageWorld

pytestmark = pytest.mark.unit

PARAMETERS = {name: command.params for name, command in typer.main.get_command(app.app).commands.items()}  # type: ignore[attr-defined]

# Options that never end, and the one that asks a server.
LEFT_OUT = {"--watch", "--continuous", "--remote", "--help"}

GOOD = {"pipeline": "heart_rate", "table": "recordings_enriched", "query": "SELECT * FROM heart_rate.recordings_bronze"}
GOOD |= {"source": "landing", "subject": "heart_rate", "listed": "listed.csv", "folder": "project", "name": "fresh"}

# No folder outside of the copy is in these: commands write there.
WORDS = [
    "heart_rate", "recordings_bronze", "daily_patient_avg", "nothing", "new\nline", "-x", "--", "", "é", "a" * 300, "0",
    "-1", "9" * 30, "1e400", "nan", "2025-13-45", "9999-12-31T23:59:59.999999", "-4s", "a=b", "=", "**", "[",
    "SELECT nothing FROM heart_rate.recordings_bronze", "SELECT", "DROP TABLE x", "export", "SG208", "\udcff",
]  # fmt: skip
PLACES = [
    "file", "file/below", "dangling", "loop", "new\nline", "a" * 255, "a" * 256, "a/" * 2100, "\udcff\udcfe", "-lead",
    "/proc/nothing", "", ".", "a::b", "s3://", "://", "file:", "memory://x",
    "abfss://c@a/x", "gs://b/x", "zip://x::y", "binary", "lake", "landing", "pipelines",
]  # fmt: skip
TOML = [
    b"", b"\x00", b"\xff\xfe", b"lake = ", b"lake = 1\n", b'lake = ""\n', b"[targets]\n1=2\n", b"targets = []\n",
    b'lake = "\\u0000"\n', b'lake = "gs://x"\n', b'lake = "a"\nlake = "b"\n', b"lake = inf\n", b"a=" + b"[" * 5000,
    b"a = " + b"9" * 5000 + b"\n", b'[targets.prod]\nlake = "x"\n', b'master = "sc://"\n',
]  # fmt: skip
YAML = [
    b"", b"\x00\xff", b"- 1\n", b"null", b"name: a\n\tb: c\n", b"&a [*a]", b"bronze: &b\n  t: *b\n", b"a: *b\n",
    b"bronze: 1\n", b"bronze: {1: {path: x}}\n", b"? [a]\n: b\n", b"bronze: {2024-01-01: {path: x, format: json}}\n",
    b"a: 1\na: 2\n", b"bronze: {t: {path: 2024-13-45, format: 1e999}}\n", b"x: " + b"9" * 5000, b"x: 0x" + b"f" * 5000,
    b"x: !!python/object:os.system {}\n", b"a: b\n---\nc: d\n", b"[" * 100_000, b"{" * 5000, b'a: "\\ud800"\n',
    b"bronze: {null: null}\nsilver: {true: {sql: x}}\n", b"<<: 1\n", b'a: !!binary "%"\n', b"targets: {1: 2}\n",
    b'a: !!bool "q"\n',
    "bronze: {}".encode("utf-16"), b'bronze: {t: {path: "a\\0b", format: json}}\n',
]  # fmt: skip


def _loop(path: Path) -> None:
    path.symlink_to(path)


DAMAGES: list[Callable[[Path], object]] = [
    Path.mkdir,
    _loop,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(bytes(range(256))),
    lambda path: path.symlink_to("nowhere/x"),
    lambda path: None,
]
SPOTS = [
    "lake", "lake/heart_rate", "lake/heart_rate/bronze/recordings_bronze/_delta_log", "lake/heart_rate/_events",
    "lake/heart_rate/bronze/recordings_bronze/_delta_log/00000000000000000000.json", "landing", "landing/recordings",
    "lake/heart_rate/silver/recordings_enriched", "project", "project/docs", "lake/_renames", "lake/heart_rate/_target",
    "pipelines",
    "pipelines/heart_rate", "pipelines/heart_rate/pipeline.yaml", "pipelines/heart_rate/recordings_enriched.sql",
    "pipelines/heart_rate/tests", "sluicegate.toml",
]  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    PageWorld.at(folder, runs=1)
    for name in ("file", "new\nline", "a" * 255, os.fsdecode(b"\xff\xfe"), "-lead"):
        (folder / name).write_text("a,b\n1,2\n")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "dangling").symlink_to("nowhere/x")
    _loop(folder / "loop")
    return folder


@pytest.fixture(scope="module")
def no_java() -> Iterator[None]:
    """Let no command start Spark, and each unexpected error be raised."""
    folder, environment, arguments = Path.cwd(), dict(os.environ), sys.argv
    os.environ.update(JAVA_HOME="/nowhere", PATH="/nowhere", SLUICEGATE_DEBUG="1")
    yield
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(sorted(PARAMETERS)))
    words = [name]
    for parameter in PARAMETERS[name]:
        odd = st.sampled_from(WORDS + PLACES)
        if parameter.param_type_name == "argument":
            if parameter.name in GOOD:
                odd = st.one_of(*[st.just(GOOD[parameter.name])] * 6, odd)
            words.append(draw(odd))
        elif parameter.opts[-1] not in LEFT_OUT and draw(st.integers(0, 7)) == 0:
            words.append(parameter.opts[-1])
            if not parameter.is_flag:
                words.append(draw(odd))
    return words


def _run(folder: Path, words: list[str]) -> tuple[int, str]:
    """Run a command in this process; an unexpected error is raised."""
    os.chdir(folder)
    output = io.StringIO()
    sys.argv = ["sluicegate", *words]
    with redirect_stdout(output), redirect_stderr(output), pytest.raises(SystemExit) as ended:
        app.main()
    return int(ended.value.code or 0), output.getvalue()


def _copy(template: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)
    return folder


@settings(max_examples=int(os.environ.get("SLUICEGATE_EXAMPLES", 1)) * 25, deadline=None)
@given(command_lines(), st.sampled_from([*SPOTS, None]), st.sampled_from(DAMAGES))
def test_no_traceback_of_odd_arguments_and_folders(
    template: Path,
    no_java: None,
    tmp_path_factory: pytest.TempPathFactory,
    words: list[str],
    spot: str | None,
    damage: Callable[[Path], object],
) -> None:
    folder = _copy(template, tmp_path_factory.getbasetemp() / "copy")
    if spot is not None:
        path = folder / spot
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        damage(path)
    code, output = _run(folder, words)
    assert code in (0, 1, 2, 3)
    assert output or code == 0
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("sluicegate.toml", "settings"),
        ("sluicegate.toml", "plan"),
        ("pipelines/heart_rate/pipeline.yaml", "plan"),
        ("pipelines/heart_rate/pipeline.yaml", "test"),
        ("pipelines/heart_rate/pipeline.yaml", "doctor"),
    ],
)
def test_no_traceback_of_odd_settings_and_definitions(
    template: Path, no_java: None, tmp_path: Path, file: str, command: str
) -> None:
    folder = _copy(template, tmp_path / "copy")
    words = [command, *(["heart_rate"] if command in ("plan", "test") else [])]
    for content in {"sluicegate.toml": TOML}.get(file, YAML):
        (folder / file).write_bytes(content)
        code, output = _run(folder, words)
        assert code in (0, 1, 2, 3)
        assert "Traceback" not in output


@pytest.mark.parametrize("words", [["help"], ["--help"], ["help", "--json"], ["completion", "bash"], ["settings"]])
def test_a_full_disk_behind_the_output_is_one_message(words: list[str], tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m sluicegate.cli {" ".join(words)} >/dev/full'
    ended = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error[SG100]")
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "| true", "2>/dev/full"])
def test_streams_that_are_closed_are_no_failure(closed: str, tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m sluicegate.cli help {closed}'
    ended = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_a_file_beyond_the_limit_of_sizes_is_one_message(template: Path, tmp_path: Path) -> None:
    folder = _copy(template, tmp_path / "copy")
    command = f'ulimit -f 0; trap "" XFSZ; exec "{sys.executable}" -m sluicegate.cli init project --json'
    ended = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "file too large" in json.loads(ended.stdout)["error"]["message"]
    assert ended.stderr == ""


@pytest.mark.parametrize("seconds", [0.2, 0.4, 0.8])
def test_ctrl_c_is_no_traceback_also_while_modules_are_imported(seconds: float, tmp_path: Path) -> None:
    code = "import sluicegate.cli.__main__ as program; print(flush=True); program.main()"
    # A shell starts its jobs in the background with the signal ignored, which is inherited.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-c", code, "simulate", "heart_rate", "--continuous"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, former)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Traceback" not in errors


def test_a_module_that_cannot_be_imported_is_one_message(tmp_path: Path) -> None:
    code = "import sys; sys.modules['sluicegate.cli.inspecting.status'] = None\n"
    code += "from sluicegate.cli.__main__ import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "SLUICEGATE_DEBUG"}
    line = [sys.executable, "-c", code, "status", "heart_rate"]
    ended = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error[SG100]")
    assert "Traceback" not in ended.stderr


def test_an_unexpected_error_is_one_message_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sluicegate", "--json"])
    monkeypatch.delenv("SLUICEGATE_DEBUG", raising=False)
    with pytest.raises(SystemExit) as ended:
        failures.end_with(KeyError("\x1b[31mdrum"))
    assert ended.value.code == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], "KeyError" in error["message"], "SLUICEGATE_DEBUG" in error["hint"]) == ("SG100", True, True)
    monkeypatch.setenv("SLUICEGATE_DEBUG", "1")
    with pytest.raises(KeyError):
        failures.end_with(KeyError("drum"))

"""``make setup``: what it asks of a machine, what it fetches, and when it does nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts import setup
from sluicegate.errors import JavaMissing
from sluicegate.spark import jars
from sluicegate.spark import java as spark_java
from tests.conftest import ROOT as REPOSITORY

pytestmark = pytest.mark.unit

GOOD = b"a jar, as far as set-up can tell"
COORDINATE = "org.example:thing_2.13:1.0"

Java = Callable[[Path, str], Path]


@pytest.fixture
def java() -> Java:
    """Puts a java into a folder that prints what it is told."""

    def make(folder: Path, prints: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "java"
        program.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real script, whose one jar lies in a Maven repository beside it; its .venv holds stand-ins
    for uv and the archive step that write down each call."""
    root = tmp_path / "checkout"
    for name in (
        "scripts/setup.py",
        *(
            f"sluicegate/{module}.py"
            for module in (
                "__init__",
                "errors",
                "escapes",
                "project_file",
                "suggestions",
                "settings",
                "spark/__init__",
                "spark/jars",
            )
        ),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, root / name)
    (root / "sluicegate" / "spark" / "jars.lock").write_text(
        f"# comment\n\n{COORDINATE}  thing_2.13-1.0.jar  {hashlib.sha256(GOOD).hexdigest()}\n"
    )
    (root / "sluicegate" / "spark" / "jars-s3.lock").write_text(
        f"org.example:hadoop-aws:1.0  hadoop-aws-1.0.jar  {hashlib.sha256(GOOD).hexdigest()}\n"
    )
    (root / "sluicegate" / "spark" / "jars-kafka.lock").write_text(
        f"org.example:spark-sql-kafka:1.0  spark-sql-kafka-1.0.jar  {hashlib.sha256(GOOD).hexdigest()}\n"
    )
    (root / "pyproject.toml").write_text('[tool.uv]\nrequired-version = "==9.9.9"\n')
    (root / "uv.lock").write_text("")
    publish(tmp_path, GOOD)

    bin_ = root / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "activate").write_text(f"VIRTUAL_ENV='{root / '.venv'}'\n")
    script(bin_ / "uv", f'[ "$1" = --version ] && echo "uv 9.9.9" || echo "uv $1" >> {root}/calls')
    script(
        bin_ / "python",
        f"""
        case "$*" in
          -V) echo Python {setup._dotted_version()} ;;
          "-m compileall -q sluicegate") echo compile >> {root}/calls ;;
          *--make-archive) echo archive >> {root}/calls; [ ! -e {root}/broken ] || {{ echo no room >&2; exit 1; }}
            touch {root}/.jars/spark.jsa ;;
          *) echo "$@" >> {root}/calls; exit 1 ;;
        esac
        """,
    )
    return root


def script(file: Path, body: str) -> None:
    file.write_text("#!/bin/sh\n" + textwrap.dedent(body).strip() + "\n")
    file.chmod(0o755)


def publish(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "maven" / "org" / "example" / "thing_2.13" / "1.0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "thing_2.13-1.0.jar").write_bytes(content)


def run(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script as make runs it, with a good java unless PATH or JAVA_HOME say otherwise."""
    fake = root / "java17" / "bin"
    fake.mkdir(parents=True, exist_ok=True)
    script(fake / "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    given = {"PATH": os.defpath, "JAVA_HOME": str(fake.parent), "SLUICEGATE_MAVEN": (root.parent / "maven").as_uri()}
    return subprocess.run(
        [sys.executable, "-m", "scripts.setup", *arguments],
        cwd=root, env=given | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def calls(root: Path) -> list[str]:
    """What set-up has had done since the last look."""
    file = root / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


# What a machine must have


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 7), (3, 13, 99)])
def test_a_python_of_a_supported_version_is_taken(version: tuple[int, int, int]) -> None:
    setup.check_python(version)


@pytest.mark.parametrize("version", [(3, 10, 14), (3, 14, 0), (2, 7, 18)])
def test_another_python_is_refused_with_the_way_out(version: tuple[int, int, int]) -> None:
    with pytest.raises(setup.Stop) as stop:
        setup.check_python(version)
    assert stop.value.exit_code == 2
    (sentence,) = stop.value.sentences
    assert f"this is {'.'.join(map(str, version))}" in sentence
    assert "make setup PYTHON=" in sentence


@pytest.mark.parametrize(
    ("printed", "release"),
    [("1.8.0_292", 8), ("11.0.22", 11), ("17", 17), ("17.0.15", 17), ("21.0.3+9-LTS", 21), ("25-ea", 25), ("?", 0)],
)
def test_the_release_in_a_java_version(printed: str, release: int) -> None:
    assert setup.java_release(printed) == release


def test_java_home_comes_before_path(tmp_path: Path, java: Java) -> None:
    java(tmp_path / "path", 'openjdk version "21.0.1" 2023-10-17')
    home = java(tmp_path / "home" / "bin", 'Picked up JAVA_TOOL_OPTIONS: -Da=b\nopenjdk version "17.0.2" 2022-01-18')
    path = {"PATH": f"{tmp_path / 'path'}:{os.defpath}"}
    assert setup.find_java(path).version == "21.0.1"
    assert setup.find_java({**path, "JAVA_HOME": str(tmp_path / "home")}) == setup.Java(home.resolve(), "17.0.2")


def test_an_old_java_is_refused(checkout: Path, tmp_path: Path, java: Java) -> None:
    java(tmp_path / "old", 'openjdk version "11.0.22" 2024-01-16')
    done = run(checkout, PATH=str(tmp_path / "old"), JAVA_HOME="")
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("setup: Spark needs Java 17 or newer, but ")
    assert f"{tmp_path}/old/java is Java 11.0.22: install one (" in sentence
    assert calls(checkout) == []


@pytest.mark.parametrize(
    ("version", "beyond"),
    [("1.8.0_292", -9), ("16.0.2", -1), ("17", 0), ("17.0.15", 0), ("17-ea", 0), ("18.0.1+9", 1), ("25-ea", 8)],
)
def test_a_job_takes_any_java_from_JAVA_AT_LEAST_on_as_set_up_does(
    tmp_path: Path, java: Java, version: str, beyond: int
) -> None:
    """Told by what it prints, and by the file that most vendors put beside it."""
    assert setup.java_release(version) - spark_java.JAVA_AT_LEAST == beyond
    programs = [java(tmp_path / name / "bin", f'openjdk version "{version}" 2024-01-16') for name in ("said", "told")]
    (tmp_path / "told" / "release").write_text(f'IMPLEMENTOR="N/A"\nJAVA_VERSION="{version}"\n')
    for program in map(str, programs):
        if beyond >= 0:
            assert spark_java.java_version(program) == version
            continue
        with pytest.raises(JavaMissing, match=rf"Spark needs Java 17 or newer, but {program} is Java {version}"):
            spark_java.java_version(program)
    with pytest.raises(JavaMissing, match="does not print its version"):
        spark_java.java_version(str(java(tmp_path / "odd", 'openjdk version "?"')))


@pytest.mark.parametrize(
    ("java_home", "reason"),
    [
        ("", "PATH has no java and JAVA_HOME is not set"),
        ("/nowhere", "JAVA_HOME is /nowhere, where there is no"),
    ],
    ids=["nothing", "wrong JAVA_HOME"],
)
def test_no_java_is_one_sentence(checkout: Path, tmp_path: Path, java_home: str, reason: str) -> None:
    done = run(checkout, PATH=str(tmp_path), JAVA_HOME=java_home)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert reason in done.stderr
    assert "install one" in done.stderr
    assert done.stdout == ""


def test_a_java_that_says_nothing_is_refused(tmp_path: Path, java: Java) -> None:
    java(tmp_path, "The operation couldn’t be completed. Unable to locate a Java Runtime.")
    with pytest.raises(setup.Stop, match="does not print its version"):
        setup.find_java({"PATH": f"{tmp_path}:{os.defpath}"})


def test_all_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(setup.Stop) as stop:
        setup.check_machine()
    venv, java_ = stop.value.sentences
    assert "-venv" in venv
    assert "Java" in java_


# The jars


def test_the_lock_of_this_repository_can_be_read() -> None:
    pinned = jars.read()
    assert [jar.file for jar in pinned] == [jar.path.rsplit("/", 1)[1] for jar in pinned]
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in pinned)


def test_a_jar_with_a_wrong_sum_is_deleted_and_refused(checkout: Path, tmp_path: Path) -> None:
    publish(tmp_path, b"something else")
    done = run(checkout)
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert f"has the SHA-256 sum {hashlib.sha256(b'something else').hexdigest()}, but jars.lock pins" in sentence
    assert "deleted" in sentence
    assert list((checkout / ".jars").iterdir()) == []
    assert not (checkout / ".venv" / ".setup-stamp").exists()


def test_a_jar_that_is_not_there_is_one_sentence(checkout: Path, tmp_path: Path) -> None:
    done = run(checkout, SLUICEGATE_MAVEN=(tmp_path / "elsewhere").as_uri())
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "thing_2.13-1.0.jar could not be downloaded from file://" in done.stderr


def test_a_mirror_must_be_a_url(checkout: Path) -> None:
    done = run(checkout, SLUICEGATE_MAVEN="/some/folder")
    assert done.returncode == 2
    assert "must be an https, http or file URL, not /some/folder" in done.stderr


def test_a_jar_of_an_earlier_lock_and_what_a_killed_set_up_left_goes(checkout: Path) -> None:
    (checkout / ".jars" / ".fetching-1234").mkdir(parents=True)
    (checkout / ".jars" / "thing_2.13-0.9.jar").write_bytes(b"old")
    assert run(checkout).returncode == 0
    assert sorted(file.name for file in (checkout / ".jars").iterdir()) == ["spark.jsa", "thing_2.13-1.0.jar"]


# The whole


def test_the_first_time_does_all_and_the_second_nothing(checkout: Path) -> None:
    first = run(checkout)
    assert (first.returncode, first.stderr) == (0, "")
    assert (checkout / ".jars" / "thing_2.13-1.0.jar").read_bytes() == GOOD
    assert calls(checkout) == ["uv sync", "compile", "archive"]
    assert [line[-2:] for line in first.stdout.splitlines()[1:]] == [" s"] * 4

    second = run(checkout, SLUICEGATE_MAVEN="file:///no/network")
    assert (second.returncode, second.stderr) == (0, "")
    assert calls(checkout) == []
    assert len(second.stdout.splitlines()) == 1

    assert run(checkout, "--force").returncode == 0
    assert calls(checkout) == ["uv sync", "compile", "archive"]


@pytest.mark.parametrize("changed", ["uv.lock", "pyproject.toml", "sluicegate/spark/jars.lock"])
def test_a_changed_pin_sets_up_again(checkout: Path, changed: str) -> None:
    run(checkout)
    calls(checkout)
    with (checkout / changed).open("a") as file:
        file.write("# touched\n")
    assert run(checkout, SLUICEGATE_MAVEN="file:///no/network").returncode == 0
    assert calls(checkout) == ["uv sync", "compile", "archive"]


def test_another_java_sets_up_again(checkout: Path, tmp_path: Path, java: Java) -> None:
    run(checkout)
    calls(checkout)
    java(tmp_path / "java21" / "bin", 'openjdk version "21.0.1" 2023-10-17')
    assert run(checkout, JAVA_HOME=str(tmp_path / "java21")).returncode == 0
    assert calls(checkout) == ["uv sync", "compile", "archive"]


@pytest.mark.parametrize(("extra", "artifact"), [("s3", "hadoop-aws"), ("kafka", "spark-sql-kafka")])
def test_optional_jars_come_when_asked_for_and_stay(checkout: Path, tmp_path: Path, extra: str, artifact: str) -> None:
    folder, file = tmp_path / "maven" / "org" / "example" / artifact / "1.0", f"{artifact}-1.0.jar"
    folder.mkdir(parents=True)
    (folder / file).write_bytes(GOOD)
    run(checkout)
    assert not (checkout / ".jars" / file).exists()
    calls(checkout)
    assert run(checkout, f"--{extra}").returncode == 0
    assert (checkout / ".jars" / file).read_bytes() == GOOD
    assert calls(checkout) == ["uv sync", "compile", "archive"]
    for arguments in ([], [f"--{extra}"]):
        assert run(checkout, *arguments, SLUICEGATE_MAVEN="file:///no/network").returncode == 0
    assert calls(checkout) == []
    run(checkout, "--force")
    assert (checkout / ".jars" / file).exists()


def test_a_damaged_jar_is_fetched_again(checkout: Path) -> None:
    run(checkout)
    (checkout / ".jars" / "thing_2.13-1.0.jar").write_bytes(GOOD[:5])
    assert run(checkout).returncode == 0
    assert (checkout / ".jars" / "thing_2.13-1.0.jar").read_bytes() == GOOD


def test_two_at_once_do_the_work_once(checkout: Path) -> None:
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: run(checkout), range(2)))
    assert [one.returncode for one in done] == [0, 0]
    assert calls(checkout) == ["uv sync", "compile", "archive"]


def test_a_set_up_that_failed_is_not_taken_for_done(checkout: Path) -> None:
    run(checkout)
    calls(checkout)
    script(
        checkout / ".venv" / "bin" / "uv", '[ "$1" = --version ] && echo "uv 9.9.9" || { echo no disk >&2; exit 7; }'
    )
    failed = run(checkout, "--force")
    assert failed.returncode == 1
    assert "Could not install the packages of uv.lock: no disk" in failed.stderr
    assert run(checkout).returncode == 1


def test_without_an_archive_it_warns_once_and_goes_on(checkout: Path) -> None:
    (checkout / "broken").touch()
    first = run(checkout)
    assert first.returncode == 0
    assert "warning: no class-data archive" in first.stdout
    assert "no room" in first.stdout
    calls(checkout)
    assert run(checkout).returncode == 0
    assert calls(checkout) == []


def test_an_archive_step_that_is_killed_without_a_word_is_told(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    run(checkout)
    python.write_text(python.read_text().replace("echo no room >&2; exit 1", "kill -TERM $$"))
    (checkout / "broken").touch()
    (checkout / ".jars" / "spark.jsa").unlink()
    assert "warning: no class-data archive" in (told := run(checkout).stdout)
    assert "it was ended by signal 15" in told


def test_the_archive_can_be_left_to_what_starts_spark(checkout: Path) -> None:
    assert run(checkout, "--without-archive").returncode == 0
    assert calls(checkout) == ["uv sync", "compile"]
    assert run(checkout, "--without-archive", SLUICEGATE_MAVEN="file:///no/network").returncode == 0
    assert calls(checkout) == []
    assert run(checkout, SLUICEGATE_MAVEN="file:///no/network").returncode == 0
    assert calls(checkout) == ["archive"]
    assert run(checkout).returncode == 0
    assert calls(checkout) == []


def test_an_archive_for_other_jars_is_made_again_once_spark_is_started(checkout: Path) -> None:
    run(checkout)
    with (checkout / "sluicegate/spark/jars.lock").open("a") as file:
        file.write("# touched\n")
    calls(checkout)
    run(checkout, "--without-archive")
    assert calls(checkout) == ["uv sync", "compile"]
    run(checkout)
    assert calls(checkout) == ["archive"]


@pytest.mark.parametrize(
    ("goals", "archive"), [("test-unit", False), ("check packages", False), ("check test", True), ("setup", True)]
)
def test_make_leaves_the_archive_where_no_goal_starts_spark(goals: str, archive: bool) -> None:
    # Not the options of the make that may be running this very test.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    planned = subprocess.run(
        ["make", "-n", *goals.split()], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    [command] = [line for line in planned.stdout.splitlines() if "-m scripts.setup" in line]
    assert ("--without-archive" in command) is not archive


def test_a_deleted_archive_is_made_again(checkout: Path) -> None:
    run(checkout)
    calls(checkout)
    (checkout / ".jars" / "spark.jsa").unlink()
    assert run(checkout).returncode == 0
    assert "archive" in calls(checkout)


def test_an_environment_that_was_moved_or_is_of_another_python_is_not_usable(checkout: Path, tmp_path: Path) -> None:
    assert setup._is_usable(checkout / ".venv")
    assert not setup._is_usable(tmp_path / "none")
    (checkout / ".venv").rename(tmp_path / ".venv")
    assert not setup._is_usable(tmp_path / ".venv")
    script(tmp_path / ".venv" / "bin" / "python", "echo Python 3.11.0rc1")
    (tmp_path / ".venv" / "bin" / "activate").write_text(f"VIRTUAL_ENV='{tmp_path / '.venv'}'\n")
    assert not setup._is_usable(tmp_path / ".venv")


def test_another_active_environment_does_not_catch_what_is_for_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/elsewhere")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("SSL_CERT_FILE", "/certificates.pem")
    monkeypatch.delenv("PIP_CERT", raising=False)
    environment = setup.installer_environment(tmp_path)
    assert not {"VIRTUAL_ENV", "PYTHONPATH"} & set(environment)
    assert environment["UV_PROJECT_ENVIRONMENT"] == str(tmp_path / ".venv")
    assert environment["PIP_CERT"] == "/certificates.pem"

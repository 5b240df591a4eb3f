"""Makes everything that Sluicegate needs on this machine, once: ``make setup``.

Looks for Python and Java, makes ``.venv`` from ``uv.lock``, fetches the jars of ``jars.lock`` into ``.jars``, and has
the JVM write its class-data archive. Run again with nothing changed it needs no network and a fraction of a second.
With ``--without-archive`` it leaves the archive, which only makes Spark start sooner, to the next run without that.

Started as ``python -m scripts.setup`` in the checkout; needs the standard library only. Exit 0: all is there; 2:
something is missing or not as pinned, and the message says what to do; 1: a step failed. With ``--s3`` the jars of
``jars-s3.lock`` are fetched, too, with ``--kafka`` those of ``jars-kafka.lock``, and stay from then on.
SLUICEGATE_MAVEN names a Maven repository (``https://…`` or ``file:///…``) to take the jars from instead of Maven
Central.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sluicegate.errors import JavaMissing
from sluicegate.spark.jars import Jar, fetch, missing_jars, read

ROOT = Path(__file__).resolve().parent.parent
PYTHON_OLDEST, PYTHON_NEWEST = (3, 11), (3, 13)
JAVA_OLDEST = 17
PINNED_BY = (
    "uv.lock",
    "pyproject.toml",
    "sluicegate/spark/jars.lock",
    "sluicegate/spark/jars-s3.lock",
    "sluicegate/spark/jars-kafka.lock",
    "sluicegate/spark/jars.py",
    "scripts/setup.py",
)
# Sets of jars that come only when they are asked for, each with a file by which it is known to be there.
OPTIONAL = {"s3": "hadoop-aws-*.jar", "kafka": "spark-sql-kafka-*.jar"}
ARCHIVE = "spark.jsa"
# Notes in the stamp of a set-up.
ARCHIVE_WRITTEN = "with a class-data archive"
NO_ARCHIVE = "without a class-data archive"


class Stop(Exception):
    """Set-up cannot go on: a sentence for each thing that is the matter, with what to do about it.

    Exit code 2 means that something is missing or wrong on this machine, 1 that a step failed.
    """

    def __init__(self, *sentences: str, exit_code: int = 2) -> None:
        super().__init__(*sentences)
        self.sentences = sentences
        self.exit_code = exit_code


@dataclass(frozen=True)
class Java:
    """The Java that Spark will run: the program, links resolved, and its version as it prints it (``17.0.15``)."""

    program: Path
    version: str


def check_python(version: tuple[int, int, int] = sys.version_info[:3]) -> None:
    """Raises Stop unless this Python is one that every dependency has a release for."""
    if PYTHON_OLDEST <= version[:2] <= PYTHON_NEWEST:
        return
    raise Stop(
        f"Python 3.11, 3.12 or 3.13 is needed and this is {_dotted_version(version)} ({sys.executable}): install one of"
        " them and name it, as in `make setup PYTHON=python3.13`."
    )


def check_venv() -> None:
    """Raises Stop if this Python cannot make an environment, as Debian's cannot without a package of its own."""
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise Stop(
            f"This Python ({sys.executable}) comes without its venv module: install it"
            f" (on Debian and Ubuntu: `sudo apt-get install {package}`) and run `make setup` again."
        )


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java of JAVA_HOME, else the one on PATH: the one that spark-submit takes.

    Raises:
        Stop: there is none, or it is older than Spark needs, or it does not run.
    """
    home = environment.get("JAVA_HOME")
    if home:
        program = shutil.which(str(Path(home) / "bin" / "java"))
        trouble = f"JAVA_HOME is {home}, where there is no bin/java"
    else:
        program = shutil.which("java", path=environment.get("PATH", os.defpath))
        trouble = "PATH has no java and JAVA_HOME is not set"
    if program is not None:
        announced = re.search(r'version "([^"]+)"', _program_output([program, "-version"]))
        version = announced[1] if announced else ""
        if java_release(version) >= JAVA_OLDEST:
            return Java(Path(program).resolve(), version)
        trouble = f"{program} is Java {version}" if version else f"{program} does not print its version"
    raise Stop(
        f"Spark needs Java {JAVA_OLDEST} or newer, but {trouble}: install one"
        f" ({_how_to_install('openjdk-17-jre-headless', 'openjdk@17')}) or point JAVA_HOME to one,"
        " and run `make setup` again."
    )


def java_release(version: str) -> int:
    """The release in a Java version: 8 of ``1.8.0_292``, 17 of ``17.0.15``, 25 of ``25-ea``."""
    number = re.match(r"(?:1\.)?(\d+)", version)
    return int(number[1]) if number else 0


def _program_output(command: Sequence[str]) -> str:
    """What a program prints, or nothing if it does not run."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout + answer.stderr


def _how_to_install(debian: str, homebrew: str) -> str:
    if shutil.which("apt-get"):
        return f"`sudo apt-get install {debian}`"
    if shutil.which("brew"):
        return f"`brew install {homebrew}`"
    return f"the package is called {debian} on Debian and Ubuntu, {homebrew} in Homebrew"


def check_machine() -> Java:
    """Looks for all that set-up itself cannot bring.

    Raises:
        Stop: with a sentence for each thing that is missing.
    """
    lacking: list[str] = []
    found: list[Java] = []
    for check in (check_python, check_venv, lambda: found.append(find_java())):
        try:
            check()
        except Stop as stop:
            lacking += stop.sentences
    if lacking:
        raise Stop(*lacking)
    return found[0]


def make_environment(root: Path, extras: Sequence[str] | None = None) -> None:
    """Makes ``.venv`` exactly as ``uv.lock`` says, by the uv that pyproject.toml pins, and compiles all bytecode.

    Sluicegate's own, too: where ``PYTHONDONTWRITEBYTECODE`` is set, each command would compile it anew.

    Args:
        root: the repository.
        extras: the optional parts to install, and nothing of what only developers need; None for all there is.
    """
    venv = root / ".venv"
    if not _is_usable(venv):
        # Whatever lies there is of another Python or was moved, and its programs would start the wrong one.
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], root, "make .venv")
    _bring_uv(root)
    which = ["--all-extras", "--all-groups"]
    if extras is not None:
        which = ["--no-default-groups", *(f"--extra={extra}" for extra in extras)]
    _run([str(venv / "bin" / "uv"), "sync", "--frozen", *which, "--compile-bytecode", "--quiet",
          "--python", str(venv / "bin" / "python")], root, "install the packages of uv.lock")  # fmt: skip
    _run([str(venv / "bin" / "python"), "-m", "compileall", "-q", "sluicegate"], root, "compile sluicegate")


def _is_usable(venv: Path) -> bool:
    python = venv / "bin" / "python"
    try:
        made_in_place = str(venv) in (venv / "bin" / "activate").read_text()
    except OSError:
        return False
    return made_in_place and _program_output([str(python), "-V"]).strip() == f"Python {_dotted_version()}"


def _bring_uv(root: Path) -> None:
    """Installs the pinned uv in ``.venv``, checked against the sums in ``uv.lock``, unless it is there."""
    import tomllib  # not at the top: an older Python must get as far as the message about its age

    bin_ = root / ".venv" / "bin"
    required = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["uv"]["required-version"].lstrip("=")
    if (bin_ / "uv").exists() and _program_output([str(bin_ / "uv"), "--version"]).split()[1:2] == [required]:
        return
    packages = tomllib.loads((root / "uv.lock").read_text())["package"]
    locked = next(package for package in packages if package["name"] == "uv" and package["version"] == required)
    sums = " ".join(f"--hash={wheel['hash']}" for wheel in locked["wheels"])
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "uv.txt"
        wanted.write_text(f"uv=={required} {sums}\n")
        python = str(bin_ / "python")
        _run([python, "-m", "ensurepip"], root, "bring pip into .venv")
        _run([python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
              "--require-hashes", "-r", str(wanted)], root, f"install uv {required}")  # fmt: skip


def _run(command: Sequence[str], root: Path, purpose: str) -> None:
    """Runs a step's command, in silence unless it fails.

    Raises:
        Stop: it failed; the sentence carries the end of what it printed.
    """
    done = subprocess.run(
        command, cwd=root, env=installer_environment(root), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Stop(f"Could not {purpose}: {_trouble(done)}", exit_code=1)


def installer_environment(root: Path) -> dict[str, str]:
    """Environment for uv and pip: the system's certificates, and no Python but those that are there."""
    # Another environment that happens to be active must not catch what is meant for ours.
    strangers = {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "SLUICEGATE_JARS"}
    environment = {name: value for name, value in os.environ.items() if name not in strangers}
    environment |= {"UV_PROJECT_ENVIRONMENT": str(root / ".venv"), "UV_PYTHON_DOWNLOADS": "never"}
    environment.setdefault("UV_SYSTEM_CERTS", "true")
    if certificates := environment.get("SSL_CERT_FILE"):
        environment.setdefault("PIP_CERT", certificates)  # uv honours SSL_CERT_FILE by itself, pip does not
    return environment


def _trouble(done: subprocess.CompletedProcess[str], lines: int = 15) -> str:
    """The end of what a failed command printed; one that a signal ended may have printed nothing."""
    end = f"it was ended by signal {-done.returncode}" if done.returncode < 0 else f"it ended with {done.returncode}"
    return "\n".join((done.stderr or done.stdout).strip().splitlines()[-lines:]) or end


def _dotted_version(version: tuple[int, int, int] = sys.version_info[:3]) -> str:
    return ".".join(map(str, version))


def bring_jars(jars: Sequence[Jar], root: Path, java: Java) -> None:
    """Brings the folder ``.jars`` in line with the lock.

    Raises:
        Stop: a jar cannot be had, or what came is not what the lock pins.
    """
    folder = root / ".jars"
    for left in folder.glob(".fetching-*"):
        shutil.rmtree(left)  # by a set-up that was killed
    spark = next((root / ".venv").glob("lib/python*/site-packages/pyspark"), None)
    try:
        fetch(jars, folder, str(java.program), spark)
    except JavaMissing as error:
        raise Stop(": ".join(filter(None, [error.message, error.hint, error.cause]))) from None
    for stale in set(folder.glob("*.jar")) - {folder / jar.file for jar in jars}:
        stale.unlink()  # of an earlier lock: Spark would load it beside the new one


def make_archive(root: Path) -> str:
    """Has the JVM write its class-data archive; returns why that failed, or nothing: jobs run without it, slower."""
    command = [str(root / ".venv" / "bin" / "python"), "-m", "sluicegate.spark.spark_submit", "--make-archive"]
    done = subprocess.run(
        command, cwd=root, env=installer_environment(root), capture_output=True, text=True, check=False
    )
    return _trouble(done, lines=1) if done.returncode else ""


def fingerprint(root: Path, java: Java) -> str:
    """The sum of all that a finished set-up depends on."""
    facts = hashlib.sha256()
    for name in PINNED_BY:
        facts.update((root / name).read_bytes())
    facts.update(repr((str(root), _dotted_version(), sys.prefix, str(java.program), java.version)).encode())
    return facts.hexdigest()


def is_set_up(root: Path, java: Java, jars: Sequence[Jar]) -> bool:
    """Whether an earlier set-up made the environment and fetched the jars, and they are still there."""
    made_for, *_ = _stamp_lines(root)
    return made_for == fingerprint(root, java) and not missing_jars(jars, root / ".jars")


def _stamp_lines(root: Path) -> list[str]:
    """The lines that the last set-up that was completed left: its fingerprint, and notes."""
    try:
        return (root / ".venv" / ".setup-stamp").read_text().splitlines() or [""]
    except (OSError, ValueError):
        return [""]


def wanted_jars(root: Path, extras: Collection[str]) -> list[Jar]:
    """The jars that are to be there: those for S3 or Kafka where they are asked for, or were once.

    Args:
        root: the repository.
        extras: of ``s3`` and ``kafka`` those that are asked for.
    """
    jars = read(root / "sluicegate" / "spark" / "jars.lock")
    for extra, sign in OPTIONAL.items():
        if extra in extras or any((root / ".jars").glob(sign)):
            jars += read(root / "sluicegate" / "spark" / f"jars-{extra}.lock")
    return jars


@contextmanager
def _step(what: str) -> Iterator[None]:
    """One line: what is done, at once, and the seconds it took when it is done."""
    started = time.perf_counter()
    print(f"  {what:<62}", end="", flush=True)
    try:
        yield
    except BaseException:
        print("   failed", flush=True)
        raise
    print(f" {time.perf_counter() - started:6.1f} s", flush=True)


def set_up(root: Path, force: bool = False, extras: Collection[str] = ()) -> None:
    """Makes the environment and fetches the jars of the repository at ``root`` where they are missing, or ``force``.

    Args:
        root: the repository.
        force: whether to do every step again.
        extras: of ``s3`` and ``kafka`` those whose jars are to be there, too.

    Raises:
        Stop: something is missing that set-up cannot bring, or a step failed.
    """
    started = time.perf_counter()
    java = check_machine()
    jars = wanted_jars(root, extras)
    here = os.open(root, os.O_RDONLY)  # held until this process ends: a second set-up waits, and finds all done
    with suppress(OSError):  # some network file systems lock no folders
        fcntl.flock(here, fcntl.LOCK_EX)
    if not force and is_set_up(root, java, jars):
        print(f"Sluicegate is set up, with Python {_dotted_version()} and Java {java.version}", flush=True)
        return
    stamp = root / ".venv" / ".setup-stamp"
    stamp.unlink(missing_ok=True)
    print(f"Setting up Sluicegate with Python {_dotted_version()} and Java {java.version}", flush=True)
    with _step("packages of uv.lock into .venv (some 700 MB the first time)"):
        make_environment(root)
    with _step(f"pinned jars into .jars ({len(jars)} files)"):
        bring_jars(jars, root, java)
    stamp.write_text(fingerprint(root, java) + "\n")
    print(f"Set up in {time.perf_counter() - started:.1f} s", flush=True)


def set_up_archive(root: Path) -> None:
    """Has the JVM write its class-data archive, unless it did or could not since the jars were set up."""
    notes = _stamp_lines(root)
    is_there = ARCHIVE_WRITTEN in notes and (root / ".jars" / ARCHIVE).is_file()
    if is_there or NO_ARCHIVE in notes:
        return
    with _step("class-data archive of the JVM (once; a minute or two)"):
        trouble = make_archive(root)
    if trouble:
        print(f"  warning: no class-data archive, so each Spark start takes some seconds more: {trouble}")
    with (root / ".venv" / ".setup-stamp").open("a") as stamp:
        stamp.write((NO_ARCHIVE if trouble else ARCHIVE_WRITTEN) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs set-up; returns the exit code."""
    parser = argparse.ArgumentParser(description="Makes .venv and .jars for Sluicegate.")
    parser.add_argument("--force", action="store_true", help="do every step, also if nothing has changed")
    parser.add_argument("--s3", action="store_true", help="fetch the jars for s3a://, too")
    parser.add_argument("--kafka", action="store_true", help="fetch the jars for Kafka, too")
    parser.add_argument("--without-archive", action="store_true", help="do not make the JVM's class-data archive yet")
    parser.add_argument("--packages", nargs="*", metavar="EXTRA", help="make .venv only, of no more than these extras")
    given = parser.parse_args(arguments)
    try:
        if given.packages is None:
            set_up(ROOT, given.force, [extra for extra in OPTIONAL if getattr(given, extra)])
            if not given.without_archive:
                set_up_archive(ROOT)
        else:
            check_venv()
            make_environment(ROOT, given.packages)
    except Stop as stop:
        for sentence in stop.sentences:
            print(f"setup: {sentence}", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

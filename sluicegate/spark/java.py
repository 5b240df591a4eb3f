"""Find the Java and the Spark that jobs run on."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from sluicegate.errors import JavaMissing

JAVA_AT_LEAST = 17

ANSWERS_WITHIN = 20.0
"""Seconds for which a ``java`` is asked for its version: a JVM starts in one, also on a busy machine."""


def java() -> str:
    """Return the ``java`` that spark-submit will run: that of JAVA_HOME, else of PATH.

    Raises:
        JavaMissing: no Java was found.
    """
    home, command = os.environ.get("JAVA_HOME"), "java"
    place = "PATH has no java and JAVA_HOME is not set"
    if home:
        command = str(Path(home) / "bin" / "java")
        place = f"JAVA_HOME ({home}) has no bin/java"
    program = shutil.which(command)
    if program is None:
        raise JavaMissing(
            f"Spark needs Java {JAVA_AT_LEAST} or newer, but {place}",
            hint="install one, for example `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME",
        )
    return program


@cache
def java_version(program: str) -> str:
    """Return the version that a ``java`` program prints, such as ``17.0.15``.

    Raises:
        JavaMissing: the program is older than Spark needs, or does not run.
    """
    release = Path(program).resolve().parent.parent / "release"
    match = None
    if release.is_file():
        match = re.search(r'JAVA_VERSION="(\d[^"]*)"', release.read_text(errors="replace"))
    if match is None:  # not every vendor ships the file; asking costs a JVM start of some 50 ms
        with suppress(OSError, subprocess.TimeoutExpired):  # a file that is no program, or one that waits
            answer = subprocess.run(
                [program, "-version"], capture_output=True, text=True, errors="replace", timeout=ANSWERS_WITHIN
            )
            match = re.search(r'version "(\d[^"]*)"', answer.stderr + answer.stdout)
    if match is None or int(re.split(r"\D", match[1])[0]) < JAVA_AT_LEAST:
        version = f"is Java {match[1]}" if match else "does not print its version"
        raise JavaMissing(
            f"Spark needs Java {JAVA_AT_LEAST} or newer, but {program} {version}",
            hint="install a newer one, or point JAVA_HOME to it",
        )
    return match[1]


def spark_home() -> Path:
    """Return Spark's home: the ``pyspark`` package of this Python.

    Raises:
        JavaMissing: pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaMissing(
            "pyspark is not installed in this Python",
            hint="install sluicegate with what it requires, or in a checkout run `make setup`",
        )
    return Path(spec.origin).parent

"""What this machine has of all that a project's runs need, and what to do about the rest. It starts no Spark."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from sluicegate import definition
from sluicegate.errors import SluicegateError
from sluicegate.settings import Settings
from sluicegate.spark import jars, java

_PYTHONS = ((3, 11), (3, 13))

# Commands that install Java, each by the program that it begins with.
_JAVA_COMMANDS = {
    "apt-get": "sudo apt-get install openjdk-17-jre-headless", "dnf": "sudo dnf install java-17-openjdk-headless",
    "apk": "apk add openjdk17-jre-headless", "pacman": "sudo pacman -S jre17-openjdk-headless",
    "brew": "brew install openjdk@17",
}  # fmt: skip

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Check:
    """Result of looking for one thing.

    Attributes:
        name: what was looked for.
        state: whether it is there; what is ``optional`` is not, and no run of this project needs it.
        fact: what is there, or what is wrong.
        remedy: what to do about it; empty if nothing is to be done.
    """

    name: str
    state: State
    fact: str
    remedy: str = ""


def checks(settings: Settings) -> list[Check]:
    """Check all that runs with these settings need."""
    return [
        _check_python(), _check("java", _java_fact, _java_remedy()), _check_pyspark(), _check_jars(settings),
        _check_folder("lake", settings.lake), _check_folder("landing", settings.landing), _check_pipelines(settings),
        _check_airflow(),
    ]  # fmt: skip


def _check(name: str, fact: Callable[[], str], remedy: str = "") -> Check:
    try:
        return Check(name, "ok", fact())
    except SluicegateError as error:
        return Check(name, "missing", error.message, remedy or error.hint)


def _check_python() -> Check:
    fact = f"{platform.python_version()} at {sys.executable}"
    if _PYTHONS[0] <= sys.version_info[:2] <= _PYTHONS[1]:
        return Check("python", "ok", fact)
    return Check("python", "missing", fact, "use Python 3.11 to 3.13")


def _java_fact() -> str:
    program = java.java()
    origin = "PATH"
    if os.environ.get("JAVA_HOME"):
        origin = "JAVA_HOME"
    return f"{java.java_version(program)} at {program}, by {origin}"


def _java_remedy() -> str:
    """Return the command that installs Java on this system; empty if none is known."""
    for program, command in _JAVA_COMMANDS.items():
        if shutil.which(program):
            return f"{command}; or set JAVA_HOME to a Java {java.JAVA_AT_LEAST} or newer"
    return ""


def _check_pyspark() -> Check:
    try:
        versions = [f"{name} {metadata.version(name)}" for name in ("pyspark", "delta-spark")]
    except metadata.PackageNotFoundError as error:
        return Check("pyspark", "missing", f"{error.name} is not installed", "pip install sluicegate")
    return Check("pyspark", "ok", ", ".join(versions))


def _check_jars(settings: Settings) -> Check:
    """Look for the pinned jars and their checksums."""
    required, command = jars.read(), jars.SET_UP
    if "s3a://" in settings.lake + settings.landing:
        required, command = required + jars.read(jars.S3_LOCK), jars.SET_UP_S3
    folder = jars.folder()
    if lacking := jars.missing_jars(required, folder):
        fact = f"{len(lacking)} of {len(required)} are missing or damaged in {folder}, such as {lacking[0].file}"
        return Check("jars", "missing", fact, command)
    return Check("jars", "ok", f"{len(required)} in {folder}, checksums right")


def _check_folder(name: str, place: str) -> Check:
    """Check that a local folder, or the one in which it would be created, is writable."""
    if "://" in place:
        return Check(name, "ok", f"{place}, not tried")
    folder = Path(place)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Check(name, "ok", f"{place}, can be written to")
    remedy = f"let this user write to it, or set {name} in sluicegate.toml to another folder"
    return Check(name, "missing", f"{folder} cannot be written to", remedy)


def _check_pipelines(settings: Settings) -> Check:
    names = definition.names(settings.pipelines)
    if names:
        return Check("pipelines", "ok", f"{', '.join(names[:5])} in {settings.pipelines}")
    return Check("pipelines", "missing", f"none in {settings.pipelines}", "sluicegate init, or sluicegate new")


def _check_airflow() -> Check:
    try:
        airflow = metadata.version("apache-airflow")
        provider = metadata.version("apache-airflow-providers-apache-spark")
    except metadata.PackageNotFoundError as error:
        return Check("airflow", "optional", f"{error.name} is not installed", "pip install 'sluicegate[airflow]'")
    return Check("airflow", "ok", f"{airflow}, with its provider for Spark {provider}")

"""Settings of a run: lake, landing, definitions and Spark master, and which of four sources each value is from.

A flag comes first, then the environment, then the chosen target of the project's file, then that file, then a default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sluicegate.errors import LakeUnsupported
from sluicegate.project_file import SETTINGS, FileValue, Project, find_project

PACKAGE = Path(__file__).resolve().parent

# Parent of spark_jobs/ and the warm-up's samples: beside the package in a checkout, inside it in a wheel.
HOME = PACKAGE if (PACKAGE / "spark_jobs").is_dir() else PACKAGE.parent

UNSUPPORTED_STORES = {
    "abfs", "abfss", "adl", "cos", "dbfs", "ftp", "gcs", "gs", "hdfs", "http", "https", "obs", "oss", "sftp", "viewfs",
    "wasb", "wasbs", "webhdfs",
}  # fmt: skip
"""Schemes of stores that people have data on, and that neither lake nor landing can be on."""

# Beginning of an address, also of one that was a path in between, which has one slash; and Databricks' volumes.
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*):/+|/Volumes/")

SERVER = "sc://"
"""Beginning of the address of a Spark Connect server."""

TARGET = "SLUICEGATE_TARGET"
"""Variable that names the target of pipelines that have targets."""

_REMOTE = "SPARK_REMOTE"
"""Spark's own variable for the address of a server, which is the master where our variable names none."""

PLACES = ("lake", "landing", "pipelines", "master", "target")
"""Settings that are fields of ``Settings``; readers of the others look into the environment."""


# Variables that `ResolvedSettings.export` has set in this process, which are not those of whoever started it.
_exported: set[str] = set()


@dataclass(frozen=True)
class SourcedValue:
    """Value of a setting, and where it is from.

    Attributes:
        text: the value, paths absolute; empty if there is none.
        source: kind of its source.
        variable: the environment variable that it is from; empty if it is from another source.
        file: the project's file that it is from; None if it is from another source.
        line: its line in that file.
    """

    text: str
    source: Literal["flag", "environment", "file", "default"]
    variable: str = ""
    file: Path | None = None
    line: int | None = None


@dataclass(frozen=True)
class ResolvedSettings:
    """All settings with their sources.

    Attributes:
        values: each setting by its key in the file.
        project: the project's file; None if there is none.
    """

    values: Mapping[str, SourcedValue]
    project: Project | None

    @property
    def project_target(self) -> str:
        """Target whose values the file gives, or that it names for definitions; empty if it has no part in it."""
        target = self.values["target"]
        if self.project is None or (target.source != "file" and target.text not in self.project.targets):
            return ""
        return target.text

    def export(self) -> None:
        """Set the variables of what only the file says, for this process and the jobs that it starts.

        Those of an earlier call end: one process may read the files of several projects.
        """
        for variable in _exported:
            os.environ.pop(variable, None)
        _exported.clear()
        for key, value in self.values.items():
            if key not in PLACES and value.source == "file":
                os.environ[SETTINGS[key].variable] = value.text
                _exported.add(SETTINGS[key].variable)


def resolve_settings(flags: Mapping[str, str | None], folder: Path | None = None) -> ResolvedSettings:
    """Resolve all settings.

    Args:
        flags: values that a command line or a program gives, by the keys of the file.
        folder: folder from which on upwards the project's file is looked for, and that defaults are below where there
            is none; by default the working directory.

    Raises:
        SettingsError: the project's file has mistakes, or targets, and none of the chosen name.
        LakeUnsupported: lake or landing is on a store that is not supported.
    """
    folder = Path(os.path.abspath(folder or "."))
    project = find_project(folder)
    file_values: Mapping[str, FileValue] = {}
    if project is not None:
        folder, file_values = project.folder, project.values
    target = _sourced_value("target", flags, file_values, project, folder)
    if project is not None:
        file_values = project.chosen_values(target.text)
    values = {key: _sourced_value(key, flags, file_values, project, folder) for key in SETTINGS}
    return ResolvedSettings(values | {"target": target}, project)


def _sourced_value(
    key: str, flags: Mapping[str, str | None], file_values: Mapping[str, FileValue], project: Project | None, base: Path
) -> SourcedValue:
    """Value of one setting from the first of its sources; defaults of paths are below the folder ``base``."""
    setting = SETTINGS[key]
    if flag := flags.get(key):
        return SourcedValue(_absolute(key, flag), "flag")
    variables = [setting.variable]
    if key == "master":
        variables.append(_REMOTE)
    for variable in variables:
        text = os.environ.get(variable)
        if text and variable not in _exported:
            return SourcedValue(_absolute(key, text), "environment", variable)
    if project is not None and key in file_values:
        file_value = file_values[key]
        return SourcedValue(_absolute(key, file_value.text), "file", file=project.file, line=file_value.line)
    if setting.kind in ("place", "path") and setting.default:
        return SourcedValue(str(base / setting.default), "default")
    return SourcedValue(setting.default, "default")


def _absolute(key: str, text: str) -> str:
    kind = SETTINGS[key].kind
    if kind in ("place", "path"):
        demand_supported_store(text)
    if kind == "place":
        return place(text)
    if kind == "path" and text:
        return str(Path(text).absolute())
    return text


@dataclass(frozen=True)
class Settings:
    """The four places that every command takes, and the target that may say where they are.

    Attributes:
        lake: path or URI of the tables' root.
        landing: path or URI of the folder that files arrive in; ``${landing}`` in a definition.
        pipelines: folder with one folder for each pipeline.
        master: Spark master, as spark-submit takes it, or the address of a Spark Connect server (``sc://host:port``).
        target: target of the pipelines that have targets.
        given: names of the places that were said here, which come before what the target says; others come after it.
        project_target: target of the project's file that is in use.
    """

    lake: str
    landing: str
    pipelines: Path
    master: str
    target: str = ""
    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    project_target: str = field(default="", repr=False)

    @classmethod
    def of(
        cls,
        lake: str | None = None,
        landing: str | None = None,
        pipelines: str | Path | None = None,
        master: str | None = None,
        target: str | None = None,
    ) -> Settings:
        """Settings from the arguments, else ``SLUICEGATE_*`` variables, the project's file, or defaults (``lake`` …).

        The file is looked for from the working directory on upwards.

        Raises:
            SettingsError: see ``resolve_settings``.
            LakeUnsupported: see ``resolve_settings``.
        """
        flags = {"lake": lake, "landing": landing, "master": master, "target": target}
        if pipelines:
            flags["pipelines"] = str(pipelines)
        return cls.from_resolved(flags, resolve_settings(flags))

    @classmethod
    def from_resolved(cls, flags: Mapping[str, str | None], resolved: ResolvedSettings) -> Settings:
        """Settings of resolved values, which were resolved with these flags."""
        values = resolved.values
        return cls(
            lake=values["lake"].text,
            landing=values["landing"].text,
            pipelines=Path(values["pipelines"].text),
            master=values["master"].text,
            target=flags.get("target") or "",
            given=frozenset(name for name, value in flags.items() if value and name != "target"),
            project_target=resolved.project_target,
        )

    @property
    def remote(self) -> str:
        """Address of the Spark Connect server that is the master; empty if it is none."""
        if self.master.startswith(SERVER):
            return self.master
        return ""

    @property
    def arguments(self) -> dict[str, str]:
        """Arguments of ``of`` that give the same settings, as texts, for another process."""
        texts = {name: str(getattr(self, name)) for name in PLACES}
        if self.target:
            return texts
        return {name: value for name, value in texts.items() if name != "target"}

    @property
    def places(self) -> dict[str, str]:
        """``arguments`` for a process that starts no Spark and may be recorded: the master may have a token in it."""
        return self.arguments | {"master": "local[*]"}


def demand_supported_store(address: str) -> None:
    """Refuse an address by its scheme, before any request is made.

    Raises:
        LakeUnsupported: it is on a store that neither writers nor readers of landed files know yet.
    """
    scheme = _SCHEME.match(address)
    if scheme is None or (scheme[1] or "dbfs").lower() not in UNSUPPORTED_STORES:
        return
    if scheme[1] is None and os.path.isdir("/Volumes"):  # where it is a folder like any other, as of macOS
        return
    raise LakeUnsupported(
        f"{scheme[0]} is not supported yet: {address}",
        hint="use a local folder, or S3 and stores that speak its protocol: s3://bucket/folder",
    )


def place(text: str) -> str:
    """Normalise a URI (``s3a://``), make a path absolute: spark-submit and Airflow run in other folders.

    Raises:
        LakeUnsupported: the store is not supported.
    """
    demand_supported_store(text)
    if text.startswith("s3://"):
        text = text.replace("s3://", "s3a://", 1)
    if "://" in text:
        return text.rstrip("/")
    return os.path.abspath(Path(text).expanduser())

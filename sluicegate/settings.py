"""Settings of a run: lake, landing, definitions and Spark master."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate.errors import LakeUnsupported

PACKAGE = Path(__file__).resolve().parent

# Parent of spark_jobs/ and the warm-up's samples: beside the package in a checkout, inside it in a wheel.
HOME = PACKAGE if (PACKAGE / "spark_jobs").is_dir() else PACKAGE.parent

UNSUPPORTED_STORES = {
    "abfs", "abfss", "adl", "cos", "dbfs", "ftp", "gcs", "gs", "hdfs", "http", "https", "obs", "oss", "sftp", "viewfs",
    "wasb", "wasbs", "webhdfs",
}  # fmt: skip
"""Schemes of stores that people have data on, and that neither lake nor landing can be on."""

SERVER = "sc://"
"""Beginning of the address of a Spark Connect server."""

TARGET = "SLUICEGATE_TARGET"
"""Variable that names the target of pipelines that have targets."""


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
    """

    lake: str
    landing: str
    pipelines: Path
    master: str
    target: str = ""
    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @classmethod
    def of(
        cls,
        lake: str | None = None,
        landing: str | None = None,
        pipelines: str | Path | None = None,
        master: str | None = None,
        target: str | None = None,
    ) -> Settings:
        """Settings from the arguments, else from ``SLUICEGATE_*`` variables, else from defaults (``lake`` …)."""
        arguments = {"lake": lake, "landing": landing, "pipelines": pipelines, "master": master}
        return cls(
            target=target or "",
            given=frozenset(name for name, value in arguments.items() if value),
            lake=place(lake or os.environ.get("SLUICEGATE_LAKE") or "lake"),
            landing=place(landing or os.environ.get("SLUICEGATE_LANDING") or "landing"),
            pipelines=Path(pipelines or os.environ.get("SLUICEGATE_PIPELINES") or "pipelines").absolute(),
            master=master or os.environ.get("SLUICEGATE_MASTER") or os.environ.get("SPARK_REMOTE") or "local[*]",
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
        texts = {name: str(value) for name, value in vars(self).items() if name != "given"}
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
    scheme, separator, _ = address.partition("://")
    if separator and scheme.lower() in UNSUPPORTED_STORES:
        raise LakeUnsupported(
            f"{scheme}:// is not supported yet: {address}",
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

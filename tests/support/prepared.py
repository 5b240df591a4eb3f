"""Workspaces that are filled once and then copied: to make the same tables again takes seconds, and a copy none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.spark import connect
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Prepared:
    """Workspaces by name. The tables of one have its path in them, so every copy of it lies where the first one lay:
    whoever asks for a name gets it as it was made, and what the one before did to it is gone.

    Args:
        folder: where they lie; each process of tests has one of its own.
        spark: the session in which they are made and used.
    """

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._folder, self._spark = folder, spark

    def workspace(self, name: str, fill: Callable[[Workspace], None]) -> Workspace:
        """The workspace of a name, which ``fill`` fills the first time."""
        used, kept = self._folder / name / "used", self._folder / name / "kept"
        shutil.rmtree(used, ignore_errors=True)
        if not connect.is_remote(self._spark):
            # Delta keeps what it has read of a table by the table's path.
            self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        if kept.exists():
            shutil.copytree(kept, used)  # with the times of the files, which the ledger knows
        else:
            used.mkdir(parents=True)
            fill(Workspace(used))
            shutil.copytree(used, kept)
        return Workspace(used)

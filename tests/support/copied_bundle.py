"""A DAG bundle with versions, as one of git is: each version in use is a copy of a folder, made where it is needed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import BaseDagBundle


class CopiedBundle(BaseDagBundle):
    """Bundle of a folder with a folder for each version in it.

    Args:
        origin: the folder.
        kwargs: what every bundle takes.
    """

    supports_versioning = True

    def __init__(self, *, origin: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.origin = Path(origin)

    @property
    def path(self) -> Path:
        return self.versions_dir / self.version if self.version else self.base_dir / "newest"

    def initialize(self) -> None:
        if not self.path.exists():
            shutil.copytree(self.origin / self.get_current_version(), self.path)
        super().initialize()

    def get_current_version(self) -> str:
        return self.version or max(one.name for one in self.origin.iterdir())

    def refresh(self) -> None:
        shutil.rmtree(self.path)
        self.initialize()

"""Definitions in a DAG bundle: where they are is known by the bundle and its version, and not by a path.

A bundle with versions (git) has a folder for each version in use, on each machine that uses it, and Airflow takes it
away when no task of that version runs. A task parses the DAG file where its own version lies, so its paths are right as
long as it runs. What it hands to the triggerer lasts longer, and may be read on another machine: there the bundle is
asked.
https://airflow.apache.org/docs/apache-airflow/stable/administration-and-deployment/dag-bundles.html
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluicegate.settings import Settings

# Folder of a bundle that has one for each version in use.
_VERSIONS = "versions"


def bundle_place(folder: Path) -> dict[str, str] | None:
    """Place of a folder in a bundle, for a process elsewhere; None for one that no bundle keeps for itself.

    Args:
        folder: the folder, as the DAG file or a task has it.

    Returns:
        ``name`` of the bundle, ``path`` of the folder in it, and ``version``, if the folder is of one that is pinned.
    """
    from airflow.dag_processing.bundles.base import get_bundle_storage_root_path

    root: Path = get_bundle_storage_root_path().resolve()  # type: ignore[no-untyped-call]
    folder = folder.resolve()
    if not folder.is_relative_to(root):
        return None
    parts = folder.relative_to(root).parts
    # Who parses a file of a bundle has the bundle's own path on the path of Python.
    folders = [
        parent for parent in {Path(entry).resolve() for entry in sys.path if entry} if parent.is_relative_to(root)
    ]
    folders = [parent for parent in folders if parent.relative_to(root).parts[:1] == parts[:1]]
    if not parts or not folders:
        return None
    top = max(folders, key=lambda parent: len(os.path.commonpath([parent, folder])))
    pinned = {}
    if len(parts) > 2 and parts[1] == _VERSIONS:
        pinned = {"version": parts[2]}
    return {"name": parts[0], "path": os.path.relpath(folder, top), **pinned}


def trigger_arguments(settings: Settings) -> dict[str, Any]:
    """Arguments of a trigger that say where things are, for a process on any machine."""
    bundle = bundle_place(settings.pipelines)
    if bundle is None:
        return {"places": settings.places}
    return {"places": {name: it for name, it in settings.places.items() if name != "pipelines"}, "bundle": bundle}


@contextmanager
def keep_bundle(bundle: Mapping[str, str] | None) -> Iterator[None]:
    """Context in which Airflow keeps the version of a bundle on this machine.

    Args:
        bundle: what ``bundle_place`` gave.
    """
    if bundle is None:
        yield
        return
    from airflow.dag_processing.bundles.base import BundleVersionLock

    with BundleVersionLock(bundle["name"], bundle.get("version")):  # type: ignore[no-untyped-call]
        yield


class Places:
    """Settings of a trigger, whose definitions a bundle may have.

    Args:
        places: arguments of ``Settings.of``.
        bundle: place of the definitions in a bundle.
    """

    def __init__(self, places: Mapping[str, str], bundle: Mapping[str, str] | None = None) -> None:
        self._places, self._in_bundle = places, bundle
        self._bundle: Any = None
        self._refreshed = 0.0

    def settings(self) -> Settings:
        """The settings, after what may take some seconds: a bundle fetches its files."""
        if self._in_bundle is None:
            return Settings.of(**self._places)
        bundle = self._fetch_bundle(self._in_bundle["name"], self._in_bundle.get("version"))
        return Settings.of(**self._places, pipelines=os.path.normpath(bundle / self._in_bundle["path"]))

    def _fetch_bundle(self, name: str, version: str | None) -> Path:
        """Path of the bundle, which is there."""
        from airflow.dag_processing.bundles.manager import DagBundlesManager

        if self._bundle is None:
            self._bundle = DagBundlesManager().get_bundle(name, version)  # type: ignore[no-untyped-call]
            self._bundle.initialize()
            self._refreshed = time.monotonic()
        elif version is None and time.monotonic() - self._refreshed > self._bundle.refresh_interval:
            self._bundle.refresh()  # as often as the DAG processor does: definitions change
            self._refreshed = time.monotonic()
        return Path(self._bundle.path)

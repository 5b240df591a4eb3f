"""Staging folder of a new pipeline: the pipeline appears whole, or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluicegate.definition.fields import name_fault
from sluicegate.errors import UserError, Where


def demand_new_folder(name: str, pipelines: Path) -> Path:
    """Folder for a pipeline of this name.

    Raises:
        UserError: the name is invalid, or the folder exists.
    """
    if wrong := name_fault(name):
        raise UserError(wrong, hint="for example sales or heart_rate")
    folder = pipelines / name
    if folder.exists() or folder.is_symlink():
        hint = "choose another name, or move that folder away"
        raise UserError(f"the pipeline {name} already exists", where=Where(file=str(folder)), hint=hint)
    return folder


@contextmanager
def stage_folder(name: str, folder: Path) -> Iterator[Path]:
    """Context with a folder to write into, which the caller moves to ``folder`` when it is whole; else it is deleted.

    It is two levels deep, where nothing that looks for definitions finds it.

    Raises:
        UserError: nothing can be written there.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent)
    except OSError as error:
        hint = "choose another folder: --pipelines DIR"
        raise UserError(
            "the pipeline cannot be written", where=Where(str(folder)), cause=str(error), hint=hint
        ) from error
    with staging as room:
        half = Path(room) / name
        half.mkdir()
        yield half

"""Whose tables a lake has, for those who only read them: the target that the first run entered (``lake/claim.py``)."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from sluicegate.lake.layout import Lake
from sluicegate.storage import filesystems


def owner_of(at: Lake) -> str:
    """The target that a pipeline's tables belong to; empty if none is entered, or a run was killed before it was."""
    if filesystems.file(at.target) is None:  # not by opening it: a store that does not answer would have none
        return ""
    fs, path = filesystems.opened(at.target)
    with suppress(FileNotFoundError), fs.open(path, "rb") as file:
        return str(file.read().decode(errors="replace")).strip()
    return ""


def warning(at: Lake, target: str, targets: Collection[str]) -> str:
    """Sentence for a command that reads a pipeline's tables which belong to another target; empty if they do not.

    Args:
        at: the lake.
        target: name of the target that the command has; empty for a pipeline without targets.
        targets: names of all targets of the definition.
    """
    owner = owner_of(at)
    if owner in ("", target):
        return ""
    read = f"as those of {target}" if target else "as a pipeline without targets"
    known = f"the definition has the targets {', '.join(targets)}" if targets else "the definition has no targets"
    return f"the tables of {at.pipeline} in {at.root} belong to the target {owner}, and are read {read}; {known}"

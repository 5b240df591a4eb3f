"""Tell readers which target owns a lake's tables: the first run entered it (``target_ownership.py``)."""

from __future__ import annotations

from collections.abc import Collection

from sluicegate.lake.layout import Lake
from sluicegate.storage import filesystems


def owner_of(lake: Lake) -> str:
    """Return the target that owns a pipeline's tables; empty if none is entered."""
    return (filesystems.read_text(lake.target) or "").strip()


def warning(lake: Lake, target: str, targets: Collection[str]) -> str:
    """Return a warning for a reader of tables that another target owns; empty if none does.

    Args:
        lake: the lake.
        target: name of the target that the command has; empty for a pipeline without targets.
        targets: names of all targets of the definition.
    """
    owner = owner_of(lake)
    if owner in ("", target):
        return ""
    read, defined = "as a pipeline without targets", "no targets"
    if target:
        read = f"as those of {target}"
    if targets:
        defined = f"the targets {', '.join(targets)}"
    return (
        f"the tables of {lake.pipeline} in {lake.root} belong to the target {owner}, and are read {read}; "
        f"the definition has {defined}"
    )

"""Record which target owns a pipeline's tables in a lake; its first run writes it.

A definition says that no two of its targets have one lake; but a command line, a variable or another copy of the
definition can lead one into the tables of another. So whoever writes them looks first whose they are, and who only
reads them says so where they are those of another (``warning``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluicegate.errors import TargetConflict, Where
from sluicegate.lake.exclusion.lock import pipeline_lock
from sluicegate.lake.exclusion.target_owner import owner_of
from sluicegate.lake.layout import Lake
from sluicegate.storage import durable


def take_ownership(lake: Lake, target: str) -> None:
    """Enter the target that writes a pipeline's tables, under the pipeline's lock, unless it is there.

    Args:
        lake: the lake.
        target: name of the target; empty for a pipeline without targets, which enters none.

    Raises:
        TargetConflict: the tables belong to another target.
    """
    owner = owner_of(lake)
    if not owner and target:
        durable.write(lake.target, f"{target}\n")
    demand_ours(lake, target, owner)


def demand_ours(lake: Lake, target: str, owner: str | None = None) -> None:
    """Check that no other target owns a pipeline's tables; needs no lock and writes nothing.

    Args:
        lake: the lake.
        target: name of the target; empty for a pipeline without targets.
        owner: the recorded target, if known already.

    Raises:
        TargetConflict: the tables belong to another target.
    """
    if owner is None:
        owner = owner_of(lake)
    if owner and owner != target:
        own_target = "of no target"
        if target:
            own_target = f"of {target}"
        raise TargetConflict(
            f"the tables of {lake.pipeline} in {lake.root} belong to the target {owner}, but this run is {own_target}",
            where=Where(file=lake.target),
            hint=f"use --target {owner}, or another lake; to hand the tables over to this target, delete {lake.target}",
        )


@contextmanager
def lock_for_target(lake: Lake, owner: str, target: str) -> Iterator[None]:
    """Hold a pipeline's lock for a target outside of a job; a job enters by ``jobs.base.hold_write_lock``.

    Args:
        lake: the lake.
        owner: name of the run, shown to those who wait.
        target: name of the target; empty for a pipeline without targets.

    Raises:
        TargetConflict: the tables belong to another target.
    """
    with pipeline_lock(lake, owner):
        take_ownership(lake, target)
        yield

"""Fault-injection points for recovery tests: SIGKILL to the whole job, nothing cleaned up.

``SLUICEGATE_FAULT=silver.before_commit`` kills the job there; otherwise a point costs a dictionary look-up. SQLite and
FoundationDB have such points in the shipped code for the same reason: what is tested is then what runs.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "ledger.before_commit", "ledger.after_commit",
    "bronze.before_commit", "bronze.after_commit",
    "silver.before_commit", "silver.between_commits", "silver.after_commit", "silver.after_removal",
    "copy.after_commit", "copy.after_checkpoint", "copy.after_data", "copy.after_log",
    "gold.between_commits", "gold.before_commit", "gold.after_commit",
    "rules.after_rejection", "rules.after_clearing",
    "events.before_commit",
    "discards.before_commit",
    "clean.after_announcement", "clean.between_copy_and_removal", "clean.after_removal", "clean.after_note",
    "rename.recorded", "rename.tables_moved", "rename.definition_moved",
)  # fmt: skip


def point(name: str) -> None:
    """Kill the process group of this job (the JVM too) if ``SLUICEGATE_FAULT`` names this point.

    Raises:
        ValueError: ``name`` is not among ``POINTS``, the list that tests use to reach every point.
    """
    if name not in POINTS:
        raise ValueError(f"{name} is not a fault point")
    if os.environ.get("SLUICEGATE_FAULT") == name:
        os.killpg(os.getpgrp(), signal.SIGKILL)

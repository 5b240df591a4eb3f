"""Decide by the last commit whether a table has rows of a former definition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluicegate.lake.commits.commit_info import CommitInfo

if TYPE_CHECKING:
    from sluicegate.definition import SilverTable
    from sluicegate.flow.model import Flow
    from sluicegate.lake.log import Commit


def flow_definitions(table: SilverTable, flows: Iterable[str]) -> dict[str, str]:
    """Return the definition fingerprint of each flow that a silver table may have rows of.

    Args:
        table: the table.
        flows: names of its flows whose sources exist.
    """
    names = set(flows)
    return {name: maker.fingerprint for name, maker in table.flows_or_branches.items() if name in names}


def has_former_rows(table: SilverTable, last: Commit | None, flows: Iterable[str]) -> bool:
    """Return whether a silver table may have rows of a former definition; they stay until reprocessed.

    Args:
        table: current definition of the table.
        last: our newest commit to it; None if there is none.
        flows: names of its flows whose sources exist.
    """
    info = last.info if last is not None else CommitInfo()
    if info.silver.mixed or info.definition not in (None, table.fingerprint):
        return True
    former = info.silver.definitions
    return any(former.get(name, today) != today for name, today in flow_definitions(table, flows).items())


def needs_full_refresh(flow: Flow, last: Commit | None) -> bool:
    """Return whether a former definition filled a table, so that the next run refreshes it in full (gold, copies)."""
    if not flow.fingerprint or last is None or last.ours is None:
        return False
    return last.ours.fingerprint != flow.fingerprint

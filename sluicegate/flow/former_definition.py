"""Whether a table has rows that another definition made than today's, by what its last commit says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicegate.definition import SilverTable
    from sluicegate.flow.model import Flow
    from sluicegate.lake.log import Commit


def flow_definitions(table: SilverTable, there: Iterable[str]) -> dict[str, str]:
    """Fingerprint of the definition of each flow that a silver table may have rows of.

    Args:
        table: the table.
        there: names of its flows whose sources are there.
    """
    known = set(there)
    return {name: maker.fingerprint for name, maker in table.several.items() if name in known}


def in_silver(table: SilverTable, last: Commit | None, there: Iterable[str]) -> bool:
    """Whether a silver table may have rows of another definition: they stay until somebody reprocesses them.

    Args:
        table: the table as it is defined today.
        last: its newest commit of ours; None if there is none.
        there: names of its flows whose sources are there.
    """
    ours = (last.ours if last is not None else None) or {}
    before = ours.get("definitions") or {}
    others = any(before.get(name, now) != now for name, now in flow_definitions(table, there).items())
    now = table.fingerprint
    return bool(ours.get("mixed")) or ours.get("definition", now) != now or others


def needs_full_refresh(flow: Flow, last: Commit | None) -> bool:
    """Whether a table was made by another definition, so that the next run gives it a full refresh (gold, copies)."""
    ours = last.ours if last is not None else None
    return bool(flow.fingerprint) and ours is not None and ours.get("fingerprint") != flow.fingerprint

"""Techniques of refreshing gold tables by lot, in place of by cost: whichever is taken, the tables are the same."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from sluicegate.flow.refresh_cost import RefreshCost, Technique, TechniqueChoice, Work

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest


def by_lot(patch: pytest.MonkeyPatch, seed: int) -> list[Technique]:
    """From now on each batch is given one of the techniques that it may be; returns those that were, as they come.

    The lot of a batch depends on what it is about, not on which of the tables side by side comes first.
    """
    taken: list[Technique] = []

    def choose(cost: RefreshCost, permitted: Collection[Technique], work: Work) -> TechniqueChoice:
        random = Random(f"{seed} {[run.technique for run in cost.runs]} {sorted(permitted)} {work}")
        # A restart is the rarer, so that state is missing for a while.
        likely = [name for name in permitted if name != "restart" or random.random() < 0.5]
        found: Technique = random.choice(likely) if likely else "restart"
        taken.append(found)
        return TechniqueChoice(found, dict.fromkeys(permitted, 0.0), work)

    patch.setattr(RefreshCost, "choose", choose)
    return taken

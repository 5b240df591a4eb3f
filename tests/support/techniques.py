"""Techniques of refreshing gold tables by lot, in place of by cost: whichever is taken, the tables are the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from sluicegate.flow.refresh_cost import RefreshCost, Technique, TechniqueChoice, Work

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest


@dataclass
class Lot:
    """Choice of a technique for each batch by lot.

    The lot of a batch depends on what it is about, not on which of the tables side by side comes first.

    Attributes:
        seed: seed of the lots.
        taken: techniques that were taken, as they come.
        preferred: techniques of which one is taken wherever one is permitted.
    """

    seed: int
    taken: list[Technique] = field(default_factory=list)
    preferred: frozenset[Technique] = frozenset()

    def choose(self, cost: RefreshCost, permitted: Collection[Technique], work: Work) -> TechniqueChoice:
        """Take the place of ``RefreshCost.choose``."""
        former = [str(run.technique) for run in cost.runs]
        random = Random(f"{self.seed} {former} {sorted(map(str, permitted))} {work}")
        candidates = [name for name in permitted if name in self.preferred] or [*permitted]
        # A restart is the rarer, so that state is missing for a while.
        likely = [name for name in candidates if name != Technique.RESTART or random.random() < 0.5]
        technique = random.choice(likely) if likely else Technique.RESTART
        self.taken.append(technique)
        return TechniqueChoice(technique, dict.fromkeys(permitted, 0.0), work)


def by_lot(patch: pytest.MonkeyPatch, seed: int) -> Lot:
    """From now on each batch is given one of the techniques that it may be, by the lot that is returned."""
    lot = Lot(seed)
    patch.setattr(RefreshCost, "choose", lambda cost, permitted, work: lot.choose(cost, permitted, work))
    return lot

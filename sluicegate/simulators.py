"""The name by which notebooks import the simulators: ``from sluicegate.simulators import Simulator``."""

from __future__ import annotations

from sluicegate.tools.simulators import SIMULATIONS, Faults, Landed, Simulator

__all__ = ["SIMULATIONS", "Faults", "Landed", "Simulator"]

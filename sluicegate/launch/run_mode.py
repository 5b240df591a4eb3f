"""What a run is to do, as commands and forms name it."""

from __future__ import annotations

from enum import StrEnum

from sluicegate.errors import PipelineMissing
from sluicegate.lake.layout import LAYERS


class RunMode(StrEnum):
    """What a run is to do."""

    INCREMENTAL = "incremental"
    """Take in what is new."""

    INTERVAL = "interval"
    """Besides that, reprocess an interval in silver, which gold follows."""

    FULL_REFRESH = "full-refresh"
    """Make the tables from their whole sources."""

    REPLAY = "replay"
    """Reprocess records of a silver table, which gold follows, and take in nothing new."""

    DISCARD = "discard"
    """Discard quarantined records, or undo that, and nothing else."""


MODES = (RunMode.INCREMENTAL, RunMode.INTERVAL, RunMode.FULL_REFRESH)
"""Modes that take in what is new."""


def demand_layer(layer: str | None) -> None:
    """Check the name of a layer; None stands for all.

    Raises:
        PipelineMissing: the layer is unknown.
    """
    if layer not in (None, *LAYERS):
        raise PipelineMissing(f"unknown layer {layer}", hint=f"layers: {', '.join(LAYERS)}")

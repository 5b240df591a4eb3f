"""Figures of TPC-H's and TPC-DI's tables as a file, so that tables can be measured one after another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.tpc.measure import Cost, Figures


@dataclass
class Results:
    """All figures.

    Attributes:
        scales: scale of each run.
        machine: what figures depend on besides.
        figures: figures of each run by table; a run is called as its benchmark, or with another scale behind.
    """

    scales: dict[str, float] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, Figures]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Results:
        """What a file has; nothing if there is none."""
        if not file.exists():
            return cls()
        said = json.loads(file.read_text())
        of = {name: {table: _figures(one) for table, one in its.items()} for name, its in said["figures"].items()}
        return cls(said["scales"], said["machine"], of)

    def put(self, run: str, scale: float, found: Iterable[Figures], machine: Mapping[str, str]) -> None:
        """Puts down figures in place of those that the tables had; at another scale all others of the run go."""
        if self.scales.get(run) != scale:
            self.figures.pop(run, None)
        self.scales[run] = scale
        self.machine = dict(machine)
        self.figures.setdefault(run, {}).update({one.table: one for one in found})

    def write(self, file: Path) -> None:
        """Writes the file."""
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")


def _figures(said: Mapping[str, Any]) -> Figures:
    costs = {name: [Cost(**one) for one in said[name]] for name in ("by_changes", "whole")}
    return Figures(**{**said, **costs})

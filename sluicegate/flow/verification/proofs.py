"""Record what a verification proved of each table, so that the next one compares only changes.

Each table has a file in the lake's ``_state``. A proof is void once the definition, the program's version or the
table's history differs, and a week after the last comparison of the whole table, which finds changes without any trace
(a disk that returns other bytes).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import Any

from deltalake import DeltaTable

from sluicegate.console import ignore_line
from sluicegate.lake.layout import Lake
from sluicegate.lake.proved_state import ProvedState
from sluicegate.storage import durable, filesystems

# Days after which a table is compared as a whole again.
WHOLE_AFTER = 7

# Form of the files. One with another number is not read.
FORM = 3

# Name of the state of the table itself, in a proof that also has those of others.
TARGET = "table"


@dataclass(frozen=True)
class Proof:
    """Proof of one table.

    Attributes:
        definition: identifies the definition that the table was compared with.
        whole: day of the last comparison of the whole table, in UTC.
        last: day of the last comparison.
        states: states of the table (``TARGET``) and its side tables, by name.
        more: additional facts of its layer.
    """

    definition: str
    whole: date
    last: date
    states: Mapping[str, ProvedState]
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        day = f"on {self.last}"
        if self.whole != self.last:
            day = f"on {self.last}, in full on {self.whole},"
        return f"proved at version {self.states[TARGET].version} {day} and not looked at again"


class Proofs:
    """Proofs of the tables of a pipeline.

    Args:
        at: the lake.
        since_last: whether to compare only what was added or changed since the last verification.
        keeps: whether to record proofs: not when only a sample is compared.
        tell: receives a line if a proof cannot be written.
    """

    def __init__(
        self, lake: Lake, *, since_last: bool = False, keeps: bool = True, tell: Callable[[str], None] = ignore_line
    ) -> None:
        self._at, self._since_last, self._keeps, self._tell = lake, since_last, keeps, tell
        self._today = datetime.now(UTC).date()

    @property
    def are_used(self) -> bool:
        """Whether proofs are read or recorded at all."""
        return self._since_last or self._keeps

    def last_proof(self, layer: str, name: str, definition: Any) -> Proof | None:
        """Return the last valid proof of a table for a definition; None without one, or if all is to be compared.

        Raises:
            OSError: the store cannot be reached.
        """
        if not self._since_last:
            return None
        try:
            fs, path = filesystems.open_store(self._at.proof(layer, name))
            fs.invalidate_cache(path)
            proof = _proof(json.loads(fs.cat_file(path)))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        if proof is None or proof.definition != _text(definition):
            return None
        if 0 <= (self._today - proof.whole).days < WHOLE_AFTER:
            return proof
        return None

    def keep(
        self,
        layer: str,
        name: str,
        definition: Any,
        states: Mapping[str, ProvedState],
        former: Proof | None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a table has been proved.

        Args:
            layer: layer of the table.
            name: its name.
            definition: identifies its definition.
            states: states of the table and its side tables before the comparison.
            former: the proof that covers the rest; None if all was compared.
            more: additional facts.
        """
        if not self._keeps:
            return
        whole = self._today
        if former is not None:
            whole = former.whole
        facts = {
            "form": FORM, "by": version("sluicegate"), "definition": _text(definition), "whole": whole.isoformat(),
            "last": self._today.isoformat(), "states": {key: state.as_dict() for key, state in states.items()},
            "more": dict(more or {}),
        }  # fmt: skip
        try:
            durable.write(self._at.proof(layer, name), json.dumps(facts, separators=(",", ":")))
        except OSError as error:
            self._tell(
                f"  cannot record the proof of {name}, so the next one compares everything: {error.strerror or error}"
            )

    def forget(self, layer: str, name: str) -> None:
        """Remove the proof of a table, as when something is wrong with it."""
        with suppress(OSError):
            fs, path = filesystems.open_store(self._at.proof(layer, name))
            fs.rm_file(path)


def states_of(opened: Mapping[str, DeltaTable]) -> dict[str, ProvedState] | None:
    """Return the states of some tables by name; None if one cannot show changes."""
    states: dict[str, ProvedState] = {}
    for name, table in opened.items():
        state = ProvedState.from_table(table)
        if state is None:
            return None
        states[name] = state
    return states


def _proof(facts: Mapping[str, Any]) -> Proof | None:
    if (facts["form"], facts["by"]) != (FORM, version("sluicegate")):
        return None
    whole, last = (date.fromisoformat(facts[name]) for name in ("whole", "last"))
    states = {name: ProvedState.from_dict(state) for name, state in facts["states"].items()}
    return Proof(facts["definition"], whole, last, states, facts["more"])


def _text(definition: Any) -> str:
    return json.dumps(definition, sort_keys=True, default=str)

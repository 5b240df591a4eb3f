"""Findings of a verification: what is right, wrong (with the command for repair), or not compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["wrong", "behind", "unproved", "unseen", "proved"]
Reason = Literal["", "without-spark", "proved-before"]

WORDS = {"wrong": "NOT RIGHT", "behind": "behind", "unproved": "not proved", "unseen": "not looked at"}
"""How findings are told to people, by kind; what is ``proved`` is told by the word that nothing else has."""


@dataclass(frozen=True)
class Finding:
    """One result of a verification.

    Attributes:
        kind: ``wrong``: rows are lost, doubled or have wrong values; ``behind``: changes are still unprocessed,
            which is not a fault; ``unproved``: it could not be verified; ``unseen``: what was not compared, and
            why; ``proved``: what was verified, and how.
        table: name of the table.
        what: a predicate whose subject is the table.
        mend: the command that repairs it; empty if there is none.
        reason: ``without-spark``: unproved only because the verification did not start Spark; ``proved-before``:
            unseen because a former verification proved it, and it has not changed since. Empty for all others, whose
            sentence gives the reason.
        version: version of the table that was ``proved``.
    """

    kind: Kind
    table: str
    what: str
    mend: str = ""
    reason: Reason = ""
    version: int | None = None

    def __str__(self) -> str:
        return f"{self.table}: {self.what}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output; ``reason`` and ``version`` only if set."""
        optional = {"reason": "", "version": None}
        return {name: value for name, value in asdict(self).items() if name not in optional or value != optional[name]}

    def lines(self, program: str = "sluicegate") -> list[str]:
        """Return lines for people; ``program`` is the name of the command."""
        if self.kind == "proved":
            return [f"verified: {self.table}, version {self.version}: {self.what}"]
        word = WORDS[self.kind]
        return [f"{word}: {self}", *([f"  run: {self.mend.replace('sluicegate', program, 1)}"] if self.mend else [])]

"""Findings of a verification: what is right, what is wrong with the command to repair it, what was not seen."""

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
        kind: ``wrong``: rows are lost, doubled or other than they should be; ``behind``: more waits than was taken in,
            which is no fault; ``unproved``: whether it is right cannot be said; ``unseen``: what was not looked at, and
            why; ``proved``: what was found to be right, and by what.
        table: name of the table.
        what: a sentence without its subject, which is the table.
        mend: the command to run; empty if there is none.
        reason: ``without-spark``: it is unproved only as the verification was to start no Spark; ``proved-before``: it
            is unseen as a former verification has proved it, and it has not changed since. Empty for all others, whose
            sentence says why.
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

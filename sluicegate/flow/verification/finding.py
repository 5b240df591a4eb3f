"""Findings of a verification: what is right, wrong (with the command for repair), or not compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class FindingKind(StrEnum):
    """What a verification says of a table; the values are in its JSON output.

    Attributes:
        WRONG: rows are lost, doubled or have wrong values.
        BEHIND: changes are still unprocessed, which is not a fault.
        UNPROVED: it could not be verified.
        UNSEEN: it was not compared.
        PROVED: it was verified.
    """

    WRONG = "wrong"
    BEHIND = "behind"
    UNPROVED = "unproved"
    UNSEEN = "unseen"
    PROVED = "proved"


class FindingReason(StrEnum):
    """Why a table is unproved or unseen, where programs need to know it.

    Attributes:
        IN_WORDS: the sentence gives the reason.
        WITHOUT_SPARK: the verification did not start Spark.
        PROVED_BEFORE: a former verification proved it, and it has not changed since.
    """

    IN_WORDS = ""
    WITHOUT_SPARK = "without-spark"
    PROVED_BEFORE = "proved-before"


# How findings are told to people, by kind; what is ``proved`` is told by the word that nothing else has.
WORDS = {
    FindingKind.WRONG: "NOT RIGHT", FindingKind.BEHIND: "behind", FindingKind.UNPROVED: "not proved",
    FindingKind.UNSEEN: "not looked at",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One result of a verification.

    Attributes:
        kind: what it says of the table.
        table: name of the table.
        what: a predicate whose subject is the table.
        mend: the command that repairs it; empty if there is none.
        reason: why it is unproved or unseen.
        version: version of the table that was ``proved``.
    """

    kind: FindingKind
    table: str
    what: str
    mend: str = ""
    reason: FindingReason = FindingReason.IN_WORDS
    version: int | None = None

    def __str__(self) -> str:
        return f"{self.table}: {self.what}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output; ``reason`` and ``version`` only if set."""
        optional = {"reason": FindingReason.IN_WORDS, "version": None}
        return {name: value for name, value in asdict(self).items() if name not in optional or value != optional[name]}

    def lines(self, program: str = "sluicegate") -> list[str]:
        """Return lines for people; ``program`` is the name of the command."""
        if self.kind == FindingKind.PROVED:
            return [f"verified: {self.table}, version {self.version}: {self.what}"]
        word = WORDS[self.kind]
        return [f"{word}: {self}", *([f"  run: {self.mend.replace('sluicegate', program, 1)}"] if self.mend else [])]

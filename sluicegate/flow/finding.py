"""Finding of a verification, with the command that mends it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["wrong", "behind", "unproved"]
Reason = Literal["", "without-spark"]


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold, or is not known to.

    Attributes:
        kind: ``wrong``: rows are lost, doubled or other than they should be; ``behind``: more waits than was taken in,
            which is no fault; ``unproved``: whether it is right cannot be said.
        table: name of the table.
        what: a sentence without its subject, which is the table.
        mend: the command to run; empty if there is none.
        reason: ``without-spark``: it is unproved only as the verification was to start no Spark; empty for all others,
            whose sentence says why.
    """

    kind: Kind
    table: str
    what: str
    mend: str = ""
    reason: Reason = ""

    def __str__(self) -> str:
        return f"{self.table}: {self.what}"

    def as_dict(self) -> dict[str, Any]:
        """For programs; ``reason`` only where there is one."""
        return {name: value for name, value in asdict(self).items() if value or name != "reason"}

    def lines(self, program: str = "sluicegate") -> list[str]:
        """For people; ``program`` is how the program is called where they are."""
        word = {"wrong": "NOT RIGHT", "behind": "behind", "unproved": "not proved"}[self.kind]
        return [f"{word}: {self}", *([f"  run: {self.mend.replace('sluicegate', program, 1)}"] if self.mend else [])]

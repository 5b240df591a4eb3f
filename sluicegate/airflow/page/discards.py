"""Discards that the page starts, and discards that it takes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluicegate.airflow.dags.params import DISCARD, UNDO_DISCARD
from sluicegate.airflow.page.replays import Quarantined


@dataclass(frozen=True)
class Discarding(Quarantined):
    """A discard that a person confirms; its run's id is that of the discard. Records that come later are left.

    Attributes:
        note: why; the person writes it into the form, which is not sealed for it.
    """

    note: str = ""

    event = "lakehouse_discard"

    def form(self) -> dict[str, Any]:
        """Return the mode, the selection of records, and the note."""
        return {
            "mode": DISCARD, "tables": [self.table], "rules": self.rules, "note": self.note, "quarantine": self.version,
        }  # fmt: skip

    def audit_fields(self) -> dict[str, Any]:
        """Return the selection of records, the figures that the page showed, and the note."""
        return {**super().audit_fields(), "note": self.note}


@dataclass(frozen=True)
class TakingBack:
    """A discard that a person takes back.

    Attributes:
        pipeline: the pipeline, and id of its DAG.
        table: the silver table.
        discard: id of the discard.
        records: records that it counts for.
        run_id: id of the run.
    """

    pipeline: str
    table: str
    discard: str
    records: int
    run_id: str

    event = "lakehouse_undo_discard"

    def subject(self) -> tuple[str, ...]:
        """Return the subject for which the form is sealed."""
        return (self.event, self.pipeline, self.table, self.discard, str(self.records), self.run_id)

    def form(self) -> dict[str, Any]:
        """Return the mode and the discard."""
        return {"mode": UNDO_DISCARD, "tables": [self.table], "discard": self.discard}

    def audit_fields(self) -> dict[str, Any]:
        """Return the discard and the state that the page showed."""
        return {"table": self.table, "discard": self.discard, "records": self.records}

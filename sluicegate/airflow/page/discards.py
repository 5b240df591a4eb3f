"""Discards that the page starts, and discards that it takes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluicegate.airflow.params import DISCARD, UNDO_DISCARD


@dataclass(frozen=True)
class Discarding:
    """A discard that a person confirms, with a note.

    Attributes:
        pipeline: the pipeline, and id of its DAG.
        table: the silver table.
        rule: the rule that its records broke; empty for all in quarantine.
        records: records that wait in quarantine.
        version: the state of the quarantine that was shown: records that come later are left.
        run_id: id of the run, and so of the discard.
        note: why; the person writes it into the form.
    """

    pipeline: str
    table: str
    rule: str
    records: int
    version: str
    run_id: str
    note: str = ""

    @property
    def event(self) -> str:
        """That of a discard."""
        return "lakehouse_discard"

    def subject(self) -> tuple[str, ...]:
        """What a form for it is sealed for: all but the note."""
        return (self.event, self.pipeline, self.table, self.rule, str(self.records), self.version, self.run_id)

    def form(self) -> dict[str, Any]:
        """The mode, which records, and the note."""
        rules = [self.rule] if self.rule else None
        return {"mode": DISCARD, "tables": [self.table], "rules": rules, "note": self.note, "quarantine": self.version}

    def said(self) -> dict[str, Any]:
        """Which records, what was shown of them, and the note."""
        rules = [self.rule] if self.rule else None
        return {
            "table": self.table, "rules": rules, "records": self.records, "quarantine": self.version, "note": self.note,
        }  # fmt: skip


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

    @property
    def event(self) -> str:
        """That of a discard that is taken back."""
        return "lakehouse_undo_discard"

    def subject(self) -> tuple[str, ...]:
        """What a form for it is sealed for."""
        return (self.event, self.pipeline, self.table, self.discard, str(self.records), self.run_id)

    def form(self) -> dict[str, Any]:
        """The mode, and which discard."""
        return {"mode": UNDO_DISCARD, "tables": [self.table], "discard": self.discard}

    def said(self) -> dict[str, Any]:
        """Which discard, and what was shown of it."""
        return {"table": self.table, "discard": self.discard, "records": self.records}

"""Model of a Delta Live Tables source, whether SQL or Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Action = Literal["expect", "expect_or_drop", "expect_or_fail"]


@dataclass(frozen=True, order=True)
class Remark:
    """Part of a source that was not converted.

    Attributes:
        line: its line in the source, counted from 1.
        subject: what it is, in words.
        reason: why not, or what to do instead.
        changes_meaning: whether tables may have other rows without it, or show them to other people.
    """

    line: int
    subject: str
    reason: str
    changes_meaning: bool = True

    def __str__(self) -> str:
        return f"line {self.line}: {self.subject}: {self.reason}"

    def facts(self) -> dict[str, object]:
        """Return the remark for ``--json``."""
        return {"line": self.line, "what": self.subject, "why": self.reason, "changes_meaning": self.changes_meaning}


@dataclass(frozen=True)
class Rule:
    """Expectation of a dataset: condition and action for rows that violate it."""

    name: str
    condition: str
    action: Action
    line: int


@dataclass(frozen=True)
class Files:
    """Files that a dataset reads.

    Attributes:
        path: their folder, as the source has it.
        format: their format, as the source has it.
        options: options of the reader, as the source has them.
        line: the line that reads them.
        infers: whether types are inferred unless an option says otherwise.
        whole: whether each update reads all of them, as a batch does, so that changed and deleted files count.
    """

    path: str
    format: str
    options: dict[str, str]
    line: int
    infers: bool = False
    whole: bool = False


@dataclass(frozen=True)
class ChangeFlow:
    """Flow of change records into a table; the fields are those of ``apply_changes``."""

    target: str
    source: str
    fields: dict[str, object]
    line: int


@dataclass
class Dataset:
    """A table or a view of the source.

    Attributes:
        name: its address in lower case, with the catalog and the schema that it is declared with.
        line: the line that it begins on.
        kind: a table that is filled from a stream, one that is made from tables, or a view.
        query: its SELECT; None for a target of changes, and for files that are read as they are. In it tables are
            addresses, ``STREAM(address)`` for a stream; files are ``FILES``.
        query_line: the line that its query begins on.
        files: the files that it reads.
        comment: its comment.
        schema: its columns with their types.
        rules: its expectations.
        into: of a flow, the table that it adds rows to; else empty.
        flow: name of the flow; else empty.
        missing_as: under what the flow is noted as one that is not read, until it has been taken over.
    """

    name: str
    line: int
    kind: Literal["streaming", "materialized", "view"]
    query: str | None = None
    query_line: int = 1
    files: Files | None = None
    comment: str = ""
    schema: str = ""
    rules: list[Rule] = field(default_factory=list)
    into: str = ""
    flow: str = ""
    missing_as: str = ""

    @classmethod
    def from_flow(cls, flow: str, into: str, line: int, missing_as: str) -> Dataset:
        """Turn an append flow into a table into a dataset with a unique name."""
        return cls(f"{into}__{flow}", line, "streaming", into=into, flow=flow, missing_as=missing_as)


@dataclass
class ParsedSource:
    """Declarations of a source, and what of it could not be read.

    Attributes:
        datasets: the tables and views that could be read.
        changes: flows of changes into tables.
        remarks: what is not converted.
        declared: addresses of all tables and views, read or not, with the line that declares each.
        folders: paths of the source by the folders that they become.
        unnamed: other things that fill tables and are not read, in words, with their lines: flows, tables whose names
            are computed or exist already.
        twice: addresses that are declared more than once: ``USE`` may stand between them, or a name with a dot.
    """

    datasets: list[Dataset] = field(default_factory=list)
    changes: list[ChangeFlow] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)
    unnamed: dict[str, int] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    folders: dict[str, str] = field(default_factory=dict)

    def leave(self, line: int, subject: str, reason: str, *, changes_meaning: bool = True) -> None:
        """Note something that is not converted, and without which tables may have other rows or other readers."""
        self.remarks.append(Remark(line, subject, reason, changes_meaning))

    def leave_harmless(self, line: int, subject: str, reason: str) -> None:
        """Note something that is not converted, or is called otherwise, with the same rows in all tables."""
        self.leave(line, subject, reason, changes_meaning=False)

    def find_dataset(self, name: str) -> Dataset | None:
        """Return the dataset of a name, None if there is none."""
        return next((dataset for dataset in self.datasets if dataset.name == name), None)


# Name in a query of the files that its dataset reads.
FILES = "files__"

"""Report a run: lines for people while it works, and a message for programs at its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sluicegate import channel, errors
from sluicegate.console import files, warn
from sluicegate.errors import DefinitionError, JobFailed, Mistake, SluicegateError, Where
from sluicegate.flow.table_report import TableReport

# Kinds of a job's last message (see ``channel``). A run of several layers sends a report for each, and an error behind
# those of the layers that ended well.
REPORT = "SLUICEGATE_REPORT"
ERROR = "SLUICEGATE_ERROR"

# Kind of a continuous run's message about each batch.
BATCH = "SLUICEGATE_BATCH"

# Kind of a test job's message about each case.
CASE = "SLUICEGATE_CASE"

# Kind of a verification job's message about each finding.
FINDING = "SLUICEGATE_FINDING"

# Note in place of a report that cannot be read, of a job that ended well.
UNREPORTED = (
    "the job succeeded, but its report cannot be read; the tables have its figures: sluicegate history PIPELINE"
)

# What run ids of commands begin with; behind it is what tells one command from another.
COMMAND = "command line"


def closing_sentence(tables: Iterable[Mapping[str, Any]]) -> str:
    """Return the closing sentence of a run that reconciles.

    Args:
        tables: facts of each table; ``failed files`` could not be read, so their records are in no table.
    """
    unread = unread_files(tables)
    if not unread:
        return "every file and every record is accounted for"
    return f"every record that was read is accounted for, but {unread}"


def unread_files(tables: Iterable[Mapping[str, Any]]) -> str:
    """Return how many files could not be read, and the name of the first; empty if all could."""
    failed = [table for table in tables if table.get("failed files")]
    count = sum(table["failed files"] for table in failed)
    if not count:
        return ""
    return f"{files(count)} could not be read, first: {failed[0].get('first failed file', failed[0]['table'])}"


@dataclass
class RunReport:
    """Result of one job: a table report for each table of its layer, in the order they ran."""

    pipeline: str
    layer: str
    tables: list[TableReport] = field(default_factory=list)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def unreported(self) -> bool:
        """Whether this replaces a report that cannot be read."""
        return UNREPORTED in self.notes

    def as_dict(self) -> dict[str, Any]:
        """Return the report for the job's message and for ``--json`` output."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> RunReport:
        """Parse a report from a job's message; fields that only another version has are dropped."""
        tables = [TableReport(**_shared_facts(TableReport, table)) for table in facts["tables"]]
        return cls(**{**_shared_facts(cls, facts), "tables": tables})


def _shared_facts(kind: type[TableReport | RunReport], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that a report of this version has."""
    names = {attribute.name for attribute in fields(kind)}
    return {name: value for name, value in facts.items() if name in names}


def send(kind: str, facts: Mapping[str, Any]) -> None:
    """Send facts to the starter of the job, as ASCII JSON."""
    channel.send(kind, json.dumps(facts, default=str))


def facts_of(kind: str, message: str) -> dict[str, Any] | None:
    """Parse the facts of a job's message; None if it has another kind.

    Raises:
        JobFailed: the message is incomplete.
    """
    word, _, text = message.partition(" ")
    if word != kind:
        return None
    try:
        facts: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise JobFailed("cannot read a message of the job", cause=str(error)) from error
    return facts


def end_with_report(report: RunReport) -> None:
    """Send the report as the last message of the job, or of its layer."""
    send(REPORT, report.as_dict())


def end_with_error(error: SluicegateError) -> None:
    """Print the error for people, then send it as the job's last message."""
    warn(*error.for_people().split("\n"))
    send(ERROR, error.as_dict())


class ReportLines:
    """Messages of a job about the end of its layers and of itself."""

    def __init__(self) -> None:
        self._reports: list[dict[str, Any]] = []
        self.error: SluicegateError | None = None
        """Error of the job; None if it ended with a report, or not yet."""
        self.unread = 0
        """Reports that cannot be read: the job was killed in the middle of one, or the disk was full."""

    def take(self, message: str) -> bool:
        """Take a message; return whether it is a report or an error."""
        kind, _, text = message.partition(" ")
        if kind == REPORT:
            self.error = None
            self._take_report(text)
        elif kind == ERROR:
            self._take_error(text)
        else:
            return False
        return True

    def _take_report(self, text: str) -> None:
        try:
            facts = json.loads(text)
            RunReport.from_dict(facts)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.unread += 1
        else:
            self._reports.append(facts)

    def _take_error(self, text: str) -> None:
        try:
            self.error = error_of(text)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.unread += 1

    def reports(self) -> list[dict[str, Any]]:
        """Return the reports in the order of arrival."""
        return list(self._reports)


def error_of(line: str) -> SluicegateError:
    """Restore the error in a job's last message, in its own type, so that the caller can catch it."""
    return _error(json.loads(line.removeprefix(ERROR)))


def _error(facts: dict[str, Any]) -> SluicegateError:
    where = Where(facts["table"], facts["file"], facts["line"])
    kind = errors.error_type(facts["code"])
    error = kind.__new__(kind)  # some are made of other things than these, such as a list of mistakes
    SluicegateError.__init__(error, facts["message"], where=where, cause=facts["cause"], hint=facts["hint"])
    if isinstance(error, DefinitionError):
        error.mistakes = [Mistake(**mistake) for mistake in facts.get("mistakes", ())]
    error.code, error.exit_code = facts["code"], facts["exit_code"]
    error.others = list(map(_error, facts.get("others", ())))
    return error

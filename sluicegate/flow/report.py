"""Report of a run: lines for people while it works, and a message for programs at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sluicegate import channel, errors
from sluicegate.console import files, warn
from sluicegate.errors import DefinitionError, JobFailed, Mistake, SluicegateError, Where
from sluicegate.flow import table_text

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
UNREPORTED = "the job ended well, and what it reported cannot be read; the tables have it: sluicegate history PIPELINE"

# What run ids of commands begin with; behind it is what tells one command from another.
COMMAND = "command line"

# Counts of a batch that add up over the batches of a run.
_ADDED = ("read", "written", "quarantined", "dropped", "duplicates", "inserted", "updated", "deleted", "no_rows")


@dataclass
class TableReport:
    """Result of one run for one table.

    Attributes:
        table: name of the table.
        layer: bronze, silver or gold.
        state: ``idle``, ``blocked`` (it waits for another table), ``written``, ``again`` when records were
            reprocessed, ``validated`` when that was only tried, or ``rebuilt`` after a full refresh.
        why: the reason of a full refresh, or what a person should know (may be empty).
        trigger: ``availableNow`` if a stream read its source, else ``query: `` with the reason why there is no stream;
            empty if nothing of its source was read.
        read: records (gold: changed rows) that the run took in.
        written: rows added to or changed in the table.
        quarantined: records that broke an expectation and are in the quarantine table.
        dropped: records dropped by an ``expect_or_drop`` or by the query itself; their identities are set aside.
        duplicates: records set aside because another record has their key.
        inserted: rows inserted by reprocessing (silver), or by row deltas or affected groups (gold).
        updated: rows updated by it.
        deleted: rows deleted by it.
        unchanged: whether nothing at all was to be written.
        mixed: whether rows of the table may have been made by a former definition (silver).
        expectations: for each expectation how many rows passed and failed.
        table_rules: for each rule about the whole table how many rows broke it, in a table that may be committed 0.
        warnings: sentences on expectations that more rows broke than their ``warn_above``, and on records of Kafka that
            are gone.
        seconds: wall time spent on this table.
        version: version of the table after the run; None when it does not exist yet.
        files: files read (bronze).
        bytes: bytes of those files.
        corrupt: records kept as corrupt text (bronze).
        rescued: records with values in ``_rescued_data`` (bronze).
        failed: files that could not be read, with the reason (bronze).
        empty_files: files that were read and have no record (bronze).
        late: rows, or groups of them, that came too late for the watermark and are not in the table (gold with a mode).
        changed_files: files that changed after they were read, and were not read again (bronze).
        moved_files: files that were known under a former path, and were not read again (bronze).
        refused: what in the landing folder was passed over, with the reason (bronze).
        rows: rows that the records gave, where one may give many; else None, as each is one (silver).
        no_rows: records that gave no row of these (silver).
        flows: counts of each of the flows that fill the table together, by its name: ``read``, ``written`` and so on
            (silver).
        total: rows in the table after the run.
        samples: a few quarantined rows with the rules they broke.
    """

    table: str
    layer: str
    state: str = "idle"
    why: str = ""
    trigger: str = ""
    read: int = 0
    written: int = 0
    quarantined: int = 0
    dropped: int = 0
    duplicates: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: bool = False
    mixed: bool = False
    expectations: dict[str, dict[str, int]] = field(default_factory=dict)
    table_rules: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    version: int | None = None
    files: int = 0
    bytes: int = 0
    corrupt: int = 0
    rescued: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    empty_files: int = 0
    changed_files: int = 0
    moved_files: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    late: int = 0
    rows: int | None = None
    no_rows: int = 0
    flows: dict[str, dict[str, int]] = field(default_factory=dict)
    total: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)

    def followed_by(self, later: TableReport) -> TableReport:
        """Report of two batches of a run, one after the other, as of one."""
        totals = {name: getattr(self, name) + getattr(later, name) for name in _ADDED}
        rows = None
        if later.rows is not None:
            rows = (self.rows or 0) + later.rows
        return replace(
            later, **totals, flows=_sums(self.flows, later.flows),
            expectations=_sums(self.expectations, later.expectations), state=self._state_before(later),
            why=later.why or self.why, unchanged=self.unchanged and later.unchanged, rows=rows,
            warnings=list(dict.fromkeys([*self.warnings, *later.warnings])), samples=self.samples or later.samples,
        )  # fmt: skip

    def _state_before(self, later: TableReport) -> str:
        """State of two batches as of one: the one that says more of what became of the table."""
        for state in ("rebuilt", "again"):
            if state in (self.state, later.state):
                return state
        return later.state

    def as_dict(self) -> dict[str, Any]:
        """The report as in a job's message and in ``--json`` output."""
        return asdict(self)

    def line(self) -> str:
        """One aligned line that visibly adds up."""
        return table_text.line(self)

    def remarks(self) -> list[str]:
        """Remarks below the line: expectations that failed with a sample row, files that changed, and the like."""
        return table_text.remarks(self)


def accounted(failed_files: int) -> str:
    """What a run that adds up says of itself at its end.

    Args:
        failed_files: files that could not be read; what they have is in no table.
    """
    if not failed_files:
        return "every file and every record is accounted for"
    return f"every record that was read is accounted for, but {files(failed_files)} could not be read"


def _sums(first: dict[str, dict[str, int]], second: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Counts by name, those of both added up."""
    return first | {name: _sum(first.get(name, {}), counts) for name, counts in second.items()}


def _sum(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + count for name, count in second.items()}


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
        """Whether this stands for a report that cannot be read."""
        return UNREPORTED in self.notes

    def as_dict(self) -> dict[str, Any]:
        """The report as in the job's message and in ``--json`` output."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> RunReport:
        """A report read back from a job's message; what only another version knows of is left out."""
        tables = [TableReport(**_shared(TableReport, table)) for table in facts["tables"]]
        return cls(**{**_shared(cls, facts), "tables": tables})


def _shared(kind: type[TableReport | RunReport], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some facts that a report of this version has, too."""
    names = {attribute.name for attribute in fields(kind)}
    return {name: value for name, value in facts.items() if name in names}


def send(kind: str, facts: Mapping[str, Any]) -> None:
    """Sends facts to whoever started the job, as JSON of ASCII characters."""
    channel.send(kind, json.dumps(facts, default=str))


def facts_of(kind: str, message: str) -> dict[str, Any] | None:
    """Facts of a job's message; None if it is of another kind.

    Raises:
        JobFailed: it is not whole.
    """
    word, _, text = message.partition(" ")
    if word != kind:
        return None
    try:
        facts: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise JobFailed("a message of the job cannot be read", cause=str(error)) from error
    return facts


def end_with_report(report: RunReport) -> None:
    """Sends the report as the last message of the job, or of its layer."""
    send(REPORT, report.as_dict())


def end_with_error(error: SluicegateError) -> None:
    """Prints the error for people, and then sends it as the job's last message."""
    warn(*error.for_people().split("\n"))
    send(ERROR, error.as_dict())


class ReportLines:
    """The messages of a job on how its layers, or the job, ended."""

    def __init__(self) -> None:
        self._reports: list[dict[str, Any]] = []
        self._error: SluicegateError | None = None
        self.unread = 0
        """Reports that cannot be read: the job was killed in the middle of one, or the disk was full."""

    def take(self, message: str) -> bool:
        """Takes a message; returns whether it is one of these."""
        kind, _, text = message.partition(" ")
        if kind == REPORT:
            self._error = None
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
            self._error = error_of(text)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.unread += 1

    @property
    def error(self) -> SluicegateError | None:
        """What the job ended with; None if that is a report, or nothing."""
        return self._error

    def reports(self) -> list[dict[str, Any]]:
        """The reports as they were sent, in their order."""
        return list(self._reports)


def error_of(line: str) -> SluicegateError:
    """Error in a job's last message, of its own type, so that whoever began the job can catch it by that."""
    return _error(json.loads(line.removeprefix(ERROR)))


def _error(facts: dict[str, Any]) -> SluicegateError:
    where = Where(facts["table"], facts["file"], facts["line"])
    kind = errors.of_code(facts["code"])
    error = kind.__new__(kind)  # some are made of other things than these, such as a list of mistakes
    SluicegateError.__init__(error, facts["message"], where=where, cause=facts["cause"], hint=facts["hint"])
    if isinstance(error, DefinitionError):
        error.mistakes = [Mistake(**mistake) for mistake in facts.get("mistakes", ())]
    error.code, error.exit_code = facts["code"], facts["exit_code"]
    error.others = [_error(other) for other in facts.get("others", ())]
    return error

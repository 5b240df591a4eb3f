"""Report of what a run made of one table, and its lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sluicegate.console import files, human_bytes, inflect

# Counts of a batch that add up over the batches of a run.
_ADDED = ("read", "written", "quarantined", "dropped", "duplicates", "inserted", "updated", "deleted", "no_rows")

# Failed files that are named; `sluicegate files` names all.
SHOWN = 5


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

    def combine_with(self, later: TableReport) -> TableReport:
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
        """Return the report as in a job's message and in ``--json`` output."""
        return asdict(self)

    def line(self) -> str:
        """Format the report as one aligned line whose numbers add up."""
        if self.state == "blocked":
            return f"{_label(self)} waits: {self.why}"
        if self.state == "idle":
            return f"{_label(self)} nothing new"
        parts = [f"{_label(self)} {self.read:>9,} read", *_counts(self), f"   {self.seconds:.1f} s"]
        if self.state == "rebuilt" and self.why:
            parts.append(f"   (whole: {self.why})")
        if self.trigger.startswith("query: "):
            parts.append(f"   ({self.trigger})")
        return "".join(parts)

    def remarks(self) -> list[str]:
        """List remarks below the line: expectations that failed with a sample row, files that changed, and the like."""
        return [
            *_remarks_on_reprocessing(self), *_remarks_on_flows(self), *_remarks_on_rules(self), *_unread_files(self),
            *_remarks_on_late_rows(self), *_passed_over_files(self),
        ]  # fmt: skip


def _sums(first: dict[str, dict[str, int]], second: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Add up two counts by name."""
    return first | {name: _sum(first.get(name, {}), counts) for name, counts in second.items()}


def _sum(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + count for name, count in second.items()}


def _label(report: TableReport) -> str:
    """Return the layer and table, aligned."""
    return f"  {report.layer:<6} {report.table:<28}"


def _counts(report: TableReport) -> list[str]:
    """Return the counts of what was read, as parts of the line."""
    if report.layer == "gold":
        return [f" → {report.written:>9,} rows"]
    if report.layer == "bronze":
        return [_written_records(report), *_counts_of_files(report)]
    discarded = f" + {report.quarantined:,} quarantined + {report.dropped:,} dropped + {report.duplicates:,} duplicates"
    return [_written_records(report), discarded]


def _counts_of_files(report: TableReport) -> list[str]:
    """Return the files of bronze rows, and how many rows need attention."""
    parts: list[str] = []
    if report.files:
        parts.append(f"   from {files(report.files)}, {human_bytes(report.bytes)}")
    if report.corrupt:
        parts.append(f", {report.corrupt:,} corrupt")
    if report.rescued:
        parts.append(f", {report.rescued:,} with rescued data")
    return parts


def _written_records(report: TableReport) -> str:
    """Return the records that were written, or the rows that they gave."""
    if report.rows is None:
        return f" = {report.written:>9,} written"
    no_row = ""
    if report.no_rows:
        no_row = f" ({report.no_rows:,} gave no row)"
    return f"{no_row}, {report.rows:,} rows = {report.written:,} written"


def _reprocessing_result(report: TableReport) -> str:
    """Return the result of reprocessing, and its reason."""
    counts = {"inserted": report.inserted, "updated": report.updated, "deleted": report.deleted}
    result = ", ".join(f"{count:,} {verb}" for verb, count in counts.items())
    unchanged = not any(counts.values())
    if unchanged:
        result = "no row of the table changed"
    if report.state == "validated":
        if unchanged:
            result = "no row of the table would change"
        else:
            result = f"would be: {result}"
    if report.why:
        return f"{report.why}: {result}"
    return result


def _unread_files(report: TableReport) -> list[str]:
    """Return the remarks on files that could not be read, or have no record (bronze)."""
    lines: list[str] = []
    if report.failed:
        subject = inflect(len(report.failed), "it is", "they are")
        lines.append(
            f"         {files(len(report.failed))} could not be read; {subject} retried once the file or definition "
            f"changes:"
        )
        lines += _lines_of_reasons(report.failed)
    if report.empty_files:
        lines.append(f"         {files(report.empty_files)} without records")
    return lines


def _lines_of_reasons(reasons: Mapping[str, str]) -> list[str]:
    """Return a line for each of the first reasons, with the first path that has it and how many more have."""
    paths_by_reason: dict[str, list[str]] = {}
    for path, reason in reasons.items():
        paths_by_reason.setdefault(reason, []).append(path)
    lines = []
    for reason, (first, *others) in list(paths_by_reason.items())[:SHOWN]:
        more = ""
        if others:
            more = f" and {len(others):,} more"
        lines.append(f"           {first}{more}: {reason}")
    return lines


def _remarks_on_reprocessing(report: TableReport) -> list[str]:
    lines: list[str] = []
    if report.layer == "bronze" and report.why and report.state == "written":
        lines.append(f"         {report.why}")
    if report.state in ("again", "validated") or report.inserted or report.updated or report.deleted:
        lines.append(f"         {_reprocessing_result(report)}")
    return lines


def _remarks_on_flows(report: TableReport) -> list[str]:
    """Return the counts of each flow, and whether rows of a former definition are left (silver)."""
    lines = [f"         {name}: {_flow_counts(counts)}" for name, counts in report.flows.items() if counts["read"]]
    if report.mixed:
        lines.append(
            f"         its definition changed; rows that were not reprocessed since keep their values: "
            f"`sluicegate replay PIPELINE {report.table} --everything` reprocesses all"
        )
    return lines


def _remarks_on_rules(report: TableReport) -> list[str]:
    lines = [
        f"         {name}: {counts['failed']:,} of {counts['failed'] + counts['passed']:,} rows failed"
        for name, counts in report.expectations.items()
        if counts["failed"]
    ]
    lines += [f"         warning: {sentence}" for sentence in report.warnings]
    lines += [f"         e.g. {_sample(sample)}" for sample in report.samples[:1]]
    return lines


def _remarks_on_late_rows(report: TableReport) -> list[str]:
    if not report.late:
        return []
    return [f"         {report.late:,} rows (or groups of rows) arrived too late for the watermark, and were left out"]


def _passed_over_files(report: TableReport) -> list[str]:
    """Return the remarks on files in landing that were not read, or not read again (bronze)."""
    lines: list[str] = []
    if report.changed_files:
        lines.append(
            f"         {files(report.changed_files)} changed after they were read, and are not read again: "
            f"`sluicegate files` names them; land them under a new name, or set allowOverwrites"
        )
    if report.moved_files:
        lines.append(
            f"         {files(report.moved_files)} moved, with their landing folder or within it: their names and "
            f"sizes are those of files already read from the former place, so they are not read again"
        )
    if report.refused:
        lines.append(f"         skipped in the landing folder: {len(report.refused):,}")
        lines += _lines_of_reasons(report.refused)
    return lines


def _flow_counts(counts: dict[str, int]) -> str:
    """Return the counts of one flow, which add up as the table's do."""
    rows = ""
    if "rows" in counts:
        rows = f" ({counts['no_rows']:,} gave no row), {counts['rows']:,} rows"
    discarded = "".join(f" + {counts[name]:,} {name}" for name in ("quarantined", "dropped", "duplicates"))
    return f"{counts['read']:,} read{rows} = {counts['written']:,} written{discarded}"


def _sample(sample: dict[str, Any]) -> str:
    values = ", ".join(f"{column} = {value}" for column, value in sample["row"].items())
    file = str(sample["file"] or "").rsplit("/", 1)[-1]
    return f"{values or 'a row'}{f' in {file}' if file else ''} broke {', '.join(sample['rules'])}"

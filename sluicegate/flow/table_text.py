"""Lines for people about what a run made of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate.console import files, human_bytes

if TYPE_CHECKING:
    from sluicegate.flow.report import TableReport

# Failed files that are named; `sluicegate files` names all.
SHOWN = 5


def line(report: TableReport) -> str:
    """One aligned line that visibly adds up."""
    if report.state == "blocked":
        return f"{_label(report)} waits: {report.why}"
    if report.state == "idle":
        return f"{_label(report)} nothing new"
    parts = [f"{_label(report)} {report.read:>9,} read", *_counts(report), f"   {report.seconds:.1f} s"]
    if report.state == "rebuilt" and report.why:
        parts.append(f"   (whole: {report.why})")
    if report.trigger.startswith("query: "):
        parts.append(f"   ({report.trigger})")
    return "".join(parts)


def _label(report: TableReport) -> str:
    """Layer and table, aligned."""
    return f"  {report.layer:<6} {report.table:<28}"


def _counts(report: TableReport) -> list[str]:
    """What became of what was read, as parts of the line."""
    if report.layer == "gold":
        return [f" → {report.written:>9,} rows"]
    if report.layer == "bronze":
        return [_written(report), *_counts_of_files(report)]
    discarded = f" + {report.quarantined:,} quarantined + {report.dropped:,} dropped + {report.duplicates:,} duplicates"
    return [_written(report), discarded]


def _counts_of_files(report: TableReport) -> list[str]:
    """Where bronze rows came from, and how many of them need a look."""
    parts: list[str] = []
    if report.files:
        parts.append(f"   from {files(report.files)}, {human_bytes(report.bytes)}")
    if report.corrupt:
        parts.append(f", {report.corrupt:,} corrupt")
    if report.rescued:
        parts.append(f", {report.rescued:,} with rescued data")
    return parts


def _written(report: TableReport) -> str:
    """Records that were written, or the rows that they gave."""
    if report.rows is None:
        return f" = {report.written:>9,} written"
    no_row = ""
    if report.no_rows:
        no_row = f" ({report.no_rows:,} gave no row)"
    return f"{no_row}, {report.rows:,} rows = {report.written:,} written"


def _reprocessed(report: TableReport) -> str:
    """Result of reprocessing, and its reason."""
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
    """Remarks on files that could not be read, or have no record (bronze)."""
    lines: list[str] = []
    if report.failed:
        subject = "they are"
        if len(report.failed) == 1:
            subject = "it is"
        lines.append(
            f"         {files(len(report.failed))} could not be read; {subject} read again once changed, or once the "
            f"definition is:"
        )
        lines += [f"           {path}: {reason}" for path, reason in list(report.failed.items())[:SHOWN]]
    if report.empty_files:
        lines.append(f"         {files(report.empty_files)} without records")
    return lines


def remarks(report: TableReport) -> list[str]:
    """Remarks below the line: expectations that failed with a sample row, files that changed, and the like."""
    return [
        *_remarks_on_reprocessing(report),
        *_remarks_on_flows(report),
        *_remarks_on_rules(report),
        *_unread_files(report),
        *_remarks_on_late_rows(report),
        *_passed_over_files(report),
    ]


def _remarks_on_reprocessing(report: TableReport) -> list[str]:
    lines: list[str] = []
    if report.layer == "bronze" and report.why and report.state == "written":
        lines.append(f"         {report.why}")
    if report.state in ("again", "validated") or report.inserted or report.updated or report.deleted:
        lines.append(f"         {_reprocessed(report)}")
    return lines


def _remarks_on_flows(report: TableReport) -> list[str]:
    """What each of several flows gave, and whether rows of a former definition are left (silver)."""
    lines = [f"         {name}: {_added_up(counts)}" for name, counts in report.flows.items() if counts["read"]]
    if report.mixed:
        lines.append(
            f"         its definition changed, and rows that were not reprocessed since are as they were: "
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
    return [f"         {report.late:,} rows (or groups of rows) came too late for the watermark: not in it"]


def _passed_over_files(report: TableReport) -> list[str]:
    """Remarks on files in landing that were not read, or not read again (bronze)."""
    lines: list[str] = []
    if report.changed_files:
        lines.append(
            f"         {files(report.changed_files)} changed after being read, and not read again: "
            f"`sluicegate files` names them; land them under a new name, or set allowOverwrites"
        )
    if report.moved_files:
        lines.append(
            f"         moved, with their landing folder or within it: {files(report.moved_files)} with names and "
            f"sizes of files that were read from a former place not read again"
        )
    if report.refused:
        lines.append(f"         passed over in the landing folder: {len(report.refused):,}")
        lines += [f"           {path}: {reason}" for path, reason in list(report.refused.items())[:SHOWN]]
    return lines


def _added_up(counts: dict[str, int]) -> str:
    """The counts of one of several flows, which add up as those of the table do."""
    rows = ""
    if "rows" in counts:
        rows = f" ({counts['no_rows']:,} gave no row), {counts['rows']:,} rows"
    discarded = "".join(f" + {counts[name]:,} {name}" for name in ("quarantined", "dropped", "duplicates"))
    return f"{counts['read']:,} read{rows} = {counts['written']:,} written{discarded}"


def _sample(sample: dict[str, Any]) -> str:
    values = ", ".join(f"{column} = {value}" for column, value in sample["row"].items())
    file = str(sample["file"] or "").rsplit("/", 1)[-1]
    return f"{values or 'a row'}{f' in {file}' if file else ''} broke {', '.join(sample['rules'])}"

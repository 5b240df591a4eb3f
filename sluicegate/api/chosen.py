"""Runs over files or records that somebody chooses: COPY INTO, reload, reset, replay, discard and skip.

Each is one spark-submit, and none where nothing was chosen that is there; in a replay gold follows in the same one.
Neither a discard nor a skip needs Spark.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.console import files as files_of
from sluicegate.console import ignore_line
from sluicegate.storage.store_errors import translate_errors

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.flow.report import RunReport
    from sluicegate.landing.chosen.reread import ResetPreview
    from sluicegate.landing.chosen.skip import SkipPreview
    from sluicegate.launch.discard import Chosen


@dataclass(frozen=True)
class ReloadPreview:
    """What a reload would read.

    Attributes:
        files: paths of the files that would be read.
        missing: paths of files in the ledger that match and cannot be read; their rows stay.
    """

    files: list[str]
    missing: list[str]

    def sentences(self) -> list[str]:
        """Sentence about the files that cannot be read; none if all can."""
        if not self.missing:
            return []
        shown = ", ".join(self.missing[:5])
        return [f"{len(self.missing):,} matching files cannot be read again, and their rows stay: {shown}"]


@translate_errors()
def copy_into(
    pipeline: Pipeline,
    table: str,
    source: str | Path,
    *,
    files: Sequence[str] = (),
    pattern: str | None = None,
    force: bool = False,
    modified_after: datetime | None = None,
    modified_before: datetime | None = None,
    select: str | None = None,
    columns: Sequence[str] = (),
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    dialect: str | None = None,
    merge_schema: bool | None = None,
    validate: int | None = None,
    tell: Callable[[str], None] = ignore_line,
) -> list[RunReport]:
    """Copy chosen files into a bronze table, each of them once, as ``sluicegate copy-into``.

    Args:
        pipeline: the definition.
        table: name of a bronze table.
        source: folder or file to copy, path or URI.
        files: names below the folder; none means all.
        pattern: pattern that names below the folder must match.
        force: whether files that the ledger has are copied once more.
        modified_after: only files modified after this time; without a zone it is UTC.
        modified_before: only files modified before it.
        select: SELECT over the fields of the files, FROM source; None for all fields.
        columns: names of the columns in order.
        format: format of the files; None for the table's.
        options: options of Spark's reader.
        dialect: dialect of CSV files, ``rfc4180`` or ``spark``; None for the table's.
        merge_schema: whether new columns come in, or are an error; None for what the definition says.
        validate: writes nothing, and shows so many records to ``tell``; None to copy.
        tell: takes each line that the job says to people.

    Returns:
        The report of the job, whose one table has ``read`` and ``failed``; none when there was nothing to copy.

    Raises:
        PipelineMissing: there is no such bronze table.
        LandingMissing: there is no such folder, or no such file in it.
        UserError: the files cannot be read in this manner; nothing was entered into the ledger.
        SluicegateError: the job failed, with the type of its error.
    """
    from sluicegate.definition.pipeline.model import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.landing.chosen.copy import Copy
    from sluicegate.landing.chosen.copy_options import CopyOptions
    from sluicegate.launch import submit

    if "://" in str(source):
        folder = str(source)
    else:
        folder = str(Path(source).absolute())
    copy_options = CopyOptions(select, tuple(columns), format, dict(options or {}), merge_schema, dialect=dialect)
    copy = Copy(folder, tuple(files), pattern, force, _to_utc(modified_after), _to_utc(modified_before), copy_options)
    lake = Lake(pipeline.settings.lake, pipeline.name)
    new = copy.discover(table, bronze_table(pipeline, table), lake).new.num_rows
    if not (new or (validate is None and copy.is_unfinished(table, lake))):
        return []
    arguments = copy.arguments(table, validate)
    return [submit.submit("copy_into", pipeline.name, pipeline.settings, submit.run_info(), tell, arguments)]


@translate_errors()
def reload(
    pipeline: Pipeline,
    table: str,
    *,
    files: Sequence[str] = (),
    pattern: str | None = None,
    archived: bool = False,
    confirm: Callable[[ReloadPreview], bool] | None = None,
    tell: Callable[[str], None] = ignore_line,
) -> list[RunReport]:
    """Read chosen files again and replace their former rows, as ``sluicegate reload``.

    Args:
        pipeline: the definition.
        table: name of a bronze table.
        files: names below the landing folder, or paths as the ledger has them.
        pattern: pattern that names below the landing folder must match.
        archived: whether to read files in the archive that the ledger does not know: those of ``files``, by their
            addresses, or all.
        confirm: gets what would be read before anything is written; where it returns False, nothing is done.
        tell: takes each line that the job says to people.

    Returns:
        The report of the job, with a note on files that match and cannot be read; none when no file could be read.

    Raises:
        PipelineMissing: there is no such bronze table.
        LandingMissing: the landing folder does not exist, or one of ``files`` is neither there nor archived.
        UserError: neither files nor a pattern, the table has not read any file yet, or a file is still settling.
        SluicegateError: the job failed, with the type of its error.
    """
    from sluicegate.definition.pipeline.model import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.landing.chosen import reread
    from sluicegate.launch import submit

    bronze = bronze_table(pipeline, table)
    chosen = reread.choose_reload(files, pattern, pipeline, table, archived=archived)
    subject = (table, bronze, Lake(pipeline.settings.lake, pipeline.name))
    preview = ReloadPreview(chosen.discover(*subject).paths, chosen.missing(*subject))
    agreed = confirm is None or confirm(preview)
    if not (agreed and preview.files):
        return []
    arguments = chosen.arguments(table)
    reports = submit.submit("reload", pipeline.name, pipeline.settings, submit.run_info(), tell, arguments)
    reports.notes += preview.sentences()
    return [reports]


@translate_errors()
def reset(
    pipeline: Pipeline,
    table: str,
    *,
    drop_missing: bool = False,
    confirm: Callable[[ResetPreview], bool] | None = None,
    tell: Callable[[str], None] = ignore_line,
) -> list[RunReport]:
    """Rebuild a bronze table with its columns from all its files, in one commit, as ``sluicegate reset --yes``.

    Args:
        pipeline: the definition.
        table: name of a bronze table.
        drop_missing: whether the rows of files that cannot be read any more are given up; else they stay.
        confirm: gets what would be done before anything is written; where it returns False, nothing is done.
        tell: takes each line that the job says to people.

    Returns:
        The report of the job; none where ``confirm`` said no.

    Raises:
        PipelineMissing: there is no such bronze table.
        LandingMissing: the landing folder does not exist.
        UserError: the table has not read any file yet, or a file is still settling.
        SluicegateError: the job failed, with the type of its error.
    """
    from sluicegate.definition.pipeline.model import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.landing.chosen import reread
    from sluicegate.launch import submit

    lake = Lake(pipeline.settings.lake, pipeline.name)
    preview = reread.preview(table, bronze_table(pipeline, table), lake)
    if confirm is not None and not confirm(preview):
        return []
    arguments = reread.Reset(drop_missing).arguments(table)
    return [submit.submit("reset", pipeline.name, pipeline.settings, submit.run_info(), tell, arguments)]


@translate_errors()
def replay(
    pipeline: Pipeline,
    table: str,
    *,
    rules: Sequence[str] = (),
    dropped: bool = False,
    everything: bool = False,
    validate: bool = False,
    tell: Callable[[str], None] = ignore_line,
) -> list[RunReport]:
    """Evaluate quarantined records by today's rules, transform and lookups, as ``sluicegate replay``; gold follows.

    Args:
        pipeline: the definition.
        table: name of a silver table.
        rules: only records that broke one of these; none means whichever.
        dropped: those that rules dropped, too.
        everything: all records of the table's source.
        validate: writes nothing, and counts what would change.
        tell: takes each line that the jobs say to people.

    Returns:
        The report of the replay, and that of gold if silver changed.

    Raises:
        PipelineMissing: there is no such table.
        UserError: it is no silver table, or has no such rule.
        SluicegateError: a job failed, with the type of its error.
    """
    from sluicegate.flow.selection import Replay
    from sluicegate.launch import submit

    chosen = Replay(table, tuple(rules), dropped, everything, validate)
    chosen.demand(pipeline)
    arguments = [*chosen.arguments(), *([] if validate else ["--follow"])]
    return submit.submit_all("replay", pipeline.name, pipeline.settings, submit.run_info(), tell, arguments)


@translate_errors()
def discard(
    pipeline: Pipeline,
    table: str,
    *,
    note: str = "",
    rules: Sequence[str] = (),
    undo: bool = False,
    only: str = "",
    confirm: Callable[[Chosen], bool] | None = None,
    tell: Callable[[str], None] = ignore_line,
) -> int:
    """Discard quarantined records with a note, or undo discards, as ``sluicegate discard --yes``. No Spark.

    Args:
        pipeline: the definition.
        table: name of a silver table.
        note: why, for people, at most 500 characters without personal data; not needed with ``undo``.
        rules: only records that broke one of these; none means whichever.
        undo: return discarded records to quarantine.
        only: with ``undo``, id of the only discard to undo.
        confirm: called with what would be done, before anything is written; False stops it.
        tell: called with a line on what was done.

    Returns:
        Rows of the quarantine that are discarded by it, or with ``undo`` that were.

    Raises:
        PipelineMissing: there is no such table.
        UserError: it is no silver table, the note is missing or too long, or there is no such rule or discard.
        TargetConflict: the tables belong to another target.
        SluicegateError: others discard records of the table at the same time, again and again.
    """
    from sluicegate.launch.discard import Discard, find_records, to_one_line, user

    chosen = find_records(pipeline, Discard(table, tuple(rules), to_one_line(note), undo, only))
    if (confirm is not None and not confirm(chosen)) or not (chosen.records or chosen.discards):
        return 0
    identity = secrets.token_hex(4)
    written = chosen.carry_out(user(), identity)
    tell(f"{written:,} returned to quarantine" if undo else f"{written:,} discarded, as the discard {identity}")
    return written


@translate_errors()
def skip(
    pipeline: Pipeline,
    table: str,
    listed: str | Path,
    *,
    column: str | None = None,
    from_prefix: Sequence[str] = (),
    to_prefix: Sequence[str] = (),
    confirm: Callable[[SkipPreview], bool] | None = None,
    tell: Callable[[str], None] = ignore_line,
) -> int:
    """Enter files that another pipeline has read into the ledger as skipped, as ``sluicegate skip --yes``. No Spark.

    Args:
        pipeline: the definition.
        table: name of a bronze table.
        listed: path or URI of the list of these files: text with one path a line, CSV, JSON or Parquet.
        column: the column with the paths; None for ``path``, ``file_path``, ``source_file`` or the only one.
        from_prefix: prefixes of the listed paths that differ from the paths here.
        to_prefix: the replacement of each prefix.
        confirm: called with what would be done, before anything is written; False stops it.
        tell: called with a line on what was done.

    Returns:
        Files that were entered, without those that were skipped before.

    Raises:
        PipelineMissing: there is no such bronze table.
        LandingMissing: the landing folder does not exist, or none of the files is in it.
        UserError: the list cannot be read, or the table has read one of its files.
        TargetConflict: the tables belong to another target.
        LakeLocked: a run of the pipeline kept the lock until the timeout.
    """
    from sluicegate.landing.chosen import listed_files
    from sluicegate.landing.chosen import skip as skipping

    request = skipping.Skip(table, str(listed), column, listed_files.prefixes(from_prefix, to_prefix))
    if confirm is not None and not confirm(skipping.preview(pipeline, request)):
        return 0
    entered: int = skipping.enter(pipeline, request).files.num_rows
    reading = f"`sluicegate reload {pipeline.name} {table} --files` reads one after all"
    tell(f"{files_of(entered)} entered as skipped; {reading}")
    return entered


def _to_utc(time: datetime | None) -> datetime | None:
    """Convert a time to UTC; one without a zone is in UTC already."""
    if time is None:
        return None
    if time.tzinfo:
        return time.astimezone(UTC)
    return time.replace(tzinfo=UTC)

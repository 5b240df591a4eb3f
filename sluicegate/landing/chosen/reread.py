"""Selection of files to read again: some of them (a reload) or all (a reset), with their ledger actions.

Both are entries of the ledger like any other; see jobs/reload.py.
"""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.console import files
from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.errors import LandingMissing, UserError, Where
from sluicegate.lake import tables
from sluicegate.lake.layout import Lake
from sluicegate.landing import arrivals, discovery, file_status
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.discovery import Copied
from sluicegate.landing.file_states import FileStatus, LedgerAction
from sluicegate.landing.moves import archived_files
from sluicegate.landing.table_files import Entry, Selected, TableFiles, to_table
from sluicegate.storage.listings import FILES


@dataclass(frozen=True)
class Reload:
    """A reload: the files to read again.

    Attributes:
        files: their names below the landing folder, or their paths as in the ledger; none means all that match.
        pattern: pattern that names below the landing folder must match.
    """

    files: tuple[str, ...] = ()
    pattern: str | None = None

    def discover(self, name: str, table: BronzeTable, lake: Lake) -> discovery.Discovery:
        """Find the files to enter into the ledger (a ``landing.discovery.FileFinder``).

        Raises:
            LandingMissing: the folder does not exist, or one of the files is neither there nor archived.
            UserError: a file is still settling.
        """
        table_files, chosen = self._chosen_files(name, table, lake)
        gone = {path for path, file in chosen.items() if file is None}
        missing = sorted(path for path in gone if self._names(path, table_files.relative_path(path)))
        if missing:
            raise LandingMissing(
                f"{missing[0]} cannot be read again",
                where=Where(table=name, file=missing[0]),
                cause=f"it is neither in landing nor in the archive ({files(len(missing))} of the given files)",
                hint="land it again under this name, or omit it: its rows stay in the table",
            )
        chosen_files = [file for file in chosen.values() if file is not None]
        table_files.demand_settled([file for file in chosen_files if file["path"] not in table_files.places])
        as_defined, copied = table_files.split_by_options(chosen_files)
        by_action: dict[LedgerAction, list[Entry]] = defaultdict(list)
        for file in as_defined:
            by_action[table_files.action(file)].append(file)
        entered = [landing_ledger.add_action(action, to_table(those)) for action, those in by_action.items()]
        return _discovery(entered, copied=copied)

    def missing(self, name: str, table: BronzeTable, lake: Lake) -> list[str]:
        """Return files of the ledger that match, but cannot be read again; their rows stay."""
        return [path for path, file in self._chosen_files(name, table, lake)[1].items() if file is None]

    def _chosen_files(self, name: str, table: BronzeTable, lake: Lake) -> tuple[TableFiles, dict[str, Entry | None]]:
        table_files = TableFiles.from_table(name, table, lake)
        paths = [path for path in table_files.all_paths if self._is_wanted(path, table_files.relative_path(path))]
        chosen = table_files.readable_files(paths)
        _demand_named(self.files, {*chosen, *map(table_files.relative_path, chosen)}, name, table)
        return table_files, chosen

    def _is_wanted(self, path: str, relative: str) -> bool:
        named = not self.files or self._names(path, relative)
        return named and (self.pattern is None or fnmatch.fnmatchcase(relative, self.pattern))

    def _names(self, path: str, relative: str) -> bool:
        return not {path, relative}.isdisjoint(self.files)

    def arguments(self, table: str) -> list[str]:
        """Return the reload as arguments of ``spark_jobs/tools/reload.py``."""
        arguments = [f"--table={table}", *(f"--files={name}" for name in self.files)]
        if self.pattern is None:
            return arguments
        return [*arguments, f"--pattern={self.pattern}"]


@dataclass(frozen=True)
class FromArchive:
    """An entry of files in the archive that the ledger does not know.

    Attributes:
        files: their addresses; none means all.
    """

    files: tuple[str, ...] = ()

    def discover(self, name: str, table: BronzeTable, lake: Lake) -> discovery.Discovery:
        """Find the files to enter into the ledger (a ``landing.discovery.FileFinder``).

        Raises:
            LandingMissing: one of the files is not in the archive, or the ledger knows it.
        """
        unknown = archived_files.unknown_files(name, table, lake)
        missing = sorted({*self.files} - {*unknown["path"].to_pylist()})
        if missing:
            raise LandingMissing(
                f"{missing[0]} is not in the archive of {name}, or is already in its ledger",
                where=Where(table=name, file=missing[0]),
                hint="`sluicegate status PIPELINE --verify` lists the files that are in no ledger",
            )
        selected = unknown
        if self.files:
            selected = unknown.filter(pc.field("path").isin(list(self.files)))
        return _discovery([landing_ledger.add_action(LedgerAction.READ, selected)])

    def missing(self, *_: object) -> list[str]:
        """Return no paths: a file that is not in the archive is never listed from it."""
        return []

    def arguments(self, table: str) -> list[str]:
        """Return the command as arguments of ``spark_jobs/tools/reload.py``."""
        return [f"--table={table}", "--archived", *(f"--files={name}" for name in self.files)]


@dataclass(frozen=True)
class Reset:
    """A full refresh of one bronze table.

    Attributes:
        drop_missing: whether rows of files that cannot be read again are deleted; else they stay.
    """

    drop_missing: bool = False

    def discover(self, name: str, table: BronzeTable, lake: Lake) -> discovery.Discovery:
        """Find the files to enter into the ledger, as one ledger batch (a ``landing.discovery.FileFinder``).

        Raises:
            LandingMissing: the folder does not exist.
            UserError: a file is still settling.
        """
        table_files = TableFiles.from_table(name, table, lake)
        selected = table_files.select_files()
        as_defined, copied = table_files.split_by_options(selected.present)
        entered = [landing_ledger.add_action(LedgerAction.RESET, to_table([*as_defined, *selected.archived]))]
        if self.drop_missing:
            entered.append(landing_ledger.add_action(LedgerAction.DROP, to_table(selected.missing)))
        remarks = _preview(table_files, selected, copied, lake).staying_lines(self.drop_missing)
        return _discovery(entered, whole=True, copied=copied, remarks=remarks)

    def arguments(self, table: str) -> list[str]:
        """Return the reset as arguments of ``spark_jobs/tools/reset.py``."""
        return [f"--table={table}", *(["--drop-missing"] if self.drop_missing else [])]


@dataclass(frozen=True)
class ResetPreview:
    """What a reset would do.

    Attributes:
        rows: rows in the table now.
        files: files that would be read again.
        bytes: their size.
        archived: how many of them would be read from where ``cleanSource`` moved them.
        missing: files that cannot be read again: gone, or no longer admitted by the definition.
        missing_rows: rows that these gave.
        copied: how many of the files are read with the options by which ``copy-into`` brought them.
        former: files that cannot be read again, of names that were used again or copied once more.
        former_rows: rows that these gave; they stay.
    """

    rows: int
    files: int
    bytes: int
    archived: int
    missing: list[str]
    missing_rows: int
    copied: int = 0
    former: int = 0
    former_rows: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the preview for ``--json``."""
        return asdict(self)

    def sentences(self, drop_missing: bool) -> list[str]:
        """Return lines for the person who decides."""
        if self.files == 1:
            are, their = ("is", "its")
        else:
            are, their = ("are", "their")
        replaced = self.rows - self.missing_rows - self.former_rows
        lines = [f"{files(self.files)} {are} read again, and {their} rows replace {replaced:,} rows in one commit"]
        if self.archived:
            lines.append(f"{files(self.archived)} of them from the archive")
        if self.copied:
            lines.append(f"{files(self.copied)} of them with the options of their copy-into, in later commits")
        return lines + self.staying_lines(drop_missing)

    def staying_lines(self, drop_missing: bool) -> list[str]:
        """Return lines on files that are not read again."""
        lines = []
        if self.missing:
            consequence = "are kept (--drop-missing deletes them)"
            if drop_missing:
                consequence = "are LOST"
            rows = f"their {self.missing_rows:,} rows {consequence}"
            lines.append(f"{files(len(self.missing))} cannot be read again, and {rows}")
            lines += [f"  {path}" for path in self.missing[:5]]
        if self.former:
            lines.append(
                f"{files(self.former)} with the name of a later file cannot be read again, and their "
                f"{self.former_rows:,} rows do not change"
            )
        return lines


def preview(name: str, table: BronzeTable, lake: Lake) -> ResetPreview:
    """Return the effect of a reset, and write nothing.

    Raises:
        LandingMissing: the folder does not exist.
        UserError: there is nothing to reset yet, or a file is still settling.
    """
    table_files = TableFiles.from_table(name, table, lake)
    selected = table_files.select_files()
    return _preview(table_files, selected, table_files.split_by_options(selected.present)[1], lake)


def _preview(table_files: TableFiles, selected: Selected, copied: Sequence[Copied], lake: Lake) -> ResetPreview:
    lost = {file["path"]: table_files.last_batches(file["path"]) for file in selected.missing}
    former = [(path, arrival.batches) for path, arrival in selected.former]
    statuses = file_status.STATUSES.empty_table()
    if lost or former:
        statuses = file_status.statuses(lake, table_files.name)
    statuses = statuses.filter(pc.field("state").isin([FileStatus.INGESTED, FileStatus.ARCHIVED, FileStatus.FAILED]))
    present = [*selected.present, *selected.archived]
    from_archive = sum(
        file["path"] not in table_files.landed for file in selected.present if table_files.is_below(file["path"])
    )
    return ResetPreview(
        rows=tables.rows(tables.delta_table(lake.table("bronze", table_files.name))), files=len(present),
        bytes=sum(file["size"] for file in present), archived=from_archive + len(selected.archived),
        missing=sorted(lost), missing_rows=_count_rows(statuses, [*lost.items()]),
        copied=sum(those.num_rows for _, those in copied), former=len(former),
        former_rows=_count_rows(statuses, former),
    )  # fmt: skip


def _count_rows(statuses: pa.Table, staying: Sequence[tuple[str, arrivals.Batches]]) -> int:
    """Count the rows of paths in ledger batches."""
    ranges: dict[str, list[arrivals.Batches]] = defaultdict(list)
    for path, batches in staying:
        ranges[path].append(batches)
    mine = statuses.filter(pc.field("path").isin(pa.array(sorted(ranges), pa.string())))
    return sum(
        row["rows"] or 0
        for row in mine.select(["path", "chunk", "rows"]).to_pylist()
        if any(first <= row["chunk"] <= last for first, last in ranges[row["path"]])
    )


def _demand_named(names_of_command: Sequence[str], paths: set[str], name: str, table: BronzeTable) -> None:
    for file in names_of_command:
        if file not in paths:
            raise LandingMissing(
                f"{file} is neither in {table.path} nor in the ledger",
                where=Where(table=name, file=table.path),
                hint="use its path below the landing folder, as shown by `sluicegate files`",
            )


def _discovery(
    entered: Sequence[pa.Table], *, whole: bool = False, copied: Sequence[Copied] = (), remarks: Sequence[str] = ()
) -> discovery.Discovery:
    nothing = FILES.empty_table()
    new = landing_ledger.sort_files(pa.concat_tables([landing_ledger.add_action(LedgerAction.READ, nothing), *entered]))
    copied = [
        (options, landing_ledger.sort_files(landing_ledger.add_action(LedgerAction.REPLACE, those)))
        for options, those in copied
    ]
    return discovery.Discovery(new, nothing, nothing, whole=whole, copied=copied, remarks=tuple(remarks))


def choose_reload(
    names: Sequence[str] | None, pattern: str | None, pipeline: Pipeline, table: str, *, archived: bool = False
) -> Reload | FromArchive:
    """Choose how to reread: by reloading named files, or by entering archived files that the ledger does not know.

    At least one name or a pattern is required for a reload, since all files are a reset.

    Raises:
        UserError: neither names nor a pattern, or an archive that other tables have as well.
    """
    if archived:
        if pattern is not None:
            raise UserError("--pattern cannot be combined with --archived", hint="list the files with --files")
        if not names:
            archived_files.demand_own_archive(pipeline, table)
        return FromArchive(tuple(names or ()))
    if not names and pattern is None:
        raise UserError(
            "no files given to read again",
            hint="choose them with --files or --pattern; for all files use `sluicegate reset`",
        )
    return Reload(tuple(names or ()), pattern)

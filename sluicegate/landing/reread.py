"""Selection of files to read again: some of them (a reload) or all (a reset), with their ledger actions.

Both are entries of the ledger like any other; see jobs/reload.py.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.console import files
from sluicegate.errors import LandingMissing, UserError, Where
from sluicegate.lake import layout, tables
from sluicegate.landing import archive, discovery, file_status, folders, moved_files
from sluicegate.landing import ledger as landing_ledger
from sluicegate.storage import filesystems
from sluicegate.storage.concurrent import each
from sluicegate.storage.listings import FILES

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable


Entry = dict[str, Any]


@dataclass(frozen=True)
class Reload:
    """A reload: the files to read again.

    Attributes:
        files: their names below the landing folder, or their paths as in the ledger; none means all that match.
        pattern: pattern that names below the landing folder must match.
    """

    files: tuple[str, ...] = ()
    pattern: str | None = None

    def discover(self, name: str, table: BronzeTable, at: layout.Lake) -> discovery.Discovery:
        """Find the files to enter into the ledger (a ``landing.discovery.FileFinder``).

        Raises:
            LandingMissing: the folder does not exist, or one of the files is neither there nor archived.
            UserError: a file is still settling.
        """
        known, chosen = self._chosen(name, table, at)
        gone = sorted(path for path, file in chosen.items() if file is None and self._names(path, known))
        if gone:
            raise LandingMissing(
                f"{gone[0]} cannot be read again",
                where=Where(table=name, file=gone[0]),
                cause=f"it is neither in landing nor archived ({files(len(gone))} of those named)",
                hint="land it again under this name, or leave it out: its rows stay in the table",
            )
        found = [file for file in chosen.values() if file is not None]
        known.demand_settled(found)
        actions = {
            action: [f for f in found if known.action(f) == action]
            for action in (landing_ledger.READ, landing_ledger.REPLACE)
        }
        return _discovery([landing_ledger.to(action, _table(those)) for action, those in actions.items()])

    def missing(self, name: str, table: BronzeTable, at: layout.Lake) -> list[str]:
        """Files of the ledger that match, but cannot be read again; their rows stay."""
        return [path for path, file in self._chosen(name, table, at)[1].items() if file is None]

    def _chosen(self, name: str, table: BronzeTable, at: layout.Lake) -> tuple[_TableFiles, dict[str, Entry | None]]:
        known = _TableFiles.of(name, table, at)
        chosen = known.all_now([path for path in known.paths if self._wants(path, known.relative(path))])
        _demand_named(self.files, {*chosen, *map(known.relative, chosen)}, name, table)
        return known, chosen

    def _wants(self, path: str, relative: str) -> bool:
        named = not self.files or path in self.files or relative in self.files
        return named and (self.pattern is None or fnmatch.fnmatchcase(relative, self.pattern))

    def _names(self, path: str, known: _TableFiles) -> bool:
        return bool({path, known.relative(path)} & set(self.files))

    def arguments(self, table: str) -> list[str]:
        """The reload as arguments of ``spark_jobs/reload.py``."""
        arguments = [f"--table={table}", *(f"--files={name}" for name in self.files)]
        return arguments if self.pattern is None else [*arguments, f"--pattern={self.pattern}"]


@dataclass(frozen=True)
class Reset:
    """A full refresh of one bronze table.

    Attributes:
        drop_missing: whether rows of files that cannot be read again are deleted; else they stay.
    """

    drop_missing: bool = False

    def discover(self, name: str, table: BronzeTable, at: layout.Lake) -> discovery.Discovery:
        """Find the files to enter into the ledger, as one ledger batch (a ``landing.discovery.FileFinder``).

        Raises:
            LandingMissing: the folder does not exist.
            UserError: a file is still settling.
        """
        known = _TableFiles.of(name, table, at)
        there, missing = known.sorted_out()
        entered = [landing_ledger.to(landing_ledger.RESET, _table(there))]
        if self.drop_missing:
            entered.append(landing_ledger.to(landing_ledger.DROP, _table(missing)))
        return _discovery(entered, whole=True)

    def arguments(self, table: str) -> list[str]:
        """The reset as arguments of ``spark_jobs/reset.py``."""
        return [f"--table={table}", *(["--drop-missing"] if self.drop_missing else [])]


@dataclass(frozen=True)
class Preview:
    """What a reset would do.

    Attributes:
        rows: rows in the table now.
        files: files that would be read again.
        bytes: their size.
        archived: how many of them would be read from where ``cleanSource`` moved them.
        missing: files that cannot be read again: gone, or no longer admitted by the definition.
        missing_rows: rows that these gave.
    """

    rows: int
    files: int
    bytes: int
    archived: int
    missing: list[str]
    missing_rows: int

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)

    def sentences(self, drop_missing: bool) -> list[str]:
        """Lines for the person who decides."""
        are, their = ("is", "its") if self.files == 1 else ("are", "their")
        lines = [f"{files(self.files)} {are} read again, and {their} rows replace {self.rows:,} rows in one commit"]
        if self.archived:
            lines.append(f"{files(self.archived)} of them from the archive")
        if self.missing:
            what = "are LOST" if drop_missing else "stay as they are (--drop-missing gives them up)"
            lines.append(
                f"{files(len(self.missing))} cannot be read again, and the {self.missing_rows:,} rows of them {what}"
            )
            lines += [f"  {path}" for path in self.missing[:5]]
        return lines


def preview(name: str, table: BronzeTable, at: layout.Lake) -> Preview:
    """What a reset would do; writes nothing.

    Raises:
        LandingMissing: the folder does not exist.
        UserError: there is nothing to reset yet, or a file is still settling.
    """
    known = _TableFiles.of(name, table, at)
    there, missing = known.sorted_out()
    lost = {file["path"] for file in missing}
    gave = pc.field("path").isin(pa.array(sorted(lost), pa.string()))
    gave &= pc.field("state").isin(["ingested", "archived", "failed"])
    rows = pc.sum(file_status.statuses(at, name).filter(gave)["rows"]).as_py() or 0
    from_archive = sum(file["path"] not in known.landed for file in there if known.is_below(file["path"]))
    total = tables.rows(tables.delta_table(at.table("bronze", name)))
    size = sum(file["size"] for file in there)
    return Preview(total, len(there), size, from_archive, sorted(lost), rows)


@dataclass(frozen=True)
class _TableFiles:
    """The files of a bronze table, in landing and in the ledger."""

    name: str
    table: BronzeTable
    folder: str
    landed: dict[str, Entry]
    ledger: dict[str, Entry]  # last entry of each path
    archived: dict[archive.Facts, Entry]

    @classmethod
    def of(cls, name: str, table: BronzeTable, at: layout.Lake) -> _TableFiles:
        if not table.of_files:
            raise UserError(f"{name} is not made of files, so none can be read again", where=Where(table=name))
        ledger = tables.delta_table(at.ledger(name))
        if ledger is None:
            raise UserError(f"{name} has not read any file yet", hint="sluicegate run reads what has landed")
        entries = tables.dataset(ledger).to_table([*FILES.names, "action", "chunk"]).sort_by("chunk").to_pylist()
        landed = {file["path"]: file for file in discovery.listing(name, table, at).to_pylist()}
        known = cls(
            name,
            table,
            folders.home(at, name, table.path).folder,
            landed,
            {entry["path"]: entry for entry in entries},
            archive.by_facts(at, name),
        )
        # A moved file counts under its current path, also once it was replaced there.
        moved = {path for path, entry in known.ledger.items() if entry["action"] == moved_files.MOVED}
        former = {path for path in (*moved_files.former_paths(ledger), *moved) if not known.is_below(path)}
        return replace(known, ledger={path: entry for path, entry in known.ledger.items() if path not in former})

    @property
    def paths(self) -> list[str]:
        return sorted({*self.landed, *(p for p, e in self.ledger.items() if e["action"] != landing_ledger.DROP)})

    def is_below(self, path: str) -> bool:
        return path.startswith(self.folder.rstrip("/") + "/")

    def relative(self, path: str) -> str:
        return path[len(self.folder) :].lstrip("/") if self.is_below(path) else path

    def now(self, path: str) -> Entry | None:
        """The file as it can be read now: in landing, in the archive, or where it was copied from."""
        if path in self.landed:
            return self.landed[path]
        last = self.ledger[path]
        if self.is_below(path):
            row = self.archived.get(archive.facts_of(last))
            place = row["place"] if row else None
            return last if place and filesystems.file(place) else None
        found = filesystems.file(path)
        return None if found is None else {"path": path, "size": found[0], "modification_time": found[1]}

    def all_now(self, paths: Sequence[str]) -> dict[str, Entry | None]:
        """``now`` for many paths; files that are not in landing are looked up concurrently."""
        away = [path for path in paths if path not in self.landed]
        found = dict(zip(away, each(self.now, away), strict=True))
        return {path: found[path] if path in found else self.landed[path] for path in paths}

    def action(self, file: Entry) -> str:
        """Ledger action: READ if it gives new rows, REPLACE if it replaces those that it gave."""
        last = self.ledger.get(file["path"])
        if last is None or last["action"] in (landing_ledger.SKIP, landing_ledger.DROP):
            return landing_ledger.READ
        other = archive.facts_of(last) in self.archived and archive.facts_of(last) != archive.facts_of(file)
        return landing_ledger.READ if other and not self.table.allowOverwrites else landing_ledger.REPLACE

    def sorted_out(self) -> tuple[list[Entry], list[Entry]]:
        """Files that a reset reads, and the entries of files that cannot be read again."""
        there, missing = [], []
        skipped = {path for path, last in self.ledger.items() if last["action"] == landing_ledger.SKIP}
        for path, file in self.all_now([path for path in self.paths if path not in skipped]).items():
            last = self.ledger.get(path)
            if file is not None:
                there.append(file)
            elif last is not None:
                missing.append(last)
        settled, young = discovery.by_age(_table(there), self.table)
        # A young file that was never read is left to the next run.
        self.demand_settled([file for file in young.to_pylist() if file["path"] in self.ledger])
        ripe = set(settled["path"].to_pylist())
        return [file for file in there if file["path"] in ripe], missing

    def demand_settled(self, found: Sequence[Entry]) -> None:
        _, young = discovery.by_age(_table(found), self.table)
        if young.num_rows:
            raise UserError(
                f"{files(young.num_rows)} may still be being written",
                where=Where(table=self.name, file=young["path"][0].as_py()),
                hint=f"run this again {self.table.settleSeconds:g} s after the last change",
            )


def _demand_named(wanted: Sequence[str], found: set[str], name: str, table: BronzeTable) -> None:
    for file in wanted:
        if file not in found:
            raise LandingMissing(
                f"there is no {file} in {table.path}, nor in the ledger",
                where=Where(table=name, file=table.path),
                hint="name it by its path below the landing folder, as `sluicegate files` shows it",
            )


def _table(found: Sequence[Entry]) -> pa.Table:
    return pa.Table.from_pylist([{key: file[key] for key in FILES.names} for file in found], FILES)


def _discovery(entered: Sequence[pa.Table], *, whole: bool = False) -> discovery.Discovery:
    nothing = FILES.empty_table()
    new = pa.concat_tables([landing_ledger.to(landing_ledger.READ, nothing), *entered])
    return discovery.Discovery(landing_ledger.in_order(new), nothing, nothing, whole=whole)


def chosen(names: Sequence[str] | None, pattern: str | None) -> Reload:
    """Reload of the named files; at least one name or a pattern is required, since all files are a reset.

    Raises:
        UserError: neither names nor a pattern.
    """
    if not names and pattern is None:
        raise UserError("which files are to be read again?", hint="name them with --files, or --pattern; all: reset")
    return Reload(tuple(names or ()), pattern)

"""The files of a bronze table that can be read again: in landing, in the archive, or where they were copied from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from sluicegate.console import files
from sluicegate.definition import BronzeTable
from sluicegate.errors import UserError, Where
from sluicegate.lake import layout, tables
from sluicegate.landing import arrivals, discovery, folders
from sluicegate.landing.chosen import copy_options
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.moves import archive, moved_files
from sluicegate.storage import filesystems
from sluicegate.storage.concurrent import map_concurrently
from sluicegate.storage.listings import FILES

Entry = dict[str, Any]


@dataclass(frozen=True)
class Selected:
    """Files that a reset reads, and those that it cannot read.

    Attributes:
        present: the files.
        archived: files of the archive that had the name of a later file when they landed.
        missing: entries of files that cannot be read again.
        former: arrivals that cannot be read again, of names that were used again.
    """

    present: list[Entry]
    archived: list[Entry]
    missing: list[Entry]
    former: list[tuple[str, arrivals.Arrival]]


@dataclass(frozen=True)
class TableFiles:
    """The files of a bronze table, in landing and in the ledger."""

    name: str
    table: BronzeTable
    folder: str
    landed: dict[str, Entry]
    ledger: dict[str, Entry]  # last entry of each path
    archived: dict[archive.Facts, Entry]
    entries: dict[str, list[Entry]]  # of each path, oldest first
    options: Callable[[set[int]], Mapping[int, CopyOptions]]  # of copies, by ledger batch

    @classmethod
    def from_table(cls, name: str, table: BronzeTable, lake: layout.Lake) -> TableFiles:
        if not table.reads_files:
            raise UserError(f"{name} does not read files, so none can be read again", where=Where(table=name))
        ledger = tables.delta_table(lake.ledger(name))
        if ledger is None:
            raise UserError(f"{name} has not read any file yet", hint="sluicegate run reads what has landed")
        entries = tables.dataset(ledger).to_table([*FILES.names, "action", "chunk"]).sort_by("chunk").to_pylist()
        landed = {file["path"]: file for file in discovery.admitted_files(name, table, lake).to_pylist()}
        of_path: dict[str, list[Entry]] = {}
        for entry in entries:
            of_path.setdefault(entry["path"], []).append(entry)
        table_files = cls(
            name, table, folders.home(lake, name, table.path).folder, landed,
            {entry["path"]: entry for entry in entries}, archive.archived_by_facts(lake, name), of_path,
            partial(copy_options.options_by_batch, ledger),
        )  # fmt: skip
        # A moved file counts under its current path, also once it was replaced there.
        moved = {path for path, entry in table_files.ledger.items() if entry["action"] == LedgerAction.MOVED}
        former = {path for path in (*moved_files.former_paths(ledger), *moved) if not table_files.is_below(path)}
        former |= moved_files.find_superseded(ledger, landed.keys())
        return replace(table_files, ledger={path: e for path, e in table_files.ledger.items() if path not in former})

    @property
    def paths(self) -> list[str]:
        return sorted({*self.landed, *(p for p, e in self.ledger.items() if e["action"] != LedgerAction.DROP)})

    def is_below(self, path: str) -> bool:
        return path.startswith(self.folder.rstrip("/") + "/")

    def relative_path(self, path: str) -> str:
        if self.is_below(path):
            return path[len(self.folder) :].lstrip("/")
        return path

    @property
    def all_paths(self) -> list[str]:
        """Paths of all files, and addresses of archived ones whose names were used again."""
        return sorted({*self.paths, *self.places})

    @cached_property
    def repeated_arrivals(self) -> dict[str, list[arrivals.Arrival]]:
        """Arrivals of the paths that arrived more than once."""
        often = {path: entries for path, entries in self.entries.items() if len(entries) > 1}
        by_path = {path: arrivals.group_arrivals(entries) for path, entries in often.items()}
        return {path: path_arrivals for path, path_arrivals in by_path.items() if len(path_arrivals) > 1}

    @cached_property
    def former_arrivals(self) -> list[tuple[str, arrivals.Arrival]]:
        """Arrivals of names that were used again, without those that have an entry of their own by now."""
        return [
            (path, arrival)
            for path, arrivals_of_path in self.repeated_arrivals.items()
            if path in self.ledger
            for arrival in arrivals_of_path[:-1]
            if arrival.read and not self._has_entry(self._archived_place((path, *arrival.facts)))
        ]

    @cached_property
    def places(self) -> dict[str, arrivals.Arrival]:
        """Former arrivals by their addresses in the archive, if no entry has these yet."""
        places_of_arrivals = {
            self._archived_place((path, *arrival.facts)): arrival for path, arrival in self.former_arrivals
        }
        return {place: arrival for place, arrival in places_of_arrivals.items() if place and place not in self.entries}

    def _archived_place(self, facts: archive.Facts) -> str:
        """Return the address of a file in the archive; empty if it has none."""
        place: str = self.archived.get(facts, {}).get("place") or ""
        return place

    def _has_entry(self, place: str) -> bool:
        """Return whether the ledger has an arrival by its address in the archive, and not as a copy by someone else."""
        entries = self.entries.get(place, [])
        return bool(entries) and entries[0]["action"] != LedgerAction.READ

    def last_batches(self, path: str) -> arrivals.Batches:
        """Return ledger batches of the last arrival of a path."""
        if path in self.repeated_arrivals:
            return self.repeated_arrivals[path][-1].batches
        return (0, self.ledger[path]["chunk"])

    def readable_file(self, path: str) -> Entry | None:
        """Return the file as it can be read now: in landing, where it was copied from, or in the archive."""
        if path in self.landed:
            return self.landed[path]
        facts = None
        if not self.is_below(path):
            facts = filesystems.file_facts(path)
        if path in self.places and facts is not None and facts[0] != self.places[path].facts[0]:
            return None  # it is not the file that was moved there
        if facts is not None:
            return {"path": path, "size": facts[0], "modification_time": facts[1]}
        last = self.ledger.get(path)
        if last is None:
            return None
        place = self._archived_place(archive.facts_of(last))
        if place and filesystems.file_facts(place):
            return last
        return None

    def readable_files(self, paths: Sequence[str]) -> dict[str, Entry | None]:
        """Return ``readable_file`` for many paths, and look up files that are not in landing concurrently."""
        away = [path for path in paths if path not in self.landed]
        away_now = dict(zip(away, map_concurrently(self.readable_file, away), strict=True))
        return {path: away_now[path] if path in away_now else self.landed[path] for path in paths}

    def action(self, file: Entry) -> LedgerAction:
        """Return the ledger action: READ if the file gives new rows, REPLACE if it replaces its former rows."""
        last = self.ledger.get(file["path"])
        if file["path"] in self.places:
            return LedgerAction.REPLACE
        if last is None or last["action"] in (LedgerAction.SKIP, LedgerAction.DROP):
            return LedgerAction.READ
        is_new = archive.facts_of(last) in self.archived and archive.facts_of(last) != archive.facts_of(file)
        if is_new and not self.table.allowOverwrites:
            return LedgerAction.READ
        return LedgerAction.REPLACE

    def select_files(self) -> Selected:
        """Select the files that a reset reads, and those that it cannot read again."""
        present, missing = self._present_and_missing()
        settled, young = discovery.split_by_age(to_table(present), self.table)
        # A young file that was never read is left to the next run.
        self.demand_settled([file for file in young.to_pylist() if file["path"] in self.ledger])
        ripe = set(settled["path"].to_pylist())
        archived = [file for file in self.readable_files(sorted(self.places)).values() if file is not None]
        read = {id(self.places[file["path"]]) for file in archived}
        former = [(path, arrival) for path, arrival in self.former_arrivals if id(arrival) not in read]
        return Selected([file for file in present if file["path"] in ripe], archived, missing, former)

    def _present_and_missing(self) -> tuple[list[Entry], list[Entry]]:
        """Return present files, and ledger entries of missing ones, both without skipped files."""
        skipped = {path for path, last in self.ledger.items() if last["action"] == LedgerAction.SKIP}
        present, missing = [], []
        for path, file in self.readable_files([path for path in self.paths if path not in skipped]).items():
            if file is not None:
                present.append(file)
            elif path in self.ledger:
                missing.append(self.ledger[path])
        return present, missing

    def split_by_options(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[discovery.Copied]]:
        """Split files into those read by the definition and those that copies brought with options of their own."""
        brought = {file["path"]: self._options_batch(file["path"]) for file in entries}
        options = self.options({chunk for chunk in brought.values() if chunk is not None})
        as_defined: list[Entry] = []
        by_facts: dict[str, list[Entry]] = {}
        for file in entries:
            chunk = brought[file["path"]]
            if chunk is None or chunk not in options:
                as_defined.append(file)
            else:
                by_facts.setdefault(json.dumps(options[chunk].facts, sort_keys=True), []).append(file)
        return as_defined, [(json.loads(facts), to_table(those)) for facts, those in by_facts.items()]

    def _options_batch(self, path: str) -> int | None:
        """Return the newest ledger batch that read a file, whose options apply to it; resets do not count."""
        reading = (LedgerAction.READ, LedgerAction.REPLACE)
        batches = [entry["chunk"] for entry in self.entries.get(path, []) if entry["action"] in reading]
        return next(reversed(batches), None)

    def demand_settled(self, entries: Sequence[Entry]) -> None:
        _, young = discovery.split_by_age(to_table(entries), self.table)
        if young.num_rows:
            raise UserError(
                f"{files(young.num_rows)} may still be being written",
                where=Where(table=self.name, file=young["path"][0].as_py()),
                hint=f"run again {self.table.settleSeconds:g} s after the last change",
            )


def to_table(entries: Sequence[Entry]) -> pa.Table:
    """Return the files of entries as a table (schema ``FILES``)."""
    return pa.Table.from_pylist([{key: file[key] for key in FILES.names} for file in entries], FILES)

"""Entry of files into the ledger that another pipeline has read, so that the first run reads only what came since.

It is the cut-over from Auto Loader or COPY INTO: their checkpoint, or the old table, has the list of files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.console import files, human_bytes
from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.definition.pipeline.model import bronze_table
from sluicegate.errors import LandingMissing, UserError, Where
from sluicegate.lake import layout, tables
from sluicegate.lake.commits.commit_info import LedgerFacts
from sluicegate.lake.exclusion import lock, renamed, target_ownership
from sluicegate.landing import discovery, folders, ledger_index, on_record
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen import listed_files
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage.listings import FILES

# Files of each kind that a preview names; all are counted.
SHOWN = 10

# What a listed file is: to be entered, skipped, changed since it was skipped, read by the table, or not in landing.
Kind = Literal["new", "skipped", "changed", "read", "gone"]


@dataclass(frozen=True)
class Skip:
    """Files to enter as skipped.

    Attributes:
        table: the bronze table.
        address: path or URI of the list.
        column: the column of the list that has the paths; None for the usual one.
        mapped: prefixes of the list that are called otherwise here.
    """

    table: str
    address: str
    column: str | None = None
    mapped: tuple[listed_files.Prefix, ...] = ()

    @property
    def name(self) -> str:
        """Name of the list, without its folders."""
        return self.address.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True)
class SkipPreview:
    """What an entry of skipped files does.

    Attributes:
        request: the entry.
        listed: number of files in the list.
        files: those that are entered (schema ``FILES``).
        already: number of those that are skipped already.
        overwritten: those that were skipped and have changed since, and that the next run reads.
        changed: those that have changed since and that no run reads without ``allowOverwrites``.
        missing: those that are not in landing, as the list has them.
        unlisted: files of landing that are not in the list and not in the ledger, so that the next run reads them.
        overruled: whether the definition would have left these out as well.
        places: the landing folders, for the commit.
    """

    request: Skip
    listed: int
    files: pa.Table
    already: int
    overwritten: list[str]
    changed: list[str]
    missing: list[str]
    unlisted: pa.Table
    overruled: bool = False
    places: tuple[str, ...] = field(default=(), repr=False)

    def sentences(self) -> list[str]:
        """Describe the effect in lines for people."""
        lines = [
            f"{files(self.listed)} listed in {self.request.name}: {self.files.num_rows:,} to enter as skipped, "
            f"{self.already:,} skipped before, {len(self.missing):,} not in landing"
        ]
        if self.newest is not None:
            lines.append(
                f"the newest of those to skip was modified at {self.newest['modification_time']:%Y-%m-%d %H:%M:%S} UTC:"
                f" {self.newest['path']}"
            )
        lines += _titled_paths("not in landing (not an error)", self.missing)
        lines += _titled_paths("changed after being skipped; the next run reads them", self.overwritten)
        lines += _titled_paths("changed after being skipped; runs read them only with allowOverwrites", self.changed)
        size = human_bytes(pc.sum(self.unlisted["size"]).as_py() or 0)
        lines.append(
            f"{files(self.unlisted.num_rows)} of {size} in landing but not in the list; the next run reads them"
        )
        lines += _path_lines(self.unlisted["path"].to_pylist())
        if self.overruled:
            lines.append("the list overrides includeExistingFiles: false, which would skip these, too")
        return lines

    @property
    def newest(self) -> dict[str, Any] | None:
        """The file to skip that was modified last."""
        if not self.files.num_rows:
            return None
        last: dict[str, Any] = landing_ledger.sort_files(self.files).slice(self.files.num_rows - 1).to_pylist()[0]
        return last

    def facts(self) -> dict[str, Any]:
        """Return the preview for ``--json``."""
        return {
            "table": self.request.table, "list": self.request.address, "listed": self.listed,
            "to_skip": self.files.num_rows, "already_skipped": self.already, "overwritten": self.overwritten,
            "changed": self.changed, "not_in_landing": self.missing, "to_read": self.unlisted["path"].to_pylist(),
            "newest": self.newest,
        }  # fmt: skip


def _titled_paths(kind: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    return [f"{files(len(paths))} {kind}", *_path_lines(paths)]


def _path_lines(paths: Sequence[str]) -> list[str]:
    lines = [f"  {path}" for path in paths[:SHOWN]]
    if len(paths) > SHOWN:
        lines.append(f"  and {len(paths) - SHOWN:,} more")
    return lines


def preview(pipeline: Pipeline, request: Skip) -> SkipPreview:
    """Return the effect of an entry on landing and ledger as they are, and write nothing.

    Raises:
        PipelineMissing: the pipeline has no such bronze table.
        LandingMissing: the landing folder does not exist, or none of the files is in it.
        UserError: the table reads no files, the list cannot be read, the table has read a listed file, one is still
            being written, or a path of the list can be two files.
        PipelineRenamed: the pipeline was renamed, or is being renamed.
        TargetConflict: the tables belong to another target.
    """
    table, lake = bronze_table(pipeline, request.table), layout.Lake(pipeline.settings.lake, pipeline.name)
    if not table.reads_files:
        raise UserError(
            f"{request.table} does not read files, so no file can be skipped", where=_request_place(request)
        )
    renamed.demand_current(lake)
    target_ownership.demand_ours(lake, pipeline.settings.target)
    listed = listed_files.paths(request.address, request.column)
    return _Comparison.from_request(request, table, lake).preview(listed, pipeline.name)


def enter(pipeline: Pipeline, request: Skip) -> SkipPreview:
    """Enter the files into the ledger in one commit, unless all are in it, and return what was entered.

    Raises:
        LakeLocked: a run of the pipeline held the lock all the time.
        SluicegateError: see ``preview``.
    """
    lake = layout.Lake(pipeline.settings.lake, pipeline.name)
    with lock.pipeline_lock(lake, f"skip files of {request.table}"):
        entered = preview(pipeline, request)
        if entered.files.num_rows:
            target_ownership.take_ownership(lake, pipeline.settings.target)
            _commit(lake, entered)
    return entered


def _commit(lake: layout.Lake, entered: SkipPreview) -> None:
    uri = lake.ledger(entered.request.table)
    entries = landing_ledger.sort_files(landing_ledger.add_action(LedgerAction.SKIP, entered.files))
    facts = {LedgerFacts.folders.key: list(entered.places), LedgerFacts.skip_list.key: {"list": entered.request.name}}
    ledger = tables.delta_table(uri)
    if ledger is None:
        landing_ledger.create(uri, landing_ledger.stamp_rows(entries, 0), facts)
    else:
        landing_ledger.append(ledger, entries, facts)


def reasons(ledger: DeltaTable, chunks: Iterable[int]) -> dict[int, str]:
    """Return the reasons why files of ledger batches are skipped, as far as they were listed."""
    texts = {}
    for chunk in chunks:
        of_list = on_record.batch_info(ledger, chunk).ledger.skip_list
        if of_list:
            texts[chunk] = f"listed in {of_list['list']} as read by another pipeline"
    return texts


def _request_place(request: Skip, file: str | None = None) -> Where:
    return Where(table=request.table, file=file)


@dataclass(frozen=True)
class _Comparison:
    """A list beside landing and ledger.

    Attributes:
        request: the entry.
        table: the definition of the bronze table.
        place: its landing folder.
        landed: files in it, by path.
        recorded: newest ledger entries of files in it, by path.
        discovered: what the next run reads if nothing is entered.
        first: whether the table has no ledger yet.
    """

    request: Skip
    table: BronzeTable
    place: folders.Home
    landed: Mapping[str, Mapping[str, Any]]
    recorded: Mapping[str, Mapping[str, Any]]
    discovered: discovery.Discovery
    first: bool

    @classmethod
    def from_request(cls, request: Skip, table: BronzeTable, lake: layout.Lake) -> _Comparison:
        listing = discovery.list_landing(request.table, table, lake)
        place = listing.place
        landed = {file["path"]: file for file in discovery.admit_files(listing.files, table, place.folder).to_pylist()}
        ledger = tables.delta_table(lake.ledger(request.table))
        recorded: dict[str, Mapping[str, Any]] = {}
        if ledger is not None:
            for entry in ledger_index.entries(ledger, *ledger_index.path_range(place.folder)).to_pylist():
                recorded.setdefault(entry["path"], entry)
        # What is not in the list is read, whatever the definition says of the files that were there first.
        reading = table.model_copy(update={"includeExistingFiles": True})
        discovered = discovery.discover(request.table, reading, lake, listing=listing)
        return cls(request, table, place, landed, recorded, discovered, ledger is None)

    def preview(self, listed: Sequence[str], pipeline: str) -> SkipPreview:
        paths, missing = self._paths(listed)
        of_kind: dict[Kind, list[str]] = defaultdict(list)
        for path in paths:
            of_kind[self._kind(path)].append(path)
        if not paths:
            raise self._missing_error(listed)
        if of_kind["read"]:
            raise self._already_read_error(of_kind["read"], pipeline)
        self._demand_settled({*of_kind["new"]})
        changed, to_read = {*of_kind["changed"]}, {*self.discovered.paths}
        return SkipPreview(
            self.request, len(listed), pa.Table.from_pylist([self.landed[path] for path in of_kind["new"]], FILES),
            len(of_kind["skipped"]), sorted(changed & to_read), sorted(changed - to_read), [*missing, *of_kind["gone"]],
            self._unlisted_files(paths), overruled=self.first and not self.table.includeExistingFiles,
            places=self.discovered.folders,
        )  # fmt: skip

    def _paths(self, listed: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return paths of the listed files that landing or the ledger has, and the lines for which neither has a file.

        Raises:
            UserError: two files are what a path of the list can mean.
        """
        landing = listed_files.Landing(self.place.folder, self.table.path, self.request.mapped)
        folder = self.place.folder.rstrip("/")
        paths: dict[str, None] = {}
        ambiguous: dict[str, list[str]] = {}
        missing = []
        for line in listed:
            candidates = [f"{folder}/{name}" for name in landing.names_below(line)]
            present = [path for path in candidates if path in self.landed or path in self.recorded]
            if len(present) > 1:
                ambiguous[line] = present
            elif present:
                paths[present[0]] = None
            else:
                missing.append(line)
        for line, present in ambiguous.items():
            paths |= dict.fromkeys(self._meant_paths(line, [path for path in present if path not in paths]))
        return list(paths), missing

    def _meant_paths(self, line: str, unnamed: list[str]) -> list[str]:
        """Return the only file left for a line that matches two; empty if other lines name both."""
        if len(unnamed) > 1:
            raise UserError(
                f"{line} in the list matches two files: {' and '.join(unnamed)}",
                where=_request_place(self.request, self.request.address),
                cause="a % in a path is a character of the file's name, or starts an encoded character",
                hint="move one of them out of landing while this command runs",
            )
        return unnamed

    def _kind(self, path: str) -> Kind:
        entry, file = self.recorded.get(path), self.landed.get(path)
        if entry is None or entry["action"] == LedgerAction.DROP:
            if file is None:
                return "gone"
            return self._moved_kinds.get(path, "new")
        if entry["action"] != LedgerAction.SKIP:
            return "read"
        if file is None or all(file[fact] == entry[fact] for fact in ("size", "modification_time")):
            return "skipped"
        return "changed"

    @cached_property
    def _moved_kinds(self) -> dict[str, Kind]:
        """Files that the ledger has under a former path: whether they are skipped or read."""
        moved = self.discovered.moved
        skipped = moved.filter(pc.equal(moved["action"], LedgerAction.SKIP))
        kinds: dict[str, Kind] = dict.fromkeys(moved["path"].to_pylist(), "read")
        return kinds | dict.fromkeys(skipped["path"].to_pylist(), "skipped")

    def _unlisted_files(self, listed: Iterable[str]) -> pa.Table:
        settling = self.discovered.settling
        recorded = pc.is_in(settling["path"], value_set=pa.array(list(self.recorded), pa.string()))
        settling = settling.filter(pc.invert(recorded))
        waiting = pa.concat_tables([self.discovered.new.select(FILES.names), settling.select(FILES.names)])
        unlisted = pc.invert(pc.is_in(waiting["path"], value_set=pa.array(list(listed), pa.string())))
        return landing_ledger.sort_files(waiting.filter(unlisted))

    def _demand_settled(self, paths: set[str]) -> None:
        young = sorted(paths & set(self.discovered.settling["path"].to_pylist()))
        if young:
            raise UserError(
                f"{files(len(young))} of the list may still be being written",
                where=_request_place(self.request, young[0]),
                hint=f"run this again {self.table.settleSeconds:g} s after the last change",
            )

    def _missing_error(self, listed: Sequence[str]) -> LandingMissing:
        return LandingMissing(
            f"none of the {files(len(listed))} in {self.request.name} is in landing",
            where=_request_place(self.request, self.place.folder),
            cause=f"the list contains {', '.join(listed[:3])}",
            hint="map the former landing folder to this one with --from-prefix and --to-prefix",
        )

    def _already_read_error(self, paths: Sequence[str], pipeline: str) -> UserError:
        names = ", ".join(paths[:SHOWN])
        return UserError(
            f"{self.request.table} has already read {files(len(paths))} of the list",
            where=_request_place(self.request, paths[0]),
            cause=f"files already read: {names}",
            hint="remove them from the list; to delete their rows, move the files out of landing and run"
            f" `sluicegate reset {pipeline} {self.request.table} --drop-missing`",
        )

"""Bronze tables, of all definitions, that read one landing folder: a file stays until each of them has read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate import definition
from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.errors import SluicegateError
from sluicegate.lake import layout, tables
from sluicegate.landing import discovery, folders, ledger_index, status_log
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage.listings import FILES


@dataclass(frozen=True)
class LandingReader:
    """A bronze table that reads files of a landing folder, or a definition of which that is not known.

    Attributes:
        pipeline: name of its pipeline.
        name: its name; empty for a definition with mistakes.
        table: its definition; None for a definition with mistakes.
        lake: its lake.
    """

    pipeline: str
    name: str
    table: BronzeTable | None
    lake: layout.Lake

    def __str__(self) -> str:
        if not self.name:
            return self.pipeline
        return f"{self.pipeline}.{self.name}"

    @property
    def condition(self) -> str:
        """What has to be so before files are taken away."""
        if self.table is None:
            return f"the definition of {self} is valid again, because it may also read them"
        return f"{self} has also read them"

    def unread_paths(self, files: pa.Table, folder: str) -> set[str]:
        """Return paths of files that it is to read and has not read yet.

        Args:
            files: files of the landing folder that another table reads (columns of ``FILES``).
            folder: that folder, as their paths begin.
        """
        if self.table is None:
            return {*files["path"].to_pylist()}
        place = folders.home(self.lake, self.name, self.table.path)
        own_folder, other_folder = _resolve_address(folder), _resolve_address(place.folder)
        own_paths = {}
        for path in files["path"].to_pylist():
            resolved = f"{own_folder}/{path[len(folder) :].lstrip('/')}"
            if resolved.startswith(f"{other_folder}/"):
                own_paths[f"{place.folder.rstrip('/')}/{resolved[len(other_folder) + 1 :]}"] = path
        mine = pc.is_in(files["path"], value_set=pa.array([*own_paths.values()], pa.string()))
        candidates = files.select(FILES.names).filter(mine)
        names = {path: name for name, path in own_paths.items()}
        renamed = pa.array([names[path] for path in candidates["path"].to_pylist()], pa.string())
        candidates = candidates.set_column(0, "path", renamed)
        if place.only:
            only = pa.array([f"{place.folder}/{only_name}" for only_name in place.only], pa.string())
            candidates = candidates.filter(pc.is_in(candidates["path"], value_set=only))
        admitted = discovery.admit_files(candidates, self.table, place.folder)
        return {own_paths[path] for path in {*admitted["path"].to_pylist()} - self._finished_paths(admitted)}

    def _finished_paths(self, files: pa.Table) -> set[str]:
        """Return the files whose rows the table has, or that it leaves out for good."""
        ledger = tables.delta_table(self.lake.ledger(self.name))
        if ledger is None or not files.num_rows:
            return set()
        span = pc.min_max(files["path"]).as_py()
        last = ledger_index.entries(ledger, span["min"], span["max"])
        entry = pc.index_in(files["path"], value_set=last["path"])  # the first of equal ones is the newest
        same = [pc.equal(files[column], pc.take(last[column], entry)) for column in ("size", "modification_time")]
        recorded = last.take(entry.filter(pc.fill_null(pc.and_(*same), False)))
        left_out = pc.is_in(recorded["action"], value_set=pa.array([LedgerAction.SKIP, LedgerAction.MOVED]))
        mine = pc.field("error").is_null() & pc.field("path").isin(files["path"].combine_chunks())
        became = status_log.read(self.lake, self.name, ["path", "chunk"], mine)
        ingested = recorded.join(became, keys=["path", "chunk"], join_type="left semi")
        return {*recorded.filter(left_out)["path"].to_pylist(), *ingested["path"].to_pylist()}


Readers = Callable[[str], Sequence[LandingReader]]
"""Other readers of the landing folder of a bronze table, by its name."""


def no_readers(_: str) -> Sequence[LandingReader]:
    return ()


def other_readers(pipeline: Pipeline, name: str) -> list[LandingReader]:
    """Return other bronze tables, of all definitions of the pipelines' folder, that read the landing folder of a table.

    Folders are compared as they are on disk, links resolved. A definition with mistakes may read it, too.

    Args:
        pipeline: the definition of the table.
        name: the bronze table.
    """
    return _sharing_readers(pipeline, name, _all_readers(pipeline), _landing_folder)


def _sharing_readers(
    pipeline: Pipeline,
    name: str,
    readers: Iterable[LandingReader],
    folder_of_table: Callable[[BronzeTable], str | None],
) -> list[LandingReader]:
    """Return other readers with an overlapping folder, or with a definition that cannot be read."""
    folder = folder_of_table(pipeline.bronze[name])
    return [
        reader
        for reader in readers
        if (reader.pipeline, reader.name) != (pipeline.name, name)
        and (reader.table is None or _overlap(folder, folder_of_table(reader.table)))
    ]


def _landing_folder(table: BronzeTable) -> str:
    return _resolve_address(folders.folder_of(table.path)[0])


def _archive_folder(table: BronzeTable) -> str | None:
    if table.cleanSourceMoveDestination is None:
        return None
    return _resolve_address(table.cleanSourceMoveDestination)


def readers_sharing_archive(pipeline: Pipeline, name: str) -> list[LandingReader]:
    """Return other bronze tables, of all definitions, that move their files to the archive of a table."""
    if pipeline.bronze[name].cleanSourceMoveDestination is None:
        return []
    return _sharing_readers(pipeline, name, _all_readers(pipeline), _archive_folder)


def remarks(pipeline: Pipeline) -> list[str]:
    """Return the remarks on tables whose files are removed and read by others as well, before a run."""
    cleaned = [name for name, table in pipeline.bronze.items() if table.reads_files and table.cleanSource != "OFF"]
    all_readers = []
    if cleaned:
        all_readers = [*_all_readers(pipeline)]
    return [
        f"files of {name} are removed once {reader.condition}"
        for name in cleaned
        for reader in _sharing_readers(pipeline, name, all_readers, _landing_folder)
    ]


def _all_readers(pipeline: Pipeline) -> Iterator[LandingReader]:
    settings = pipeline.settings
    if settings.target:  # other pipelines say where their target of that name has its tables
        settings = replace(settings, given=settings.given - {"lake", "landing"})
    for other in definition.names(settings.pipelines):
        try:
            definition_of_other = pipeline
            if other != pipeline.name:
                definition_of_other = definition.load(other, settings, of_many=True)
        except SluicegateError:
            yield LandingReader(other, "", None, layout.Lake(settings.lake, other))
            continue
        lake = layout.Lake(definition_of_other.settings.lake, other)
        yield from (
            LandingReader(other, name, table, lake)
            for name, table in definition_of_other.bronze.items()
            if table.reads_files
        )


def _resolve_address(address: str) -> str:
    if layout.is_local(address):
        return os.path.realpath(layout.local_path(address)).rstrip("/")
    return address.replace("s3://", "s3a://", 1).rstrip("/")


def _overlap(first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return False
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")

"""Rename a pipeline: its folder in the lake with all tables, their references, and its definition.

No table contains the name of its pipeline or its own address: offsets identify tables by ID, and the ledger has paths
of landing. So a rename moves two folders and changes one line. Each step is atomic, and the record in the lake
(``lake.renamed``) marks the rename as in progress: after a stop anywhere, the same command completes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate import _faults
from sluicegate.definition import Pipeline, load, load_file, names, yaml
from sluicegate.definition.dag_ids import dag_ids
from sluicegate.definition.fields import name_fault
from sluicegate.definition.reading import loader
from sluicegate.errors import LakeLocked, LakeUnsupported, PipelineMissing, RenameRefused, SluicegateError, Where
from sluicegate.lake.exclusion import fence, renamed, target_ownership
from sluicegate.lake.exclusion.lock import pipeline_lock, turn
from sluicegate.lake.layout import Lake, is_local, local_path
from sluicegate.monitor import streams
from sluicegate.settings import Settings

# Folders that a look at a pipeline leaves where there are no tables: a lock that was tried, a run that was registered.
_WITHOUT_TABLES = {"_locks", "_streams"}


@dataclass
class Renamed:
    """Result of a rename.

    Attributes:
        lake: whether the folder in the lake was moved.
        definition: whether the definition was renamed.
        remarks: what people still have to do.
    """

    lake: bool = False
    definition: bool = False
    remarks: list[str] = field(default_factory=list)


def rename(former: str, name: str, settings: Settings, *, tables_only: bool = False) -> Renamed:
    """Rename a pipeline: its tables in the lake, and its definition.

    Args:
        former: present name.
        name: new name.
        settings: places of pipelines and lake; for a pipeline with targets, the chosen target's tables are renamed.
        tables_only: whether the definition is renamed by other means.

    Raises:
        RenameRefused: the name is not available, or another rename was not completed.
        PipelineMissing: no pipeline has the former name.
        DefinitionError: its definition has mistakes.
        LakeLocked: a run of the pipeline is active.
        LakeUnsupported: the lake is on a store that cannot move a folder.
    """
    for pipeline in (former, name):
        if fault := name_fault(pipeline):
            raise RenameRefused(fault)
    if former == name:
        raise RenameRefused(f"the pipeline is already called {name}")
    with _Rename(former, name, settings, tables_only).exclusive_lock():
        # What is there may have changed until nobody else was at work.
        return _Rename(former, name, settings, tables_only).complete()


class _Rename:
    """One rename, which may have been begun by a command that was stopped."""

    def __init__(self, former: str, name: str, settings: Settings, tables_only: bool) -> None:
        self.former, self.name, self.tables_only = former, name, tables_only
        self.pipelines = settings.pipelines
        self.definition = self._definition(settings)
        self.root = self.definition.settings.lake
        self.old, self.new = Lake(self.root, former), Lake(self.root, name)
        if not is_local(self.root):
            raise LakeUnsupported(
                f"the tables of {former} are in {self.root}, and an object store cannot move a folder atomically",
                hint="copy the folder with the store's own tools while no run is active, then rename the definition:"
                " see docs/howto/renaming.md",
            )
        self.begun = self._is_begun()

    def _definition(self, settings: Settings) -> Pipeline:
        """Return the definition, which may already have the new name."""
        old, new = self.pipelines / self.former / loader.FILE, self.pipelines / self.name / loader.FILE
        files = [file for file in (old, new) if file.is_file()]
        if len(files) == 2:
            where = Where(file=str(new))
            raise RenameRefused(f"pipeline {self.name} already exists", where=where, hint="choose another name")
        if not files:
            raise PipelineMissing(
                f"no pipeline {self.former} in {self.pipelines}",
                hint=f"pipelines: {', '.join(names(self.pipelines)) or 'none'}",
            )
        definition = load_file(files[0], settings)
        if definition.name not in (self.former, self.name):
            where = Where(file=str(definition.folder))
            raise RenameRefused(f"the definition has the name {definition.name}", where=where)
        return definition

    def _is_begun(self) -> bool:
        """Return whether this rename was begun and not completed.

        Raises:
            RenameRefused: another rename has to be completed first.
        """
        for name in (self.former, self.name):
            record = renamed.recorded_rename(self.root, name)
            if record is None or record.done:
                continue
            if (record.former, record.name) == (self.former, self.name):
                return True
            raise RenameRefused(
                f"the rename of {record.former} to {record.name} is not complete",
                hint=f"sluicegate rename {record.former} {record.name} completes it",
            )
        return False

    @contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        """Exclude runs of either name and other renames of the lake."""
        owner = f"rename of {self.former} to {self.name}"
        with ExitStack() as locks:
            locks.enter_context(pipeline_lock(Lake(self.root, renamed.FOLDER), owner, wait=0))
            for lake in sorted((self.old, self.new), key=lambda lake: lake.pipeline):
                self._lock(lake, owner, locks)
            yield

    def _lock(self, lake: Lake, owner: str, locks: ExitStack) -> None:
        """Take the locks that runs of a name need; ``locks`` releases them."""
        if (holder := locks.enter_context(turn(lake, owner))) is not None:
            raise LakeLocked(
                f"pipeline {lake.pipeline} is being written by {holder}",
                where=Where(file=self._folder(lake)),
                hint="wait for that run to end, or stop it; nothing was renamed",
            )
        locks.enter_context(fence.sole_writer(lake, owner, remote=False, wait=0, renaming=True))
        if running := [stream.id for stream in streams.list_streams(self.root, lake.pipeline) if not stream.is_dead]:
            raise LakeLocked(
                f"a continuous run is active on pipeline {lake.pipeline}: {', '.join(running)}",
                hint=f"sluicegate streams {lake.pipeline} --stop-all stops it; nothing was renamed",
            )

    def complete(self) -> Renamed:
        """Check that the rename is possible, and do what is left of it."""
        old, new = self._has_tables(self.old), self._has_tables(self.new)
        if self.begun:
            self._demand_one_of_two()
        else:
            self._demand_possible(old, new)
        if old:
            target_ownership.take_ownership(self.old, self.definition.settings.target)
        elif new:
            target_ownership.take_ownership(self.new, self.definition.settings.target)
        report = Renamed(remarks=list(self._reader_remarks()))
        renamed.record_rename(self.root, self.former, self.name)
        _faults.point("rename.recorded")
        if old:
            self._move_tables()
        report.lake = old
        self._take_locks_away(self.old)  # where there was nothing else, they would be left alone
        _faults.point("rename.tables_moved")
        report.definition = not self.tables_only and self._rename_definition()
        renamed.complete_rename(self.root, self.former, self.name)
        report.remarks += self._other_targets()
        return report

    def _demand_possible(self, old: bool, new: bool) -> None:
        """Check the preconditions.

        Args:
            old: whether tables exist under the former name.
            new: whether tables exist under the new name.
        """
        record = renamed.recorded_rename(self.root, self.former)
        if record is not None and record.name == self.name and new and not old:
            return  # it is done, but for the definition perhaps
        self._demand_tables_movable(old, new)
        for name in self._taken_dag_ids():
            raise RenameRefused(f"two pipelines would have a DAG of the same name: {name}", hint="choose another name")
        if not self.tables_only:
            self._demand_definition_movable()

    def _demand_tables_movable(self, old: bool, new: bool) -> None:
        """Check that no tables have the new name, and that there is something to rename."""
        if new:
            raise RenameRefused(
                f"the lake already has tables of a pipeline {self.name}",
                where=Where(file=self._folder(self.new)),
                hint="choose another name, or move them away",
            )
        if not old and self.definition.folder.name == self.name:
            where = Where(file=self._folder(self.old))
            raise PipelineMissing(f"no pipeline {self.former}", where=where, hint="it has no tables")

    def _demand_definition_movable(self) -> None:
        """Check that the definition is writable, and its new folder free."""
        folder, target = self.definition.folder, self.pipelines / self.name
        if not (os.access(folder, os.W_OK) and os.access(folder.parent, os.W_OK)):
            raise RenameRefused(
                "this user has no permission to write the definition",
                where=Where(file=str(folder)),
                hint="use --tables-only to rename the tables, and rename the definition where it is deployed from",
            )
        is_empty_folder = target.is_dir() and not any(target.iterdir())
        if folder != target and target.exists() and not is_empty_folder:
            raise RenameRefused(
                "the folder of the new name exists, and has no definition",
                where=Where(file=str(target)),
                hint="move it away (an earlier definition may have left it), or choose another name",
            )

    def _taken_dag_ids(self) -> Iterator[str]:
        """Yield the DAG names that two pipelines would share."""
        pipelines = [name for name in names(self.pipelines) if name not in (self.former, self.name)]
        yield from (name for name in dag_ids(self.name) if name in pipelines)
        yield from (self.name for name in pipelines if self.name in dag_ids(name))

    def _has_tables(self, lake: Lake) -> bool:
        folder = Path(self._folder(lake))
        return folder.is_dir() and any(entry.name not in _WITHOUT_TABLES for entry in folder.iterdir())

    def _folder(self, lake: Lake) -> str:
        return f"{local_path(self.root)}/{lake.pipeline}"

    def _demand_one_of_two(self) -> None:
        """Check that only one of the two names has tables.

        Raises:
            RenameRefused: both names have tables.
        """
        if self._has_tables(self.old) and self._has_tables(self.new):
            raise RenameRefused(
                f"the lake has tables under both names, {self.former} and {self.name}",
                where=Where(file=self._folder(self.old)),
                cause="something was written while the rename was running",
                hint="keep the folder that the pipeline needs, move the other one out of the lake, and"
                " repeat the command; until then no run starts under either name",
            )

    def _take_locks_away(self, lake: Lake) -> None:
        """Remove the folder of a name without tables; whoever waits for a lock there finds it gone."""
        if self._has_tables(lake):
            return
        for name in _WITHOUT_TABLES:
            shutil.rmtree(f"{self._folder(lake)}/{name}", ignore_errors=True)
        with suppress(OSError):  # it is not there, or something has come into it, which stays
            os.rmdir(self._folder(lake))

    def _move_tables(self) -> None:
        self._demand_one_of_two()  # as it is now, behind the record that keeps runs out
        self._take_locks_away(self.new)
        try:
            os.rename(self._folder(self.old), self._folder(self.new))  # fails if that has anything in it
        except OSError as error:
            raise SluicegateError(
                f"cannot move the folder of {self.former}",
                where=Where(file=self._folder(self.old)),
                cause=str(error),
                hint="correct the cause and repeat the command; until then no run starts under either name",
            ) from error

    def _rename_definition(self) -> bool:
        """Rename the definition; return whether this changed anything."""
        try:
            return self._move_definition()
        except OSError as error:
            raise SluicegateError(
                f"cannot rename the definition of {self.former} to {self.name}",
                where=Where(file=str(error.filename2 or error.filename or self.pipelines / self.name)),
                cause=str(error),
                hint="correct the cause and repeat the command; until then no run starts under either name",
            ) from error

    def _move_definition(self) -> bool:
        """Move the folder of the definition, and change the name in it."""
        old, new = self.pipelines / self.former, self.pipelines / self.name
        moved = (old / loader.FILE).is_file()
        if moved:
            old.rename(new)
        _faults.point("rename.definition_moved")
        file = new / loader.FILE
        with file.open(encoding="utf-8", newline="") as opened:
            text = opened.read()
        named = yaml.replace_value(text, "name", self.name)
        if named != text:
            half = file.with_suffix(".half")
            with half.open("w", encoding="utf-8", newline="") as opened:
                opened.write(named)
            shutil.copymode(file, half)
            half.replace(file)
        return moved or named != text

    def _reader_remarks(self) -> Iterator[str]:
        """Yield a remark for each table of another pipeline that reads a table of this one by path."""
        before = f"{self._folder(self.old)}/"
        for other in names(self.pipelines):
            if other in (self.former, self.name):
                continue
            try:
                tables = load(other, self.definition.settings, of_many=True).bronze
            except SluicegateError:
                continue
            for name, table in tables.items():
                if table.format == "delta" and local_path(table.path).startswith(before):
                    path = f"{self._folder(self.new)}/{local_path(table.path).removeprefix(before)}"
                    yield f"{other}.{name} reads {table.path}: change its path to {path}"

    def _other_targets(self) -> Iterator[str]:
        """Yield a remark for each other target, whose tables still have the former name."""
        for target in self.definition.targets:
            if target != self.definition.settings.target:
                yield (
                    f"the tables of the target {target} must be renamed by"
                    f" sluicegate rename {self.former} {self.name} --target {target}, before its next run"
                )

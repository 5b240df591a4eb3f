"""Rename of a pipeline: its folder in the lake, with all tables and what they know of each other, and its definition.

No table has the name of its pipeline in it, nor its own address: offsets name tables by their ids, and the ledger has
the paths of landing. So a rename moves two folders and changes one line. Each step is atomic, and the record in the
lake (``lake.renamed``) says that they are under way: a stop anywhere leaves what the same command completes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate import _faults
from sluicegate.definition import load, load_file, loader, names, yaml
from sluicegate.definition.dag_ids import dag_ids
from sluicegate.definition.fields import name_fault
from sluicegate.errors import LakeLocked, LakeUnsupported, PipelineMissing, RenameRefused, SluicegateError, Where
from sluicegate.lake import claim, fence, renamed
from sluicegate.lake.layout import Lake, is_local, local_path
from sluicegate.lake.lock import pipeline_lock, turn
from sluicegate.monitor import streams

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings

# Folders that a look at a pipeline leaves where there are no tables: a lock that was tried, a run that was registered.
_WITHOUT_TABLES = {"_locks", "_streams"}


@dataclass
class Renamed:
    """What a rename has done.

    Attributes:
        lake: whether the folder in the lake was moved.
        definition: whether the definition has got the name.
        remarks: what is left for people to do.
    """

    lake: bool = False
    definition: bool = False
    remarks: list[str] = field(default_factory=list)


def rename(former: str, name: str, settings: Settings, *, tables_only: bool = False) -> Renamed:
    """Renames a pipeline: its tables in the lake, and its definition.

    Args:
        former: its name.
        name: the name that it is to have.
        settings: where things are; of a pipeline with targets the tables of the chosen one are renamed.
        tables_only: whether the definition gets its name by other means.

    Raises:
        RenameRefused: the name cannot be had, or another rename was not completed.
        PipelineMissing: there is no pipeline of the former name.
        DefinitionError: its definition has mistakes.
        LakeLocked: a run is at work on it.
        LakeUnsupported: the lake is on a store that cannot move a folder.
    """
    for one in (former, name):
        if fault := name_fault(one):
            raise RenameRefused(fault)
    if former == name:
        raise RenameRefused(f"the pipeline is called {name} already")
    with _Rename(former, name, settings, tables_only).alone():
        # What is there may have changed until nobody else was at work.
        return _Rename(former, name, settings, tables_only).done()


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
                f"the tables of {former} are in {self.root}, and an object store cannot move a folder in one step",
                hint="copy the folder by the store's own means while no run is at work, then rename the definition:"
                " docs/howto/renaming.md says how",
            )
        self.begun = self._is_begun()

    def _definition(self, settings: Settings) -> Pipeline:
        """The definition, which may have got its name already."""
        old, new = (self.pipelines / one / loader.FILE for one in (self.former, self.name))
        if old.is_file() and new.is_file():
            raise RenameRefused(
                f"there is a pipeline {self.name} already", where=Where(file=str(new)), hint="choose another name"
            )
        if not old.is_file() and not new.is_file():
            raise PipelineMissing(
                f"there is no pipeline {self.former} in {self.pipelines}",
                hint=f"there are {', '.join(names(self.pipelines)) or 'none'}",
            )
        found = load_file(old if old.is_file() else new, settings)
        if found.name not in (self.former, self.name):
            raise RenameRefused(f"the definition is that of {found.name}", where=Where(file=str(found.folder)))
        return found

    def _is_begun(self) -> bool:
        """Whether this very rename was begun and not completed.

        Raises:
            RenameRefused: another one was, and has to be completed first.
        """
        for one in (self.former, self.name):
            known = renamed.recorded(self.root, one)
            if known is None or known.done:
                continue
            if (known.former, known.name) == (self.former, self.name):
                return True
            raise RenameRefused(
                f"the rename of {known.former} to {known.name} has not come to its end",
                hint=f"sluicegate rename {known.former} {known.name} completes it",
            )
        return False

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context in which no run is at work on the pipeline by either name, and no other rename on the lake."""
        owner = f"rename of {self.former} to {self.name}"
        with ExitStack() as held:
            held.enter_context(pipeline_lock(Lake(self.root, renamed.FOLDER), owner, wait=0))
            for place in sorted((self.old, self.new), key=lambda one: one.pipeline):
                self._hold(place, owner, held)
            yield

    def _hold(self, place: Lake, owner: str, held: ExitStack) -> None:
        """Takes what the runs of a name take before they write; ``held`` gives it back."""
        if (holder := held.enter_context(turn(place, owner))) is not None:
            raise LakeLocked(
                f"pipeline {place.pipeline} is being written by {holder}",
                where=Where(file=self._folder(place)),
                hint="wait for that run to end, or stop it; nothing was renamed",
            )
        held.enter_context(fence.sole_writer(place, owner, remote=False, wait=0, renaming=True))
        if running := [one.id for one in streams.listed(self.root, place.pipeline) if not one.dead]:
            raise LakeLocked(
                f"a continuous run is at work on pipeline {place.pipeline}: {', '.join(running)}",
                hint=f"sluicegate streams {place.pipeline} --stop-all stops it; nothing was renamed",
            )

    def done(self) -> Renamed:
        """Checks that the name can be had, and does what is left to do."""
        old, new = self._has_tables(self.old), self._has_tables(self.new)
        if self.begun:
            self._demand_one_of_two()
        else:
            self._demand_possible(old, new)
        if old or new:
            claim.claim(self.old if old else self.new, self.definition.settings.target)
        found = Renamed(remarks=list(self._readers()))
        renamed.begun(self.root, self.former, self.name)
        _faults.point("rename.recorded")
        found.lake = old and self._move_tables()
        self._take_locks_away(self.old)  # where there was nothing else, they would be left alone
        _faults.point("rename.tables_moved")
        found.definition = not self.tables_only and self._definition_moved()
        renamed.ended(self.root, self.former, self.name)
        found.remarks += self._other_targets()
        return found

    def _demand_possible(self, old: bool, new: bool) -> None:
        """Checks what must be so before anything is done.

        Args:
            old: whether there are tables under the former name.
            new: whether there are tables under the new one.
        """
        before = renamed.recorded(self.root, self.former)
        if before is not None and before.name == self.name and new and not old:
            return  # it is done, but for the definition perhaps
        if new:
            raise RenameRefused(
                f"the lake has tables of a pipeline {self.name} already",
                where=Where(file=self._folder(self.new)),
                hint="choose another name, or move them away",
            )
        if not old and self.definition.folder.name == self.name:
            raise PipelineMissing(
                f"there is no pipeline {self.former}", where=Where(file=self._folder(self.old)), hint="it has no tables"
            )
        for name in self._taken():
            raise RenameRefused(
                f"the DAG of one pipeline would be called as that of another: {name}", hint="choose another name"
            )
        folder = self.definition.folder
        if not self.tables_only and not all(os.access(one, os.W_OK) for one in (folder, folder.parent)):
            raise RenameRefused(
                "this user may not write the definition",
                where=Where(file=str(folder)),
                hint="with --tables-only the tables are renamed, and the definition by whoever deploys it",
            )
        wanted = self.pipelines / self.name
        taken = wanted.exists() and not (wanted.is_dir() and not any(wanted.iterdir()))
        if not self.tables_only and folder != wanted and taken:
            raise RenameRefused(
                "there is something without a definition where that of the new name is to be",
                where=Where(file=str(wanted)),
                hint="move it away, a folder that an earlier definition has left for instance, or choose another name",
            )

    def _taken(self) -> Iterator[str]:
        """Names of DAGs that two pipelines would have."""
        others = [one for one in names(self.pipelines) if one not in (self.former, self.name)]
        yield from (one for one in dag_ids(self.name) if one in others)
        yield from (self.name for one in others if self.name in dag_ids(one))

    def _has_tables(self, at: Lake) -> bool:
        folder = Path(self._folder(at))
        return folder.is_dir() and any(one.name not in _WITHOUT_TABLES for one in folder.iterdir())

    def _folder(self, at: Lake) -> str:
        return f"{local_path(self.root)}/{at.pipeline}"

    def _demand_one_of_two(self) -> None:
        """Checks that no table would have to give way to another.

        Raises:
            RenameRefused: there are tables under both names.
        """
        if self._has_tables(self.old) and self._has_tables(self.new):
            raise RenameRefused(
                f"the lake has tables under both names, {self.former} and {self.name}",
                where=Where(file=self._folder(self.old)),
                cause="something was written there while the rename was under way",
                hint="find out which of the two folders the pipeline needs, move the other one out of the lake, and"
                " give the same command again; until then no run of either name begins",
            )

    def _take_locks_away(self, at: Lake) -> None:
        """Removes the folder of a name that has no tables; whoever waits for a lock in it finds that it is gone."""
        if self._has_tables(at):
            return
        for name in _WITHOUT_TABLES:
            shutil.rmtree(f"{self._folder(at)}/{name}", ignore_errors=True)
        with suppress(OSError):  # it is not there, or something has come into it, which stays
            os.rmdir(self._folder(at))

    def _move_tables(self) -> bool:
        self._demand_one_of_two()  # as it is now, behind the record that keeps runs out
        self._take_locks_away(self.new)
        try:
            os.rename(self._folder(self.old), self._folder(self.new))  # fails if that has anything in it
        except OSError as error:
            raise SluicegateError(
                f"the folder of {self.former} could not be moved",
                where=Where(file=self._folder(self.old)),
                cause=str(error),
                hint="mend that, and give the same command again; until then no run of either name begins",
            ) from error
        return True

    def _definition_moved(self) -> bool:
        """Whether the definition has got the name by this."""
        try:
            return self._move_definition()
        except OSError as error:
            raise SluicegateError(
                f"the definition of {self.former} could not get the name {self.name}",
                where=Where(file=str(error.filename2 or error.filename or self.pipelines / self.name)),
                cause=str(error),
                hint="mend that, and give the same command again; until then no run of either name begins",
            ) from error

    def _move_definition(self) -> bool:
        """Moves the folder of the definition, and changes the name in it."""
        old, new = self.pipelines / self.former, self.pipelines / self.name
        moved = (old / loader.FILE).is_file()
        if moved:
            old.rename(new)
        _faults.point("rename.definition_moved")
        file = new / loader.FILE
        with file.open(encoding="utf-8", newline="") as opened:
            text = opened.read()
        named = yaml.with_value(text, "name", self.name)
        if named != text:
            half = file.with_suffix(".half")
            with half.open("w", encoding="utf-8", newline="") as opened:
                opened.write(named)
            shutil.copymode(file, half)
            half.replace(file)
        return moved or named != text

    def _readers(self) -> Iterator[str]:
        """Sentence for each table of another pipeline that reads a table of this one by its path."""
        before = f"{self._folder(self.old)}/"
        for other in names(self.pipelines):
            if other in (self.former, self.name):
                continue
            try:
                tables = load(other, self.definition.settings, of_many=True).bronze
            except SluicegateError:
                continue
            for table, said in tables.items():
                if said.format == "delta" and local_path(said.path).startswith(before):
                    now = f"{self._folder(self.new)}/{local_path(said.path).removeprefix(before)}"
                    yield f"{other}.{table} reads {said.path}: let its path be {now}"

    def _other_targets(self) -> Iterator[str]:
        """Sentence for each other target, whose tables have the former name still."""
        for target in self.definition.targets:
            if target != self.definition.settings.target:
                yield (
                    f"the tables of the target {target} are renamed by"
                    f" sluicegate rename {self.former} {self.name} --target {target}, before its next run"
                )

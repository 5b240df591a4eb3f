"""Creation of a pipeline from sample files: checked like any other, and written whole or not at all."""

from __future__ import annotations

import filecmp
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate import definition
from sluicegate.errors import SourceError, UserError, Where
from sluicegate.settings import Settings
from sluicegate.tools.scaffold import group_files, near_misses, render, staging_folder
from sluicegate.tools.scaffold.table import NewTable

# All but the characters that have no special meaning in Spark's paths and globs.
_UNSAFE = re.compile(r"[^\w.\- ]", re.ASCII)


@dataclass(frozen=True)
class NewPipeline:
    """Pipeline that was created.

    Attributes:
        name: its name.
        folder: the folder of its definition.
        tables: its tables.
        gold: the name of its gold table.
        landed: the landed files; none unless they were to land.
        landing: landing folder of each table, by the table's name.
    """

    name: str
    folder: Path
    tables: list[NewTable]
    gold: str
    landed: list[Path]
    landing: dict[str, str]

    def commands(self, program: str = "sluicegate") -> list[str]:
        """Next commands, as a person types them; ``program`` is how the program is called there."""
        if self.landed:
            copies = []
        else:
            copies = [self._copy_command(table) for table in self.tables]
        query = f"SELECT * FROM {self.name}.{self.gold} LIMIT 10"
        return [*copies, f"{program} run {self.name}", f'{program} sql "{query}"']

    def _copy_command(self, table: NewTable) -> str:
        to = f"{self.landing[table.name]}/"
        if len(table.files) > 5:
            return f"# copy the {len(table.files):,} files of {table.name} to {to}"
        return shlex.join(["cp", "--", *(str(file) for file in table.files), to])

    def facts(self) -> dict[str, Any]:
        """Result as JSON facts."""
        return {
            "pipeline": self.name,
            "folder": str(self.folder),
            "tables": [_facts(table) for table in self.tables],
            "gold": self.gold,
            "landing": self.landing,
            "landed": [str(file) for file in self.landed],
            "next": self.commands(),
        }


def _facts(table: NewTable) -> dict[str, Any]:
    columns = [
        {
            "field": c.field,
            "column": c.name,
            "type": c.inferred_type.kind,
            "guess": c.inferred_type.is_guess,
            "remark": c.inferred_type.remark,
        }
        for c in table.columns
    ]
    return {
        "bronze": table.bronze,
        "silver": table.name,
        "format": table.samples[0].format,
        "options": table.samples[0].options,
        "files": [str(file) for file in table.files],
        "rows_looked_at": table.rows,
        "columns": columns,
        "left": table.unusable_fields,
        "keys": table.guess.keys,
        "no_keys": [{"keys": [*names], "why": reason} for names, reason in table.guess.no_keys.items()],
        "near_misses": near_misses.sentences(table, examples=False),
        "guessed": list(dict.fromkeys(text for sample in table.samples for text in sample.guessed)),
        "sequence_by": table.guess.sequence_by,
        "event_time": table.guess.event_time,
        "pii": table.guess.pii,
    }


def create(name: str, sources: Sequence[str], settings: Settings, land: bool, header: bool | None) -> NewPipeline:
    """Create a pipeline for files.

    Args:
        name: its name.
        sources: files and folders, each as ``PATH`` or ``TABLE=PATH``.
        settings: where definitions are, and where files land.
        land: whether to copy the files to the landing folders.
        header: whether CSV files have a header; None to guess.

    Raises:
        UserError: the name is not one, or there is such a pipeline; a file's table has no name of its own; a file that
            is to land would be written over.
        SourceError: a file cannot be read, is empty, or of no known format.
    """
    folder = staging_folder.demand_new_folder(name, settings.pipelines)
    created = group_files.tables(sources, header)
    landing = {table.name: f"{settings.landing}/{name}/{table.name}" for table in created}
    if land and "://" in settings.landing:
        hint = "omit --land, and copy the files with the tools of the store"
        raise UserError(f"--land copies to a folder, and files land in {settings.landing}", hint=hint)
    new = NewPipeline(name, folder, created, render.gold_name(render.main_table(created)), [], landing)
    _demand_gold_name(new)
    with staging_folder.stage_folder(name, folder) as half:
        for file, text in render.files(name, created).items():
            (half / file).write_text(text, "utf-8")
        definition.load_file(half / "pipeline.yaml", settings)
        landed = _land(new, land)
        try:
            half.rename(folder)
        except BaseException:
            _take_back(landed)
            raise
    return NewPipeline(name, folder, created, new.gold, [target for _, target, _ in landed], landing)


def _demand_gold_name(new: NewPipeline) -> None:
    if any(new.gold in (table.name, table.bronze) for table in new.tables):
        main = render.main_table(new.tables)
        hint = f"rename one of them: TABLE={main.files[0]}"
        raise UserError(f"duplicate table name {new.gold}: a table of files and the gold table", hint=hint)


# --- landing ---------------------------------------------------------------------------------------------------------

Landed = tuple[Path, Path, bool]
"""File, its target, and whether it is copied: it may be there already."""


def _land(new: NewPipeline, land: bool) -> list[Landed]:
    """Copy the files, or only create their folders."""
    folders = {table.name: Path(new.landing[table.name]) for table in new.tables}
    if not land:
        if not any("://" in where for where in new.landing.values()):
            for folder in folders.values():
                folder.mkdir(parents=True, exist_ok=True)
        return []
    plan = [planned for table in new.tables for planned in _plan_copies(table, folders[table.name])]
    landed: list[Landed] = []
    try:
        for source, target, copied in plan:
            if copied:
                _copy(source, target)
            landed.append((source, target, copied))
    except BaseException as error:
        _take_back(landed)
        if isinstance(error, OSError):
            raise SourceError(
                "a file could not be copied", cause=str(error), hint="fix the cause, and try again"
            ) from error
        raise
    return landed


def _plan_copies(table: NewTable, folder: Path) -> list[Landed]:
    planned: list[Landed] = []
    taken: set[str] = set()
    for file in table.files:
        name = _file_name(file.name)
        count = 2
        while name in taken:
            name, count = f"{count}-{_file_name(file.name)}", count + 1
        taken.add(name)
        target = folder / name
        if target.exists() and not filecmp.cmp(file, target, shallow=False):
            hint = "move it away, or choose another name for the pipeline"
            raise UserError("an existing file would be overwritten", where=Where(file=str(target)), hint=hint)
        planned.append((file, target, not target.exists()))
    if folder.is_dir():
        present = {path.name for path in folder.iterdir()} - taken
    else:
        present = set()
    if present:
        message = f"{folder} contains other files, which would also be read"
        raise UserError(message, where=Where(file=str(folder / min(present))), hint="move them elsewhere")
    return planned


def _file_name(name: str) -> str:
    """File name that Spark reads: neither hidden nor temporary, without special characters."""
    plain = _UNSAFE.sub("-", name).lstrip("._-") or "file"
    if plain[-1] != "~":
        return plain
    return plain[:-1] + "-"


def _copy(source: Path, target: Path) -> None:
    """Copy a file with its modification time; it appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(source, half)
        shutil.copystat(source, half)
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)


def _take_back(landed: Sequence[Landed]) -> None:
    """Delete what was copied, and folders that are then empty."""
    for _, target, copied in landed:
        if copied:
            target.unlink(missing_ok=True)
            for folder in (target.parent, target.parent.parent):
                if not any(os.scandir(folder)):
                    folder.rmdir()

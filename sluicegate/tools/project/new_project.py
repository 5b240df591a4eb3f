"""A new project: settings, a pipeline with its cases, a DAG file, checks in CI. It needs nothing but the package."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sluicegate.definition.fields import name_fault
from sluicegate.errors import UserError, Where
from sluicegate.project_file import FILE
from sluicegate.settings import HOME, Settings
from sluicegate.tools.project.first_case import case_text
from sluicegate.tools.scaffold.create import create

_TEMPLATES = Path(__file__).with_name("templates")
_SAMPLE = _TEMPLATES / "sample"
_SAMPLE_NAME = "sales"

# Categories of characters that no title of one line has, in files of UTF-8: controls, halves of pairs, ends of lines.
_NOT_PRINTED = {"Cc", "Cs", "Zl", "Zp"}

# Modification time of the sample's file, long ago: a younger one would be taken for one that is still growing.
_LANDED_AT = datetime(2026, 1, 8, tzinfo=UTC).timestamp()

# Files of a project, each with its template. Tools would take some of these for their own under their right names.
_FILES = {
    FILE: "sluicegate.toml", ".gitignore": "gitignore", "requirements.txt": "requirements.txt",
    "dags/pipelines.py": "dags/pipelines.py.txt", ".github/workflows/pipelines.yml": ".github/workflows/pipelines.yml",
    "README.md": "project.txt",
}  # fmt: skip


@dataclass(frozen=True)
class NewProject:
    """A project that was created.

    Attributes:
        folder: its folder.
        pipeline: name of its pipeline.
        gold: its gold table.
        written: the files that were written, relative to the folder.
        existing: files that were there, and stayed as they are.
        has_cases: whether the pipeline has cases.
    """

    folder: Path
    pipeline: str
    gold: str
    written: list[str]
    existing: list[str]
    has_cases: bool

    def commands(self, program: str = "sluicegate") -> list[str]:
        """List the next commands in the folder of the project."""
        query = f"SELECT * FROM {self.pipeline}.{self.gold} LIMIT 10"
        tests = [f"{program} test {self.pipeline}"] * self.has_cases
        return [f"{program} doctor", f"{program} run {self.pipeline}", f'{program} sql "{query}"', *tests]

    def facts(self) -> dict[str, Any]:
        """Return the result for ``--json``."""
        return {
            "folder": str(self.folder), "pipeline": self.pipeline, "gold": self.gold, "written": self.written,
            "existing": self.existing, "next": self.commands(),
        }  # fmt: skip


def create_project(folder: Path, sources: Sequence[str], name: str | None) -> NewProject:
    """Create a project in a folder, and leave files that exist unchanged.

    Args:
        folder: its folder, created if needed.
        sources: files and folders for its pipeline, as ``sluicegate new`` takes them; none for a sample.
        name: name of the pipeline; by default that of the folder, and of the sample ``sales``.

    Raises:
        UserError: the folder has a project or such a pipeline, or the name is invalid.
        SourceError: see ``sluicegate.tools.scaffold.create.create``.
    """
    folder = folder.expanduser().absolute()
    if (folder / FILE).exists():
        hint = "choose another folder, or add a pipeline with `sluicegate new`"
        raise UserError(f"{folder} already is a project", where=Where(file=str(folder / FILE)), hint=hint)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder", hint="choose another name")
    if _NOT_PRINTED & set(map(unicodedata.category, folder.name)):
        raise UserError(f"{folder.name} has characters that cannot be printed", hint="choose another name")
    settings = Settings(str(folder / "lake"), str(folder / "landing"), folder / "pipelines", "local[*]")
    name = name or _pipeline_name(folder, sources)
    if sources:
        gold, pipeline_files = _create_from_files(name, sources, settings)
    else:
        gold, pipeline_files = _create_sample(name, settings)
    words = {"NAME": name, "TITLE": folder.name, "VERSION": version("sluicegate")}
    texts = {path: _fill((_TEMPLATES / template).read_text("utf-8"), words) for path, template in _FILES.items()}
    texts["docs/pipeline.schema.json"] = (HOME / "docs" / "pipeline.schema.json").read_text("utf-8")
    if not any("/tests/" in file for file in pipeline_files):
        workflow = ".github/workflows/pipelines.yml"
        texts[workflow] = texts[workflow].replace(f"      - run: sluicegate test {name}\n", "")
    existing = [path for path, text in texts.items() if not _write_new(folder / path, text)]
    written = [path for path in texts if path not in existing]
    has_cases = any("/tests/" in file for file in pipeline_files)
    return NewProject(folder, name, gold, [*written, *pipeline_files], existing, has_cases)


def _pipeline_name(folder: Path, sources: Sequence[str]) -> str:
    """Return a pipeline's name made from the folder's, in the letters that names may have."""
    if not sources:
        return _SAMPLE_NAME
    plain = re.sub(r"[^a-z0-9]+", "_", folder.name.lower()).strip("_")
    if name_fault(plain):
        return "files"
    return plain


def _create_from_files(name: str, sources: Sequence[str], settings: Settings) -> tuple[str, list[str]]:
    """Create the pipeline of files, with a first case, and return its gold table and its files."""
    created = create(name, sources, settings, True, None)
    cases = case_text(created)
    if cases:
        _write_new(created.folder / "tests" / "first.yaml", cases)
    return created.gold, _files_below(created.folder)


def _create_sample(name: str, settings: Settings) -> tuple[str, list[str]]:
    """Create the sample's pipeline, and land its file; return its gold table and its files."""
    folder = settings.pipelines / name
    if fault := name_fault(name):
        raise UserError(fault, hint=f"for example {_SAMPLE_NAME}")
    if folder.exists():
        where = Where(file=str(folder))
        raise UserError(f"the pipeline {name} already exists", where=where, hint="choose another name")
    for template in sorted(file for file in _SAMPLE.rglob("*") if file.suffix in (".yaml", ".sql")):
        _write_new(folder / template.relative_to(_SAMPLE), _fill(template.read_text("utf-8"), {"NAME": name}))
    landed = Path(settings.landing) / name / "orders" / "orders.csv"
    landed.parent.mkdir(parents=True, exist_ok=True)
    if not landed.exists():
        shutil.copyfile(_SAMPLE / "orders.csv", landed)
        os.utime(landed, (_LANDED_AT, _LANDED_AT))
    return "orders_by_day", _files_below(folder)


def _files_below(folder: Path) -> list[str]:
    root = folder.parent.parent
    return sorted(file.relative_to(root).as_posix() for file in folder.rglob("*") if file.is_file())


def _fill(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def _write_new(file: Path, text: str) -> bool:
    """Write a file unless it exists, and return whether it was written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        return False
    return True

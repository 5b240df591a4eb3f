"""Creation of a definition from a source of Delta Live Tables, checked like any other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from sluicegate import definition
from sluicegate.errors import DefinitionError, SourceError, UserError, Where
from sluicegate.settings import Settings, demand_supported_store
from sluicegate.tools.migrate import python_source, sql_source
from sluicegate.tools.migrate.draft import Draft
from sluicegate.tools.migrate.mapping import draft
from sluicegate.tools.migrate.model import ParsedSource, Remark
from sluicegate.tools.migrate.settings_of_source import SourceSettings
from sluicegate.tools.scaffold import staging_folder
from sluicegate.tools.scaffold.naming import comment_text, scalar, table_name
from sluicegate.tools.scaffold.render import SCHEMA

_READERS = {".sql": sql_source.read, ".py": python_source.read}

# Cells that install packages.
_PACKAGES = ("%pip", "%environment")

# Bytes beyond which a source is not read.
LARGEST = 4 << 20


@dataclass(frozen=True)
class Imported:
    """Pipeline created from a source.

    Attributes:
        name: its name.
        folder: the folder of its definition.
        draft: its tables.
        remarks: what was not converted, in the order of the source.
        error: the mistakes that the definition still has, if any.
    """

    name: str
    folder: Path
    draft: Draft
    remarks: list[Remark]
    error: DefinitionError | None

    def summary(self) -> str:
        """Say in one line how much of the source was converted."""
        imported, missing = len(self.draft.imported), len(self.draft.missing)
        flows = ""
        if any(name.startswith("the ") for name in self.draft.missing):
            flows = " and flows"
        text = f"imported {imported:,} of {imported + missing:,} declared tables{flows}"
        if missing:
            text += f" ({missing:,} not imported, see above)"
        rules = len(self.draft.rules_left)
        if rules:
            text += f", {rules:,} rule{'' if rules == 1 else 's'} not imported"
        if self.is_complete or missing or rules:
            return text
        return f"{text}, not all with the same meaning"

    @property
    def is_complete(self) -> bool:
        """Whether all tables and rules of the source were converted, with all that changes their meaning."""
        changed = any(remark.changes_meaning for remark in self.remarks)
        return not (self.draft.missing or self.draft.rules_left or changed)

    def facts(self) -> dict[str, Any]:
        """Return the result for ``--json``."""
        return {
            "pipeline": self.name, "folder": str(self.folder),
            "tables": {layer: list(getattr(self.draft, layer)) for layer in ("bronze", "silver", "gold")},
            "imported": self.draft.imported, "rules_not_imported": self.draft.rules_left,
            "not_imported": [{"table": name, "line": line} for name, line in self.draft.missing.items()],
            "left": [remark.facts() for remark in self.remarks], "loads": self.error is None,
            "mistakes": self.error.as_dict()["mistakes"] if self.error else [],
        }  # fmt: skip


class NothingImported(UserError):
    """Raised when no table of a source can be converted; nothing was written."""

    exit_code = 4


def create(
    file: Path, name: str | None, settings: Settings, setting_values: Mapping[str, str] = MappingProxyType({})
) -> Imported:
    """Create a pipeline from a source; one with mistakes is written too, for a person to correct.

    Args:
        file: the source, ``.sql`` or ``.py``.
        name: the pipeline's name; the file's name if None.
        settings: configuration with the definitions' folder.
        setting_values: values of the source's own settings (``spark.conf``, widgets, ``${name}`` in SQL), by name.

    Raises:
        UserError: the source is neither, does not parse, or reads no setting of a name in ``setting_values``; the
            pipeline exists already.
        NothingImported: no table of it can be converted.
        SourceError: the file cannot be read.
    """
    demand_supported_store(str(file))
    if name is None:
        name = table_name(file.stem)
    folder = staging_folder.demand_new_folder(name, settings.pipelines)
    values = SourceSettings(setting_values)
    source = _read(file, values)
    if unread := values.unread_names():
        raise UserError(f"{file.name} does not read the setting {unread[0]}", hint="check the name in --set")
    tables = draft(source)
    if not tables.table_names:
        causes = "\n    ".join(map(str, sorted(source.remarks)))
        hint = "tables are declared by CREATE STREAMING TABLE …, or @dlt.table"
        raise NothingImported(f"{file.name} declares no table that can be imported", cause=causes, hint=hint)
    remarks = sorted(set(source.remarks))
    with staging_folder.stage_folder(name, folder) as half:
        (half / "pipeline.yaml").write_text(_definition(name, file.name, tables, remarks), "utf-8")
        for table, query in tables.queries.items():
            (half / f"{table}.sql").write_text(_query(table, query, tables), "utf-8")
        half.rename(folder)
    try:
        definition.load(name, settings)
    except DefinitionError as error:
        return Imported(name, folder, tables, remarks, error)
    return Imported(name, folder, tables, remarks, None)


def by_effect(remarks: Sequence[Remark]) -> dict[str, list[Remark]]:
    """Group remarks by their effect on the tables, in words."""
    groups: dict[str, list[Remark]] = {"changes the meaning": [], "harmless": []}
    for remark in remarks:
        effect = "harmless"
        if remark.changes_meaning:
            effect = "changes the meaning"
        groups[effect].append(remark)
    return {effect: remarks_of_effect for effect, remarks_of_effect in groups.items() if remarks_of_effect}


def _read(file: Path, settings: SourceSettings) -> ParsedSource:
    if file.suffix not in _READERS:
        hint = "give a file that ends in .sql or .py; export a notebook as one of these"
        raise UserError(f"{file.name} is neither SQL nor Python", where=Where(file=str(file)), hint=hint)
    try:
        if file.stat().st_size > LARGEST:
            raise UserError(f"{file.name} is larger than {LARGEST:,} bytes", where=Where(file=str(file)))
        text = file.read_text("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file.name} cannot be read", where=Where(file=str(file)), cause=str(error)) from error
    source = _READERS[file.suffix](text, str(file), settings)
    for number, line in enumerate(text.split("\n"), 1):
        # In an exported notebook, cells in another language than its own are comments.
        if (cell := re.match(r"(?:#|--) MAGIC (%(?!md)\S+)", line)) is not None:
            _leave_cell(source, number, cell[1])
    return source


def _leave_cell(source: ParsedSource, line: int, command: str) -> None:
    subject = f"a cell of {command}"
    if command in _PACKAGES:
        source.leave_harmless(line, subject, "packages are installed where the jobs run")
    else:
        source.leave(line, subject, "its code is not read: import its file, or move it to one")


# --- what is written -------------------------------------------------------------------------------------------------


def _definition(name: str, source: str, draft: Draft, remarks: list[Remark]) -> str:
    lines = [SCHEMA, f"# Made by `sluicegate import` of {comment_text(source)}."]
    lines += [f"# Not imported: {comment_text(table, 160)} (line {line})" for table, line in draft.missing.items()]
    if not remarks and not draft.missing:
        lines.append("# All of it was imported.")
    for effect, remarks_of_effect in by_effect(remarks).items():
        lines.append(f"# Not imported, {effect}:")
        lines += [
            f"# - {comment_text(remark.subject, 160)}: {comment_text(remark.reason, 160)} (line {remark.line})"
            for remark in remarks_of_effect
        ]
    lines += [f"name: {name}"]
    for layer in ("bronze", "silver", "gold"):
        tables: dict[str, dict[str, Any]] = getattr(draft, layer)
        if tables:
            lines += ["", f"{layer}:"]
        for table, fields in tables.items():
            lines += [f"  # {comment_text(text, 110)}" for text in draft.comments.get(table, [])]
            lines += [f"  {table}:", *(f"    {field}: {_value(value)}" for field, value in fields.items())]
    return "\n".join([*lines, ""])


def _value(value: Any) -> str:
    """Write a value as one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(str(key))}: {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return scalar(value)
    return str(yaml.safe_dump(value)).splitlines()[0]


def _query(table: str, query: str, tables: Draft) -> str:
    text = "\n".join(line.rstrip() for line in query.strip().split("\n"))
    heading = [f"-- {comment_text(comment, 110)}" for comment in tables.comments.get(table, [])]
    return "\n".join([*heading, re.sub(r";\s*$", "", text), ""])

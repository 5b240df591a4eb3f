"""Settings of a project: ``sluicegate.toml``, or ``[tool.sluicegate]`` in ``pyproject.toml``.

The file is looked for in a folder and those above it. Its relative paths are below its own folder. Targets are sets of
values that come before the others of the file. Secrets are refused: they belong into the environment of the processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from sluicegate.errors import Mistake, SettingsError, UserError
from sluicegate.suggestions import suggest_or_list

FILE = "sluicegate.toml"
_SHARED_FILE = "pyproject.toml"
_TARGETS = "targets"

# Beginnings of the lines by which a pyproject.toml can have our table; few have, and parsing one takes milliseconds.
_OWN_TABLE = re.compile(r"""^\s*\[?\s*["']?tool["']?\s*(\.\s*["']?sluicegate\b|\]|=)""", re.MULTILINE)

_TABLE_LINE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY_LINE = re.compile(r"""\s*([\w\-."' ]+?)\s*=""")
_TARGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SECRET_NAME = re.compile(r"passw|secret|token|credential|(^|_)key(_id)?$|sasl", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(passw\w*|secret|token|access_?key)\s*=|://[^/@\s:]*:[^/@\s]+@", re.IGNORECASE)

Kind = Literal["place", "path", "text", "minutes", "count", "switch"]


@dataclass(frozen=True)
class Setting:
    """A setting that a project file can have.

    Attributes:
        variable: environment variable that comes before the file.
        kind: what its value is: a path or URI, a path, a text, minutes, a whole number from 1 on, or true and false.
        default: value without flag, variable and file; of a path, below the project's folder.
    """

    variable: str
    kind: Kind
    default: str = ""


SETTINGS = {
    "lake": Setting("SLUICEGATE_LAKE", "place", "lake"),
    "landing": Setting("SLUICEGATE_LANDING", "place", "landing"),
    "pipelines": Setting("SLUICEGATE_PIPELINES", "path", "pipelines"),
    "master": Setting("SLUICEGATE_MASTER", "text", "local[*]"),
    "target": Setting("SLUICEGATE_TARGET", "text"),
    "warm_minutes": Setting("SLUICEGATE_WARM", "minutes"),
    "jars": Setting("SLUICEGATE_JARS", "path"),
    "maven": Setting("SLUICEGATE_MAVEN", "text"),
    "only_writer": Setting("SLUICEGATE_ONLY_WRITER", "switch"),
    "connect_token_file": Setting("SLUICEGATE_CONNECT_TOKEN_FILE", "path"),
    "metastore": Setting("SLUICEGATE_METASTORE", "text"),
    "metastore_user": Setting("SLUICEGATE_METASTORE_USER", "text"),
    "history_server": Setting("SLUICEGATE_HISTORY_SERVER", "text"),
    "spark_ui": Setting("SLUICEGATE_SPARK_UI", "text"),
    "spark_slots": Setting("SLUICEGATE_SPARK_SLOTS", "count"),
    "store_conn_id": Setting("SLUICEGATE_STORE_CONN_ID", "text"),
}
"""Settings by their keys in the file."""


@dataclass(frozen=True)
class FileValue:
    """A value of a project file.

    Attributes:
        text: the value as its environment variable would have it.
        line: its line in the file; None if that is not known.
    """

    text: str
    line: int | None


@dataclass(frozen=True)
class Project:
    """A project file that has been read.

    Attributes:
        file: its path.
        values: values outside of targets, by their keys.
        targets: values of each target.
    """

    file: Path
    values: Mapping[str, FileValue]
    targets: Mapping[str, Mapping[str, FileValue]]

    @property
    def folder(self) -> Path:
        """Folder of the file, which its relative paths are below."""
        return self.file.parent

    def chosen_values(self, target: str) -> Mapping[str, FileValue]:
        """Values for a target: its own, else those outside of targets.

        Raises:
            SettingsError: the file has targets, and none of that name.
        """
        if not target or not self.targets:
            return self.values
        if target not in self.targets:
            message, hint = f"unknown target {target}", suggest_or_list(target, self.targets, "its targets:")
            raise SettingsError(self.file.name, [Mistake("unknown-target", _TARGETS, message, str(self.file), 1, hint)])
        return {**self.values, **self.targets[target]}


def find_project(folder: Path) -> Project | None:
    """Read the project file of a folder: in it, or in the nearest folder above that has one; None if none has.

    Raises:
        SettingsError: the file has mistakes, or the folder has two such files.
        UserError: the file cannot be read.
    """
    for parent in (folder, *folder.parents):
        own, shared = _read_if_present(parent / FILE), _read_if_present(parent / _SHARED_FILE)
        if own and shared:
            message = f"{_SHARED_FILE} has a table tool.sluicegate, too"
            raise SettingsError(FILE, [Mistake("two-files", "", message, str(own.file), None, "keep one of them")])
        if own or shared:
            return own or shared
    return None


def _read_if_present(file: Path) -> Project | None:
    try:
        state = os.stat(file)
    except OSError:
        return None
    return _read(file, (state.st_ino, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=64)
def _read(file: Path, _state: tuple[int, ...]) -> Project | None:
    """Read a file once in each of its states; None for a ``pyproject.toml`` without our table."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read", cause=str(error), hint="save it as UTF-8, readable by you") from error
    if file.name == _SHARED_FILE and not _OWN_TABLE.search(text):
        return None
    return _Reader(file, text).read()


@dataclass
class _Reader:
    """Reader of one file, which collects its mistakes."""

    file: Path
    text: str
    mistakes: list[Mistake] = field(default_factory=list)

    def read(self) -> Project | None:
        """Read the file; raises ``SettingsError`` with all mistakes, if there are any."""
        import tomllib  # only where there is a file: each command asks this module for the settings

        lines = key_lines(self.text)
        prefix = ""
        try:
            table: Any = tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:  # also of a number too long, or of brackets too deep
            place = re.search(r"at line (\d+)", str(error))
            line = self.text.count("\n") + 1  # of a document that ends too early
            if place:
                line = int(place[1])
            self._add("toml-syntax", "", str(error), line)
            raise SettingsError(self.file.name, self.mistakes) from None
        if self.file.name == _SHARED_FILE:
            prefix, tools = "tool.sluicegate.", table.get("tool")
            if not isinstance(tools, dict) or "sluicegate" not in tools:
                return None
            table = tools["sluicegate"]
        values, targets = self._project_values(table, prefix, lines)
        if self.mistakes:
            raise SettingsError(self.file.name, self.mistakes)
        return Project(self.file, values, targets)

    def _project_values(
        self, table: Any, prefix: str, lines: Mapping[str, int]
    ) -> tuple[dict[str, FileValue], dict[str, dict[str, FileValue]]]:
        named_targets = self._table(table, prefix, lines).pop(_TARGETS, {})
        values = self._values({key: value for key, value in table.items() if key != _TARGETS}, prefix, lines)
        targets = {}
        for name, fields in self._table(named_targets, f"{prefix}{_TARGETS}.", lines).items():
            path = f"{prefix}{_TARGETS}.{name}."
            if not _TARGET_NAME.fullmatch(name):
                self._add("name", path, f"invalid target name {name!r}", lines.get(path.rstrip(".")))
            targets[name] = self._values(self._table(fields, path, lines), path, lines, of_target=True)
        default = values.get("target")
        if default and targets and default.text not in targets:
            hint = suggest_or_list(default.text, targets, "its targets:")
            self._add("unknown-target", f"{prefix}target", f"unknown target {default.text}", default.line, hint)
        return values, targets

    def _table(self, table: Any, path: str, lines: Mapping[str, int]) -> dict[str, Any]:
        if isinstance(table, dict):
            return dict(table)
        self._add("wrong-type", path, "expected a table of settings", lines.get(path.rstrip(".")))
        return {}

    def _values(
        self, table: Mapping[str, Any], prefix: str, lines: Mapping[str, int], *, of_target: bool = False
    ) -> dict[str, FileValue]:
        values = {}
        allowed = set(SETTINGS)
        if of_target:
            allowed.discard("target")
        for key, value in table.items():
            path = f"{prefix}{key}"
            line = lines.get(path, lines.get(prefix.rstrip(".")))
            if key not in allowed:
                self._add_unknown(key, path, line, allowed)
                continue
            try:
                values[key] = FileValue(_value_text(SETTINGS[key].kind, value, self.file.parent), line)
            except _WrongValue as wrong:
                self._add(wrong.code, path, str(wrong), line, wrong.hint)
        return values

    def _add_unknown(self, key: str, path: str, line: int | None, allowed: Collection[str]) -> None:
        if _SECRET_NAME.search(key):
            hint = "set its SLUICEGATE_* variable in the environment of every process that needs it"
            self._add("secret", path, f"{key} may be a secret, which this file must not have", line, hint)
            return
        hint = suggest_or_list(key.lower().removeprefix("sluicegate_"), sorted(allowed), "known:")
        self._add("unknown-key", path, f"unknown setting {key}", line, hint)

    def _add(self, code: str, path: str, message: str, line: int | None, hint: str = "") -> None:
        self.mistakes.append(Mistake(code, path.rstrip(".") or "file", message, str(self.file), line, hint))


class _WrongValue(Exception):
    """A value that its setting cannot have."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


def _value_text(kind: Kind, value: Any, folder: Path) -> str:
    """Text that the environment variable of a setting would have for a value."""
    if kind == "switch":
        if not isinstance(value, bool):
            raise _WrongValue("wrong-type", f"expected true or false, not {value!r}")
        return str(int(value))
    if kind in ("minutes", "count"):
        return _number_text(kind, value)
    if not isinstance(value, str) or not value.strip():
        raise _WrongValue("wrong-type", f"expected a text, not {value!r}", 'for example "lake", in quotes')
    if may_have_secret(value):
        hint = "set the SLUICEGATE_* variable of this setting in the environment of the processes"
        raise _WrongValue("secret", "the value may have a secret in it, which this file must not have", hint)
    if "\0" in value:
        raise _WrongValue("not-allowed", "the value has a NUL character")
    if "${" in value:
        raise _WrongValue("not-allowed", "variables ${…} are not replaced here", "set the setting's own variable")
    if kind == "text" or "://" in value or value.startswith("dbfs:/"):
        return value
    return os.path.normpath(folder / Path(value).expanduser())


def may_have_secret(text: str) -> bool:
    """Whether a value looks as if it had a password or a token in it, such as an address with one."""
    return bool(_SECRET_VALUE.search(text))


def _number_text(kind: Kind, value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "minutes":
        if not is_number or not 0 <= value < float("inf"):
            raise _WrongValue("wrong-type", f"expected minutes, 0 or more, not {value!r}")
        return f"{value:g}"
    if not is_number or value != int(value) or value < 1:
        raise _WrongValue("wrong-type", f"expected a whole number, 1 or more, not {value!r}")
    return str(int(value))


def key_lines(text: str) -> dict[str, int]:
    """Return the first line of each table and key of a TOML document, by their dotted paths.

    It reads lines and not the grammar: a key within an inline table has no line of its own.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _TABLE_LINE.match(line):
            table = f"{_plain_path(header[1])}."
            lines.setdefault(table.rstrip("."), number)
        elif key := _KEY_LINE.match(line):
            lines.setdefault(f"{table}{_plain_path(key[1])}", number)
    return lines


def _plain_path(path: str) -> str:
    """Dotted path without the quotes and spaces that TOML permits."""
    return ".".join(part.strip().strip("\"'") for part in path.split("."))

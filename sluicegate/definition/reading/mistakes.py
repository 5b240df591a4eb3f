"""Mistakes of one definition, collected while it is read: each with its file and line, and all reported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sluicegate.definition import yaml
from sluicegate.definition.checks.known_tables import LocatedMistake
from sluicegate.errors import DefinitionError, Mistake


class Mistakes:
    """Mistakes of a definition.

    Args:
        path: its file.

    Attributes:
        document: the definition as it is written, by which mistakes get their lines.
    """

    def __init__(self, path: Path) -> None:
        self.document = yaml.Document()
        self._path = path
        self._found: list[Mistake] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, code: str, path: yaml.Path, message: str, hint: str = "", *, line: int | None = None) -> None:
        """Add a mistake at a path of the document."""
        line = line or self.document.line(path)
        self._found.append(Mistake(code, _dotted_path(path), message, str(self._path), line, hint))

    def add_sql(self, code: str, path: yaml.Path, message: str, hint: str, line: int, file: str | None) -> None:
        """Add a mistake in a query, which is in a file of its own or in pipeline.yaml."""
        if file is not None:
            self.add_in_file(code, path, message, hint, line, file)
            return
        if path in self.document.texts:
            # Only a text in | style keeps its lines; in other styles the field's line must do.
            line += self.document.texts[path] - 1
        else:
            line = self.document.line(path)
        self.add(code, path, message, hint, line=line)

    def add_in_file(self, code: str, path: yaml.Path, message: str, hint: str, line: int | None, file: str) -> None:
        """Add a mistake in another file, which the document names at a path."""
        self._found.append(Mistake(code, _dotted_path(path), message, file, line, hint))

    def add_finding(self, finding: LocatedMistake) -> None:
        """Add a mistake across tables."""
        if finding.sql_line is None:
            self.add(finding.code, finding.path, finding.message, finding.hint)
            return
        text: Any = self.document.data
        for step in finding.path:
            text = text[step]
        file = None
        if len(str(text).split()) == 1:
            file = str(self._path.parent / text)
        self.add_sql(finding.code, finding.path, finding.message, finding.hint, finding.sql_line, file)

    def stop(self, name: str) -> None:
        """End the reading of a definition, if there are any.

        Raises:
            DefinitionError: there are; the error has all of them.
        """
        if self:
            own_first = sorted(self._found, key=lambda m: (m.file != str(self._path), m.file, m.line or 0))
            raise DefinitionError(name, list(dict.fromkeys(own_first)))


def _dotted_path(path: yaml.Path) -> str:
    return ".".join(str(part) for part in path) or "the document"

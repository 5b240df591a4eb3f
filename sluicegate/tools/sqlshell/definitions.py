"""The definitions that a query needs: those of the tables that it names, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.definition.reading.mentions import may_define
from sluicegate.errors import DefinitionError
from sluicegate.settings import Settings
from sluicegate.tools.sqlshell.names import known_tables


def definitions_of_tables(
    table_names: Sequence[str], settings: Settings
) -> tuple[dict[str, Pipeline], dict[str, DefinitionError]]:
    """Return the definitions with the tables of a query, and those with mistakes that may have one.

    All are read if no definition has a table: one with mistakes may have it, and a hint names similar tables.

    Args:
        table_names: names as the query writes them.
        settings: configuration with the definitions' folder.
    """
    reader = _Reader(settings)
    for name in table_names:
        reader.read(reader.pipelines_of(name))
    known = known_tables(reader.definitions, settings)
    if any(name.lower() not in known for name in table_names):
        reader.read(reader.pipelines)
    return reader.result()


class _Reader:
    """Reader of the definitions of a folder, each once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pipelines = definition.names(settings.pipelines)
        self.definitions: dict[str, Pipeline] = {}
        self.wrong: dict[str, DefinitionError] = {}

    def pipelines_of(self, table_name: str) -> list[str]:
        """Return the pipelines that may have a table, by the texts of their definitions.

        In front of the name a pipeline comes before a database.
        """
        owner, _, name = table_name.lower().rpartition(".")
        folder = self.settings.pipelines
        if owner in self.pipelines and may_define(folder / owner, name):
            return [owner]
        return [pipeline for pipeline in self.pipelines if may_define(folder / pipeline, name, owner)]

    def read(self, pipelines: Iterable[str]) -> None:
        """Read the definitions of pipelines that are not read yet."""
        for name in pipelines:
            if name in self.definitions or name in self.wrong:
                continue
            try:
                self.definitions[name] = definition.load(name, self.settings, of_many=True)
            except DefinitionError as error:
                self.wrong[name] = error

    def result(self) -> tuple[dict[str, Pipeline], dict[str, DefinitionError]]:
        """Return the definitions and errors in the order of the pipelines."""
        definitions = {name: self.definitions[name] for name in self.pipelines if name in self.definitions}
        return definitions, {name: self.wrong[name] for name in self.pipelines if name in self.wrong}

"""Tables and views of a definition that are valid each by itself, and mistakes across them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicegate.definition.apply_changes import END_AT, START_AT
from sluicegate.definition.fields import RESERVED
from sluicegate.definition.gold import GoldTable
from sluicegate.definition.pipeline import BronzeTable
from sluicegate.definition.silver import SilverTable
from sluicegate.definition.table import Layer
from sluicegate.definition.views import Views
from sluicegate.definition.yaml import Path

# Columns that the engine adds to each bronze table and that queries may read.
_BRONZE_COLUMNS = ("_file_modification_time", "receipt_time", "source_file", "_rescued_data", "_corrupt_record")


@dataclass(frozen=True)
class Finding:
    """A mistake at a path of the document, or at a line of the query there (``sql_line``, from 1)."""

    code: str
    path: Path
    message: str
    hint: str = ""
    sql_line: int | None = None


@dataclass
class Tables:
    """Valid tables of a definition, and the names of all.

    Attributes:
        bronze: bronze tables by name.
        silver: silver tables by name.
        gold: gold tables by name.
        layers: layer of each table of the document, so that one with a mistake is not reported as unknown, too.
        views: views, which queries read like tables.
    """

    bronze: dict[str, BronzeTable] = field(default_factory=dict)
    silver: dict[str, SilverTable] = field(default_factory=dict)
    gold: dict[str, GoldTable] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)
    views: Views = field(default_factory=Views)

    def columns(self, name: str, seen: tuple[str, ...] = ()) -> list[str] | None:
        """Columns of a table if they are known without its data; else None."""
        if name in self.bronze:
            declared = self.bronze[name].declared
            return None if declared is None else [*declared, *_BRONZE_COLUMNS]
        table = self.silver.get(name)
        if table is None or name in seen:
            return None
        made = self.made(table, (*seen, name))
        if table.declared is None:
            return made
        if made is None and table.schemaEvolutionMode == "addNewColumns":
            return None
        named = {column.lower() for column in table.declared}
        others = [column for column in made or () if column.lower() not in named]
        if table.schemaEvolutionMode != "addNewColumns":
            # Engine columns are not part of the definition, so a declared schema keeps them.
            others = [column for column in others if column.lower() in RESERVED]
        return [*table.declared, *others]

    def made(self, table: SilverTable, seen: tuple[str, ...] = ()) -> list[str] | None:
        """Output columns of a silver table's transform; None if they are not known without its data."""
        if table.is_python:
            return None
        if table.from_ and table.changes:
            known = self.columns(table.from_, seen)
            added = [START_AT, END_AT] if table.changes.history else []
            return None if known is None else [*table.changes.selected(known), *added]
        return table.query.outputs if table.query else None

"""Tables and views of a definition that are valid each by itself, and mistakes across them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.pipeline.model import BronzeTable
from sluicegate.definition.pipeline.views import Views
from sluicegate.definition.tables.gold import GoldTable
from sluicegate.definition.tables.kafka import COLUMNS
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.definition.tables.table import Layer
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql.engine_columns import RESERVED

# Columns that the engine adds to each bronze table and that queries may read.
_BRONZE_COLUMNS = ("_file_modification_time", "receipt_time", "source_file", "_rescued_data", "_corrupt_record")


@dataclass(frozen=True)
class LocatedMistake:
    """A mistake at a path of the document, or at a line of the query there (``sql_line``, from 1)."""

    code: str
    path: Path
    message: str
    hint: str = ""
    sql_line: int | None = None


@dataclass
class DefinedTables:
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

    def columns(self, name: str, visited: tuple[str, ...] = ()) -> list[str] | None:
        """Return columns of a table if they are known without its data; else None."""
        if name in self.bronze:
            return self._bronze_columns(self.bronze[name])
        table = self.silver.get(name)
        if table is None or name in visited:
            return None
        outputs = self.output_columns(table, (*visited, name))
        if table.declared_columns is None:
            return outputs
        adds_columns = table.schemaEvolutionMode == "addNewColumns"
        if outputs is None and adds_columns:
            return None
        more = missing_columns(outputs or (), table.declared_columns)
        if not adds_columns:
            # Engine columns are not part of the definition, so a declared schema keeps them.
            more = [column for column in more if column.lower() in RESERVED]
        return [*table.declared_columns, *more]

    @staticmethod
    def _bronze_columns(table: BronzeTable) -> list[str] | None:
        if table.declared_columns is None:
            return None
        more = COLUMNS if table.kafka is not None else table.partitionColumns
        return list(dict.fromkeys([*table.declared_columns, *more, *_BRONZE_COLUMNS]))

    def output_columns(self, table: SilverTable, visited: tuple[str, ...] = ()) -> list[str] | None:
        """Return output columns of a silver table's transform; None if they are not known without its data."""
        evaluated = self.evaluated_columns(table, visited)
        if evaluated is None or table.changes is None:
            return evaluated
        return [*table.changes.selected_columns(evaluated), *table.changes.added_columns]

    def evaluated_columns(self, table: SilverTable, visited: tuple[str, ...] = ()) -> list[str] | None:
        """Return columns of the records as rules see them, of all flows together; None if they are not known."""
        columns: dict[str, str] = {}
        for maker in table.makers.values():
            of_maker = self.maker_columns(maker, visited)
            if of_maker is None:
                return None
            for column in of_maker:
                columns.setdefault(column.lower() if table.flows_or_branches else column, column)
        return [*columns.values()]

    def maker_columns(self, maker: SilverTable | SilverFlow, visited: tuple[str, ...] = ()) -> list[str] | None:
        """Return output columns of a table's own transform, or of one of its flows; None if they are not known."""
        if maker.is_python:
            return None
        if maker.query is not None:
            first_branch = isinstance(maker, SilverFlow) and maker.first_branch
            return (first_branch or maker.query).outputs or maker.outputs
        columns = self.columns(maker.stream, visited)
        if columns is None or isinstance(maker, SilverTable):
            return columns
        return [column for column in columns if column not in _BRONZE_COLUMNS]


def missing_columns(columns: Iterable[str], schema: Iterable[str]) -> list[str]:
    """Return the columns that are not in a schema, whatever their case."""
    names = {column.lower() for column in schema}
    return [column for column in columns if column.lower() not in names]


def suggest_columns(column: str, schema: Sequence[str]) -> str:
    """Suggest the nearest column of a schema, else all of them."""
    return suggest_or_list(column, schema, "its columns are")


def unknown_columns(
    path: Path, table: str, columns: Iterable[str], schema: Sequence[str] | None
) -> Iterator[LocatedMistake]:
    """Report columns that a table lacks, whatever their case, and none where its schema is not known."""
    if schema is None:
        return
    for column in missing_columns(columns, schema):
        hint = suggest_columns(column, schema)
        yield LocatedMistake("unknown-column", path, f"unknown column {column} of {table}", hint)

"""OpenLineage's columnLineage facet of the tables that a task wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from openlineage.client.facet_v2 import DatasetFacet
from openlineage.client.facet_v2 import column_lineage_dataset as facets

from sluicegate.definition import Pipeline
from sluicegate.lake.layout import Lake
from sluicegate.monitor.lineage import QUARANTINE, TableLineage, lineage
from sluicegate.schema.columns import ENGINE_COLUMNS, PROVENANCE
from sluicegate.spark_sql.lineage.model import EVERY, IDENTITY, Origins, SourceColumn, Use

# Columns of bronze that the engine adds: no field of what has landed.
_ADDED = {*PROVENANCE, *ENGINE_COLUMNS}


class ColumnFacets:
    """Facets of a pipeline's tables.

    Args:
        pipeline: the definition.
        at: its lake.
        dataset: gives OpenLineage's namespace and name of an address.
    """

    def __init__(self, pipeline: Pipeline, lake: Lake, dataset: Callable[[str], tuple[str, str]]) -> None:
        self.pipeline, self.at, self.dataset = pipeline, lake, dataset

    def table_facet(self, name: str) -> dict[str, DatasetFacet]:
        """Facet of a table, under its key; none if nothing is known of its columns."""
        table = self._tables[name]
        if table.layer == "bronze":
            inputs = {column: self._landed_inputs(name, column) for column in table.columns}
        else:
            inputs = {column: self._inputs(origins) for column, origins in table.columns.items()}
        fields = {column: facets.Fields(of_column) for column, of_column in inputs.items() if of_column}
        rows = self._inputs(table.rows)
        if not fields and not rows:
            return {}
        return {"columnLineage": facets.ColumnLineageDatasetFacet(fields=fields, dataset=rows)}

    @cached_property
    def _tables(self) -> dict[str, TableLineage]:
        return lineage(self.pipeline, self.at)

    def _landed_inputs(self, name: str, column: str) -> list[facets.InputField]:
        """A column of bronze is the field of that name in what has landed, but for those that are added to it."""
        if column in _ADDED:
            return []
        where = self.dataset(self.pipeline.bronze[name].path)
        return [facets.InputField(*where, field=column, transformations=[_transformation(IDENTITY)])]

    def _inputs(self, origins: Origins) -> list[facets.InputField]:
        uses: dict[SourceColumn, set[Use]] = {}
        for source, use in origins:
            for column in self._spell_column(source):
                uses.setdefault(column, set()).add(use)
        return [
            facets.InputField(
                *self._address(column.table), column.column, [*map(_transformation, sorted(uses[column]))]
            )
            for column in sorted(uses)
        ]

    def _address(self, name: str) -> tuple[str, str]:
        if name.endswith(QUARANTINE):
            return self.dataset(self.at.quarantine(name.removesuffix(QUARANTINE)))
        return self.dataset(self.at.table(self._tables[name].layer, name))

    def _spell_column(self, source: SourceColumn) -> Iterator[SourceColumn]:
        """A column as its table spells it; all of the table's for ``*``."""
        table = self._tables[source.table]
        if source.column == EVERY:
            yield from (SourceColumn(source.table, column) for column in table.columns)
        else:
            yield SourceColumn(source.table, table.spell_column(source.column))


def _transformation(use: Use) -> facets.Transformation:
    return facets.Transformation("DIRECT" if use.is_direct else "INDIRECT", use.subtype, masking=use.masked)

"""Run the user's query or Python function over the tables as a batch reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from pyspark.sql import DataFrame

from sluicegate.definition import GoldTable
from sluicegate.definition.tables.python_function import PythonTransform
from sluicegate.flow.batch import Batch
from sluicegate.frames import python_function
from sluicegate.spark import connect
from sluicegate.spark_sql.tokens import Span


@dataclass
class BatchQuery:
    """Query of one gold table, for one batch.

    Attributes:
        batch: the batch, with the versions read.
        name: the gold table.
        table: definition of the table.
    """

    batch: Batch
    name: str
    table: GoldTable

    @cached_property
    def source(self) -> str:
        """Name of the followed table."""
        return self.table.reads[0]

    @cached_property
    def _rows(self) -> DataFrame:
        """All rows of the followed table as of the end of the batch."""
        return self.batch.pinned_source()

    @cached_property
    def _tables_read(self) -> dict[str, DataFrame]:
        """Tables that the query reads, by name."""
        return {name: self._rows if name == self.source else self.batch.pinned_input(name) for name in self.table.reads}

    @property
    def _text(self) -> str | None:
        if self.table.transform is not None:
            return None
        return self.table.query.text

    @cached_property
    def full_result(self) -> DataFrame:
        """Result of the user's query or function."""
        return self._query(self._rows)

    def _query(self, source: DataFrame, others: Sequence[Span] = (), join: str = "") -> DataFrame:
        """Return the user's query over some rows of the followed table; see ``Query.with_views``."""
        if self.table.transform is not None:
            return self._function_result
        text = self.table.query.text_over_views(self._views(source), others, join)
        return connect.freeze(self.batch.session.sql(text))

    def _views(self, source: DataFrame) -> dict[str, str]:
        """Create views of the query's tables, the followed one with ``source``; return their names."""
        views = {}
        for other in self.table.query.tables:
            views[other] = f"_sluicegate_{self.name}_{other.replace('.', '_')}"
            (source if other == self.source else self.batch.pinned_input(other)).createOrReplaceTempView(views[other])
        return views

    @cached_property
    def _function_result(self) -> DataFrame:
        """Result of the user's function, called once over its tables as of the end of the batch."""
        function = python_function.load_function(cast("PythonTransform", self.table.transform))
        return python_function.run_over_tables(function, self._tables_read, self.name, private=self.batch.flow.private)

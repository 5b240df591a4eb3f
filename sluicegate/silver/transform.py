"""Run transforms: rows, each with its record, and the rules on rescued values that the record breaks.

A query runs over a view of the records, and a function gets them. Where there is neither, a row is its record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import SilverTable
from sluicegate.definition.tables.python_function import PythonTransform
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.flow.batch import Batch
from sluicegate.frames import python_function
from sluicegate.schema.columns import IDENTITY, RECORD_STRUCT, data_columns
from sluicegate.silver import provenance
from sluicegate.silver.columns import columns_read
from sluicegate.silver.keys import deletes
from sluicegate.silver.side_tables import rescued
from sluicegate.silver.side_tables.rescued import UNFIT, RecordSource, Watched
from sluicegate.spark import connect
from sluicegate.spark_sql.identifiers import quote_name


@dataclass(frozen=True)
class TransformedRows:
    """Result of a transform for records.

    Attributes:
        transform: the transform.
        rows: rows of the result.
        watched: rules on rescued values for the records.
        binding: names of the rules on rescued values that apply to deletes, too.
    """

    transform: Transform
    rows: DataFrame
    watched: Watched
    binding: Collection[str]

    @property
    def rules(self) -> dict[str, bool]:
        """Whether the rule applies to deletes, by rule on rescued values."""
        return {name: name in self.binding for name in self.watched.rules}


@dataclass(frozen=True)
class Transform:
    """Transform of a silver table, or of one of its flows.

    Attributes:
        batch: the batch, for its session and its pinned lookups.
        name: the silver table.
        table: definition of the table.
        maker: table or flow with the transform.
        flow: name of the flow, where several fill the table.
        record_id: columns that identify a record.
        sequence_by: column by which the latest of several records wins.
        rescues: whether its records may have rescued values or parse errors.
    """

    batch: Batch
    name: str
    table: SilverTable
    maker: SilverTable | SilverFlow
    flow: str
    record_id: Sequence[str]
    sequence_by: str | None
    rescues: bool

    def rows(self, records: DataFrame) -> TransformedRows:
        """Return the rows of records; with rules on rescued values, ``UNFIT`` has those that a record breaks."""
        uri = self.batch.flow.source
        if self.flow:
            uri = self.batch.flow.streams[self.flow]
        source = RecordSource(records, uri, uri in self.batch.flow.policy.any_case)
        if not self.rescues:
            return TransformedRows(self, self._transform(records), Watched(source, (), parsed=False), ())
        if self.table.gives_many_rows and self.maker.is_python:  # whose function runs once only
            return self._transform_many(rescued.watch_all_columns(self.table, source), records)
        frame = self._transform(records)
        view = self.view(self.maker.stream)
        watched = rescued.watch_flow(self.table, self.maker, source, self._transform, frame, view)
        if not watched.rules:
            return TransformedRows(self, frame, watched, ())
        if self.table.gives_many_rows:  # where the whole record does not stand beside its rows
            return self._transform_many(watched, records)
        binding = self._binding_rules(frame, watched)
        rows = frame.withColumn(UNFIT, watched.broken_rules(f"{RECORD_STRUCT}."))
        return TransformedRows(self, rows, watched, binding)

    def _binding_rules(self, frame: DataFrame, watched: Watched) -> Collection[str]:
        """Return the rules that apply to deletes, too: on key, sequence, or what makes a record a delete.

        These are all rules if the inputs of columns are unknown, as for a function.
        """
        columns = self._columns_of_deletes(frame, watched)
        if columns is None:
            return watched.rules
        sequence = (self.sequence_by or "").lower()
        if sequence not in {column.lower() for column in frame.columns}:  # it is the record's own
            columns |= _matching_columns(watched.columns, {sequence})
        return {rescued.PARSED, *map(rescued.rule_name, columns)}

    def _columns_of_deletes(self, frame: DataFrame, watched: Watched) -> set[str] | None:
        """Return the columns that decide about deletes; None if an input of a column is unknown."""
        outputs, query = deletes.deciding_columns(self.table), self.maker.query
        if not outputs or self.maker.is_python:
            return None
        if query is None:
            return _matching_columns(watched.columns, outputs)
        if not connect.is_remote(self.batch.session):
            selected = [quote_name(column) for column in frame.columns if column.lower() in outputs]
            return columns_read.plan_columns(frame.select(*selected), self.view(self.maker.stream), watched.columns)
        if isinstance(self.maker, SilverFlow):
            return None
        untouched = list(map(query.streamed_column, outputs))
        if None in untouched:
            return None
        return _matching_columns(watched.columns, {str(column).lower() for column in untouched})

    def _transform_many(self, watched: Watched, records: DataFrame) -> TransformedRows:
        """Return the rows of records that may give many."""
        if not watched.rules:
            return TransformedRows(self, self._transform(records), watched, ())
        frame = self._transform(records, watched.broken_rules().alias(UNFIT))
        return TransformedRows(self, frame.withColumn(UNFIT, F.col(f"{RECORD_STRUCT}.{UNFIT}")), watched, watched.rules)

    def _transform(self, records: DataFrame, *more: Column) -> DataFrame:
        """Return the rows of records, each with its record, which has additional values."""
        if self.maker.transform is not None:
            return self._apply_function(records, self.maker.transform, *more)
        return self._apply_query(self._add_record(records, *more))

    def _apply_function(self, records: DataFrame, transform: PythonTransform, *more: Column) -> DataFrame:
        """Return the result of the user's function over records."""
        tables = {name: self.batch.pinned_input(name) for name in self.table.lookups}
        function, private = python_function.load_function(transform), self.batch.flow.private
        added = self._added_identity()
        identity = [column for column in self.record_id if column not in added]
        batch = records.drop(*added)
        rows = python_function.run(function, batch, tables, self.name, identity=identity, private=private)
        return rows.join(self._add_record(records, *more).select(*self.record_id, RECORD_STRUCT), identity)

    def _added_identity(self) -> list[str]:
        """Return the identity columns that the source lacks: they only tell flows apart."""
        if not self.flow:
            return []
        source = self.batch.opened[self.batch.flow.streams[self.flow]].delta
        if source is None:
            return []
        stored = {field.name for field in source.schema().fields}
        return [column for column in self.record_id if column not in stored]

    def _add_record(self, records: DataFrame, *more: Column) -> DataFrame:
        """Add each record as a struct with additional values.

        With many rows for a record, the whole record would be in each of them, and Spark holds all rows of a record in
        memory: so only the columns read are kept.
        """
        read: set[str] | None = None
        if self.table.gives_many_rows:
            read = {*IDENTITY, *provenance.STAMPS, (self.sequence_by or "").lower()}
        return provenance.add_record(records, read, *more)

    def _apply_query(self, records: DataFrame) -> DataFrame:
        query = self.maker.query
        if query is None:
            columns = [column for column in records.columns if column != RECORD_STRUCT]
            return records.select(*map(quote_name, data_columns(columns)), *self.record_id, RECORD_STRUCT)
        views = {}
        for table in query.tables:
            views[table] = self.view(table)
            rows = records
            if table != query.stream:
                rows = self.batch.pinned_input(table)
            rows.createOrReplaceTempView(views[table])
        named_as = None
        if isinstance(self.maker, SilverFlow):
            named_as = self.maker.first_branch
        identity, many = (*self.record_id, RECORD_STRUCT), self.table.gives_many_rows
        text = query.text_with_identity(views, identity, many=many, by_place=named_as is not None)
        frame = self.batch.session.sql(text)
        if named_as is not None and named_as.outputs is not None:  # as many as its own, none of which is a star
            frame = frame.toDF(*named_as.outputs, *frame.columns[len(named_as.outputs) :])
        return connect.freeze(frame)

    def passed_column(self, output: str) -> str | None:
        """Return the record's column that an output passes through; None if computed, or possibly of a lookup."""
        if self.maker.is_python or (isinstance(self.maker, SilverFlow) and self.maker.first_branch is not None):
            return None
        if self.maker.query is None:
            return output
        return self.maker.query.streamed_column(output)

    def view(self, table: str) -> str:
        """Return the name of the view by which the query reads a table."""
        if not self.flow:
            return f"_sluicegate_{self.name}_{table}"
        return f"_sluicegate_{self.name}_{self.flow}_{table}"


def _matching_columns(columns: Collection[str], lower: Collection[str]) -> set[str]:
    """Return the columns whose lower-case names are among others."""
    return {column for column in columns if column.lower() in lower}

"""Find records of which silver would lose a value: one that bronze rescued, or unparsable text.

The column of such a value is NULL in bronze, and would be a NULL that the data did not have, in a good row. So a record
breaks a rule if its query reads the column, ``amount fits its type``, or if it was not parsed. A query that itself
names ``_rescued_data`` or ``_corrupt_record`` decides about these records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.frames.rules.rejected import BROKEN, Refusal
from sluicegate.lake import layout
from sluicegate.schema import misfits
from sluicegate.schema.columns import CORRUPT, RECORD_STRUCT, RESCUED, data_columns, working_column
from sluicegate.schema.landed import landed_names
from sluicegate.silver.columns import columns_read
from sluicegate.silver.columns.columns_read import Run
from sluicegate.spark import connect
from sluicegate.spark_sql.identifiers import literal, quote_name
from sluicegate.spark_sql.query import Query

# Names of the rules on rescued values that a record breaks, beside the rows that are made of it.
UNFIT = working_column("unfit")

# What a record breaks whose text could not be parsed.
PARSED = "record is parsed"

_WORD = re.compile(r"\w+")

_NO_NAMES = "cast(array() as array<string>)"


def rule_name(column: str) -> str:
    """Return the name of the rule that a rescued value of a column breaks."""
    return f"{column} fits its type"


@dataclass(frozen=True)
class RecordSource:
    """Source of a flow's records.

    Attributes:
        records: records of the source.
        uri: address of the source table.
        any_case: whether its field names are case-insensitive.
    """

    records: DataFrame
    uri: str
    any_case: bool

    @property
    def is_bronze(self) -> bool:
        """Whether the records are bronze's: for other layers, rescued values were decided there."""
        return layout.layer_of(self.uri) == "bronze"

    @property
    def columns(self) -> list[str]:
        """Columns that may have rescued values."""
        if RESCUED not in self.records.columns:
            return []
        return [column for column in data_columns(self.records.columns) if column != RECORD_STRUCT]


@dataclass(frozen=True)
class Watched:
    """Rules on rescued values for each record.

    Attributes:
        source: source of the records.
        columns: columns whose values must not have been rescued.
        parsed: whether the text of a record must have been parsed.
    """

    source: RecordSource
    columns: Sequence[str]
    parsed: bool

    @property
    def rules(self) -> list[str]:
        """Names of the rules."""
        of_columns = list(map(rule_name, self.columns))
        if not self.parsed:
            return of_columns
        return [PARSED, *of_columns]

    def broken_rules(self, within: str = "") -> Column:
        """Return the rules that a record breaks; NULL if it was parsed and has no rescued value.

        Args:
            within: prefix of its columns' names, if they are fields of a struct.
        """
        of_columns = self._broken_column_rules(within)
        if not self.parsed:
            return of_columns
        unparsed = F.col(f"{within}{CORRUPT}").isNotNull()
        of_record = F.array(F.lit(PARSED))
        if not self.columns:
            return F.when(unparsed, of_record)
        return F.when(unparsed, F.concat(of_record, F.coalesce(of_columns, F.expr(_NO_NAMES)))).otherwise(of_columns)

    def _broken_column_rules(self, within: str) -> Column:
        """Return the rules on columns that a record breaks; NULL without rescued values."""
        if not self.columns:
            return F.lit(None).cast("array<string>")
        schema = self.source.records.schema
        kinds, landed = {field.name: field.dataType for field in schema}, landed_names(schema)
        stored = {
            rule_name(name): misfits.StoredColumn(kinds[name], f"{within}{quote_name(name)}", landed.get(name, name))
            for name in self.columns
        }
        return misfits.misfits(stored, F.col(f"{within}{RESCUED}"), any_case=self.source.any_case)


def watch_all_columns(table: SilverTable, source: RecordSource) -> Watched:
    """Return the rules if all columns may be read, as by a Python function.

    Args:
        table: the silver table's definition.
        source: the records.
    """
    if table.rescued == "keep" or not source.is_bronze:
        return Watched(source, (), parsed=False)
    return Watched(source, source.columns, CORRUPT in source.records.columns)


def watch_flow(
    table: SilverTable, maker: SilverTable | SilverFlow, source: RecordSource, run: Run, rows: DataFrame, view: str
) -> Watched:
    """Return the rules for the records of a flow.

    Args:
        table: the silver table's definition.
        maker: table or flow with the transform.
        source: the records.
        run: returns the result of the query over records.
        rows: the result of the query.
        view: name of the view by which the query reads the records.
    """
    query, has_text = maker.query, CORRUPT in source.records.columns
    if maker.is_python:
        return watch_all_columns(table, source)
    if table.rescued == "keep" or not source.is_bronze:
        # Without a query that could look at its text, a record that was not parsed could be taken for a delete.
        return Watched(source, (), has_text and query is None)
    if query is None:
        return Watched(source, _taken_columns(table, source.columns), has_text)
    read = _columns_read(source, query, run, rows, view)
    decided = {name for name in (RESCUED, CORRUPT) if name in read and _names_column(query, name, run, source.records)}
    columns = [column for column in source.columns if column in read]
    if RESCUED in decided:
        columns = []
    return Watched(source, columns, has_text and CORRUPT not in decided)


def _columns_read(source: RecordSource, query: Query, run: Run, rows: DataFrame, view: str) -> set[str]:
    """Return the columns that a query reads, including those with rescued data or unparsed text."""
    records = source.records
    columns = [*source.columns, *(name for name in (RESCUED, CORRUPT) if name in records.columns)]
    if connect.is_remote(records.sparkSession):
        return columns_read.named_columns(run, records, query, columns)
    return columns_read.plan_columns(rows, view, columns)


def _names_column(query: Query, name: str, run: Run, records: DataFrame) -> bool:
    """Return whether a query names a column, not only by a star."""
    return columns_read.mentions(query, name) and not columns_read.can_do_without(run, records, [name])


def _taken_columns(table: SilverTable, columns: Sequence[str]) -> list[str]:
    """Return the columns that a table takes unchanged, and those that choose its records."""
    changes = table.changes
    if changes is None:
        return [*columns]
    names = [*changes.selected_columns(columns), *changes.keys, changes.sequence_by]
    if table.apply_changes:
        names += table.apply_changes.delete_columns
    lower = {name.lower() for name in names}
    return [column for column in columns if column.lower() in lower]


def unfit_count_sql(static: Sequence[str]) -> str:
    """Return the SQL aggregate of the rows that broke a rule on rescued values.

    Args:
        static: names of all other rules.
    """
    return f"count_if(size({BROKEN}) > 0 AND size(array_except({BROKEN}, {_names(static)})) > 0)"


def _names(names: Sequence[str]) -> str:
    """Return the SQL array of names."""
    if not names:
        return _NO_NAMES
    return f"array({', '.join(map(literal, names))})"


def counts(rows: DataFrame, static: Sequence[str]) -> dict[str, int]:
    """Count the rows by broken rule on rescued values; one job, for batches that have such rows.

    Args:
        rows: evaluated rows.
        static: names of all other rules.
    """
    names = rows.select(F.explode(F.array_except(BROKEN, F.expr(_names(static)))).alias("name"))
    return {row["name"]: row["count"] for row in names.groupBy("name").count().orderBy("name").collect()}


def landed_values(record: str | None, rules: Sequence[str]) -> dict[str, Any]:
    """Return the landed values of fields in rules on conversions, which the row lacks.

    Args:
        record: JSON text of the record.
        rules: names of the rules that the row broke.
    """
    if not record:
        return {}
    fields = json.loads(record)
    if members := fields.pop(RESCUED, None):
        fields |= json.loads(members)
    words = {word for rule in rules if " fits" in rule for word in _WORD.findall(rule)}
    if PARSED in rules:
        words.add(CORRUPT)
    return {name: value for name, value in fields.items() if name in words}


def refusal(broken: dict[str, int], rows: Callable[[], DataFrame], refused: Refusal | None) -> Refusal | None:
    """Return the refusal under ``rescued: fail``; None if no row broke such a rule.

    Args:
        broken: number of rows that broke each rule on rescued values.
        rows: returns the rows with ``BROKEN``.
        refused: other refusals of the batch, whose rows must not be repeated.
    """
    if not broken:
        return None
    failing = rows().where(F.arrays_overlap(F.col(BROKEN), F.array(*map(F.lit, broken))))
    if refused is not None:
        failing = failing.where(~F.arrays_overlap(F.col(BROKEN), F.array(*map(F.lit, refused.words))))
    return Refusal({name: f"{name} ({count:,} rows)" for name, count in broken.items()}, ["rescued: fail"], failing)

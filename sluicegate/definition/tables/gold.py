"""Model of a gold table's definition."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from sluicegate.definition.fields import Names, field_error
from sluicegate.definition.tables import streaming
from sluicegate.definition.tables.declared_lineage import DeclaredLineage, demand_read
from sluicegate.definition.tables.expectations import (
    ConditionsByName,
    DropConditionsByName,
    ExpectationAction,
    Expectations,
)
from sluicegate.definition.tables.ruled import Ruled, fingerprint
from sluicegate.definition.tables.table import MadeTable
from sluicegate.spark_sql.order_by import Ordering
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.refresh.remembered import refresh_strategy
from sluicegate.spark_sql.refresh.strategy import RefreshStrategy
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind


class GoldTable(MadeTable, streaming.Streamed, Ruled):
    """A table computed from tables of any layer: by a query, or by a Python function with the tables it ``reads``.

    It may read other tables of gold, and these others again. A run makes each after those that it reads.

    Attributes:
        sql: the query, as the name of a file in the pipeline's folder or as text.
        python: a function in the pipeline's folder, ``file.py:function``. It is called with the tables under
            ``reads``, DataFrames by name, and returns all rows, whenever one of these changed.
        reads_: ``reads`` of the definition: the tables that ``python`` is called with.
        refresh: ``auto``: from what changed, or from everything if that is faster; ``incremental``: from what
            changed, or a validation error; ``full``: a full recompute whenever a source changes.
        mode: makes it a streaming aggregation: ``complete``: all groups in each batch; ``update``: groups with new
            rows; ``append``: each once, when the watermark passes it.
        withWatermark: event-time column of the table that is read, and the delay allowed for late rows.
        expectations_: ``expectations`` of the definition: conditions on its rows by name, each with ``expect``,
            ``expect_or_drop`` or ``expect_or_fail``.
        expect_all: conditions by name; rows that break them are kept and counted.
        expect_all_or_drop: conditions by name; rows that break one are not in the table.
        expect_all_or_fail: conditions by name; rows that break one fail the run, and the table stays as it was.
        expect_table: rules about the whole table by name, checked before each commit.
        lineage: with ``python``, the source columns of its columns, as ``[orders.price, orders.tax]``; a column
            that is not named may come from everything that the function reads.
        comment: what the table is, for people; the table's comment in Delta.
        column_comments: comments of its columns by name.
        table_properties: properties of the Delta table: your own, and those of Delta that only tune how files are
            written.
        tags: names with values, stored as properties of the table and in ``extra`` of its asset in Airflow.
    """

    reads_: Names = Field([], alias="reads")
    refresh: Literal["auto", "incremental", "full"] = "auto"
    expectations_: Expectations = Field({}, alias="expectations")
    expect_all: ConditionsByName = {}
    expect_all_or_drop: DropConditionsByName = {}
    expect_all_or_fail: ConditionsByName = {}
    lineage: DeclaredLineage = {}

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["sql"]}, {"required": ["python", "reads"]}]})

    @model_validator(mode="after")
    def _check_maker(self) -> GoldTable:
        kinds = "a gold table needs either sql, or python and reads"
        if (self.sql is None) == (self.python is None):
            if self.sql is None:
                code, present = ("missing-field", "neither")
            else:
                code, present = ("one-of", "both")
            raise field_error(code, f"{kinds}, not {present}")
        if self.is_python and not self.reads_:
            raise field_error("missing-field", f"{kinds}: reads is missing, which lists the inputs of {self.python}")
        if self.reads_ and not self.is_python:
            raise field_error("one-of", f"{kinds}: remove reads, because the inputs of a query come from its SQL")
        if self.is_python and self.mode:
            raise field_error("one-of", "mode requires sql: only a query can be a streaming aggregation")
        return self

    @model_validator(mode="after")
    def _check_lineage(self) -> GoldTable:
        demand_read(self.lineage, self.reads_ if self.is_python else None)
        return self

    @model_validator(mode="after")
    def _check_strategy(self) -> GoldTable:
        if self.mode is not None and self.refresh != "auto":
            message = f"refresh: {self.refresh} and mode: {self.mode} exclude each other: set one of them"
            raise field_error("one-of", message)
        return self

    def refresh_strategy(self, schemas: Mapping[str, Sequence[str]] | None = None) -> RefreshStrategy:
        """Refresh strategy, as expected from its text; see ``sql.refresh.strategy.refresh_strategy``."""
        if self.mode:
            return RefreshStrategy(StrategyKind.STREAM, streaming.BEHAVIOUR[self.mode])
        if self.is_python:
            return RefreshStrategy(
                StrategyKind.FULL_RECOMPUTE,
                "a Python function computes it, so the rows that a change affects are unknown",
                "a query",
            )
        strategy = refresh_strategy(self.query.text, schemas)
        if strategy.grouped is None and self.written_query is not None and self.written_query is not self.query:
            strategy = self._strategy_of_views(strategy, self.written_query)
        if self.refresh == "full":
            return replace(strategy, kind=StrategyKind.FULL_RECOMPUTE, why="refresh is full", cheaper="refresh: auto")
        return strategy

    def _strategy_of_views(self, strategy: RefreshStrategy, written: Query) -> RefreshStrategy:
        """Name inlined views as the reason for a strategy, if the query could be followed without inlining."""
        if refresh_strategy(written.text).kind not in (StrategyKind.INCREMENTAL, StrategyKind.AFFECTED_GROUPS):
            return strategy
        views = [name for name in written.tables if name not in self.query.tables]
        reason = f"it reads {', '.join(views)}, {'a view' if len(views) == 1 else 'views'}, inlined as WITH"
        return replace(strategy, why=reason, cheaper=f"make {views[0]} a gold table, which this query can follow")

    @property
    def query(self) -> Query:
        """Query of a table with ``sql``."""
        if self._query is None:
            raise LookupError("a gold table has a query only after its definition is loaded, and only with sql")
        return self._query

    @property
    def referenced_names(self) -> list[str]:
        """Tables and views that it names: as ``reads``, but with the views in place of the tables that they read."""
        if self.written_query:
            return self.written_query.tables
        return list(self.reads)

    @property
    def reads(self) -> list[str]:
        """All tables read; the first, with which the query's FROM begins, is the one whose changes are followed."""
        if self._query:
            return self._query.tables_by_from
        return self.reads_

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its query or function; comments and white space of a query do not change it."""
        if self._transform is None:
            return self.query.fingerprint
        return hashlib.sha256(
            "\0".join([str(self.python), self._transform.fingerprint, *self.reads_]).encode()
        ).hexdigest()

    @property
    def drop_conditions(self) -> list[str]:
        """Conditions of the rules that drop rows: as its query they decide which rows it has."""
        return [rule.condition for rule in self.expectations.values() if rule.action == ExpectationAction.DROP]

    @property
    def rules_fingerprint(self) -> str:
        """Hash of the rules that decide whether its rows may be committed; empty without any."""
        rules = {name: rule for name, rule in self.expectations.items() if rule.action != ExpectationAction.DROP}
        return fingerprint(
            [
                f"{name} {rule.action} {rule.condition} {rule.warn_above} {rule.fail_above}"
                for name, rule in rules.items()
            ]
            + self._table_rules
        )

    @property
    def ordering(self) -> Ordering:
        """Order of its rows by the query's ORDER BY; none for a function."""
        if self._query:
            return self._query.ordering
        return Ordering()

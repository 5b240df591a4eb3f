"""Split a gold query into parts, as far as Spark confirms that they are equivalent, and compute rows from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from sluicegate.errors import QueryError, Where
from sluicegate.gold import partial_aggregates, query_analysis, rules
from sluicegate.gold.affected.keys import Keys
from sluicegate.gold.affected.operators import TouchesAll
from sluicegate.gold.batch_query import BatchQuery
from sluicegate.gold.partial_aggregates import NotPartial, Partials, group_columns, rows_of, select_groups
from sluicegate.gold.row_deltas import create_join_views
from sluicegate.spark import connect
from sluicegate.spark_sql.refresh.group_by import Grouped, outputs_sql
from sluicegate.spark_sql.refresh.joins import ROWS
from sluicegate.spark_sql.refresh.strategy import RefreshStrategy
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind
from sluicegate.spark_sql.tokens import Span
from sluicegate.spark_sql.types import columns_of

# View of the exact sums of groups.
_EXACT = "_sluicegate_exact"

# View of the values of groups and aggregate functions.
_VALUES = "_sluicegate_values"

# Strategies that Spark has confirmed in this process, by query and columns; its answer to the same would be the same.
_CONFIRMED: dict[tuple[object, ...], RefreshStrategy] = {}


class ProvedQuery(BatchQuery):
    """User's query, with its parts as far as they may be used."""

    @cached_property
    def refresh_strategy(self) -> RefreshStrategy:
        """Refresh strategy of the table, with the types that Spark found."""
        query_analysis.keep_nulls_of_maps(
            self.full_result, self._tables_read.values(), self._text
        )  # Spark may refuse it
        question = (
            self.name,
            self._text or self.table.fingerprint,
            self.table.refresh,
            *self.table.drop_conditions,
            *[(name, frame.schema.json()) for name, frame in self._tables_read.items()],
        )
        if question not in _CONFIRMED:
            _CONFIRMED[question] = self._refresh_strategy()
        strategy = _CONFIRMED[question]
        if strategy.grouped is not None:
            self._rows.createOrReplaceTempView(ROWS)
            create_join_views(self.batch, strategy.grouped.joins)
        if strategy.kind == StrategyKind.FULL_RECOMPUTE and self.table.refresh == "incremental":
            raise QueryError(
                f"{self.name} cannot be refreshed incrementally: {strategy.why}",
                where=Where(table=self.name),
                hint=strategy.cheaper or "refresh: auto",
            )
        return strategy

    def _refresh_strategy(self) -> RefreshStrategy:
        strategy = self.table.refresh_strategy({name: table.columns for name, table in self._tables_read.items()})
        if moment := rules.moment(self.batch.session, rules.dropping_rules(self.table), self.full_result.schema):
            why = f"a rule that drops rows depends on the time of the run: {moment}"
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, why, of_the_run=moment)
        if self._text is None:
            return strategy
        session, query = self.batch.session, self.table.query
        schemas = {name: table.schema for name, table in self._tables_read.items()}
        analysis = query_analysis.Analysis(session, query, schemas)
        if moment := analysis.run_dependent_calls:
            why = f"its result depends on the time of the run: {moment}"
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, why, of_the_run=moment)
        if query_analysis.is_nondeterministic(session, query.text_over_views(self._views(self._rows))):
            why = "Spark says that it may return another result in each run"
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, why)
        if strategy.kind == StrategyKind.AFFECTED_KEYS:
            keyed = self._keys_strategy(strategy)
            if keyed.kind == StrategyKind.AFFECTED_KEYS or strategy.grouped is None:
                return keyed
            strategy = replace(strategy, kind=StrategyKind.FULL_RECOMPUTE)  # by its parts, with exact sums
        if strategy.grouped is None:
            return strategy
        if analysis.makes_rows:
            why = "a function in its SELECT list returns several rows for one"
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, why)
        self._rows.createOrReplaceTempView(ROWS)
        create_join_views(self.batch, strategy.grouped.joins)
        return self._check_strategy(strategy, strategy.grouped)

    def _keys_strategy(self, strategy: RefreshStrategy) -> RefreshStrategy:
        """Return the refresh strategy of a query that is not split: by keys, if Spark's plan has any."""
        if connect.is_remote(self.batch.session):
            reason = f"{strategy.why}, and a Spark Connect server does not show its plan"
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, reason, "a run without the server")
        try:
            keys = self._keys_of_the_plan
        except TouchesAll as touches_all:
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, *touches_all.args)
        reason_of_keys = f"{strategy.why}; its rows are found by {', '.join(keys.names)}"
        if len(self.table.reads) > 1:
            reason_of_keys += f", following {keys.followed}"
        blockers = sorted({f"{table}: {blocker.why}" for blocker in keys.blockers for table in blocker.tables})
        if blockers:
            reason_of_keys += f"; all of them are affected by a change of {'; '.join(blockers)}"
        return RefreshStrategy(StrategyKind.AFFECTED_KEYS, reason_of_keys, keys=tuple(keys.names), reads=keys.reads)

    @cached_property
    def _keys_of_the_plan(self) -> Keys:
        """Keys of the query.

        Raises:
            TouchesAll: the query has no keys.
        """
        schemas = {name: table.schema for name, table in self._tables_read.items()}
        return Keys.choose(self.batch.session, self.table.query, schemas)

    def _check_strategy(self, strategy: RefreshStrategy, grouped: Grouped) -> RefreshStrategy:
        """Return the refresh strategy after Spark's check of the parts that it uses."""
        reason = query_analysis.why_not_equivalent(self.batch.session, self.table.query, grouped)
        if reason:
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, reason)
        try:
            with query_analysis.suppress_error_log():
                odd = ""
                if strategy.kind != StrategyKind.FULL_RECOMPUTE:
                    odd = partial_aggregates.incomparable_groups(grouped, self._rows)
        except AnalysisException:
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, "its GROUP BY uses the name of an output")
        if odd:
            return RefreshStrategy(StrategyKind.FULL_RECOMPUTE, f"it groups by {odd}, by which rows cannot be found")
        if strategy.kind == StrategyKind.INCREMENTAL:
            try:
                self._demand_same(grouped)
            except NotPartial as reason:
                kind = StrategyKind.AFFECTED_GROUPS if grouped.is_locatable else StrategyKind.FULL_RECOMPUTE
                return replace(strategy, kind=kind, why=str(reason))
        return strategy

    @property
    def grouped(self) -> Grouped:
        """Query split into parts."""
        if self.refresh_strategy.grouped is None:
            raise LookupError("a fully recomputed query is not split into parts")
        return self.refresh_strategy.grouped

    @property
    def keys(self) -> list[str]:
        """Columns that identify a row's group, or by which rows are found."""
        if self.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS:
            return [*self.refresh_strategy.keys]
        return [self.grouped.keys[number] for number in sorted(self.grouped.keys)]

    @property
    def affected_key_columns(self) -> list[str]:
        """Columns of affected groups or keys, in the order of ``keys``."""
        if self.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS:
            return self._keys_of_the_plan.affected_key_names
        return [f"_group_{number}" for number in sorted(self.grouped.keys)]

    @cached_property
    def columns_fingerprint(self) -> str:
        """Fingerprint of the columns that the query's result depends on, if keys identify its rows, and of its own."""
        if self.refresh_strategy.kind != "keys":
            return self.fingerprint_of_all_columns
        return _fingerprint(
            {name: [field for field in fields if not name or (name, field.name) in self.refresh_strategy.reads]
             for name, fields in self._schemas.items()}
        )  # fmt: skip

    @property
    def fingerprint_of_all_columns(self) -> str:
        """Fingerprint of all columns of the tables that the query reads, and of its own."""
        return _fingerprint(self._schemas)

    @cached_property
    def _schemas(self) -> Mapping[str, Iterable[StructField]]:
        """Columns of the tables that the query reads, and under an empty name its own."""
        return {**{name: frame.schema for name, frame in self._tables_read.items()}, "": self.full_result.schema}

    def _demand_same(self, grouped: Grouped) -> None:
        """Check that rows from aggregate state have the column types of the user's query."""
        try:
            partials = Partials.from_query(grouped, self._rows)
            of_all = self._outputs(partials, self._full_state(partials))
        except AnalysisException as error:
            raise NotPartial("its SELECT list asks for more than its groups and aggregate functions") from error
        texts = [text for text, _ in grouped.outputs] + ([grouped.having] if grouped.having else [])
        if not query_analysis.is_row_for_row(self.batch.session, texts, _VALUES):
            raise NotPartial("its SELECT list asks for more than one value of each group")
        if columns_of(of_all.schema) != columns_of(self.full_result.schema):
            raise NotPartial("the state of its groups would have other types")

    # --- rows made of the parts ---------------------------------------------------------------------------------------

    @cached_property
    def _partials(self) -> Partials:
        return Partials.from_query(self.grouped, self._rows)

    @cached_property
    def _rows_from_state(self) -> DataFrame:
        """Rows of the table, from the aggregate state of all rows."""
        return self._outputs(self._partials, self._full_state(self._partials))

    @property
    def _computes_from_state(self) -> bool:
        """Whether rows are computed as from aggregate state although none is stored, for equal results."""
        return self.refresh_strategy.kind == StrategyKind.INCREMENTAL and self._partials.has_rounding

    def _rows_of_groups(self, groups: DataFrame) -> DataFrame:
        """Return the rows of some groups, with sums that do not depend on the order of addition."""
        grouped = self.grouped
        if self._computes_from_state:
            partials = self._partials
            return self._outputs(partials, partials.initial_state(partials.aggregate_groups(self._rows, groups)))
        # A row of one of these groups may belong to others. Spark looks for groups below the aggregation where it can.
        if grouped.joins or grouped.repeats_rows:
            return select_groups(self._exact_query(self._rows, groups), groups, group_columns(grouped), self.keys)
        return self._exact_query(rows_of(grouped, self._rows, groups))

    def _plain_rows(self, touched: DataFrame) -> DataFrame:
        """Return the user's query for some groups or keys."""
        keyed = self.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS
        if keyed or self.grouped.joins or self.grouped.repeats_rows:
            return select_groups(self.full_result, touched, self.affected_key_columns, self.keys)
        return self._query(rows_of(self.grouped, self._rows, touched))

    def _full_state(self, partials: Partials) -> DataFrame:
        """Return the aggregate state of all rows."""
        inserted = self._rows.withColumn(partial_aggregates.SIGN, F.lit(1))
        return partials.initial_state(partials.aggregate_deltas(inserted))

    def _outputs(self, partials: Partials, state: DataFrame) -> DataFrame:
        partials.values(state).createOrReplaceTempView(_VALUES)
        return connect.freeze(self.batch.session.sql(outputs_sql(partials.grouped, _VALUES)))

    def _exact_query(self, rows: DataFrame, touched: DataFrame | None = None) -> DataFrame:
        """Return the user's query with sums and averages that do not depend on the order of addition.

        Args:
            rows: rows of the followed table.
            touched: the affected groups; all by default.
        """
        plain, exact = self._query(rows), self._rounded_partials
        if exact is None:
            return plain
        change = (exact.aggregate_deltas(rows.withColumn(partial_aggregates.SIGN, F.lit(1))) if touched is None
                  else exact.aggregate_groups(rows, touched))  # fmt: skip
        exact.values(exact.initial_state(change)).createOrReplaceTempView(_EXACT)
        same = [f"({text}) <=> {_EXACT}.{name}" for text, name in zip(self.grouped.groups, exact.groups, strict=True)]
        spans = [
            Span(span.first, span.last, f"any_value({_EXACT}.{call.value})")
            for call, span in self.grouped.sums
            if call in exact.grouped.calls
        ]
        try:
            rows_of_sums = self._query(rows, spans, f"LEFT JOIN {_EXACT} ON {' AND '.join(same)}")
        except AnalysisException:
            return plain
        if columns_of(rows_of_sums.schema) == columns_of(plain.schema):
            return rows_of_sums
        return plain

    @cached_property
    def _rounded_partials(self) -> Partials | None:
        """Sums and averages that Spark rounds at each term; None if none can be identified."""
        grouped = self.refresh_strategy.grouped
        if grouped is None or not grouped.sums:
            return None
        try:
            with query_analysis.suppress_error_log():
                sums = Partials.from_query(replace(grouped, calls=tuple(call for call, _ in grouped.sums)), self._rows)
        except (NotPartial, AnalysisException):
            return None
        rounded = tuple(call for call, _ in grouped.sums if sums.is_rounded(call))
        if rounded:
            return replace(sums, grouped=replace(grouped, calls=rounded))
        return None


def _fingerprint(columns: Mapping[str, Iterable[StructField]]) -> str:
    """Return a hash of the names and types of columns by table, in their order."""
    types = [f"{name} {field.name} {field.dataType.json()}" for name, fields in columns.items() for field in fields]
    return hashlib.sha256("\0".join(types).encode()).hexdigest()

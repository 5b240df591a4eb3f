"""Gold: refresh the user's query over other tables from their changes, as if it ran over everything.

The refresh strategy is found by spark_sql/refresh/strategy.py and proved by gold/query_analysis.py; the technique for a
batch is a matter of cost (flow/refresh_cost.py); aggregate state is in gold/partial_aggregates.py. The table changes in
one commit, and only rows that differ are written (but see gold/replacement.py), so that others can follow its change
feed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame

from sluicegate import _faults
from sluicegate.definition import GoldTable
from sluicegate.flow import refresh_cost
from sluicegate.flow.batch import Batch
from sluicegate.flow.refresh_cost import RefreshCost, Technique, TechniqueChoice, Work
from sluicegate.frames import column_types
from sluicegate.frames.record_ids import materialize
from sluicegate.gold import clustering, group_state, replacement
from sluicegate.gold.changed_query import ChangedQuery
from sluicegate.gold.group_state import GroupState
from sluicegate.gold.partial_aggregates import Partials, select_groups
from sluicegate.gold.rules import GoldRules
from sluicegate.gold.table_changes import TableChanges
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.spark import table_reader
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind


def apply(batch: Batch, name: str, table: GoldTable, lake: layout.Lake) -> None:
    """Update a gold table to its source's version.

    Raises:
        QueryError: Spark rejects the query, or a part of a column has no type.
        TransformError: the Python function fails, or does not return valid rows.
        ExpectationFailed: a rule refuses the rows; the table is unchanged.
    """
    Refresh(batch, name, table, lake).run()
    batch.report.written = lake_tables.rows(lake_tables.delta_table(batch.flow.target))


@dataclass
class Refresh(ChangedQuery):
    """Refresh of one gold table by one batch; ``lake`` is the lake of its tables.

    ``run`` has the order of steps: types, refresh strategy, size of the changes, technique.
    """

    lake: layout.Lake

    def run(self) -> None:
        """Refresh the table by the technique with the lowest estimated cost."""
        language = "sql"
        if self.table.is_python:
            language = "python"
        rows = self.full_result
        column_types.demand_typed(rows, rows.columns, self.name, language, self.table.sql_file)
        match self.choice.technique:
            case Technique.INCREMENTAL:
                self.refresh_partials()
            case Technique.RESTART:
                self.restart()
            case Technique.AFFECTED_GROUPS:
                self.refresh_groups()
            case Technique.AFFECTED_KEYS:
                self.refresh_keys()
            case Technique.FULL_RECOMPUTE:
                self.refresh_whole()

    @cached_property
    def choice(self) -> TechniqueChoice:
        """Technique of this batch."""
        permitted = self._permitted_techniques()
        cost = RefreshCost.from_table(self.batch.opened[self.batch.flow.target].delta, self.refresh_strategy.kind)
        return cost.choose(permitted, self._work(permitted))

    def _permitted_techniques(self) -> list[Technique]:
        """Return the techniques that give correct rows."""
        kind = self.refresh_strategy.kind
        # Rows are found by keys of their types.
        if self.batch.whole or (kind != StrategyKind.FULL_RECOMPUTE and not self._keeps_columns):
            if kind == StrategyKind.INCREMENTAL and not self._is_small:
                return [Technique.RESTART]
            return [Technique.FULL_RECOMPUTE]
        if kind == StrategyKind.AFFECTED_KEYS and not self._is_small and self._certain_affected_keys.all_because:
            return [Technique.FULL_RECOMPUTE]
        return refresh_cost.permitted_techniques(
            self.refresh_strategy,
            auto=self.table.refresh != "incremental",
            small=self._is_small,
            few=kind == StrategyKind.FULL_RECOMPUTE or self._has_few_changes,
            state=kind == StrategyKind.INCREMENTAL and not self._is_small and self._state_progress is not None,
        )

    def _work(self, permitted: Collection[Technique]) -> Work:
        """Return the row counts that determine the cost of the batch by a permitted technique."""
        rows = lake_tables.rows(self.batch.opened[self.batch.flow.target].delta)
        kind = self.refresh_strategy.kind
        if self.batch.whole or kind == StrategyKind.FULL_RECOMPUTE:
            return self._work_over(self.batch.read, rows)
        if kind != StrategyKind.AFFECTED_KEYS:
            return self._work_over(self._changed_count, rows)
        if Technique.AFFECTED_KEYS not in permitted:
            return Work(self.batch.read, self._total_rows, rows, rows)
        return Work(self._changed_count, self._total_rows, rows, self._touched_rows)

    def _work_over(self, changed: int, rows: int) -> Work:
        """Return the work of a number of changes in a table of some size; each affects at most one group."""
        kind, touched = self.refresh_strategy.kind, rows
        if kind in (StrategyKind.INCREMENTAL, StrategyKind.AFFECTED_GROUPS) and self.grouped.is_locatable:
            touched = min(changed, rows)
        return Work(changed, self._total_rows, rows, touched)

    # --- the techniques ----------------------------------------------------------------------------------------------

    def refresh_whole(self) -> None:
        """Run the query over everything; aggregate state stays, and is not used again before a restart."""
        self._write_all(self._rows_from_state if self._computes_from_state else self._exact_query(self._rows))

    def refresh_groups(self) -> None:
        """Run the query over all rows of the affected groups."""
        groups = materialize(self.affected_groups, few=self._has_few_changes)
        self._change_affected(self._rows_of_groups(self._broadcast(groups)), groups)

    def refresh_keys(self) -> None:
        """Replace the rows of the affected keys by the query's result for them."""
        touched = self._certain_affected_keys.rows
        if touched is None:
            raise LookupError("the affected keys are unknown")
        self._change_affected(self._plain_rows(self._broadcast(touched)), touched)

    def refresh_partials(self) -> None:
        """Apply row deltas to the aggregate state, and compute the affected groups' rows from it."""
        if self._state_progress is None:
            raise LookupError("row deltas require an aggregate state")
        partials, (since, joined) = self._partials, self._state_progress
        progress, deltas = self.batch.progress, self._row_deltas
        is_current = (since, joined) == (progress.since, progress.changed)
        if not is_current:
            deltas = replace(deltas, since=since, before=joined)
        change = materialize(partials.aggregate(deltas.apply(partials.prepare)), few=self._has_few_changes)
        state = self._new_state(partials, change)
        if since < progress.until or joined:
            self._group_state.keep(state, since=since, few=self._has_few_changes)
        _faults.point("gold.between_commits")
        if is_current and self.grouped.is_locatable:
            self._change_affected(self._outputs(partials, state), state.select(*partials.groups))
            return
        # A run was stopped before it had written the table: which of its rows are to be changed is not known.
        self._write_all(self._outputs(partials, self._group_state.rows()))

    @cached_property
    def _state_progress(self) -> tuple[int, dict[str, int]] | None:
        """Progress of the aggregate state; see ``GroupState.progress``."""
        return self._group_state.progress()

    def restart(self) -> None:
        """Build the aggregate state of all rows, and the table from it."""
        partials = self._partials
        self._group_state.start(self._full_state(partials))
        _faults.point("gold.between_commits")
        self._write_all(self._outputs(partials, self._group_state.rows()))

    @cached_property
    def _group_state(self) -> GroupState:
        """Table of aggregate state."""
        return GroupState(self.batch, self._partials, self.lake.group_state(self.name))

    def _new_state(self, partials: Partials, change: DataFrame) -> DataFrame:
        """Return the new state of affected groups, and whether each had state before."""
        stored = self._group_state.candidate_state(change, few=self._has_few_changes)
        former = select_groups(stored, self._broadcast(change), partials.groups)
        state = materialize(partials.merge(change, former), few=self._has_few_changes)
        if not partials.stored_calls:
            return state
        lost = state.where("_lost")
        if lost.isEmpty():
            return state
        recomputed = partials.initial_state(partials.aggregate_groups(self._rows, self._broadcast(lost)))
        others = state.where("NOT _lost").drop("_lost")
        return materialize(others.unionByName(partials.recomputed_state(lost, recomputed)), few=self._has_few_changes)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write_all(self, rows: DataFrame) -> None:
        """Write the expected rows of the whole table: those that differ, or all of them (gold/replacement.py)."""
        # Keys are then unique, in the table, which the same query filled, and in the expected rows.
        if self._is_located and not self.batch.whole and self._keeps_columns:
            self._change_all(rows)
        else:
            self._replace(rows)

    @property
    def _is_located(self) -> bool:
        """Whether each group has one row, which can be found by its keys."""
        strategy = self.refresh_strategy
        if strategy.grouped is None or strategy.kind == StrategyKind.FULL_RECOMPUTE:
            return False
        return strategy.grouped.is_locatable

    @cached_property
    def _keeps_columns(self) -> bool:
        """Whether the table already has the columns and types of the query's result."""
        return replacement.keeps_columns(self.batch, self.full_result.schema)

    @property
    def _row_keys(self) -> list[str]:
        """Columns that identify the table's rows; none if only all columns together do."""
        if self.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS or self._is_located:
            return self.keys
        return []

    @cached_property
    def rules(self) -> GoldRules:
        """Rules that are checked before the commit."""
        return GoldRules(self.batch, self.name, self.table)

    def _commit_info(self) -> dict[str, Any]:
        """Return the commit metadata on the refresh strategy, its reason and the technique."""
        strategy = self.refresh_strategy
        info: dict[str, Any] = {"strategy": strategy.kind, "because": strategy.why}
        if strategy.of_the_run:
            info["of_the_run"] = strategy.of_the_run
        if strategy.kind == StrategyKind.AFFECTED_KEYS:
            info["columns"] = self.columns_fingerprint
        if strategy.kind == StrategyKind.FULL_RECOMPUTE and strategy.cheaper:
            info["instead"] = strategy.cheaper
        return {**info, **self.choice.commit_facts()}

    def _replace(self, rows: DataFrame) -> None:
        """Write all rows of the table, or only those that differ where that costs less."""
        ordering = clustering.columns(self.table.ordering, rows.schema)
        comparable = replacement.is_comparable(self.batch, rows.schema, ordering)
        if comparable and not self.table.has_rules:  # with rules they are materialized when they are evaluated
            rows = materialize(rows, few=False)
        evaluated = self.rules.evaluate(rows, few=False)
        expected, changes = self.rules.remaining_rows(evaluated), None
        if comparable:
            changes = replacement.changes(self.batch, expected, self._row_keys, few=self._is_small)
        if changes is None:
            self.rules.demand(evaluated, None, lambda: expected)
            self._overwrite(expected, ordering)
            return
        self.rules.demand(evaluated, None, lambda: expected, changes.upserted_rows)
        self._write(changes, None, self._total_rows, all=True)

    def _overwrite(self, rows: DataFrame, ordering: list[str]) -> None:
        """Replace the table's rows in one commit."""
        _faults.point("gold.before_commit")
        self.batch.demand_not_overtaken()
        commit = self.batch.commit(read=self._total_rows, all=True, **self._commit_info(), **self.rules.facts)
        grouped, settings = self.refresh_strategy.grouped, {}
        if not ordering and grouped is not None and grouped.is_locatable:
            rows = clustering.sort_rows(rows, self.keys)
            settings = {"spark.sql.files.maxRecordsPerFile": str(group_state.IN_A_FILE)}
        with override_settings(self.batch.session, settings):
            clustering.replace(
                self.batch.add_comments(rows), self.batch.flow.target, ordering, commit, recluster=self.batch.whole
            )
        _faults.point("gold.after_commit")
        self.batch.report.read = self._total_rows

    def _change_all(self, rows: DataFrame) -> None:
        """Merge the current rows of all groups."""
        target = table_reader.read(self.batch.session, self.batch.flow.target)
        evaluated = self.rules.evaluate(rows, few=self._has_few_changes)
        expected = self.rules.remaining_rows(evaluated)
        changes = self._changes_by_key(expected, target)
        self.rules.demand(evaluated, None, lambda: expected, changes.upserted_rows)
        self._write(changes, None, self._changed_count, groups=None, all=True)

    def _change_affected(self, rows: DataFrame, touched: DataFrame) -> None:
        """Merge the current rows of the affected groups or keys."""
        target = table_reader.read(self.batch.session, self.batch.flow.target)
        near = self._near(target, touched)
        evaluated = self.rules.evaluate(rows, few=self._has_few_changes)
        expected = self.rules.remaining_rows(evaluated)
        candidates = target
        if near:
            candidates = target.where(near(""))
        former = select_groups(candidates, self._broadcast(touched), self.affected_key_columns, self.keys)
        changes = self._changes_of_affected(expected, former)
        self.rules.demand(evaluated, former, lambda: changes.merged_rows(target), changes.upserted_rows)
        self._write(changes, near, self._changed_count, groups=touched.count(), all=False)

    def _changes_of_affected(self, expected: DataFrame, former: DataFrame) -> TableChanges:
        """Return the changes that replace the rows of some keys by the expected ones."""
        if self.refresh_strategy.kind != StrategyKind.AFFECTED_KEYS:
            return self._changes_by_key(expected, former)
        expected, former = (materialize(rows, few=self._has_few_changes) for rows in (expected, former))
        return TableChanges.compare_some(self.batch.flow.target, expected, former, self.keys, few=self._has_few_changes)

    def _changes_by_key(self, expected: DataFrame, former: DataFrame) -> TableChanges:
        return TableChanges.compare_by_key(
            self.batch.flow.target, expected, former, self.keys, few=self._has_few_changes
        )

    def _write(self, changes: TableChanges, near: Callable[[str], Column] | None, read: int, **facts: Any) -> None:
        """Write changes in one commit."""
        counts, report = changes.counts, self.batch.report
        report.read = read
        if not counts and self.batch.progress.of_the_run:
            return  # it is what it was, and no offset has moved that a commit would have to say
        _faults.point("gold.before_commit")
        self.batch.demand_not_overtaken()
        with self.batch.commit(read=read, **self._commit_info(), changed=counts, **facts, **self.rules.facts):
            changes.write(None if self.batch.flow.private else near)
        _faults.point("gold.after_commit")
        report.inserted = counts.get("insert", 0)
        report.updated, report.deleted = counts.get("update", 0), counts.get("delete", 0)

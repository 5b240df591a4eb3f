"""Gold: the user's own query over other tables, refreshed by what has changed there, as if it were run over all.

The refresh strategy is found by sql/refresh/strategy.py and proved by gold/query_analysis.py; which technique a batch
is given is a matter of cost (flow/refresh_cost.py); aggregate state is in gold/partial_aggregates.py. The table changes
in one commit, and only rows that differ are written (but see gold/replacement.py): others can follow its change feed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.flow import refresh_cost, thresholds
from sluicegate.flow.batch import Batch
from sluicegate.flow.refresh_cost import Choice, RefreshCost, Work
from sluicegate.frames import column_types, data_skipping
from sluicegate.frames.record_ids import materialize
from sluicegate.gold import clustering, group_state, replacement
from sluicegate.gold.affected.changed_rows import ChangedRows
from sluicegate.gold.affected.operators import TouchesAll
from sluicegate.gold.group_state import GroupState
from sluicegate.gold.partial_aggregates import Partials, group_columns, groups_of, rows_of, same_groups
from sluicegate.gold.proved_query import ProvedQuery
from sluicegate.gold.row_deltas import Changes
from sluicegate.gold.rules import GoldRules
from sluicegate.gold.table_changes import TableChanges
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.spark import table_reader
from sluicegate.spark.session import configured
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from sluicegate.definition import GoldTable
    from sluicegate.flow.refresh_cost import Technique


def apply(batch: Batch, name: str, table: GoldTable, at: layout.Lake) -> None:
    """Brings a gold table up to its source's version.

    Raises:
        QueryError: Spark refuses the query, or a part of a column has no type.
        TransformError: the Python function raises, or returns no rows of a table.
        ExpectationFailed: it must not have the rows that it would have; it stays as it is.
    """
    Refresh(batch, name, table, at).run()
    batch.report.written = lake_tables.rows(lake_tables.delta_table(batch.flow.target))


@dataclass
class Refresh(ProvedQuery):
    """Refresh of one gold table by one batch; ``at`` has the lake's tables."""

    at: layout.Lake

    def run(self) -> None:
        """Refreshes the table by the technique that is estimated to cost least."""
        makes = "python" if self.table.is_python else "sql"
        made = self.everything
        column_types.demand_typed(made, made.columns, self.name, makes, self.table.sql_file)
        {"partial": self.by_partials, "restart": self.restart, "groups": self.by_groups, "keys": self.by_keys,
         "whole": self.whole}[self.choice.technique]()  # fmt: skip

    @cached_property
    def choice(self) -> Choice:
        """Technique of this batch."""
        cost = RefreshCost.of(self.batch.opened[self.batch.flow.target].delta)
        return cost.choose(self._permitted, self._work)

    @property
    def _permitted(self) -> list[Technique]:
        kind = self.refresh_strategy.kind
        if self.batch.whole or (kind != "whole" and not self._keeps_columns):  # rows are found by keys of their types
            return ["restart"] if kind == "partial" and not self._small else ["whole"]
        if kind == "keys" and not self._small and self._touches_all:
            return ["whole"]
        return refresh_cost.permitted(
            self.refresh_strategy,
            auto=self.table.refresh != "incremental",
            small=self._small,
            few=kind == "whole" or self._few,
            state=kind == "partial" and not self._small and self._known is not None,
        )

    @property
    def _work(self) -> Work:
        """Rows that this batch is about."""
        held = lake_tables.rows(self.batch.opened[self.batch.flow.target].delta)
        kind = self.refresh_strategy.kind
        if kind == "keys":
            return self._work_by_keys(held)
        changed = self.batch.read if kind == "whole" or self.batch.whole else self._changes
        located = kind != "whole" and self.grouped.located
        return Work(changed, self._all_rows, held, min(changed, held) if located else held)

    # --- the techniques ----------------------------------------------------------------------------------------------

    def whole(self) -> None:
        """Runs the query over everything; aggregate state stays as it is, and is not used again before a restart."""
        made_of_state = self.refresh_strategy.kind == "partial" and self._from_state
        self._of_everything(self._of_all if made_of_state else self._exactly(self._rows))

    @property
    def _from_state(self) -> bool:
        """Whether rows are made from aggregate state although none is stored, to be the same as with it."""
        return self.refresh_strategy.kind == "partial" and self._partials.rounded

    def by_groups(self) -> None:
        """Runs the query over all rows of the affected groups."""
        keep = self.grouped
        touched = materialize(self._news.over(partial(groups_of, keep)).distinct(), few=self._few)
        sent = self._sent(touched)
        if self._from_state:
            partials = self._partials
            now = self._outputs(partials, partials.fresh(partials.of_groups(self._rows, sent)))
        elif keep.joins:  # Spark looks for these groups below the aggregation where it can
            now = same_groups(self._exactly(self._rows, sent), sent, group_columns(keep), self.keys)
        else:
            now = self._exactly(rows_of(keep, self._rows, sent))
        self._change(now, touched, read=self._changes)

    def by_keys(self) -> None:
        """Replaces the rows of the touched keys by what the query gives for these keys."""
        rows = same_groups(self.everything, self._sent(self._touched), self._touched_columns, self.keys)
        self._change(rows, self._touched, read=self._changes)

    def by_partials(self) -> None:
        """Applies row deltas to the aggregate state, and makes the affected groups' rows from it."""
        if self._known is None:
            raise LookupError("there is no state to which row deltas could be applied")
        partials, (since, before) = self._partials, self._known
        now = self.batch.progress
        current = (since, before) == (now.since, now.changed)
        news = self._news if current else replace(self._news, since=since, before=before)
        state = self._now(partials, materialize(partials.together(news.over(partials.prepared)), few=self._few))
        if since < now.until or before:
            self._group_state.keep(state, since=since, few=self._few)
        _faults.point("gold.between_commits")
        if not (current and self.grouped.located):
            # A run was stopped before it had written the table: which of its rows are to be changed is not known.
            self._of_everything(self._outputs(partials, self._group_state.rows()))
            return
        self._change(self._outputs(partials, state), state.select(*partials.groups), read=self._changes)

    @cached_property
    def _known(self) -> tuple[int, dict[str, int]] | None:
        """How far the aggregate state is; see ``GroupState.known``."""
        return self._group_state.known()

    def restart(self) -> None:
        """Builds the aggregate state of all rows, and the table from it."""
        partials = self._partials
        self._group_state.start(self._all(partials))
        _faults.point("gold.between_commits")
        self._of_everything(self._outputs(partials, self._group_state.rows()))

    @cached_property
    def _group_state(self) -> GroupState:
        """Table of aggregate state."""
        return GroupState(self.batch, self._partials, self.at.groups(self.name))

    def _now(self, partials: Partials, change: DataFrame) -> DataFrame:
        """New state of the affected groups, and whether each had state before."""
        held = same_groups(self._group_state.near(change, few=self._few), self._sent(change), partials.groups)
        now = materialize(partials.merged(change, held), few=self._few)
        if not partials.stored_calls:
            return now
        lost = now.where("_lost")
        if lost.isEmpty():
            return now
        recomputed = partials.fresh(partials.of_groups(self._rows, self._sent(lost)))
        known = now.where("NOT _lost").drop("_lost")
        return materialize(known.unionByName(partials.renewed(lost, recomputed)), few=self._few)

    # --- rows --------------------------------------------------------------------------------------------------------

    @cached_property
    def _all_rows(self) -> int:
        """Number of rows of all tables that the query reads."""
        now, flow = self.batch.progress, self.batch.flow
        read = [(flow.source, now.until), *((flow.inputs[name], now.versions[name]) for name in flow.inputs)]
        return sum(self.batch.opened.rows_at(*table) for table in read)

    @cached_property
    def _news(self) -> Changes:
        """Row deltas since the last batch."""
        return Changes(self.batch, self.grouped.joins, self.batch.progress.since, self.batch.progress.changed)

    @cached_property
    def _changes(self) -> int:
        """Number of row deltas since the last batch (an update is two); for small tables as the log has it."""
        if self._small:
            return self.batch.read
        return self._changed_rows.count if self.refresh_strategy.kind == "keys" else self._news.count

    @property
    def _few(self) -> bool:
        if self._small:
            return True
        touched = self._touched_count if self.refresh_strategy.kind == "keys" else 0
        return max(self._changes, touched) <= thresholds.FEW

    @cached_property
    def _small(self) -> bool:
        """Whether reading everything costs less than keeping state, unless ``refresh`` demands state."""
        return self._all_rows <= thresholds.SMALL and self.table.refresh != "incremental"

    def _sent(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self._few else frame

    def _near(self, target: DataFrame, touched: DataFrame | None) -> Callable[[str], Column] | None:
        """Predicate for the affected groups' rows of the table; None where it would skip no file."""
        held = lake_tables.rows(lake_tables.delta_table(self.batch.flow.target))
        if touched is None or not self._few or held <= group_state.IN_A_FILE:
            return None
        for group, key in zip(self._touched_columns, self.keys, strict=True):
            if target.schema[key].dataType == touched.schema[group].dataType:
                near = data_skipping.same_values(touched, group)
                if near is not None:
                    return lambda prefix, key=key, near=near: near(F.col(prefix + quoted(key)))  # type: ignore[misc]
        return None

    # --- keys --------------------------------------------------------------------------------------------------------

    @cached_property
    def _changed_rows(self) -> ChangedRows:
        """Rows that came or went of the tables that the query reads."""
        return ChangedRows(self.batch, self._read)

    @cached_property
    def _touches_all(self) -> str:
        """Reason why all rows are touched, or why it is not known which; empty if the keys tell."""
        last = self.batch.opened[self.batch.flow.target].last_commit_of_ours
        if last is None or (last.ours or {}).get("columns") != self._columns:
            return "a table that it reads has other columns, or may have"
        if why := self._keys_of_the_plan.blocked(self._changed_rows.by_table):
            return why
        try:
            _ = self._touched
        except TouchesAll as reason:
            return str(reason.args[0])
        return ""

    @cached_property
    def _columns(self) -> str:
        """Fingerprint of the columns of the tables that the query reads, and of its own."""
        frames = {**self._read, "": self.everything}
        types = [f"{name} {field.name} {field.dataType.json()}" for name, one in frames.items() for field in one.schema]
        return hashlib.sha256("\0".join(types).encode()).hexdigest()

    @cached_property
    def _touched(self) -> DataFrame:
        """Touched keys, materialized."""
        found = self._changed_rows.keys(self._keys_of_the_plan)
        if found is None:  # the tables were written anew, with the rows that they had
            named = zip(self.keys, self._touched_columns, strict=True)
            found = self.everything.select(*[F.col(quoted(key)).alias(name) for key, name in named]).limit(0)
        return found

    @cached_property
    def _touched_count(self) -> int:
        """Number of touched keys."""
        return self._touched.count()

    def _work_by_keys(self, held: int) -> Work:
        if self._small or self.batch.whole or self._touches_all:
            return Work(self.batch.read, self._all_rows, held, held)
        return Work(self._changes, self._all_rows, held, min(self._touched_count, held))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _of_everything(self, rows: DataFrame) -> None:
        """Writes the expected rows of the whole table: those that differ, or all of them (gold/replacement.py)."""
        if self._is_unique_by_keys and self._keeps_columns:
            self._change(rows, None, read=self._changes)
        else:
            self._replace(rows, read=self._all_rows)

    @property
    def _is_unique_by_keys(self) -> bool:
        """Whether no two rows have the same keys: neither the table's, made by the same query, nor the expected."""
        grouped = self.refresh_strategy.grouped
        in_groups = grouped is not None and self.refresh_strategy.kind != "whole" and grouped.located
        return in_groups and not self.batch.whole

    @cached_property
    def _keeps_columns(self) -> bool:
        """Whether the table has the columns and types that its query gives now."""
        return replacement.keeps_columns(self.batch, self.everything.schema)

    @property
    def _row_keys(self) -> list[str]:
        """Columns by which the table's rows are known; none where only all columns together tell."""
        kind, grouped = self.refresh_strategy.kind, self.refresh_strategy.grouped
        if kind == "keys" or (kind != "whole" and grouped is not None and grouped.located):
            return self.keys
        return []

    @cached_property
    def rules(self) -> GoldRules:
        """Rules that the rows are held to before they are committed."""
        return GoldRules(self.batch, self.name, self.table)

    @property
    def _said(self) -> dict[str, Any]:
        """Commit metadata about the refresh strategy, its reason and the technique."""
        moment = {"of_the_run": self.refresh_strategy.of_the_run} if self.refresh_strategy.of_the_run else {}
        known = {"strategy": self.refresh_strategy.kind, "because": self.refresh_strategy.why, **moment}
        if self.refresh_strategy.kind == "keys":
            known["columns"] = self._columns
        if self.refresh_strategy.kind == "whole" and self.refresh_strategy.cheaper:
            known["instead"] = self.refresh_strategy.cheaper
        return {**known, **self.choice.in_commit()}

    def _replace(self, rows: DataFrame, read: int) -> None:
        by = clustering.columns(self.table.ordering, rows.schema)
        comparable = replacement.is_comparable(self.batch, rows.schema, by)
        if comparable and not self.table.has_rules:  # with rules they are materialized when they are evaluated
            rows = materialize(rows, few=False)
        evaluated = self.rules.evaluated(rows, few=False)
        made = self.rules.staying(evaluated)
        if comparable:
            changes = replacement.changes(self.batch, made, self._row_keys, few=self._small)
            if changes is not None:
                self.rules.demand(evaluated, None, lambda: made, changes.comes)
                self._write(changes, None, read, all=True)
                return
        self.rules.demand(evaluated, None, lambda: made)
        self._overwrite(made, by, read)

    def _overwrite(self, rows: DataFrame, by: list[str], read: int) -> None:
        _faults.point("gold.before_commit")
        self.batch.demand_not_overtaken()
        commit = self.batch.commit(read=read, all=True, **self._said, **self.rules.facts)
        grouped, settings = self.refresh_strategy.grouped, {}
        if not by and grouped is not None and grouped.located:
            rows = clustering.in_order(rows, self.keys)
            settings = {"spark.sql.files.maxRecordsPerFile": str(group_state.IN_A_FILE)}
        with configured(self.batch.session, settings):
            clustering.replace(
                self.batch.described(rows), self.batch.flow.target, by, commit, recluster=self.batch.whole
            )
        _faults.point("gold.after_commit")
        self.batch.report.read = read

    def _change(self, rows: DataFrame, touched: DataFrame | None, read: int) -> None:
        """Merges the current rows of the affected groups or keys, or of all groups."""
        target = table_reader.read(self.batch.session, self.batch.flow.target)
        near = self._near(target, touched)
        evaluated = self.rules.evaluated(rows, few=self._few)
        made = self.rules.staying(evaluated)
        if touched is None:
            changes = self._by_key(made, target)
            self.rules.demand(evaluated, None, lambda: made, changes.comes)
        else:
            there = target.where(near("")) if near else target
            held = same_groups(there, self._sent(touched), self._touched_columns, self.keys)
            if self.refresh_strategy.kind == "keys":
                made, held = (materialize(one, few=self._few) for one in (made, held))
                changes = TableChanges.replacing(self.batch.flow.target, made, held, self.keys, few=self._few)
            else:
                changes = self._by_key(made, held)
            self.rules.demand(evaluated, held, lambda: changes.merged(target), changes.comes)
        groups_read = touched.count() if touched is not None else None
        self._write(changes, near, read, groups=groups_read, all=touched is None)

    def _write(self, changes: TableChanges, near: Callable[[str], Column] | None, read: int, **facts: Any) -> None:
        counts, report = changes.counts, self.batch.report
        report.read = read
        if not counts and self.batch.progress.of_the_run:
            return  # it is what it was, and no offset has moved that a commit would have to say
        _faults.point("gold.before_commit")
        self.batch.demand_not_overtaken()
        with self.batch.commit(read=read, **self._said, changed=counts, **facts, **self.rules.facts):
            changes.write(None if self.batch.flow.private else near)
        _faults.point("gold.after_commit")
        report.inserted = counts.get("insert", 0)
        report.updated, report.deleted = counts.get("update", 0), counts.get("delete", 0)

    def _by_key(self, made: DataFrame, held: DataFrame) -> TableChanges:
        return TableChanges.by_key(self.batch.flow.target, made, held, self.keys, few=self._few)

    @property
    def _touched_columns(self) -> list[str]:
        """Columns of touched groups, or keys, in the order of ``keys``."""
        if self.refresh_strategy.kind == "keys":
            return self._keys_of_the_plan.touched_names
        return [f"_group_{number}" for number in sorted(self.grouped.keys)]

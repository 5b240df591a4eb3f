"""Gold: the user's own query over silver, refreshed by what has changed there, as if it were run over everything.

The refresh strategy is found by sql/refresh/strategy.py and proved by gold/query_analysis.py; aggregate state is in
gold/partial_aggregates.py. The table changes in one commit, and only rows that differ are written: others can follow
its change feed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.errors import QueryError, Where
from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch
from sluicegate.frames import data_skipping, small_writes
from sluicegate.frames.merge import OP, difference, merge_by
from sluicegate.frames.record_ids import materialize
from sluicegate.frames.same_rows import same_rows
from sluicegate.gold import clustering, group_state, partial_aggregates, query_analysis
from sluicegate.gold.batch_query import BatchQuery
from sluicegate.gold.group_state import GroupState
from sluicegate.gold.partial_aggregates import NotPartial, Partials, group_columns, groups_of, rows_of, same_groups
from sluicegate.gold.row_deltas import Changes, join
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.spark import connect, table_reader
from sluicegate.spark.session import configured
from sluicegate.sql.identifiers import quoted
from sluicegate.sql.refresh.group_by import outputs_sql
from sluicegate.sql.refresh.joins import ROWS
from sluicegate.sql.refresh.strategy import RefreshStrategy
from sluicegate.sql.tokens import Span
from sluicegate.sql.types import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from sluicegate.definition import GoldTable
    from sluicegate.sql.refresh.group_by import Grouped


# View of the exact sums of groups.
_EXACT = "_sluicegate_exact"

# View of the values of groups and aggregate functions.
_VALUES = "_sluicegate_values"

# Strategies that Spark has confirmed in this process, by query and columns; its answer to the same would be the same.
_CONFIRMED: dict[tuple[object, ...], RefreshStrategy] = {}


def apply(batch: Batch, name: str, table: GoldTable, at: layout.Lake) -> None:
    """Brings a gold table up to its source's version.

    Raises:
        QueryError: Spark refuses the query.
        TransformError: the Python function raises, or returns no rows of a table.
    """
    gold = Refresh(batch, name, table, at)
    {"partial": gold.by_partials, "groups": gold.by_groups, "whole": gold.whole}[gold.refresh_strategy.kind]()
    batch.report.written = lake_tables.rows(lake_tables.delta_table(batch.flow.target))


@dataclass
class Refresh(BatchQuery):
    """Refresh of one gold table by one batch; ``at`` has the lake's tables."""

    at: layout.Lake

    @cached_property
    def refresh_strategy(self) -> RefreshStrategy:
        """Refresh strategy of this table, now that Spark knows the types."""
        query_analysis.keep_nulls_of_maps(self.everything, self._read.values(), self._text)  # Spark may refuse it
        question = (
            self.name,
            self._text or self.table.fingerprint,
            self.table.refresh,
            *[(name, one.schema.json()) for name, one in self._read.items()],
        )
        if question not in _CONFIRMED:
            _CONFIRMED[question] = self._refresh_strategy()
        found = _CONFIRMED[question]
        if found.grouped is not None:
            self._rows.createOrReplaceTempView(ROWS)
            join(self.batch, found.grouped.joins)
        if found.kind == "whole" and self.table.refresh == "incremental":
            raise QueryError(
                f"{self.name} cannot be kept up to date by what changes: {found.why}",
                where=Where(table=self.name),
                hint=found.cheaper or "refresh: auto",
            )
        return found

    def _refresh_strategy(self) -> RefreshStrategy:
        found = self.table.refresh_strategy({name: table.columns for name, table in self._read.items()})
        if self._text is None:
            return found
        session, query = self.batch.session, self.table.query
        read = query_analysis.Analysis(session, query, {name: table.schema for name, table in self._read.items()})
        if moment := read.of_the_run:
            return RefreshStrategy("whole", f"it depends on when it is run: {moment}", of_the_run=moment)
        if query_analysis.by_chance(session, query.with_views(self._views(self._rows))):
            return RefreshStrategy("whole", "Spark says that it may have another value with each run")
        if found.grouped is None:
            return found
        if read.makes_rows:
            return RefreshStrategy("whole", "a function in its SELECT list makes several rows of one")
        self._rows.createOrReplaceTempView(ROWS)
        join(self.batch, found.grouped.joins)
        return self._proved(found, found.grouped)

    def _proved(self, found: RefreshStrategy, grouped: Grouped) -> RefreshStrategy:
        """Refresh strategy that remains once Spark is asked about the parts of the query that it uses."""
        reason = query_analysis.disproved(self.batch.session, self.table.query, grouped)
        if reason:
            return RefreshStrategy("whole", reason)
        try:
            with query_analysis.unlogged():
                odd = partial_aggregates.odd_groups(grouped, self._rows) if found.kind != "whole" else ""
        except AnalysisException:
            return RefreshStrategy("whole", "what it groups by has the name of an output in it")
        if odd:
            return RefreshStrategy("whole", f"rows of a table cannot be found by {odd}, which it groups by")
        if found.kind == "partial":
            try:
                self._demand_same(grouped)
            except NotPartial as reason:
                return replace(found, kind="groups" if grouped.located else "whole", why=str(reason))
        return found

    @property
    def grouped(self) -> Grouped:
        """The query taken apart."""
        if self.refresh_strategy.grouped is None:
            raise LookupError("a query that is made again whole is not taken apart")
        return self.refresh_strategy.grouped

    @property
    def keys(self) -> list[str]:
        """Columns of the table that identify the group of a row."""
        return [self.grouped.keys[number] for number in sorted(self.grouped.keys)]

    def _demand_same(self, grouped: Grouped) -> None:
        """Checks that rows made from aggregate state have the column types of the user's query."""
        try:
            partials = Partials.of(grouped, self._rows)
            of_all = self._outputs(partials, self._all(partials))
        except AnalysisException as error:
            raise NotPartial("its SELECT list asks for more than its groups and aggregate functions") from error
        texts = [text for text, _ in grouped.outputs] + ([grouped.having] if grouped.having else [])
        if not query_analysis.row_for_row(self.batch.session, texts, _VALUES):
            raise NotPartial("its SELECT list asks for more than one value of each group")
        if columns_of(of_all.schema) != columns_of(self.everything.schema):
            raise NotPartial("what can be kept of its groups is of other types")

    # --- the three strategies ----------------------------------------------------------------------------------------

    def whole(self) -> None:
        """Runs the query over everything and replaces the table's rows."""
        rows = self._exactly(self._rows)
        if self.batch.progress.of_the_run:
            rows = materialize(rows, few=False)
            if same_rows(rows, table_reader.read(self.batch.session, self.batch.flow.target)):
                self.batch.report.read = self._all_rows  # it is what it was, and no commit has to say so
                return
        self._replace(rows, read=self._all_rows)

    def by_groups(self) -> None:
        """Runs the query over all rows of the affected groups."""
        if self.batch.whole or self._cheaper_whole:
            self._of_everything(self._exactly(self._rows))
            return
        keep = self.grouped
        touched = materialize(self._news.over(partial(groups_of, keep)).distinct(), few=self._few)
        if keep.joins:  # Spark looks for these groups below the aggregation where it can
            groups = group_columns(keep)
            now = same_groups(self._exactly(self._rows, touched), self._sent(touched), groups, self.keys)
        else:
            now = self._exactly(rows_of(keep, self._rows, self._sent(touched)))
        self._change(now, touched, read=self._changes)

    def by_partials(self) -> None:
        """Applies row deltas to the aggregate state, and makes the affected groups' rows from it."""
        partials = self._partials
        if self._small:
            self._of_everything(self._of_all if partials.rounded else self.everything)
            return
        known = None if self.batch.whole else self._group_state.known()
        if known is None or self._cheaper_whole:
            self._start(partials)
            return
        since, before = known
        now = self.batch.progress
        current = (since, before) == (now.since, now.changed)
        news = self._news if current else replace(self._news, since=since, before=before)
        state = self._now(partials, materialize(partials.together(news.over(partials.prepared)), few=self._few))
        if since < now.until or before:
            self._group_state.keep(state, few=self._few)
        _faults.point("gold.between_commits")
        if not (current and self.grouped.located):
            # A run was stopped before it had written the table: which of its rows are to be changed is not known.
            self._of_everything(self._outputs(partials, self._group_state.rows()))
            return
        self._change(self._outputs(partials, state), state.select(*partials.groups), read=self._changes)

    @cached_property
    def _partials(self) -> Partials:
        return Partials.of(self.grouped, self._rows)

    @cached_property
    def _of_all(self) -> DataFrame:
        """The table's rows, from the aggregate state of all rows."""
        return self._outputs(self._partials, self._all(self._partials))

    @cached_property
    def _group_state(self) -> GroupState:
        """Table of aggregate state."""
        return GroupState(self.batch, self._partials, self.at.groups(self.name))

    def _start(self, partials: Partials) -> None:
        """Builds the aggregate state of all rows, and the table from it."""
        state = self._all(partials)
        self._group_state.start(state)
        _faults.point("gold.between_commits")
        self._of_everything(self._outputs(partials, self._group_state.rows()))

    def _all(self, partials: Partials) -> DataFrame:
        """Aggregate state of all rows."""
        return partials.fresh(partials.of_rows(self._rows.withColumn(partial_aggregates.SIGN, F.lit(1))))

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
        return self.batch.read if self._small else self._news.count

    @property
    def _few(self) -> bool:
        return self._small or self._changes <= thresholds.FEW

    @cached_property
    def _small(self) -> bool:
        """Whether reading everything costs less than keeping state, unless ``refresh`` demands state."""
        return self._all_rows <= thresholds.SMALL and self.table.refresh != "incremental"

    @property
    def _cheaper_whole(self) -> bool:
        """Whether so much changed that a full recompute is cheaper."""
        return self._small or (not self._few and self._changes > thresholds.MUCH * self._all_rows)

    def _sent(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self._few else frame

    def _outputs(self, partials: Partials, state: DataFrame) -> DataFrame:
        partials.values(state).createOrReplaceTempView(_VALUES)
        return connect.frozen(self.batch.session.sql(outputs_sql(partials.grouped, _VALUES)))

    def _exactly(self, rows: DataFrame, touched: DataFrame | None = None) -> DataFrame:
        """The user's own query, with sums and averages that do not depend on the order in which Spark adds.

        Args:
            rows: rows of the table that it follows.
            touched: the affected groups; all by default.
        """
        plain, exact = self._query(rows), self._rounded
        if exact is None:
            return plain
        change = (exact.of_rows(rows.withColumn(partial_aggregates.SIGN, F.lit(1))) if touched is None
                  else exact.of_groups(rows, self._sent(touched)))  # fmt: skip
        exact.values(exact.fresh(change)).createOrReplaceTempView(_EXACT)
        same = [f"({text}) <=> {_EXACT}.{name}" for text, name in zip(self.grouped.groups, exact.groups, strict=True)]
        spans = [
            Span(span.first, span.last, f"any_value({_EXACT}.{call.value})")
            for call, span in self.grouped.sums
            if call in exact.grouped.calls
        ]
        try:
            found = self._query(rows, spans, f"LEFT JOIN {_EXACT} ON {' AND '.join(same)}")
        except AnalysisException:
            return plain
        return found if columns_of(found.schema) == columns_of(plain.schema) else plain

    @cached_property
    def _rounded(self) -> Partials | None:
        """The sums and averages whose terms Spark rounds one by one; None if there are none that can be told apart."""
        grouped = self.refresh_strategy.grouped
        if grouped is None or not grouped.sums:
            return None
        try:
            with query_analysis.unlogged():
                sums = Partials.of(replace(grouped, calls=tuple(call for call, _ in grouped.sums)), self._rows)
        except (NotPartial, AnalysisException):
            return None
        rounded = tuple(call for call, _ in grouped.sums if sums.is_rounded(call))
        return replace(sums, grouped=replace(grouped, calls=rounded)) if rounded else None

    def _near(self, target: DataFrame, touched: DataFrame | None) -> Callable[[str], Column] | None:
        """Predicate for the affected groups' rows of the table; None where it would skip no file."""
        held = lake_tables.rows(lake_tables.delta_table(self.batch.flow.target))
        if touched is None or not self._few or held <= group_state.IN_A_FILE:
            return None
        for number, key in sorted(self.grouped.keys.items()):
            group = f"_group_{number}"
            if target.schema[key].dataType == touched.schema[group].dataType:
                near = data_skipping.same_values(touched, group)
                if near is not None:
                    return lambda prefix, key=key, near=near: near(F.col(prefix + quoted(key)))  # type: ignore[misc]
        return None

    # --- writing -----------------------------------------------------------------------------------------------------

    def _of_everything(self, rows: DataFrame) -> None:
        """Writes the expected rows of the whole table: only those that differ, if rows can be located."""
        if self.batch.whole or not self.grouped.located:
            self._replace(rows, read=self._all_rows)
        else:
            self._change(rows, None, read=self._changes)

    @property
    def _said(self) -> dict[str, Any]:
        """Commit metadata about the refresh strategy and its reason."""
        moment = {"of_the_run": self.refresh_strategy.of_the_run} if self.refresh_strategy.of_the_run else {}
        return {"strategy": self.refresh_strategy.kind, "because": self.refresh_strategy.why, **moment}

    def _replace(self, rows: DataFrame, read: int) -> None:
        _faults.point("gold.before_commit")
        commit = self.batch.commit(read=read, all=True, **self._said)
        by = clustering.columns(self.table.ordering, rows.schema)
        grouped, settings = self.refresh_strategy.grouped, {}
        if not by and grouped is not None and grouped.located:
            rows = clustering.in_order(rows, self.keys)
            settings = {"spark.sql.files.maxRecordsPerFile": str(group_state.IN_A_FILE)}
        with configured(self.batch.session, settings):
            clustering.replace(rows, self.batch.flow.target, by, commit, recluster=self.batch.whole)
        _faults.point("gold.after_commit")
        self.batch.report.read = read

    def _change(self, rows: DataFrame, touched: DataFrame | None, read: int) -> None:
        """Merges the current rows of the affected groups, or of all groups."""
        held = target = table_reader.read(self.batch.session, self.batch.flow.target)
        near = self._near(target, touched)
        if touched is not None:
            groups = [f"_group_{number}" for number in sorted(self.grouped.keys)]
            held = same_groups(target.where(near("")) if near else target, self._sent(touched), groups, self.keys)
        changes = materialize(difference(rows, held, self.keys), few=self._few)
        brought = small_writes.brought(self.batch.flow.target, changes, self.keys, OP) if self._few else None
        counts = brought.counts if brought is not None else dict(changes.groupBy(OP).count().collect())
        groups_read = touched.count() if touched is not None else None
        _faults.point("gold.before_commit")
        facts: dict[str, Any] = {**self._said, "changed": counts, "groups": groups_read, "all": touched is None}
        with self.batch.commit(read=read, **facts):
            if counts:
                merge_by(self.batch.flow.target, changes, self.keys, few=self._few, brought=brought, near=near)
            else:
                small_writes.commit_only(self.batch.session, self.batch.flow.target)
        _faults.point("gold.after_commit")
        report = self.batch.report
        report.read, report.inserted = read, counts.get("insert", 0)
        report.updated, report.deleted = counts.get("update", 0), counts.get("delete", 0)

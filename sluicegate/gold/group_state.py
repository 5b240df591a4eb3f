"""Aggregate state of a gold table's groups, in ``_state/{table}_groups``; see gold/partial_aggregates.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.flow import histories, thresholds
from sluicegate.flow.batch import Batch, overtaken_error
from sluicegate.frames.data_skipping import range_predicate, ranges
from sluicegate.frames.difference.merge import OP, collect_changes, merge_by_keys
from sluicegate.gold.partial_aggregates import LAYOUT, Partials, select_groups
from sluicegate.lake import offsets, tables
from sluicegate.spark import table_reader

# Number of the bucket that a group is in, by a hash of its keys, and how many there are.
_BUCKET, BUCKETS = "_bucket", 4096

# Buckets that one task writes, where the state is too large for one task.
BUCKETS_OF_A_TASK = 64

# Groups in a file of the state: the fewer, the less is written again for one of them.
IN_A_FILE = 50_000

# Files with fewer groups than that from which on the state is written anew: each batch with new groups adds one.
MOST_FILES = 200


@dataclass(frozen=True)
class GroupState:
    """Table of aggregate state, for one batch.

    Attributes:
        batch: the batch.
        partials: the aggregate functions of the state.
        uri: the table, which may not exist yet.
    """

    batch: Batch
    partials: Partials
    uri: str

    def rows(self) -> DataFrame:
        """Return the stored state of all groups."""
        return table_reader.read(self.batch.session, self.uri).drop(_BUCKET)

    def candidate_state(self, groups: DataFrame, *, few: bool) -> DataFrame:
        """Return the stored state of some groups, and of other groups in the same files.

        Args:
            groups: keys of the groups, materialized.
            few: whether the groups are few.
        """
        state = table_reader.read(self.batch.session, self.uri)
        buckets = None
        if few:
            buckets = self._buckets(groups)
        if buckets is not None:
            state = state.where(buckets(""))
        return state.drop(_BUCKET)

    def _buckets(self, groups: DataFrame) -> Callable[[str], Column] | None:
        """Return the predicate for files that may have some groups' state; None if it would skip none."""
        if tables.rows(tables.delta_table(self.uri)) <= IN_A_FILE:
            return None
        bucket_ranges = ranges([row[0] for row in groups.select(self._bucket).distinct().orderBy(_BUCKET).collect()])
        return lambda prefix: range_predicate(f"{prefix}{_BUCKET}", bucket_ranges)

    @property
    def _bucket(self) -> Column:
        keys = [F.col(name) for name in self.partials.groups] or [F.lit(0)]
        return F.pmod(F.xxhash64(*keys), F.lit(BUCKETS)).cast("int").alias(_BUCKET)

    def progress(self) -> tuple[int, dict[str, int]] | None:
        """Return the source version of the stored state, and the versions of joined tables that changed since.

        None if the state cannot be used for this batch.
        """
        flow, opened, progress = self.batch.flow, self.batch.opened, self.batch.progress
        past = histories.comparable_history(flow, self._restore_history, opened)
        if past is None or past.news or past.ours is None or past.ours.ours is None:
            return None
        info = past.ours.ours
        required = {"fingerprint": flow.fingerprint, **self._required_facts}
        if any(info.get(name) != value for name, value in required.items()):
            return None
        until = info.until
        if until is None or not progress.since <= until <= progress.until:
            return None
        # Of a run that was stopped before the table's commit; then the source was put back, and written on.
        if histories.is_other_commit(opened[flow.source], until, histories.identity_of_source(info)):
            return None
        joined = self._versions_of_joined(info.inputs)
        if joined is None:
            return None
        return (until, joined)

    def _versions_of_joined(self, recorded: Mapping[str, str]) -> dict[str, int] | None:
        """Return the versions of the joined tables that have changed since the state was written.

        None if the state is behind the table, and would need more changes than the batch has.

        Args:
            recorded: ID and version of each joined table in the state's last commit.
        """
        progress = self.batch.progress
        versions: dict[str, int] = {}
        for name in self.partials.grouped.joins:
            state_id, _, state_version = recorded.get(name, "").rpartition("@")
            table_id, _, newest = progress.stamps[name].rpartition("@")
            if state_id != table_id:
                return None
            if not progress.changed.get(name, int(newest)) <= int(state_version) <= int(newest):
                return None
            if state_version != newest:
                versions[name] = int(state_version)
        return versions

    def start(self, groups: DataFrame) -> None:
        """Replace the state of all groups."""
        self._demand_not_overtaken()
        with self.batch.commit(fenced=False, **self._commit_facts):
            self._write(groups)

    def keep(self, groups: DataFrame, *, since: int, few: bool) -> None:
        """Write new state of groups; a table that is small, or has many part-filled files, is rewritten.

        Args:
            groups: new state as of ``Partials.merge``; a group with empty sums has no rows left.
            since: source version of the state before.
            few: whether the groups are few.
        """
        self._demand_not_overtaken()
        partials = self.partials
        columns = [*partials.groups, "_sums", *[f"_held_{call.number}" for call in partials.stored_calls]]
        # A run that was stopped may have left state of this version. What joined tables changed since is to be added,
        # but Delta would skip a write whose offset is there.
        with self.batch.commit(fenced=since < self.batch.progress.until, **self._commit_facts):
            state = tables.table_at(self.uri)
            if tables.rows(state) <= thresholds.FEW or _count_part_filled(state) >= MOST_FILES:
                sent = groups
                if few:
                    sent = F.broadcast(groups)
                unchanged = select_groups(self.rows(), sent, partials.groups, join_type="left_anti")
                new_state = groups.where("cardinality(_sums) > 0").select(*columns)
                self._write(unchanged.select(*columns).unionByName(new_state))
                return
            op = F.expr(
                "CASE WHEN cardinality(_sums) > 0 AND _was THEN 'update' WHEN cardinality(_sums) > 0 THEN 'insert' "
                "WHEN _was THEN 'delete' END"
            )
            changes = groups.withColumn(OP, op).where(f"{OP} IS NOT NULL").select(self._bucket, *columns, OP)
            keys = [_BUCKET, *partials.groups]
            brought = collect_changes(self.uri, changes, keys, few=few)
            near = None
            if few and brought is None:
                near = self._buckets(groups)
            merge_by_keys(self.uri, changes, keys, few=few, brought=brought, near=near, numbers=[_BUCKET])

    def _write(self, rows: DataFrame) -> None:
        """Write files of neighbouring buckets, so that each group is in one file."""
        rows = rows.select(self._bucket, "*").repartition(F.expr(f"{_BUCKET} DIV {BUCKETS_OF_A_TASK}"))
        rows = rows.sortWithinPartitions(_BUCKET)
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.option("delta.enableChangeDataFeed", "false").option("maxRecordsPerFile", IN_A_FILE).save(self.uri)

    @cached_property
    def _restore_history(self) -> offsets.RestoreHistory | None:
        if self._opened_table is not None:
            return offsets.restore_history(self._opened_table)
        return None

    @cached_property
    def _opened_table(self) -> DeltaTable | None:
        """Table as of the start of the batch."""
        return tables.delta_table(self.uri)

    def _demand_not_overtaken(self) -> None:
        """Check that no other run has written the state or the gold table.

        Raises:
            SluicegateError: another run has written one of them.
        """
        self.batch.demand_not_overtaken()
        if _version(self._opened_table) != _version(tables.delta_table(self.uri)):
            raise overtaken_error(self.batch.flow.table, self.uri)

    @property
    def _required_facts(self) -> dict[str, Any]:
        """Facts that must match for stored state to be used."""
        types = {name: kind.simpleString() for name, kind in self.partials.types.items()}
        return {"layout": LAYOUT, "source": self.batch.progress.app_id, "types": types}

    @property
    def _commit_facts(self) -> dict[str, Any]:
        """Commit metadata of the state table; its RESTORE history is independent of the gold table's."""
        return {
            **self._required_facts,
            "seen": _version(tables.delta_table(self.uri)),
            "restores": self._restore_history.facts() if self._restore_history is not None else [],
        }


def _version(state: DeltaTable | None) -> int:
    if state is None:
        return -1
    return state.version()


def _count_part_filled(state: DeltaTable) -> int:
    """Count the files with room for more groups: full ones would be rewritten unchanged."""
    return sum(groups is None or groups < IN_A_FILE for (groups,) in tables.statistics_rows(state, "num_records"))

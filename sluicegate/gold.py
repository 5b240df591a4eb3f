"""Gold: the user's own query over silver, kept up to date by what has changed there, as if it were run over everything.

How a query is kept up to date is decided by aggregate.py; what is kept of groups is in partials.py. The table changes
in one commit, and only rows that are other than before are written: others can follow its change feed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate import fault, lake, marks
from sluicegate.aggregate import Upkeep
from sluicegate.difference import OP, difference, merge_by
from sluicegate.errors import QueryError, Where
from sluicegate.flow import ENGINE_COLUMNS, Batch
from sluicegate.grouped import outputs_sql
from sluicegate.identities import FEW, cut
from sluicegate.partials import LAYOUT, SIGN, NotPartial, Partials, groups_of, rows_of, same_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sluicegate.definition import GoldTable
    from sluicegate.grouped import Grouped

# To read so many rows takes less time than to keep anything of them.
SMALL = 100_000

# Where more of the source's rows changed than this part of them, it is cheaper to read all.
MUCH = 0.5


def apply(batch: Batch, name: str, table: GoldTable, at: lake.Lake) -> None:
    """Brings a gold table up to its source's version.

    Raises:
        QueryError: Spark refuses the query.
    """
    gold = _Gold(batch, name, table, at)
    {"partial": gold.by_partials, "groups": gold.by_groups, "whole": gold.whole}[gold.upkeep.way]()
    batch.report.written = lake.rows(lake.delta_table(batch.flow.target))


@dataclass
class _Gold:
    """One batch into one gold table."""

    batch: Batch
    name: str
    table: GoldTable
    at: lake.Lake
    _of_all: DataFrame = field(init=False)

    @cached_property
    def source(self) -> str:
        """Name of the table that is followed."""
        return self.table.query.tables[0]

    @cached_property
    def everything(self) -> DataFrame:
        """What the user's own query gives."""
        return self._query(self.batch.pinned_source())

    @cached_property
    def upkeep(self) -> Upkeep:
        """How this table is kept up to date, now that Spark tells the types."""
        found = self._upkeep()
        if found.way == "whole" and self.table.refresh == "incremental":
            raise QueryError(
                f"{self.name} cannot be kept up to date by what changes: {found.why}",
                where=Where(table=self.name),
                hint=found.cheaper or "refresh: auto",
            )
        return found

    def _upkeep(self) -> Upkeep:
        found = self.table.upkeep(self.batch.pinned_source().columns)
        if found.grouped is None:
            return found
        if not _deterministic(self.everything):
            return Upkeep("whole", "Spark says that it may have another value with each run")
        if found.way == "partial":
            try:
                self._demand_same(found.grouped)
            except NotPartial as reason:
                return replace(found, way="groups" if found.grouped.located else "whole", why=str(reason))
        return found

    @property
    def grouped(self) -> Grouped:
        """The query taken apart."""
        if self.upkeep.grouped is None:
            raise LookupError("a query that is made again whole is not taken apart")
        return self.upkeep.grouped

    @property
    def keys(self) -> list[str]:
        """The columns of the table that say which group a row is of."""
        return [self.grouped.keys[number] for number in sorted(self.grouped.keys)]

    def partials(self, grouped: Grouped) -> Partials:
        """What is kept of its groups."""
        return Partials.of(grouped, self.batch.pinned_source())

    def _demand_same(self, grouped: Grouped) -> None:
        """A last look with other eyes: what is made of partials must have the types that the user's query has."""
        from pyspark.errors import AnalysisException

        try:
            partials = self.partials(grouped)
            self._of_all = self._outputs(partials, self._all(partials))
        except AnalysisException as error:
            raise NotPartial("its SELECT list asks for more than its groups and aggregate functions") from error
        if _types(self._of_all.schema) != _types(self.everything.schema):
            raise NotPartial("what can be kept of its groups is of other types")

    # --- the three ways ----------------------------------------------------------------------------------------------

    def whole(self) -> None:
        """Runs the query over everything and replaces the table's rows."""
        self._replace(self.everything, read=self._all_rows)

    def by_groups(self) -> None:
        """Runs the query over all rows of the groups that changed."""
        if self.batch.whole or self._cheaper_whole:
            self._of_everything(self.everything)
            return
        rows, keep = self.batch.rows, self.grouped
        touched = cut(groups_of(keep, rows), few=self._few)
        source = rows_of(keep, self.batch.pinned_source(), self._sent(touched))
        self._change(self._query(source), touched, read=self._changes)

    def by_partials(self) -> None:
        """Adds what came to what is kept of the groups, takes away what went, and makes the groups' rows of it."""
        partials = self.partials(self.grouped)
        reached = None if self.batch.whole else self._reached(partials)
        if self._small:
            self._of_everything(self._of_all if partials.rounded else self.everything)
            return
        if reached is None or self._cheaper_whole:
            self._start(partials)
            return
        rows = _signed(self.batch.rows.where(f"_commit_version > {reached}"))
        kept = self._kept(partials, cut(partials.of_rows(rows), few=self._few))
        if reached < self.batch.progress.until:
            self._keep(partials, kept)
        fault.point("gold.between_commits")
        if reached > self.batch.progress.since or not self.grouped.located:
            # A run was stopped before it had written the table: which of its rows are to be changed is not known.
            self._of_everything(self._outputs(partials, self._state()))
            return
        self._change(self._outputs(partials, kept), kept.select(*partials.groups), read=self._changes)

    def _start(self, partials: Partials) -> None:
        """Makes all that is kept from all rows."""
        kept = self._all(partials)
        with self.batch.commit(fenced=False, **self._about(partials)):
            self._write_state(kept)
        fault.point("gold.between_commits")
        self._of_everything(self._outputs(partials, self._state()))

    def _all(self, partials: Partials) -> DataFrame:
        """What there is to keep of all rows."""
        return partials.fresh(partials.of_rows(self.batch.pinned_source().withColumn(SIGN, F.lit(1))))

    def _kept(self, partials: Partials, change: DataFrame) -> DataFrame:
        """What is to be kept of the groups that changed, and whether anything was."""
        held = same_groups(self._state(), self._sent(change), partials.groups)
        now = cut(partials.merged(change, held), few=self._few)
        if not partials.kept:
            return now
        lost = now.where("_lost")
        if lost.isEmpty():
            return now
        again = partials.fresh(partials.of_groups(self.batch.pinned_source(), self._sent(lost)))
        known = now.where("NOT _lost").drop("_lost")
        return cut(known.unionByName(partials.renewed(lost, again)), few=self._few)

    def _keep(self, partials: Partials, kept: DataFrame) -> None:
        """Writes what is to be kept: few groups all at once, which is done sooner than a MERGE."""
        columns = [*partials.groups, "_sums", *[f"_held_{call.number}" for call in partials.kept]]
        with self.batch.commit(**self._about(partials)):
            if lake.rows(lake.delta_table(self._state_uri)) <= FEW:
                others = same_groups(self._state(), self._sent(kept), partials.groups, how="left_anti")
                now = kept.where("cardinality(_sums) > 0").select(*columns)
                self._write_state(others.select(*columns).unionByName(now).coalesce(1))
                return
            op = F.expr(
                "CASE WHEN cardinality(_sums) > 0 AND _was THEN 'update' WHEN cardinality(_sums) > 0 THEN 'insert' "
                "WHEN _was THEN 'delete' END"
            )
            changes = kept.withColumn(OP, op).where(f"{OP} IS NOT NULL").select(*columns, OP)
            merge_by(self._state_uri, changes, partials.groups, few=self._few)

    def _write_state(self, rows: DataFrame) -> None:
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.option("delta.enableChangeDataFeed", "false").save(self._state_uri)

    # --- what is kept ------------------------------------------------------------------------------------------------

    @property
    def _state_uri(self) -> str:
        return self.at.groups(self.name)

    def _state(self) -> DataFrame:
        return self.batch.session.read.format("delta").load(self._state_uri)

    @cached_property
    def _past(self) -> marks.Lineage | None:
        state = lake.delta_table(self._state_uri)
        return marks.lineage(state) if state is not None else None

    def _for_what(self, partials: Partials) -> dict[str, Any]:
        """What must be the same for what is kept to be of use."""
        types = {name: kind.simpleString() for name, kind in partials.types.items()}
        return {"layout": LAYOUT, "source": self.batch.progress.app_id, "types": types}

    def _about(self, partials: Partials) -> dict[str, Any]:
        """What a commit of what is kept says: its own past is another than the table's."""
        state = lake.delta_table(self._state_uri)
        return {
            **self._for_what(partials),
            "seen": state.version() if state is not None else -1,
            "restores": self._past.facts() if self._past is not None else [],
        }

    def _reached(self, partials: Partials) -> int | None:
        """Version of the source that what is kept speaks of; None if it is of no use for this batch."""
        past, now = self._past, self.batch.progress
        if past is None or past.news or past.ours is None or past.ours.ours is None:
            return None
        said = past.ours.ours
        asked = {"fingerprint": self.batch.flow.fingerprint, **self._for_what(partials)}
        fits = now.since <= int(said["until"]) <= now.until
        return int(said["until"]) if fits and all(said.get(fact) == is_ for fact, is_ in asked.items()) else None

    # --- rows --------------------------------------------------------------------------------------------------------

    @cached_property
    def _all_rows(self) -> int:
        return lake.rows(lake.delta_table(self.batch.flow.source, self.batch.progress.until))

    @cached_property
    def _changes(self) -> int:
        """Rows that came, went or were changed (two each) since the last batch; of a small table as its log has it."""
        return self.batch.read if self._small else self.batch.rows.count()

    @property
    def _few(self) -> bool:
        return self._small or self._changes <= FEW

    @cached_property
    def _small(self) -> bool:
        """Whether to read everything costs less than to keep something, if it has not to be kept."""
        return self._all_rows <= SMALL and self.table.refresh != "incremental"

    @property
    def _cheaper_whole(self) -> bool:
        """Whether so much changed that it is cheaper to read everything."""
        return self._small or (not self._few and self._changes > MUCH * self._all_rows)

    def _sent(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self._few else frame

    def _outputs(self, partials: Partials, kept: DataFrame) -> DataFrame:
        partials.values(kept).createOrReplaceTempView("_sluicegate_values")
        return self.batch.session.sql(outputs_sql(partials.grouped, "_sluicegate_values"))

    def _query(self, source: DataFrame) -> DataFrame:
        """The user's own query, over some rows of the table that it follows."""
        views = {}
        for other in self.table.query.tables:
            views[other] = f"_sluicegate_{self.name}_{other}"
            (source if other == self.source else self.batch.pinned(other)).createOrReplaceTempView(views[other])
        return self.batch.session.sql(self.table.query.with_views(views))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _of_everything(self, rows: DataFrame) -> None:
        """Writes all rows that the table should have: those that are other, if it can be told which these are."""
        if self.batch.whole or not self.grouped.located:
            self._replace(rows, read=self._all_rows)
        else:
            self._change(rows, None, read=self._changes)

    def _replace(self, rows: DataFrame, read: int) -> None:
        fault.point("gold.before_commit")
        with self.batch.commit(read=read, strategy=self.upkeep.way, because=self.upkeep.why, all=True):
            rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self.batch.flow.target)
        fault.point("gold.after_commit")
        self.batch.report.read = read

    def _change(self, rows: DataFrame, touched: DataFrame | None, read: int) -> None:
        """Changes the rows of some groups, or of all, to what they are now."""
        held = target = self.batch.session.read.format("delta").load(self.batch.flow.target)
        if touched is not None:
            groups = [f"_group_{number}" for number in sorted(self.grouped.keys)]
            held = same_groups(target, self._sent(touched), groups, self.keys)
        changes = cut(difference(rows, held, self.keys), few=self._few)
        counts = {kind: count for kind, count in changes.groupBy(OP).count().collect()}
        fault.point("gold.before_commit")
        facts: dict[str, Any] = {
            "strategy": self.upkeep.way,
            "because": self.upkeep.why,
            "changed": counts,
            "all": touched is None,
        }
        with self.batch.commit(read=read, **facts):
            if counts:
                merge_by(self.batch.flow.target, changes, self.keys, few=self._few)
            else:
                target.limit(0).write.format("delta").mode("append").save(self.batch.flow.target)
        fault.point("gold.after_commit")
        report = self.batch.report
        report.read, report.inserted = read, counts.get("insert", 0)
        report.updated, report.deleted = counts.get("update", 0), counts.get("delete", 0)


def _signed(changes: DataFrame) -> DataFrame:
    """Rows of a change feed with ``SIGN``: what a row was before goes, what it is now comes."""
    goes = F.col("_change_type").isin("delete", "update_preimage")
    return changes.withColumn(SIGN, F.when(goes, -1).otherwise(1)).drop(*lake.CHANGE_COLUMNS, *ENGINE_COLUMNS)


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def _deterministic(frame: DataFrame) -> bool:
    """Whether Spark, which has read the query as well, says the same of its functions."""
    plan = frame._jdf.queryExecution().analyzed()
    return bool(plan.deterministic())

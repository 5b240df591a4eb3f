"""Silver: typed rows, joined, judged by rules, one for each key. Every record of the source ends in one place.

A batch makes up to three commits: quarantine, set-aside, and last the table itself, whose mark closes the batch. A
kill between them leaves rows in the first two that no closed batch vouches for; they carry the mark of their batch in
``_mark``, and the next run replaces them in the commit in which it writes its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable as SparkDeltaTable
from pyspark.sql import functions as F

from sluicegate import fault, lake
from sluicegate.changes import REPLACED, SEQUENCE, Keyed
from sluicegate.errors import AccountingError, ExpectationFailed, FanOut, Where
from sluicegate.expectations import BROKEN, FATE, Rules
from sluicegate.flow import Batch
from sluicegate.schema import PROVENANCE, data_columns
from sluicegate.session import configured

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from sluicegate.definition import SilverTable

IDENTITY = ("_chunk", "_pos")
RECORD = "_record"

# The file that a record came in, under a name that no query's own column has.
SOURCE = "_source_file"


def apply(batch: Batch, name: str, table: SilverTable, at: lake.Lake) -> None:
    """Judges the batch's records and writes each to the place where it belongs.

    Raises:
        ExpectationFailed: rows break an ``expect_or_fail``; nothing is written.
        FanOut: the query makes several rows of one record; nothing is written.
        AccountingError: records are missing from what the query gave; nothing is written.
    """
    work = _Work(batch, name, table, at)
    rows = work.judged().persist()
    try:
        work.count(rows)
        work.write(rows)
    finally:
        rows.unpersist()


# With ANSI rules one word in a column that is compared with a number would stop the table for good; so an expression
# gives NULL for a value that does not fit, and NULL breaks a rule.
LENIENT = {"spark.sql.ansi.enabled": "false"}


@dataclass
class _Work:
    batch: Batch
    name: str
    table: SilverTable
    at: lake.Lake

    def __post_init__(self) -> None:
        changes = self.table.apply_changes
        self.keys = tuple(changes.keys if changes else self.table.keys)
        self.sequence_by = changes.sequence_by if changes else self.table.sequence_by
        self.keyed = Keyed(self.keys, self.sequence_by is not None)
        self.target = lake.delta_table(self.batch.flow.target)

    # --- from records to judged rows ---------------------------------------------------------------------------------

    def judged(self) -> DataFrame:
        """The rows that the records give, each with its identity and its fate."""
        frame = self._transformed()
        query = self.table.query
        casts = {f"_cast_{n}": text for n, text in enumerate(query.casts)} if query else {}
        self.outputs = [c for c in frame.columns if c not in {*IDENTITY, RECORD, SEQUENCE, *casts}]
        if self.sequence_by:
            own = self.sequence_by in self.outputs
            frame = frame.withColumn(
                SEQUENCE, F.col(f"`{self.sequence_by}`" if own else f"{RECORD}.{self.sequence_by}")
            )
        required = [*self.keys, *filter(None, [self.table.event_time]), *([SEQUENCE] if self.sequence_by else [])]
        self.rules = Rules(self.table, casts, required)
        with configured(self.batch.session, LENIENT):
            frame = self.rules.judge(frame)
        kept = [column for column in (*self.outputs, *IDENTITY, SEQUENCE, BROKEN, FATE) if column in frame.columns]
        frame = frame.select(*[f"`{column}`" for column in kept], *self._provenance(frame))
        return self.keyed.settle(frame, self._held())

    def _transformed(self) -> DataFrame:
        """The user's query over the batch, with identity, the record itself, and a flag for each failed cast."""
        batch, query = self.batch, self.table.query
        source = batch.rows.withColumn(RECORD, F.struct(*[f"`{column}`" for column in batch.rows.columns]))
        if query is None:
            return source.select(*[f"`{c}`" for c in data_columns(batch.rows.columns)], *IDENTITY, RECORD)
        views = {}
        for table in query.tables:
            views[table] = f"_sluicegate_{self.name}_{table}"
            (source if table == query.stream else batch.pinned(table)).createOrReplaceTempView(views[table])
        return batch.session.sql(query.with_identity(views, (*IDENTITY, RECORD)))

    def _provenance(self, frame: DataFrame) -> list[Any]:
        """Where a record came from; the record as text only where it goes to quarantine, since texts are large."""
        record = frame.schema[RECORD].dataType
        has = set(record.names) if hasattr(record, "names") else set()
        stamps = [f"{RECORD}.{column}" for column in ("_file_modification_time", "source_file") if column in has]
        nothing = F.lit(None).cast("string")
        return [
            F.struct(*stamps).alias("_arrived") if stamps else nothing.alias("_arrived"),
            F.col(f"{RECORD}.source_file").alias(SOURCE) if "source_file" in has else nothing.alias(SOURCE),
            F.when(F.col(FATE) == "quarantine", F.to_json(self._as_it_came(has))).alias(RECORD),
        ]

    @staticmethod
    def _as_it_came(has: set[str]) -> Any:
        ours = {*PROVENANCE} - {"_rescued_data", "_corrupt_record"}
        return F.struct(*[F.col(f"{RECORD}.`{column}`") for column in sorted(has - ours)])

    def _held(self) -> DataFrame | None:
        if not self.keys or self.batch.whole or lake.rows(self.target) == 0:
            return None
        return self._read(self.batch.flow.target)

    def _read(self, uri: str) -> DataFrame:
        return self.batch.session.read.format("delta").load(uri)

    # --- the accounts ------------------------------------------------------------------------------------------------

    def count(self, rows: DataFrame) -> None:
        """Counts what goes where, in one pass, and refuses a batch that does not add up.

        The records read are counted by the source's log, those accounted for by their identity in ``rows``.
        """
        exact = self.table.query is None or self.table.query.keeps_every_record
        sums = {fate: f"count_if({FATE} = '{fate}')" for fate in ("good", "quarantine", "drop", "duplicate")}
        sums["rows"] = "count(1)"
        sums["records"] = "count(1)" if exact else f"count(DISTINCT {', '.join(IDENTITY)})"
        sums["replaced"] = f"count_if({FATE} = 'good' AND {REPLACED[0]} IS NOT NULL)"
        broken = self.rules.counts()
        shown = ", ".join(f"`{column}`" for column in (*self.outputs, SOURCE, BROKEN))
        sample = f"any_value(struct({shown})) FILTER (WHERE {FATE} = 'quarantine')"
        counts = rows.selectExpr(*sums.values(), *broken.values(), sample).collect()[0]
        self.sums = dict(zip(sums, counts, strict=False))
        failed = dict(zip(broken, counts[len(sums) : -1], strict=True))
        self._demand_sums(rows)
        self._demand_rules(failed)
        report = self.batch.report
        report.read, report.written = self.batch.read, self.sums["good"]
        report.quarantined, report.duplicates = self.sums["quarantine"], self.sums["duplicate"]
        report.dropped = self.sums["drop"] + self._filtered
        report.expectations = self.rules.tally(failed, self.sums["rows"])
        report.samples = [self._sample(counts[-1])] if counts[-1] is not None else []

    @property
    def _filtered(self) -> int:
        """Records that the query itself left out, by a WHERE or an inner join."""
        return self.batch.read - int(self.sums["records"])

    def _demand_sums(self, rows: DataFrame) -> None:
        exact = self.table.query is None or self.table.query.keeps_every_record
        read, made, records = self.batch.read, self.sums["rows"], self.sums["records"]
        if made > (read if exact else records):
            example = rows.groupBy(*IDENTITY).count().where("count > 1").limit(1).collect()[0]
            raise FanOut(
                f"the query of {self.name} makes {made:,} rows of {records if not exact else read:,} records",
                where=Where(table=self.name, file=self.table.sql_file),
                cause=f"record {example['_chunk']}/{example['_pos']} gave {example['count']} rows",
                hint="a lookup that is joined must have one row for each key: give it `keys`, or use apply_changes",
            )
        if records > read or (exact and records != read):
            raise AccountingError(
                f"{self.name} read {read:,} records but accounts for {records:,}",
                where=Where(table=self.name),
                hint="please report this: nothing was written, so nothing is lost",
            )

    def _demand_rules(self, failed: dict[str, int]) -> None:
        fatal = self.rules.fatal(failed)
        if fatal:
            counts = ", ".join(f"{name} ({failed[name]:,} rows)" for name in fatal)
            raise ExpectationFailed(
                f"the data of {self.name} broke {counts}",
                where=Where(table=self.name),
                cause="; ".join(self.rules.conditions[name] for name in fatal),
                hint="nothing of this batch was written to the table; correct the source or the rule, and run again",
            )

    # --- the three commits -------------------------------------------------------------------------------------------

    def write(self, rows: DataFrame) -> None:
        """Writes quarantine, set-aside and the table, in this order."""
        fault.point("silver.before_commit")
        report, sums = self.batch.report, self.sums
        self._write_beside(self.at.quarantine(self.name), self._quarantine(rows), sums["quarantine"])
        aside = sums["duplicate"] + sums["drop"] + sums["replaced"] + self._filtered
        self._write_beside(self.at.set_aside(self.name), self._set_aside(rows), aside)
        fault.point("silver.between_commits")
        dispositions = {
            k: getattr(report, k) for k in ("read", "written", "quarantined", "dropped", "duplicates", "expectations")
        }
        with self.batch.commit(**dispositions):
            self._write_table(rows.where(f"{FATE} = 'good'"))
        fault.point("silver.after_commit")

    def _write_table(self, good: DataFrame) -> None:
        sequence = [SEQUENCE] if self.sequence_by else []
        good = good.select(*[f"`{column}`" for column in self.outputs], *sequence, *IDENTITY)
        uri = self.batch.flow.target
        if self.batch.whole:
            good.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(uri)
        elif self.sequence_by and self.target is not None:
            same = " AND ".join(f"held.`{key}` = new.`{key}`" for key in self.keys)
            merge = SparkDeltaTable.forPath(self.batch.session, uri).alias("held").merge(good.alias("new"), same)
            merge.withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        else:  # winners' keys are known not to be in the table: nothing to match
            good.write.format("delta").mode("append").option("mergeSchema", "true").save(uri)

    def _write_beside(self, uri: str, frame: DataFrame, count: int) -> None:
        """Writes one of the two tables beside, in the same commit taking away what an unclosed batch left there."""
        table = lake.delta_table(uri)
        since = self.batch.progress.since
        reached = lake.mark(table, self.batch.progress.app_id)
        # What stands beside a table that starts anew is of a former one.
        anew = table is not None and (self.batch.whole or since < 0)
        leftovers = table is not None and reached is not None and reached > since
        if not (count or anew or leftovers):
            return
        writer = frame.withColumn("_mark", F.lit(self.batch.progress.until).cast("bigint")).write.format("delta")
        if anew:
            writer = writer.mode("overwrite").option("overwriteSchema", "true")
        elif leftovers:
            writer = writer.mode("overwrite").option("replaceWhere", f"_mark > {since}").option("mergeSchema", "true")
        else:
            writer = writer.mode("append").option("mergeSchema", "true")
        # A replacement must happen although this mark may have been set before the kill, with other rows.
        with self.batch.commit(fenced=not (anew or leftovers)):
            writer.save(uri)

    def _quarantine(self, rows: DataFrame) -> DataFrame:
        return rows.where(f"{FATE} = 'quarantine'").select(
            *[f"`{column}`" for column in self.outputs],
            *IDENTITY,
            F.col(BROKEN).alias("_failed_expectations"),
            RECORD,
            *([] if "source_file" in self.outputs else [F.col(SOURCE).alias("source_file")]),
            F.current_timestamp().alias("_quarantined_at"),
        )

    def _set_aside(self, rows: DataFrame) -> DataFrame:
        """Identities of the records that are in neither table, with the reason and a hash of their key."""
        lost = F.lit("superseded" if self.sequence_by else "duplicate")
        beaten = rows.where(f"{FATE} IN ('duplicate', 'drop')")
        parts = [self._aside(beaten, F.when(F.col(FATE) == "drop", "dropped").otherwise(lost))]
        if self.sequence_by:
            replaced = rows.where(f"{FATE} = 'good' AND {REPLACED[0]} IS NOT NULL")
            parts.append(self._aside(replaced, lost, identity=REPLACED))
        if self._filtered:
            nothing = {BROKEN: F.expr("cast(array() as array<string>)"), **{key: F.lit(None) for key in self.keys}}
            left_out = self.batch.rows.select(*IDENTITY).join(rows, [*IDENTITY], "left_anti").withColumns(nothing)
            parts.append(self._aside(left_out, F.lit("filtered")))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _aside(self, rows: DataFrame, reason: Column, identity: tuple[str, str] = IDENTITY) -> DataFrame:
        key = F.xxhash64(*[F.col(f"`{key}`") for key in self.keys]) if self.keys else F.lit(None).cast("bigint")
        return rows.select(
            F.col(identity[0]).alias(IDENTITY[0]),
            F.col(identity[1]).alias(IDENTITY[1]),
            reason.alias("reason"),
            F.col(BROKEN).alias("rules"),
            key.alias("_key"),
        )

    def _sample(self, row: Row) -> dict[str, Any]:
        """A quarantined row for the report: only the columns that its broken rules speak of, personal ones masked."""
        spoken = " ".join(self.rules.conditions[rule] for rule in row[BROKEN])
        shown = {c: ("***" if c in self.table.pii else row[c]) for c in self.outputs if c in spoken}
        return {"row": shown, "file": row[SOURCE], "rules": list(row[BROKEN])}

"""Evaluation of records: the user's transform, the expectations, and the provenance of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate.definition.apply_changes import END_AT, START_AT
from sluicegate.errors import QueryError, UserError, Where
from sluicegate.frames import python_function
from sluicegate.frames.rejected import BROKEN
from sluicegate.frames.row_rules import LENIENT
from sluicegate.lake import log
from sluicegate.lake import tables as lake_tables
from sluicegate.schema.columns import IDENTITY, PROVENANCE, RECORD, ROW, data_columns
from sluicegate.schema.values import MICROSECONDS
from sluicegate.silver import many_rows
from sluicegate.silver.declared_columns import cast_to_declared
from sluicegate.silver.deduplicate import SEQUENCE, Keyed, arrival
from sluicegate.silver.expectations import DISPOSITION, Rules, unique
from sluicegate.silver.scd import DELETES, History
from sluicegate.spark import connect, table_reader
from sluicegate.spark.session import configured
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame

    from sluicegate.definition import SilverTable
    from sluicegate.definition.python_function import PythonTransform
    from sluicegate.flow.batch import Batch


# The file that a record came in, and its place in the order of arrival, under names that no query's own column has.
SOURCE, ARRIVED = "_source_file", "_arrived"


@dataclass
class RowEvaluator:
    """Evaluator of records by today's definition.

    Attributes:
        batch: the batch, for its session and its pinned lookups.
        name: the silver table.
        table: its definition.
        outputs: the columns that the transform makes; filled in by ``rows``.
        rules: all expectations of the table; filled in by ``rows``.
        many: whether a record may give many rows.
        record_id: columns by which a record is known. A record that is a row of a table with ``rows: many`` has its
            number there.
        row_id: columns by which a row is known: those of its record, and where that gives many its number in it.
    """

    batch: Batch
    name: str
    table: SilverTable
    outputs: list[str] = field(init=False)
    rules: Rules = field(init=False)

    def __post_init__(self) -> None:
        self._casts: dict[str, str] = {}
        changes = self.table.changes
        self.keys = tuple(changes.keys if changes else self.table.keys)
        self.sequence_by = changes.sequence_by if changes else self.table.sequence_by
        self.unique = unique(self.table)
        self.many = self.table.many
        of_many = self.batch.progress.of_many
        if of_many and self.many:
            raise UserError(
                f"a record of {self.table.stream} gives many rows, and {self.name} reads them one by one",
                where=Where(table=self.name),
                hint=f"run {self.table.stream} first: by its definition it gives one row of a record",
            )
        self.record_id = (*IDENTITY, ROW) if of_many else IDENTITY
        self.row_id = (*self.record_id, ROW) if self.many else self.record_id
        order = arrival(self.row_id)
        self.history = History.of(changes, order) if changes and not changes.latest_only else None

    @cached_property
    def target(self) -> DeltaTable | None:
        """The table as the batch finds it; None before the first."""
        return lake_tables.delta_table(self.batch.flow.target)

    @property
    def held_columns(self) -> list[str]:
        """The columns that the table has now."""
        return [field.name for field in self.target.schema().fields] if self.target is not None else []

    def there(self, uri: str) -> list[DataFrame]:
        """Rows of a lake table as it is now, in a list of one; empty if there is no table or it has no rows."""
        table = lake_tables.delta_table(uri)
        return [table_reader.read(self.batch.session, uri, opened=table)] if lake_tables.rows(table) else []

    @cached_property
    def of_others(self) -> bool:
        """Whether rows of the table may have been made by another definition than today's."""
        last = log.last_commit_of_ours(self.target)
        ours = (last.ours if last is not None else None) or {}
        return bool(ours.get("mixed")) or ours.get("definition", self.table.fingerprint) != self.table.fingerprint

    @cached_property
    def made_by(self) -> dict[str, Any]:
        """Commit metadata about the definition: its fingerprint, and whether rows of another one are left."""
        choice = self.batch.choice
        renewed = self.batch.whole or (choice is not None and choice.everything)
        return {"definition": self.table.fingerprint, "mixed": self.of_others and not renewed}

    def rows(self, records: DataFrame) -> DataFrame:
        """Evaluated rows of records, each with its identity, disposition and provenance."""
        frame = self.transformed(records)
        required = [*self.keys, *filter(None, [self.table.event_time]), *([SEQUENCE] if self.sequence_by else [])]
        self.rules = Rules(self.table, self._casts, required)
        with configured(self.batch.session, LENIENT):
            frame = self.rules.evaluate(frame)
            if self.table.apply_changes and self.table.apply_changes.deletes:
                frame = frame.withColumn(DELETES, F.expr(self.table.apply_changes.deletes))
            frame = connect.frozen(frame)
        ours = (*self.record_id, SEQUENCE, DELETES, BROKEN, DISPOSITION)
        columns = [column for column in (*self.outputs, *ours) if column in frame.columns]
        rows = frame.select(*[quoted(column) for column in columns], *self._provenance(frame))
        if not self.many:
            return rows
        # Only now, as the record is with few rows here, and numbering may send all of them over the network.
        rows = many_rows.numbered(rows, self.outputs)
        return many_rows.whole_records(rows) if self.table.quarantine == "record" else rows

    def settled(self, rows: DataFrame, held: DataFrame | None) -> DataFrame:
        """Rows with their final disposition: one of each key stays, or each that begins a version.

        Args:
            rows: evaluated rows; for a history all of their keys.
            held: stored rows, which arrived before, if any; not for a history, and not with expectations ``unique``:
                then ``rows`` are all that share a key or unique values with one of them.
        """
        if self.history is not None:
            return self.history.settle(rows, self._selected)
        settled = Keyed(self.keys, self.sequence_by is not None, self.row_id).settle(rows, held)
        return self.rules.evaluate_unique(settled, arrival(self.row_id)) if self.unique else settled

    @property
    def _selected(self) -> list[str]:
        return self.table.changes.selected(self.outputs) if self.table.changes else self.outputs

    @property
    def columns(self) -> list[str]:
        """The columns of the table itself; its quarantine has ``outputs``."""
        versions = self.history is not None and self.history.scd_type == 2
        return [*self._selected, *([START_AT, END_AT] if versions else [])]

    def transformed(self, records: DataFrame) -> DataFrame:
        """Result of the transform, with identity, the record itself, and a flag for each failed cast."""
        if self.table.transform is not None:
            frame = self._called(records, self.table.transform)
        else:
            frame = self._queried(_with_record(records))
        frame = self._declared(frame)
        self.outputs = [c for c in frame.columns if c not in {*IDENTITY, ROW, RECORD, SEQUENCE, *self._casts}]
        for column in self.outputs:
            if "`" in column:  # the first rows would be written, and the first MERGE would fail
                raise QueryError(
                    f"the query of {self.name} makes a column {column}: Delta cannot change a table with ` in a name",
                    where=Where(table=self.name, file=self.table.sql_file),
                    hint="give it another name with AS",
                )
        if not self.sequence_by:
            return frame
        own, column = self.sequence_by in self.outputs, quoted(self.sequence_by)
        return frame.withColumn(SEQUENCE, F.col(column if own else f"{RECORD}.{column}"))

    def _called(self, records: DataFrame, transform: PythonTransform) -> DataFrame:
        """Result of the user's function over records."""
        tables = {name: self.batch.pinned(name) for name in self.table.lookups}
        function, private = python_function.loaded(transform), self.batch.flow.private
        made = python_function.run(function, records, tables, self.name, identity=self.record_id, private=private)
        return made.join(_with_record(records).select(*self.record_id, RECORD), [*self.record_id])

    def _declared(self, frame: DataFrame) -> DataFrame:
        """Casts rows to the declared columns, each with a flag for values that do not fit it."""
        self._casts = {f"_cast_{n}": text for n, text in enumerate(self.table.query.casts if self.table.query else [])}
        evolution = self.table.schemaEvolutionMode
        if self.table.declared is None and evolution == "addNewColumns":
            return frame
        known = None if self.target is None else [n for n in self.held_columns if n not in (*IDENTITY, ROW, SEQUENCE)]
        frame, flags = cast_to_declared(frame, self.table.declared, known, evolution, self.name)
        self._casts |= flags
        return frame

    def _queried(self, records: DataFrame) -> DataFrame:
        query = self.table.query
        if query is None:
            columns = [column for column in records.columns if column != RECORD]
            return records.select(*[quoted(c) for c in data_columns(columns)], *self.record_id, RECORD)
        views = {}
        for table in query.tables:
            views[table] = f"_sluicegate_{self.name}_{table}"
            (records if table == query.stream else self.batch.pinned(table)).createOrReplaceTempView(views[table])
        text = query.with_identity(views, (*self.record_id, RECORD), many=self.many)
        return connect.frozen(self.batch.session.sql(text))

    def _provenance(self, frame: DataFrame) -> list[Any]:
        """Provenance of a record; its text only where it may go to quarantine, since texts are large."""
        record = frame.schema[RECORD].dataType
        has = set(record.names) if hasattr(record, "names") else set()
        stamps = [f"{RECORD}.{column}" for column in ("_file_modification_time", "source_file") if column in has]
        nothing = F.lit(None).cast("string")
        dispositions = [
            "quarantine",
            *(["good"] if self.unique else []),
        ]  # a good row may turn out to repeat a unique value
        return [
            F.struct(*stamps).alias(ARRIVED) if stamps else nothing.alias(ARRIVED),
            F.col(f"{RECORD}.source_file").alias(SOURCE) if "source_file" in has else nothing.alias(SOURCE),
            F.when(F.col(DISPOSITION).isin(*dispositions), F.to_json(_as_it_came(has), MICROSECONDS)).alias(RECORD),
        ]

    @property
    def key(self) -> Column:
        """A hash of a row's key; NULL for a table without keys."""
        return _hash(self.keys) if self.keys else F.lit(None).cast("bigint")

    @property
    def bonds(self) -> Column:
        """Uniqueness hashes, one row for each: of the key, and of the columns of each expectation ``unique``."""
        others = [
            F.when(~reduce(or_, [F.col(quoted(c)).isNull() for c in columns]), F.xxhash64(F.lit(name), _hash(columns)))
            for name, columns in self.unique.items()
        ]
        return F.explode(F.array_compact(F.array(*([self.key] if self.keys else []), *others)))

    @property
    def bound(self) -> set[str]:
        """Columns of the uniqueness hashes."""
        return {*self.keys, *(column for columns in self.unique.values() for column in columns)}

    @property
    def bound_time(self) -> str | None:
        """The event time, if it is among the columns of each uniqueness hash: rows that share one then share it."""
        time, sets = self.table.event_time, [*([self.keys] if self.keys else []), *self.unique.values()]
        return time if time is not None and sets and all(time in columns for columns in sets) else None


def _hash(columns: Sequence[str]) -> Column:
    return F.xxhash64(*[F.col(quoted(column)) for column in columns])


def _with_record(records: DataFrame) -> DataFrame:
    return records.withColumn(RECORD, F.struct(*[quoted(column) for column in records.columns]))


def _as_it_came(has: set[str]) -> Column:
    ours = {*PROVENANCE, ROW} - {"_rescued_data", "_corrupt_record"}
    return F.struct(*[F.col(f"{RECORD}.{quoted(column)}") for column in sorted(has - ours)])

"""Slowly changing dimensions: turn a key's records, in order, into its row or its versions.

The meaning is that of AUTO CDC: https://docs.databricks.com/aws/en/ldp/cdc,
https://docs.databricks.com/aws/en/ldp/developer/ldp-python-ref-apply-changes and, for snapshots,
https://docs.databricks.com/aws/en/ldp/developer/ldp-python-ref-apply-changes-from-snapshot. Those pages do not say what
comes of a record that changes nothing that is tracked. Apache Spark's own AUTO CDC, which the same people write, does
(https://github.com/apache/spark/pull/57192, ``Scd2BatchProcessor``): successive records that agree, null-safely, in all
tracked columns are one version. It begins with the first of them and shows the last one's values of the other columns;
tracked is, unless something else is said, every column that is no key. So it is here.

The result for equal sequences is not defined there. Here the record that arrived last counts, so that the result is a
function of the records; with ``ignore_null_updates``, earlier ones still fill what it leaves NULL.

A version keeps the identity of the record that began it, so that records without changes change no row of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from sluicegate.definition.tables.apply_changes import END_AT, START_AT, ApplyChanges, ApplyChangesFromSnapshot
from sluicegate.errors import ChangesError
from sluicegate.frames.difference.value_equality import group_form
from sluicegate.schema.columns import DELETES, SEQUENCE, working_column
from sluicegate.silver.expectations import DISPOSITION, Disposition
from sluicegate.silver.keys.deduplicate import ARRIVAL
from sluicegate.spark_sql.identifiers import quote_name

# Working columns, dropped at the end: what is known of a record by itself and by the next one,
_APART, _DELETE = working_column("scd_apart"), working_column("scd_delete")
_AT, _GONE_AT, _NEXT = working_column("scd_at"), working_column("scd_gone_at"), working_column("scd_next")
# its values, what is compared of it, and its place in the run of records that are one version.
_EPOCH, _VALUES = working_column("scd_epoch"), working_column("scd_values")
_STATE, _BEGINS = working_column("scd_state"), working_column("scd_begins")
_BOUNDARY, _RUN = working_column("scd_boundary"), working_column("scd_run")
_NEWEST, _END = working_column("scd_newest"), working_column("scd_end")


@dataclass(frozen=True)
class History:
    """Way in which a key's records become its row (type 1) or its versions (type 2).

    Attributes:
        keys: the key columns.
        sequence_by: the column behind ``_sequence``.
        scd_type: 1 or 2.
        track: columns whose changes begin a version; None for all except ``track_except``.
        track_except: columns whose changes do not begin a version.
        ignore_null_updates: whether NULL in a record keeps the former value.
        snapshots: whether the records of one sequence are a complete snapshot.
        arrival: the columns of the order of arrival.
    """

    keys: tuple[str, ...]
    sequence_by: str
    scd_type: int = 1
    track: tuple[str, ...] | None = None
    track_except: tuple[str, ...] = ()
    ignore_null_updates: bool = False
    snapshots: bool = False
    arrival: tuple[str, ...] = ARRIVAL

    @classmethod
    def from_definition(cls, changes: ApplyChanges | ApplyChangesFromSnapshot, order: tuple[str, ...]) -> History:
        """Build the history for ``apply_changes`` or ``apply_changes_from_snapshot`` of a definition.

        Args:
            changes: ``apply_changes`` of the definition.
            order: the columns of the order of arrival.
        """
        tracked = changes.track_history_column_list
        return cls(
            keys=tuple(changes.keys), sequence_by=changes.sequence_by, scd_type=changes.stored_as_scd_type,
            track=None if tracked is None else tuple(tracked),
            track_except=tuple(changes.track_history_except_column_list or ()),
            ignore_null_updates=isinstance(changes, ApplyChanges) and changes.ignore_null_updates,
            snapshots=isinstance(changes, ApplyChangesFromSnapshot), arrival=order,
        )  # fmt: skip

    def settle(self, evaluated: DataFrame, outputs: Sequence[str]) -> DataFrame:
        """Decide the disposition of each record. Costs one shuffle by the keys, however many the expectations.

        With snapshots ``evaluated`` is read once more, for the list of their sequences: persist what is costly.

        Args:
            evaluated: *all* records of the keys in it, and for snapshots all records of all snapshots: ``outputs``,
                ``_sequence`` (of any type that has an order, not NULL where the record is good), the columns of
                ``arrival``, which together name a record, ``DISPOSITION`` and, if there are deletes, ``DELETES``.
            outputs: the columns of the table, without ``__START_AT`` and ``__END_AT``.

        Returns:
            The same rows with the same columns and, for type 2, ``__START_AT`` and ``__END_AT`` behind them. Of good
            records ``DISPOSITION`` becomes ``good`` (a row of the table, whose ``outputs`` are as they should be
            there), ``deleted`` (the record is a delete) or ``duplicate`` (superseded, or it changed nothing). Other
            records stay as they are.

        Raises:
            ChangesError: a tracked column is not in ``outputs``, or the records have a column ``__START_AT``.
        """
        values = self._value_columns(evaluated, outputs)
        frame = self._prepare(evaluated, values)
        settled = self._decide_rows(frame, values)
        good = F.col(DISPOSITION) == Disposition.WRITTEN
        values_by_name = {
            name: F.when(good, F.col(_VALUES)[name]).otherwise(_column(name)).alias(name) for name in values
        }
        columns = [values_by_name.get(name, _column(name)) for name in evaluated.columns]
        if self.scd_type == 2:
            columns += [F.when(good, F.col(SEQUENCE)).alias(START_AT), F.when(good, F.col(_END)).alias(END_AT)]
        return settled.select(*columns)

    def _decide_rows(self, frame: DataFrame, values: list[str]) -> DataFrame:
        if self.scd_type == 1 and not self.snapshots:
            return frame.withColumn(DISPOSITION, _disposition(F.col(_NEXT).isNull()))
        return self._decide_versions(frame, values)

    # --- the records of a key in their order -------------------------------------------------------------------------

    def _value_columns(self, evaluated: DataFrame, outputs: Sequence[str]) -> list[str]:
        """Return the non-key columns of the table."""
        for name in evaluated.columns if self.scd_type == 2 else ():
            if name.upper() in (START_AT, END_AT):
                message = f"the records have a column {name}, which SCD type 2 generates"
                raise ChangesError(message, hint="exclude it with except_column_list")
        present = _lower_names(outputs)
        for name in (*self.keys, *(self.track or ()), *self.track_except):
            if name.lower() not in present:
                message = f"the records have no column {name}, which apply_changes names"
                raise ChangesError(message, hint=f"columns of the table: {', '.join(outputs)}")
        return [name for name in outputs if name.lower() not in _lower_names(self.keys)]

    def _prepare(self, evaluated: DataFrame, values: list[str]) -> DataFrame:
        good = F.col(DISPOSITION) == Disposition.WRITTEN
        deletes = F.lit(False)
        if DELETES in evaluated.columns:
            deletes = F.coalesce(F.col(DELETES), F.lit(False))
        frame = evaluated.withColumns(
            {
                # Records that take no part are each alone, so that many without a key do not meet in one partition.
                _APART: F.when(~good, F.struct(*map(F.col, self.arrival))),
                _DELETE: good & deletes,
            }
        )
        if self.snapshots:
            frame = self._add_next_snapshot(frame)
        # This comes before the values are put together, so that they are not shuffled twice over.
        frame = frame.withColumn(_NEXT, F.lead(SEQUENCE).over(self._window()))
        versions_of_values = {name: F.when(~F.col(_DELETE), _column(name)) for name in values}
        if self.ignore_null_updates:
            frame = frame.withColumn(_EPOCH, F.sum(F.col(_DELETE).cast("int")).over(_running_window(self._window())))
            since_delete = _running_window(self._window(_EPOCH))
            versions_of_values = {
                name: _last_value(versions_of_values[name], evaluated.schema[name].dataType, since_delete)
                for name in values
            }
        return frame.withColumn(_VALUES, _struct(versions_of_values))

    @staticmethod
    def _add_next_snapshot(frame: DataFrame) -> DataFrame:
        """Add the sequence of the snapshot after each record's, at which a missing key is deleted."""
        all_of_them = frame.where(f"{DISPOSITION} = '{Disposition.WRITTEN}'").select(SEQUENCE).distinct()
        in_order = all_of_them.agg(F.sort_array(F.collect_list(SEQUENCE)).alias("all"))
        pairs = F.transform("all", lambda time, i: F.struct(time.alias(_AT), F.get("all", i + 1).alias(_GONE_AT)))
        each = in_order.select(F.inline(pairs))
        return frame.join(F.broadcast(each), F.col(SEQUENCE) == F.col(_AT), "left")

    def _window(self, *within: str) -> WindowSpec:
        """Return the window over the good records of a key (or a part of them) in their order."""
        parts = [F.col(_APART), *map(_column, self.keys), *map(F.col, within)]
        return Window.partitionBy(*parts).orderBy(SEQUENCE, *self.arrival)

    # --- type 2, and snapshots ---------------------------------------------------------------------------------------

    def _decide_versions(self, frame: DataFrame, values: list[str]) -> DataFrame:
        frame = self._number_runs(self._flag_version_starts(frame, values))
        first = self._first_record_columns(values)
        if self.snapshots or len(first) < len(values):
            whole = self._window(_RUN).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
            newest = F.struct(_VALUES, *([_GONE_AT] if self.snapshots else []))
            newest = F.when(_is_counted() & ~F.col(_DELETE), newest)
            frame = frame.withColumn(_NEWEST, F.last(newest, ignorenulls=True).over(whole))
            shown = {name: (F.col(_VALUES) if name in first else F.col(_NEWEST)[_VALUES])[name] for name in values}
            frame = frame.withColumn(_VALUES, _struct(shown))
        if self.snapshots:  # the next snapshot has no such record, or it would be of this run
            frame = frame.withColumn(_END, F.col(_NEWEST)[_GONE_AT])
        else:
            frame = frame.withColumn(_END, F.lead(SEQUENCE).over(self._window(_BOUNDARY)))
        if self.scd_type == 2:
            is_row = F.col(_BEGINS)
        else:
            is_row = F.col(_BEGINS) & F.col(_END).isNull()
        return frame.withColumn(DISPOSITION, _disposition(is_row))

    def _flag_version_starts(self, frame: DataFrame, values: list[str]) -> DataFrame:
        """Add whether a record begins a version: it counts, and differs from the previous one that counts."""
        types = frame.schema
        tracked = {
            name: group_form(F.col(_VALUES)[name], types[name].dataType) for name in self._tracked_columns(values)
        }
        state = [F.col(_DELETE), _struct(tracked).alias(_VALUES), *([F.col(_GONE_AT)] if self.snapshots else [])]
        frame = frame.withColumn(_STATE, F.when(_is_counted(), F.struct(*state)))
        earlier = self._window().rowsBetween(Window.unboundedPreceding, -1)
        before = F.last(_STATE, ignorenulls=True).over(earlier)
        goes_on = ~before[_DELETE] & before[_VALUES].eqNullSafe(F.col(_STATE)[_VALUES])
        if self.snapshots:
            goes_on &= before[_GONE_AT] == F.col(SEQUENCE)
        return frame.withColumn(_BEGINS, _is_counted() & ~F.col(_DELETE) & ~F.coalesce(goes_on, F.lit(False)))

    def _number_runs(self, frame: DataFrame) -> DataFrame:
        """Number the runs of a key's records: each begins with a version or a delete."""
        frame = frame.withColumn(_BOUNDARY, F.col(_BEGINS) | (_is_counted() & F.col(_DELETE)))
        return frame.withColumn(_RUN, F.sum(F.col(_BOUNDARY).cast("int")).over(_running_window(self._window())))

    def _tracked_columns(self, values: list[str]) -> list[str]:
        """Return the columns whose changes begin a version."""
        if self.track is not None:
            return [name for name in values if name.lower() in _lower_names(self.track)]
        unseen = _lower_names(self.track_except)
        if self.snapshots:  # each snapshot has another sequence: that alone is no change
            unseen.add(self.sequence_by.lower())
        return [name for name in values if name.lower() not in unseen]

    def _first_record_columns(self, values: list[str]) -> set[str]:
        """Return the columns that keep the values of a version's first record.

        With snapshots this is the sequence, which would otherwise change all rows with each snapshot.
        """
        first = _lower_names([*self._tracked_columns(values), *([self.sequence_by] if self.snapshots else [])])
        return {name for name in values if name.lower() in first}


def _is_counted() -> Column:
    """Return whether a record counts: with equal sequences, the last one does."""
    return ~F.col(_NEXT).eqNullSafe(F.col(SEQUENCE))


def _disposition(is_row: Column) -> Column:
    return (
        F.when(F.col(DISPOSITION) != Disposition.WRITTEN, F.col(DISPOSITION))
        .when(F.col(_DELETE), Disposition.DELETED)
        .when(is_row, Disposition.WRITTEN)
        .otherwise(Disposition.DUPLICATE)
    )


def _last_value(value: Column, kind: DataType, window: WindowSpec) -> Column:
    """Return the last non-NULL value; of a struct, field by field."""
    last = F.last(value, ignorenulls=True).over(window)
    if not isinstance(kind, StructType):
        return last
    fields = [_last_value(value.getField(f.name), f.dataType, window).alias(f.name) for f in kind.fields]
    return F.when(last.isNotNull(), F.struct(*fields))


def _running_window(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _struct(columns: dict[str, Column]) -> Column:
    # Never without a field, and never NULL: a table may have no columns but its keys.
    return F.struct(F.lit(True).alias(working_column("scd")), *[column.alias(name) for name, column in columns.items()])


def _column(name: str) -> Column:
    return F.col(quote_name(name))


def _lower_names(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}

"""Maintain aggregate state of a gold table's groups, so that a run need not read their rows again.

``_state/{table}_groups`` has one row for each group: its keys, a map of limbs with the exact counts and sums of all
its aggregate functions (see gold/exact_sum.py), and each ``min`` or ``max`` so far. Counts and sums can be subtracted
from. A deleted extreme cannot be: then the rows of that group alone are read again.

A variance is computed from the exact sums of its terms and of their squares, so it does not depend on the order of the
rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType

from sluicegate.gold import exact_sum
from sluicegate.gold.exact_sum import COUNT, FUNCTIONS, PLACES, Kind, Sum, add_limbs, add_square_limbs, entry, variance
from sluicegate.schema.columns import working_column
from sluicegate.spark import connect
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.refresh.group_by import MOMENTS, SUMS, Call, Grouped
from sluicegate.spark_sql.refresh.joins import ROWS
from sluicegate.spark_sql.types import has_odd_parts

SIGN = "_sluicegate_sign"
"""Weight of a row delta: 1 for an inserted row, -1 for a deleted one."""

LAYOUT = 3
"""Format of the state; stored state of another format is not used."""

_ROWS = f"coalesce(try_element_at(_sums, {COUNT}), 0L)"
_WHOLE_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_PLAIN = (*_WHOLE_NUMBERS, T.FloatType, T.DoubleType, T.DecimalType, T.StringType, T.BooleanType, T.DateType,
          T.TimestampType, T.TimestampNTZType)  # fmt: skip


class NotPartial(Exception):
    """Raised if types, which only Spark knows, rule out incremental refresh; says why."""


@dataclass(frozen=True)
class Partials:
    """Aggregate functions of a query with their state.

    Attributes:
        grouped: the query split into parts.
        types: type of each group's value and of each function's argument, by its column in ``prepare``.
    """

    grouped: Grouped
    types: dict[str, DataType]

    @classmethod
    def from_query(cls, grouped: Grouped, rows: DataFrame) -> Partials:
        """Check the types.

        Args:
            grouped: the query split into parts.
            rows: rows of its table; nothing is read.

        Raises:
            NotPartial: a type of a key or argument cannot have state, or there are too many functions.
        """
        if max(grouped.distinct_calls, default=0) + 1 >= FUNCTIONS:
            raise NotPartial(f"it has {FUNCTIONS:,} aggregate functions or more")
        prepared = _prepare(grouped, rows.withColumn(SIGN, F.lit(1)))
        partials = cls(grouped, {field.name: field.dataType for field in prepared.schema})
        for kind in partials.types.values():
            if not isinstance(kind, _PLAIN):
                raise NotPartial(f"it groups by or aggregates a value of type {kind.simpleString().upper()}")
            if isinstance(kind, T.StringType) and kind.simpleString() != "string":
                raise NotPartial("a group by text with a collation has several spellings")
        for call in partials.calls:
            if call.function in SUMS and partials.kind(call) is None:
                raise NotPartial(f"{call.function} of {partials.types[_argument(call)].simpleString().upper()}")
        return partials

    @cached_property
    def calls(self) -> list[Call]:
        """Distinct aggregate functions."""
        return [self.grouped.distinct_calls[number] for number in sorted(self.grouped.distinct_calls)]

    @property
    def groups(self) -> list[str]:
        """Columns of the group keys."""
        return group_columns(self.grouped)

    @property
    def stored_calls(self) -> list[Call]:
        """Functions whose state exceeds counts and sums."""
        return [call for call in self.calls if call.function in ("min", "max")]

    @property
    def has_rounding(self) -> bool:
        """Whether Spark rounds at each term, so that its result depends on the order of rows.

        It computes averages of decimals with up to 11 digits in doubles, too (its optimizer's ``DecimalAggregates``).
        """
        return any(self.is_rounded(call) for call in self.calls)

    @property
    def rounded_outputs(self) -> set[str]:
        """Outputs that depend on a rounded function; all if the HAVING does, which decides about rows."""
        names = "|".join(call.value for call in self.calls if self.is_rounded(call))
        rounded_value = re.compile(rf"\b({names})\b")
        having = bool(names and rounded_value.search(self.grouped.having))
        return {name for text, name in self.grouped.outputs if names and (having or rounded_value.search(text))}

    def is_rounded(self, call: Call) -> bool:
        """Return whether Spark rounds at each term of a function."""
        if call.function in MOMENTS:
            return True
        if call.function not in SUMS:
            return False
        kind = self.types[_argument(call)]
        short = isinstance(kind, T.DecimalType) and kind.precision <= 11 and call.function == "avg"
        return short or self.kind(call) == "double"

    def kind(self, call: Call) -> Kind | None:
        """Return the number kind in which a sum or average is computed; None if its type has none."""
        type_ = self.types[_argument(call)]
        if isinstance(type_, T.DecimalType):
            return "decimal"
        if isinstance(type_, _WHOLE_NUMBERS) and call.function == "sum":
            return "whole"
        if isinstance(type_, (*_WHOLE_NUMBERS, T.FloatType, T.DoubleType, T.StringType)):
            return "double"
        return None

    # --- from rows to groups -----------------------------------------------------------------------------------------

    def aggregate_deltas(self, rows: DataFrame) -> DataFrame:
        """Return the aggregated row deltas of each group: ``_sums``, and for some functions ``_came_n``, ``_gone_n``.

        Args:
            rows: rows of the table with ``SIGN``.
        """
        return self.aggregate(self.prepare(rows))

    def prepare(self, rows: DataFrame) -> DataFrame:
        """Return the functions' input from each row: group keys, arguments and ``SIGN``."""
        return _prepare(self.grouped, rows)

    def aggregate_groups(self, rows: DataFrame, groups: DataFrame) -> DataFrame:
        """Return the aggregates over all rows of some groups."""
        prepared = _prepare(self.grouped, rows.withColumn(SIGN, F.lit(1)))
        return self.aggregate(select_groups(prepared, groups, self.groups))

    def aggregate(self, prepared: DataFrame) -> DataFrame:
        """Aggregate rows of ``prepared`` by group; see ``aggregate_deltas``."""
        entries = [entry(0, COUNT, SIGN)]
        for call in self.calls:
            if call.arguments or call.function != "count" or call.condition:  # else it is the number of rows
                prepared, entries_of_call = self._entries(prepared, call)
                entries += entries_of_call
        values = [_argument(call) for call in self.stored_calls]
        first = F.col("place") == COUNT  # each row has one such entry
        entries_by_row = prepared.selectExpr(*self.groups, SIGN, *values, f"inline(array({', '.join(entries)}))")
        entries_by_row = entries_by_row.where(first | (F.col("value") != 0))
        extremes = [part for call in self.stored_calls for part in self._extremes(call, first)]
        by_place = entries_by_row.groupBy(*self.groups, "place").agg(F.sum("value").alias("value"), *extremes)
        sums = F.expr("map_filter(map_from_entries(collect_list(struct(place, value))), (k, v) -> v <> 0)")
        names = [name for call in self.stored_calls for name in (f"_came_{call.number}", f"_gone_{call.number}")]
        return by_place.groupBy(*self.groups).agg(
            sums.alias("_sums"), *[F.first(name, ignorenulls=True).alias(name) for name in names]
        )

    def _entries(self, prepared: DataFrame, call: Call) -> tuple[DataFrame, list[str]]:
        """Return the entries of a function in the map of sums, and the rows with the columns that they need."""
        argument, number = _argument(call), call.number + 1
        counted = entry(number, COUNT, f"CASE WHEN {argument} IS NULL THEN 0 ELSE {SIGN} END")
        if call.function not in SUMS | MOMENTS:
            return prepared, [counted]
        kind = self.kind(call) or "double"
        if call.function in MOMENTS:
            kind = "double"
        if kind == "double":
            prepared = prepared.withColumn(argument, F.col(argument).cast("double"))
        prepared, limbs = add_limbs(prepared, number, argument, kind)
        if call.function in MOMENTS:
            prepared, squares = add_square_limbs(prepared, number, argument)
            limbs = [*limbs, *squares]
        if kind != "whole":  # each has many steps, and a client's message has an end of its depth
            prepared = connect.freeze(prepared)
        return prepared, [counted, *[entry(number, place, f"({value}) * {SIGN}") for place, value in limbs]]

    def _extremes(self, call: Call, first: Column) -> list[Column]:
        """Return the extremes of the inserted and of the deleted rows."""
        value = F.col(_argument(call))
        inserted = F.when(first & (F.col(SIGN) > 0), value)
        deleted = F.when(first & (F.col(SIGN) < 0), value)
        extreme = F.max
        if call.function == "min":
            extreme = F.min
        return [extreme(inserted).alias(f"_came_{call.number}"), extreme(deleted).alias(f"_gone_{call.number}")]

    # --- from stored to new state ------------------------------------------------------------------------------------

    def merge(self, change: DataFrame, state: DataFrame) -> DataFrame:
        """Return the new state of each affected group.

        Args:
            change: aggregated row deltas.
            state: stored state.

        Returns:
            groups, ``_sums``, ``_held_n`` for each of ``stored_calls``, ``_was`` (whether it had state) and
            ``_lost`` (whether its rows must be read again).
        """
        extremes = [F.col(f"_held_{call.number}") for call in self.stored_calls]
        before = state.select(
            F.struct(*self.groups).alias("_key"), F.col("_sums").alias("_former"), F.lit(True).alias("_was"), *extremes
        )
        keyed = change.withColumn("_key_now", F.struct(*self.groups))
        both = keyed.join(before, F.col("_key_now").eqNullSafe(F.col("_key")), "left")
        sums = (
            "map_filter(map_zip_with(coalesce(_former, CAST(map() AS MAP<INT, BIGINT>)), _sums, "
            "(k, a, b) -> coalesce(a, 0L) + coalesce(b, 0L)), (k, v) -> v <> 0)"
        )
        lost = [self._is_extreme_lost(call) for call in self.stored_calls]
        new_extremes = [self._new_extreme(call).alias(f"_held_{call.number}") for call in self.stored_calls]
        return both.select(
            *self.groups, F.expr(sums).alias("_sums"), *new_extremes, F.coalesce("_was", F.lit(False)).alias("_was"),
            reduce(lambda a, b: a | b, lost, F.lit(False)).alias("_lost"),
        )  # fmt: skip

    def recomputed_state(self, lost: DataFrame, fresh: DataFrame) -> DataFrame:
        """Return the new state of recomputed groups; empty sums for groups without rows.

        Args:
            lost: the groups, as from ``merge``.
            fresh: the state from their rows.
        """
        extremes = [f"_held_{call.number}" for call in self.stored_calls]
        recomputed = fresh.select(F.struct(*self.groups).alias("_key"), F.col("_sums").alias("_now"), *extremes)
        before = lost.select(*self.groups, "_was", F.struct(*self.groups).alias("_key_lost"))
        both = before.join(recomputed, F.col("_key_lost").eqNullSafe(F.col("_key")), "left")
        sums = F.expr("coalesce(_now, CAST(map() AS MAP<INT, BIGINT>))")
        return both.select(*self.groups, sums.alias("_sums"), *extremes, "_was")

    def initial_state(self, change: DataFrame) -> DataFrame:
        """Return the state of groups whose rows are all in a change."""
        extremes = [F.col(f"_came_{call.number}").alias(f"_held_{call.number}") for call in self.stored_calls]
        return change.select(*self.groups, "_sums", *extremes)

    def _new_extreme(self, call: Call) -> Column:
        stored, inserted = F.col(f"_held_{call.number}"), F.col(f"_came_{call.number}")
        if call.function == "min":
            return F.least(stored, inserted)
        return F.greatest(stored, inserted)

    def _is_extreme_lost(self, call: Call) -> Column:
        """Return whether the stored extreme may have been deleted."""
        deleted = F.col(f"_gone_{call.number}")
        best = self._new_extreme(call)
        if call.function == "min":
            beyond = deleted <= best
        else:
            beyond = deleted >= best
        return deleted.isNotNull() & F.coalesce(beyond, F.lit(True))

    # --- from state to values ----------------------------------------------------------------------------------------

    def values(self, state: DataFrame) -> DataFrame:
        """Return the group keys and function values, ``_group_n`` and ``_value_n``, of groups that have rows."""
        values = [self._value_column(call).alias(call.value) for call in self.calls]
        groups = state.where(f"{_ROWS} > 0")
        if self.grouped.one_row:  # it is there without rows, too
            groups = groups.agg(*[F.first(column).alias(column) for column in groups.columns])
        return groups.select(*self.groups, *values)

    def _value_column(self, call: Call) -> Column:
        if call.function not in MOMENTS:
            return F.expr(self._value(call))
        number, function = call.number + 1, call.function
        cloudpickle.register_pickle_by_value(exact_sum)  # type: ignore[no-untyped-call]
        try:  # executors need not have this package, nor Arrow
            return F.udf(lambda sums: variance(sums, number, function), "double", useArrow=False)(F.col("_sums"))
        finally:
            cloudpickle.unregister_pickle_by_value(exact_sum)  # type: ignore[no-untyped-call]

    def _value(self, call: Call) -> str:
        """Return the SQL of a function's value, from counts, sums or extremes."""
        if call.function in ("count", "count_if"):
            number = 0
            if call.arguments or call.condition:
                number = call.number + 1
            return f"coalesce(try_element_at(_sums, {number * PLACES + COUNT}), 0L)"
        if call.function in ("min", "max"):
            return f"_held_{call.number}"
        type_ = self.types[_argument(call)]
        if isinstance(type_, T.DecimalType):
            return self._value_of_decimals(call, type_)
        kind = self.kind(call) or "double"
        total = Sum("_sums", call.number + 1, kind, 0)
        if call.function != "sum":
            return total.mean("DOUBLE")
        return total.total("BIGINT" if kind == "whole" else "DOUBLE")

    def _value_of_decimals(self, call: Call, type_: T.DecimalType) -> str:
        """Return the SQL of a decimal sum or average, in Spark's result type."""
        total = Sum("_sums", call.number + 1, self.kind(call) or "double", type_.scale)
        if call.function == "sum":
            return total.total(f"DECIMAL({min(type_.precision + 10, 38)}, {type_.scale})")
        finer = min(type_.scale + 4, 38)
        return total.mean(f"DECIMAL({min(type_.precision + 4, 38)}, {finer})", finer)


def group_columns(grouped: Grouped) -> list[str]:
    """Return the names of the group key columns."""
    return [f"_group_{number}" for number in range(len(grouped.groups))]


def groups_of(grouped: Grouped, rows: DataFrame) -> DataFrame:
    """Return the distinct group keys of the rows."""
    groups = [f"({text}) AS _group_{number}" for number, text in enumerate(grouped.groups)]
    return _select(grouped, rows, groups).distinct()


def incomparable_groups(grouped: Grouped, rows: DataFrame) -> str:
    """Return the group keys by which rows cannot be found, as Spark does not compare them (maps); empty if none."""
    groups = [f"({text}) AS _group_{number}" for number, text in enumerate(grouped.groups)]
    kinds = _select(grouped, rows, groups).schema
    return ", ".join(text for text, field in zip(grouped.groups, kinds, strict=True) if has_odd_parts(field.dataType))


def rows_of(grouped: Grouped, rows: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the rows of some groups, with all their columns."""
    columns = group_columns(grouped)
    names = [working_column(name) for name in columns]
    texts = [f"({text}) AS {name}" for text, name in zip(grouped.groups, names, strict=True)]
    return select_groups(_select(grouped, rows, ["*", *texts]), groups, columns, names).drop(*names)


def select_groups(
    rows: DataFrame,
    groups: DataFrame,
    columns: Sequence[str],
    as_: Sequence[str] | None = None,
    join_type: str = "left_semi",
) -> DataFrame:
    """Return rows whose columns ``as_`` have the keys of one of some groups; NULL equals NULL."""
    pairs = [
        F.col(f"_rows.{quote_name(row_column)}").eqNullSafe(F.col(f"_of.{quote_name(column)}"))
        for row_column, column in zip(as_ or columns, columns, strict=True)
    ]
    return rows.alias("_rows").join(groups.select(*columns).alias("_of"), reduce(and_, pairs), join_type)


def _argument(call: Call) -> str:
    return f"_argument_{call.number}"


def _prepare(grouped: Grouped, rows: DataFrame) -> DataFrame:
    """Return the group keys, function arguments and ``SIGN`` of each row that passes the query's WHERE."""
    groups = [f"({text}) AS _group_{number}" for number, text in enumerate(grouped.groups)]
    arguments = [f"{_value_of(call)} AS {_argument(call)}" for _, call in sorted(grouped.distinct_calls.items())]
    return _select(grouped, rows, [*groups, *arguments, SIGN])


def _value_of(call: Call) -> str:
    """Return the SQL of a row's value for a function; NULL without one."""
    conditions = []
    if call.condition:
        conditions = [f"({call.condition})"]
    if call.function == "count_if":
        conditions, value = [*conditions, f"({call.arguments[0]})"], "1"
    elif call.function == "count":
        conditions, value = [*conditions, *[f"({argument}) IS NOT NULL" for argument in call.arguments]], "1"
    else:
        value = f"({call.arguments[0]})"
    for condition in reversed(conditions):  # an AND would ask for what follows where the first is NULL
        value = f"CASE WHEN {condition} THEN {value} END"
    return value


def _select(grouped: Grouped, rows: DataFrame, items: Sequence[str]) -> DataFrame:
    """Select expressions of the query over rows that pass its WHERE; joined tables are views already."""
    rows.createOrReplaceTempView(ROWS)
    condition = ""
    if grouped.where:
        condition = f" WHERE {grouped.where}"
    return connect.freeze(rows.sparkSession.sql(f"SELECT {', '.join(items)} FROM {grouped.from_}{condition}"))

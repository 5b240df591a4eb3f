"""Select records for reprocessing by identity; there may be duplicates."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.flow.selection import Choice, Interval, Replay
from sluicegate.lake.discards import KEYS, RULES
from sluicegate.lake.layout import Lake
from sluicegate.schema.columns import working_column
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.spark_sql.identifiers import quote_name


def selected_identities(choice: Choice, evaluator: RowEvaluator, lake: Lake) -> DataFrame:
    """Return the identities of the records that an interval or a replay selects.

    Raises:
        TypeError: the selection is neither.
    """
    if isinstance(choice, Interval):
        return _interval_records(choice, evaluator, lake)
    if isinstance(choice, Replay):
        return _replay_records(choice, evaluator, lake)
    raise TypeError(f"only an interval or a replay selects records, not a {type(choice).__name__}")


def _interval_records(interval: Interval, evaluator: RowEvaluator, lake: Lake) -> DataFrame:
    """Return the IDs of records with an event time in the interval, by the current definition or as stored."""
    frames = [evaluator.transform_records(evaluator.batch.records())]
    for uri in (evaluator.batch.flow.target, lake.quarantine(evaluator.name)):
        frames += evaluator.stored_frames(uri)
    inside = _is_in_interval(interval, str(evaluator.table.event_time))
    dated = [f for f in frames if evaluator.table.event_time in f.columns]
    return reduce(lambda a, b: a.unionByName(b), [f.where(inside).select(*evaluator.record_id) for f in dated])


def _is_in_interval(interval: Interval, event_time: str) -> Column:
    first, last = (F.timestamp_micros(F.lit(_micros(moment))) for moment in (interval.since, interval.until))
    return (F.col(quote_name(event_time)) >= first) & (F.col(quote_name(event_time)) < last)


def _replay_records(replay: Replay, evaluator: RowEvaluator, lake: Lake) -> DataFrame:
    """Return the IDs of quarantined records that are not discarded, with dropped ones if requested; or of all."""
    if replay.everything:
        return evaluator.batch.records().select(*evaluator.record_id)
    waiting = evaluator.stored_frames(lake.quarantine(evaluator.name))
    for discards in evaluator.stored_frames(lake.discards(evaluator.name)):
        waiting = [_waiting_rows(quarantined, discards) for quarantined in waiting]
    frames = [_violating_records(replay, evaluator, quarantined, RULES) for quarantined in waiting]
    if replay.dropped:
        for aside in evaluator.stored_frames(lake.set_aside(evaluator.name)):
            frames.append(_violating_records(replay, evaluator, aside.where("reason = 'dropped'"), "rules"))
    no_records = evaluator.batch.records().select(*evaluator.record_id).limit(0)
    return reduce(lambda a, b: a.unionByName(b), frames, no_records)


def _waiting_rows(quarantined: DataFrame, discards: DataFrame) -> DataFrame:
    """Return the rows of a quarantine without a valid discard; see ``lake.discards``."""
    renamed = discards.select(*[F.col(name).alias(working_column(f"discarded{name}")) for name in (*KEYS, "rules")])
    identity = {name: F.lit(None) for name in KEYS}
    identity |= {name: F.col(quote_name(name)) for name in KEYS if name in quarantined.columns}
    same = reduce(
        and_, (column.eqNullSafe(F.col(working_column(f"discarded{name}"))) for name, column in identity.items())
    )
    no_others = F.size(F.array_except(F.col(RULES), F.col(working_column("discardedrules")))) == 0
    return quarantined.join(renamed, same & no_others, "left_anti")


def _violating_records(replay: Replay, evaluator: RowEvaluator, frame: DataFrame, column: str) -> DataFrame:
    if replay.rules:
        frame = frame.where(F.arrays_overlap(column, F.array(*map(F.lit, replay.rules))))
    return frame.select(*evaluator.record_id)


def _micros(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

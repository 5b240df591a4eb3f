"""Timetable of pipelines: data intervals by a cron expression, of which a backfill takes many into one run.

A backfill of Airflow has a run for each interval: a month of quarters of an hour has 2,976, each with its tasks and its
Spark, though the pipeline reprocesses any range of event times in one run. Airflow asks the timetable for the intervals
of the range; this one gives fewer, wider ones.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from pendulum import now

if TYPE_CHECKING:
    from airflow.timetables.base import Timetable
    from pendulum import DateTime

MAX_BACKFILL_RUNS = 31
"""Runs that a backfill has at most: a day each of a month of a daily schedule."""

# Microseconds of a second by which an interval can be moved: ``interval_begin`` finds its beginning again.
_SHIFTS = 999_999


class PipelineTimetable(CronDataIntervalTimetable):
    """Intervals from one time of a cron expression to the next; in a backfill of many, several in one.

    Args:
        cron: the expression, in UTC.
        max_backfill_runs: runs that a backfill has at most.
    """

    def __init__(self, cron: str, max_backfill_runs: int = MAX_BACKFILL_RUNS) -> None:
        super().__init__(cron, timezone="UTC")
        self.max_backfill_runs = max_backfill_runs

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, PipelineTimetable) and self.max_backfill_runs == other.max_backfill_runs
        return same and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self._expression, self.max_backfill_runs))

    def serialize(self) -> dict[str, Any]:
        """Return the form that Airflow stores with the DAG's version."""
        return {"cron": self._expression, "max_backfill_runs": self.max_backfill_runs}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        """Restore a timetable from Airflow's stored form."""
        return cls(data["cron"], data["max_backfill_runs"])

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Next run: of the schedule, or of a backfill, of which Airflow asks for one run after the other.

        The interval of a run of several begins some microseconds too early, and its run is due as many too late, one
        for each minute of it: logical date and id of a run are made of these, and are not to be those of a scheduled
        run, or of a backfill of another width. ``run_request`` sets it right.
        """
        first = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        # A schedule has no end, and catches nothing up.
        if first is None or not restriction.catchup or restriction.earliest is None or restriction.latest is None:
            return first
        assert first.data_interval is not None  # noqa: S101 (this timetable gives one always)
        start, end = first.data_interval.start, first.data_interval.end
        begin, last = self._backfill_bounds(restriction.earliest, restriction.latest)
        if end > last:  # it is not over, and left to the schedule
            return None
        wide = self._end(start, begin, last)
        if wide <= end:
            return first
        shift = timedelta(microseconds=int((wide - start).total_seconds()) // 60 % _SHIFTS or 1)
        return DagRunInfo(run_after=wide + shift, data_interval=DataInterval(start=start - shift, end=wide))

    def _backfill_bounds(self, earliest: DateTime, latest: DateTime) -> tuple[DateTime, DateTime]:
        """Beginning of the first interval of a backfill, and end of the last one that is over."""
        time = now("UTC")
        over = self._align_to_prev(time)
        if over == time:
            over = self._get_prev(over)
        return self._align_to_next(earliest), min(self._get_next(self._align_to_prev(latest)), over)

    def _end(self, start: DateTime, begin: DateTime, last: DateTime) -> DateTime:
        """End of the run of a backfill that begins at a time.

        The range is divided into as many equal times as there may be runs, each moved back to an end of an interval: so
        there are never more, be the intervals as uneven as they may.
        """
        # Whole seconds, as ends of intervals are: what is one does not miss itself by a rounding.
        length, since = int((last - begin).total_seconds()), int((start - begin).total_seconds())
        for part in range(since * self.max_backfill_runs // length + 1, self.max_backfill_runs):
            end = self._align_to_prev(begin + timedelta(seconds=length * part // self.max_backfill_runs))
            if end > start:
                return end
        return last


def interval_begin(time: datetime) -> datetime:
    """Beginning of an interval without the microseconds by which that of several was moved."""
    if time.microsecond:
        return time.replace(microsecond=0) + timedelta(seconds=1)
    return time

"""Model of maintenance: schedule and retention."""

from __future__ import annotations

from datetime import timedelta

from pydantic import field_validator

from sluicegate.definition.fields import Part, Schedule, field_error
from sluicegate.times import time_span

# Delta's default: readers and followers of a table's changes may be behind for so long.
RETENTION = timedelta(days=7)

# After that Delta no longer has a version in its log (``delta.logRetentionDuration``).
LONGEST = timedelta(days=30)


class Maintenance(Part):
    """Schedule and retention of OPTIMIZE and VACUUM.

    Attributes:
        schedule: cron expression with five fields, in UTC; without it `sluicegate maintain` does it by hand.
        retention: for how long files that a table no longer needs are kept, 7 to 30 days: other readers can use an
            old version, or follow its changes, for so long.
    """

    schedule: Schedule | None = None
    retention: str = "7 days"

    @field_validator("retention")
    @classmethod
    def _check_retention(cls, retention: str) -> str:
        try:
            length = time_span(retention)
        except ValueError:
            raise field_error("time-span", f"{retention} is not a duration", "for example 14 days") from None
        if length < RETENTION:
            sentence = f"{retention} is less than {RETENTION.days} days"
            message = f"{sentence}: a query that still reads an old version would lose its files"
            raise field_error("time-span", message, "7 days")
        if length > LONGEST:
            sentence = f"{retention} is more than {LONGEST.days} days"
            message = f"{sentence}, after which Delta removes the log entries of old versions"
            raise field_error("time-span", message, "30 days")
        return retention

    @property
    def retention_span(self) -> timedelta:
        """The retention as a time span."""
        return time_span(self.retention)

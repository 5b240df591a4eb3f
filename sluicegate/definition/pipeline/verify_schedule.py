"""Model of verification: schedule and sample."""

from __future__ import annotations

from pydantic import field_validator

from sluicegate.definition.fields import Part, Schedule, Text, field_error


class Verify(Part):
    """Schedule of `sluicegate status --verify --since-last`, which proves files, records and gold's queries.

    Attributes:
        schedule: cron expression with five fields, in UTC; without it the DAG must be triggered by hand.
        sample: share of files, records and gold's rows that is compared by value, as 10%; without it what came or
            changed since the last verification, and everything once a week.
    """

    schedule: Schedule | None = None
    sample: Text = "100%"

    @field_validator("sample")
    @classmethod
    def _check_sample(cls, sample: str) -> str:
        try:
            parse_percent(sample)
        except ValueError:
            message = f"invalid sample size {sample}"
            raise field_error("sample", message, "above 0% and at most 100%, for example 10%") from None
        return sample

    @property
    def percent(self) -> float:
        """Share of files, records and rows that is compared, in percent."""
        return parse_percent(self.sample)


def parse_percent(text: str) -> float:
    """Parse a percentage, with or without the sign: more than 0 and at most 100.

    Raises:
        ValueError: it is not one.
    """
    percent = float(text.strip().removesuffix("%"))
    if not 0 < percent <= 100:
        raise ValueError(text)
    return percent

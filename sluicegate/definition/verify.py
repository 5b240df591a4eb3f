"""When the tables of a pipeline are proved to be what they should be."""

from __future__ import annotations

from pydantic import field_validator

from sluicegate.definition.fields import Part, Text, cron, wrong


class Verify(Part):
    """Files, records and gold's queries are proved anew, as `sluicegate status --verify` does.

    Attributes:
        schedule: cron expression with five fields, in UTC; without it the DAG is there to be triggered by hand.
        sample: how much of the rows of gold is compared, as 10%.
    """

    schedule: str | None = None
    sample: Text = "100%"

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, schedule: str | None) -> str | None:
        return schedule if schedule is None else cron(schedule)

    @field_validator("sample")
    @classmethod
    def _sample(cls, sample: str) -> str:
        try:
            percent_of(sample)
        except ValueError:
            raise wrong("sample", f"{sample} is no part of a table", "more than 0 and at most 100, as 10%") from None
        return sample

    @property
    def percent(self) -> float:
        """How much of the rows of gold is compared."""
        return percent_of(self.sample)


def percent_of(text: str) -> float:
    """A percentage, with the sign or without: more than 0 and at most 100.

    Raises:
        ValueError: it is none.
    """
    percent = float(text.strip().removesuffix("%"))
    if not 0 < percent <= 100:
        raise ValueError(text)
    return percent

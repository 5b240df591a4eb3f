"""Select records for reprocessing, though nothing about them changed: an interval, a replay.

Records are evaluated by the current definition, in one batch with whatever waits, and replace their former rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from sluicegate.definition import Pipeline
from sluicegate.definition.fields import suggest_name
from sluicegate.errors import UserError, Where
from sluicegate.lake.commits.commit_info import BatchMode, CommitInfo


class Choice(Protocol):
    """Selection of records to reprocess.

    Attributes:
        validate: whether to only count what would change, and write nothing.
        everything: whether these are all records.
    """

    @property
    def validate(self) -> bool: ...

    @property
    def everything(self) -> bool: ...

    def has_records_of(self, table: str, pipeline: Pipeline) -> bool:
        """Return whether the selection has records of a table."""

    def facts(self) -> Mapping[str, Any]:
        """Return the commit metadata of the selection."""


@dataclass(frozen=True)
class Interval:
    """Records whose event time is in an interval, by the former or the current definition.

    Attributes:
        since: start (UTC), inclusive.
        until: end (UTC), exclusive.
    """

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        if not (isinstance(self.since, datetime) and isinstance(self.until, datetime)):
            raise UserError(
                "an interval requires two datetimes",
                hint='to give text, use Interval.parse("2024-03-01", "2024-03-02")',
            )

    @classmethod
    def parse(cls, since: str, until: str) -> Interval:
        """Read two times in ISO 8601; without a zone they are UTC, without a time of day midnight.

        Raises:
            UserError: a text is not a time, or the end is not after the start.
        """
        interval = cls(_moment(since, "--from"), _moment(until, "--to"))
        if interval.until <= interval.since:
            raise UserError(
                f"the interval is empty: {until} is not after {since}",
                hint="an interval is [from, to): its end is exclusive",
            )
        return interval

    @property
    def validate(self) -> bool:
        """Whether nothing is written: never, for an interval."""
        return False

    @property
    def everything(self) -> bool:
        """Whether all records are selected: never, for an interval."""
        return False

    def __str__(self) -> str:
        return f"[{self.since:%Y-%m-%d %H:%M:%S}, {self.until:%Y-%m-%d %H:%M:%S})"

    def arguments(self) -> list[str]:
        """Return the interval as arguments of ``spark_jobs/silver.py``."""
        return ["--mode=interval", f"--from={self.since.isoformat()}", f"--to={self.until.isoformat()}"]

    def has_records_of(self, table: str, pipeline: Pipeline) -> bool:
        """Return whether the table is a silver table with an event time."""
        return table in pipeline.silver and pipeline.silver[table].event_time is not None

    def facts(self) -> dict[str, Any]:
        """Return the mode and the interval."""
        ends = [self.since.isoformat(), self.until.isoformat()]
        return {CommitInfo.mode.key: BatchMode.INTERVAL, CommitInfo.interval.key: ends}


# Ends of the names of rules that every table has, which are not in its definition: of keys, casts and rescued values.
_IMPLIED_RULES = (" is not null", " fits", " fits its type")


@dataclass(frozen=True)
class Replay:
    """Quarantined records, or all, to reprocess once an expectation, a transform or a lookup was corrected.

    Attributes:
        table: the silver table.
        rules: only records that broke one of these expectations; empty for any.
        dropped: whether to include records that expectations dropped.
        everything: whether to replay all records of the table's source.
        validate: whether to only count what would change, and write nothing.
    """

    table: str
    rules: tuple[str, ...] = ()
    dropped: bool = False
    everything: bool = False
    validate: bool = False

    def demand(self, pipeline: Pipeline) -> None:
        """Check that the table and the rules to replay exist.

        Raises:
            PipelineMissing: the pipeline has no such table.
            UserError: the table is not silver, or lacks the rule.
        """
        demand_silver(self.table, pipeline, "are replayed", "; for bronze, use `sluicegate reset`")
        where = Where(table=self.table)
        expectations = pipeline.silver[self.table].expectations
        for rule in self.rules:
            if rule not in expectations and not rule.endswith(_IMPLIED_RULES):
                hint = suggest_name(rule, list(expectations)) or f"its rules: {', '.join(expectations) or 'none'}"
                raise UserError(f"unknown rule {rule} of {self.table}", where=where, hint=hint)

    def has_records_of(self, table: str, pipeline: Pipeline) -> bool:
        """Return whether this is the table to replay."""
        return table == self.table

    def facts(self) -> dict[str, Any]:
        """Return the mode and the replay as one fact, since commits have rules and dropped rows of their own."""
        chosen = {"rules": list(self.rules), "dropped": self.dropped, "everything": self.everything}
        return {CommitInfo.mode.key: BatchMode.REPLAY, CommitInfo.replayed.key: chosen}

    def arguments(self) -> Sequence[str]:
        """Return the replay as arguments of ``spark_jobs/tools/replay.py``."""
        flags = {"--dropped": self.dropped, "--everything": self.everything, "--validate": self.validate}
        options = [flag for flag, is_set in flags.items() if is_set]
        return [f"--table={self.table}", *(f"--rule={rule}" for rule in self.rules), *options]


def demand_silver(table: str, pipeline: Pipeline, operation: str, more: str = "") -> None:
    """Check that a name is a silver table of the pipeline.

    Args:
        table: name of the table.
        pipeline: the definition.
        operation: operation that only silver tables have, for the message.
        more: end of the hint.

    Raises:
        PipelineMissing: the pipeline has no such table.
        UserError: the table is not silver.
    """
    layer, _ = pipeline.table(table)
    if layer != "silver":
        raise UserError(
            f"{table} is a {layer} table, but only silver tables {operation}",
            where=Where(table=table),
            hint=f"silver tables: {', '.join(pipeline.silver) or 'none'}{more}",
        )


def _moment(text: str, option: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "for example 2024-03-01 or 2024-03-01T06:00:00Z"
        raise UserError(f"{option} {text} is not a time", hint=hint) from error
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)

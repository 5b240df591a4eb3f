"""Models of ``alerts``: limits of freshness, volume, backlog and rates of rules, each to warn and to fail above."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from sluicegate.definition.fields import Duration, Part, check_cron, field_error
from sluicegate.definition.tables.table_rules import RowCount
from sluicegate.definition.tables.threshold import RowThreshold

KINDS = ("freshness", "volume", "backlog", "rule_rate")

_Count = Annotated[int, Field(ge=0)]


def _check_span(span: timedelta) -> timedelta:
    if not span:
        raise field_error("time-span", "a duration of 0 is always exceeded", "for example 30 minutes")
    return span


_Span = Annotated[Duration, AfterValidator(_check_span)]


def _demand_limit(part: Any) -> None:
    if part.warn is None and part.fail is None:
        raise field_error("missing-field", "an alert needs warn, fail or both", "for example {fail: …}")


def _demand_order(warn: Any, fail: Any, warned: object, failed: object) -> None:
    if warn is not None and fail is not None and warn >= fail:
        message = f"warn above {warned} has no effect: fail above {failed} is reached first"
        raise field_error("threshold", message, "warn must be below fail")


class AlertLevel(StrEnum):
    """Which limit is passed."""

    OK = "ok"
    """None."""

    WARN = "warn"
    """The one that warns."""

    FAIL = "fail"
    """The one that fails."""


class Freshness(Part):
    """Limits of a table's age: the time since files last came to it (bronze), or since a run last changed it.

    Attributes:
        warn: time span, as ``12 hours``, above which it warns.
        fail: time span above which it fails.
    """

    warn: _Span | None = None
    fail: _Span | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Freshness:
        _demand_limit(self)
        _demand_order(self.warn, self.fail, self.warn, self.fail)
        return self


class Volume(Part):
    """Limits of how much comes.

    Attributes:
        of: ``rows`` that runs wrote to the table, or landed ``files`` that they read, of bronze.
        per: ``day``: in the last 24 hours; ``run``: by the last run that changed the table.
        warn: least and greatest number beyond which it warns, as ``{min: 1000}`` or ``{min: 1, max: 500}``.
        fail: least and greatest number beyond which it fails.
    """

    of: Literal["rows", "files"] = "rows"
    per: Literal["day", "run"] = "day"
    warn: RowCount | None = None
    fail: RowCount | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Volume:
        _demand_limit(self)
        if self.warn is None or self.fail is None:
            return self
        low, high = (self.warn.min, self.fail.min), (self.warn.max, self.fail.max)
        if None not in low and low[0] <= low[1]:  # type: ignore[operator]
            message = f"warn below {low[0]:,} has no effect: fail below {low[1]:,} is reached first"
            raise field_error("threshold", message)
        if None not in high and high[0] >= high[1]:  # type: ignore[operator]
            message = f"warn above {high[0]:,} has no effect: fail above {high[1]:,} is reached first"
            raise field_error("threshold", message)
        return self


class Backlog(Part):
    """Limits of what waits for a table: landed files for bronze (ranges of offsets for Kafka), else rows.

    Attributes:
        warn: number above which it warns.
        fail: number above which it fails.
    """

    warn: _Count | None = None
    fail: _Count | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Backlog:
        _demand_limit(self)
        _demand_order(self.warn, self.fail, self.warn, self.fail)
        return self


class RuleRate(Part):
    """Limits of how many rows break an expectation.

    Attributes:
        per: ``day``: of the rows of the last 24 hours; ``run``: of those of the last run that changed the table.
        warn: a number of rows, as 100, or a share of them, as ``0.5%``, above which it warns.
        fail: a number or share above which it fails.
    """

    per: Literal["day", "run"] = "day"
    warn: RowThreshold | None = None
    fail: RowThreshold | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> RuleRate:
        _demand_limit(self)
        if self.warn and self.fail and self.warn.is_share == self.fail.is_share:
            _demand_order(self.warn.number, self.fail.number, self.warn.text, self.fail.text)
        return self


class Alerts(Part):
    """Limits beyond which a pipeline warns or fails, looked at by a DAG of its own and by ``sluicegate alerts``.

    Attributes:
        schedule: cron expression, in UTC, of the DAG that looks at them, whether a run starts or not.
        remind_after: time span after which an alert that stays is reported once more, not before; 1 day by default.
        freshness: tables with limits of their age.
        volume: tables with limits of the rows or files that come in a run or a day.
        backlog: tables with limits of what waits for them.
        rule_rate: tables with limits, for each of their expectations, of the rows that break it.
    """

    schedule: Annotated[str, AfterValidator(check_cron)] = "*/15 * * * *"
    remind_after: _Span | None = None
    freshness: dict[str, Freshness] = {}
    volume: dict[str, Volume] = {}
    backlog: dict[str, Backlog] = {}
    rule_rate: dict[str, dict[str, RuleRate]] = {}

    @field_validator("rule_rate")
    @classmethod
    def _check_rule_rate(cls, tables: dict[str, dict[str, RuleRate]]) -> dict[str, dict[str, RuleRate]]:
        for name, rules in tables.items():
            if not rules:
                message = f"the alert on {name} names no expectation"
                raise field_error("missing-field", message, "for example valid_price: {fail: 5%}")
        return tables

    @model_validator(mode="after")
    def _check_any_alert(self) -> Alerts:
        if not any(getattr(self, kind) for kind in KINDS):
            raise field_error("missing-field", f"alerts is empty: it takes {', '.join(KINDS)}")
        return self

"""Alerts: what a definition's limits say of freshness, volume, backlog and rules now. No JVM.

Read from ledgers, offsets and the event log, so that a table to which nothing comes is told of though no run starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from deltalake import DeltaTable

from sluicegate.console import inflect, quantity
from sluicegate.definition import Pipeline
from sluicegate.definition.pipeline.alerts import AlertLevel, Alerts, RuleRate, Volume
from sluicegate.errors import AlertsFailed, Where
from sluicegate.flow.report import COMMAND
from sluicegate.lake import layout, tables
from sluicegate.lake.commits.commit_info import CommitStep
from sluicegate.monitor import arrivals
from sluicegate.settings import Settings
from sluicegate.times import format_span

DAY = timedelta(days=1)

_PERIODS = {"day": "in the last day", "run": "by the last run"}
_REJECTIONS = (CommitStep.REJECT, CommitStep.CLEAR)

_Limit = TypeVar("_Limit")


@dataclass(frozen=True)
class Alert:
    """One limit, and what there is.

    Attributes:
        kind: freshness, volume, backlog or rule_rate.
        table: the table.
        rule: of a rule_rate the expectation; else empty.
        level: which of its limits is passed.
        found: what there is, in words.
        limit: the limit that is passed, in words; empty if none is.
    """

    kind: str
    table: str
    rule: str
    level: AlertLevel
    found: str
    limit: str = ""

    @property
    def subject(self) -> str:
        """What it is about, the same each time: ``volume of orders``."""
        return f"{self.kind.replace('_', ' ')} of {f'{self.table}.{self.rule}' if self.rule else self.table}"

    @property
    def sentence(self) -> str:
        """It in a sentence for people."""
        if self.level == AlertLevel.OK:
            return f"{self.subject}: {self.found}"
        verb = "warns"
        if self.level == AlertLevel.FAIL:
            verb = "fails"
        return f"{self.subject}: {self.found}, and it {verb} {self.limit}"


def evaluate(pipeline: Pipeline, settings: Settings, time: datetime) -> list[Alert]:
    """Compare a pipeline with the limits of its definition.

    Args:
        pipeline: the definition.
        settings: where things are.
        time: the time.

    Raises:
        LandingMissing: a landing folder does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    if pipeline.alerts is None:
        return []
    return [*_Limits(pipeline, pipeline.alerts, settings, time).all_alerts()]


def alerts_error(alerts: Sequence[Alert]) -> AlertsFailed | None:
    """Return the error about the alerts that fail; None if none does."""
    failing = [alert for alert in alerts if alert.level == AlertLevel.FAIL]
    if not failing:
        return None
    names = ", ".join(dict.fromkeys(alert.table for alert in failing))
    hint = "check what delivers to these tables, or adjust the limits under alerts"
    return AlertsFailed("; ".join(alert.sentence for alert in failing), where=Where(table=names), hint=hint)


class _Limits:
    def __init__(self, pipeline: Pipeline, alerts: Alerts, settings: Settings, time: datetime) -> None:
        self.pipeline, self.alerts, self.settings, self.now = pipeline, alerts, settings, time
        self.at = layout.Lake(settings.lake, pipeline.name)
        self._found: dict[tuple[str, str], list[dict[str, Any]]] = {}

    @cached_property
    def _log(self) -> DeltaTable | None:
        return tables.delta_table(self.at.events)

    def all_alerts(self) -> Iterator[Alert]:
        for name, age in self.alerts.freshness.items():
            bronze = self.pipeline.bronze.get(name)
            layer = self.pipeline.table(name)[0]
            if bronze:
                last = arrivals.arrival_time(name, bronze, self.at)
            else:
                last = arrivals.change_time(layer, name, self.at)
            yield self._freshness(name, last, age.warn, age.fail)
        for name, volume in self.alerts.volume.items():
            yield self._volume(name, volume)
        if self.alerts.backlog:
            waiting = _waiting_counts(self.pipeline, self.settings, [*self.alerts.backlog])
            for name, limit in self.alerts.backlog.items():
                yield _backlog_alert(name, waiting[name], limit.warn, limit.fail)
        for name, rules in self.alerts.rule_rate.items():
            for rule, rate in rules.items():
                yield self._rate(name, rule, rate)

    def _freshness(self, name: str, last: datetime | None, warn: timedelta | None, fail: timedelta | None) -> Alert:
        """Check the age of a table's newest data; an empty table is infinitely old."""
        sentence = "nothing has arrived yet"
        if last:
            sentence = f"the last change was at {last:%Y-%m-%d %H:%M} UTC"
        for level, span in _limits(warn, fail):
            if last is None or self.now - last > span:
                return Alert("freshness", name, "", level, sentence, f"after {format_span(span)}")
        return Alert("freshness", name, "", AlertLevel.OK, sentence)

    def _volume(self, name: str, volume: Volume) -> Alert:
        events = self._events(name, volume.per)
        if not events and volume.per == "run":
            return Alert("volume", name, "", AlertLevel.OK, "no run has changed it yet")
        count = sum(_amount(event, volume.of) for event in events)
        sentence = f"{quantity(count, volume.of.removesuffix('s'))} {_PERIODS[volume.per]}"
        for level, limit in _limits(volume.warn, volume.fail):
            if limit.min is not None and count < limit.min:
                return Alert("volume", name, "", level, sentence, f"below {limit.min:,}")
            if limit.max is not None and count > limit.max:
                return Alert("volume", name, "", level, sentence, f"above {limit.max:,}")
        return Alert("volume", name, "", AlertLevel.OK, sentence)

    def _rate(self, name: str, rule: str, rate: RuleRate) -> Alert:
        counts = [event["details"].get("expectations", {}).get(rule) or {} for event in self._events(name, rate.per)]
        broken = sum(int(count.get("failed") or 0) for count in counts)
        rows = broken + sum(int(count.get("passed") or 0) for count in counts)
        sentence = f"{broken:,} of {rows:,} rows of the last {rate.per} violate it"
        for level, limit in _limits(rate.warn, rate.fail):
            if limit.is_exceeded(broken, rows):
                return Alert("rule_rate", name, rule, level, sentence, f"above {limit.text}")
        return Alert("rule_rate", name, rule, AlertLevel.OK, sentence)

    def _events(self, table: str, per: str) -> list[dict[str, Any]]:
        """Return a table's events, with details, of the last day or of the last run that changed it."""
        if (table, per) not in self._found:  # each rule of a table has a limit of its own
            self._found[table, per] = self._read(table, per)
        return self._found[table, per]

    def _read(self, table: str, per: str) -> list[dict[str, Any]]:
        log = self._log
        if log is None:
            return []
        import pyarrow.compute as pc

        since = self.now - DAY
        if per == "run":
            times = tables.dataset(log).to_table(["time"], filter=pc.field("table") == table)["time"]
            if not len(times):
                return []
            since = pc.max(times).as_py() - DAY  # a run of a table takes less
        condition = (pc.field("table") == table) & (pc.field("time") > since)
        rows = tables.dataset(log).to_table(["time", "written", "details"], filter=condition).to_pylist()
        events = [row | {"details": json.loads(row["details"])} for row in rows]
        # Of a batch that was refused the table has no row.
        events = [row for row in events if row["time"] <= self.now and row["details"].get("step") not in _REJECTIONS]
        if per == "day" or not events:
            return events
        return _last_run_events(sorted(events, key=lambda row: row["time"]))


def _last_run_events(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of the run that changed a table last, oldest first.

    A run of Airflow or of a command has an id of its own. A continuous run keeps one id, so only its last batch counts;
    jobs that were started by other means may share one.
    """
    from sluicegate.monitor.event_log import BREAK  # with what it imports, which no DAG file needs

    last = events[-1]["details"]
    name = str(last.get("run_id") or "")
    of_run = [event for event in events if str(event["details"].get("run_id") or "") == name]
    if last.get("dag_id") or name.startswith(f"{COMMAND} "):
        return of_run
    if name.startswith("continuous"):
        return of_run[-1:]
    first = len(of_run) - 1
    while first and of_run[first]["time"] - of_run[first - 1]["time"] <= BREAK:
        first -= 1
    return of_run[first:]


def _limits(warn: _Limit | None, fail: _Limit | None) -> list[tuple[AlertLevel, _Limit]]:
    """Return the limits that there are, the one that fails first."""
    limits = ((AlertLevel.FAIL, fail), (AlertLevel.WARN, warn))
    return [(level, limit) for level, limit in limits if limit is not None]


def _amount(event: Mapping[str, Any], of: str) -> int:
    amounts = {"rows": event["written"], "files": event["details"].get("files")}
    return int(amounts[of] or 0)


def _backlog_alert(name: str, count: int, warn: int | None, fail: int | None) -> Alert:
    sentence = f"{count:,} {inflect(count, 'waits', 'wait')}"
    for level, limit in _limits(warn, fail):
        if count > limit:
            return Alert("backlog", name, "", level, sentence, f"above {limit:,}")
    return Alert("backlog", name, "", AlertLevel.OK, sentence)


def _waiting_counts(pipeline: Pipeline, settings: Settings, names: Sequence[str]) -> dict[str, int]:
    """Return how much waits for tables: files of bronze (ranges of topics), rows of others."""
    from sluicegate.monitor import backlog, plan

    counts = dict.fromkeys(names, 0)
    if bronze := pipeline.bronze.keys() & names:
        for work in plan.pending(pipeline, settings).select_tables(bronze.__contains__).tables:
            counts[work.table] = work.files + work.versions
    for waits in backlog.waiting_tables(pipeline, settings):
        if (
            waits.table in counts and not waits.flow.has_foreign_source
        ):  # of a bronze table files that its ledger has already
            counts[waits.table] += waits.count
    return counts

"""Batches: what the commits of runs did to tables, from the event log and, for what it does not have yet, from the log
of a table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from deltalake import DeltaTable

from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.errors import SluicegateError
from sluicegate.lake import tables
from sluicegate.lake.commits.commit_info import CommitStep
from sluicegate.monitor import event_log
from sluicegate.monitor.event_log import Logged

NEWEST = 3_000
"""Batches of a pipeline that the dashboard has; of a table whose last ones are older, its own log is read."""

OF_A_TABLE = 50
"""Batches of one table that its page has."""

# Modes of the commits to ``{table}_rejected``, which has versions of its own.
_OF_REJECTED_ROWS = (CommitStep.REJECT, CommitStep.CLEAR)


@dataclass(frozen=True)
class RuleCount:
    """How many rows of a batch passed an expectation, and how many failed it."""

    rule: str
    passed: int
    failed: int

    @property
    def rate(self) -> float | None:
        """Share of rows that passed; None if there were none."""
        rows = self.passed + self.failed
        if rows:
            return self.passed / rows
        return None


@dataclass(frozen=True)
class Balance:
    """Where the records of a batch, or of several, are: both sides of an equation.

    Attributes:
        read: records that were read; of bronze, and of batches that say nothing of it, None.
        made: rows that the records gave, where one may give many; None where each is one.
        no_rows: records that gave no row, of these.
        written: rows written.
        quarantined: records that broke a rule and are in quarantine.
        dropped: records that a rule or the query dropped.
        duplicates: records set aside because another one has their key.
    """

    read: int | None = None
    made: int | None = None
    no_rows: int = 0
    written: int = 0
    quarantined: int = 0
    dropped: int = 0
    duplicates: int = 0

    @property
    def ended_records(self) -> int:
        """Records by where they ended, in all."""
        return self.written + self.quarantined + self.dropped + self.duplicates

    @property
    def balanced(self) -> bool | None:
        """Whether both sides are equal; None where a batch has no left side, as a table of gold has none."""
        if self.read is None:
            return None
        return self.ended_records == (self.read if self.made is None else self.made)

    @property
    def _produced_rows(self) -> int:
        """Rows that the records gave, where each is one as well."""
        if self.made is None:
            return self.read or 0
        return self.made

    def __add__(self, other: Balance) -> Balance:
        """Add the counts of two balances."""
        produced = None
        if self.made is not None or other.made is not None:
            produced = self._produced_rows + other._produced_rows
        return Balance(
            _sum(self.read, other.read), produced, self.no_rows + other.no_rows,
            self.written + other.written, self.quarantined + other.quarantined, self.dropped + other.dropped,
            self.duplicates + other.duplicates,
        )  # fmt: skip


@dataclass(frozen=True)
class CommittedBatch:
    """One commit of a run to a table.

    Attributes:
        time: when it was committed (UTC).
        layer: bronze, silver or gold.
        table: its table.
        version: the version of the table that it made.
        run_id: the run, as Airflow or a command calls it.
        by_airflow: whether a DAG run made it.
        mode: ``incremental``, ``whole``, ``interval``, ``replay`` …; ``reject`` of a batch that broke a rule,
            ``clear`` of the next that broke none.
        balance: where its records are; of gold ``read`` is what the query read.
        files: files that it read (bronze).
        bytes: bytes of these files; of gold, bytes written.
        failed: files that could not be read, with the reason (bronze).
        strategy: refresh strategy of a gold table.
        technique: how this batch of it was made.
        because: why the table has this refresh strategy, whichever technique the batch was made by.
        estimates: seconds that each technique was estimated at that could be taken.
        all_rows: rows of the tables that the query reads.
        why: why all rows were made again, if they were.
        groups: groups of a gold table that it made.
        seconds: seconds that it took, as far as commits say.
        rules: rows that passed and failed the expectations.
        interval: interval of event time that it reprocessed.
        definition: fingerprint of the definition that made its rows.
        mixed: whether the table may have rows of a former definition.
    """

    time: datetime
    layer: str
    table: str
    version: int
    run_id: str = ""
    by_airflow: bool = False
    mode: str = ""
    balance: Balance = Balance()
    files: int = 0
    bytes: int | None = None
    failed: int = 0
    strategy: str = ""
    technique: str = ""
    because: str = ""
    estimates: Mapping[str, float] = field(default_factory=dict)
    all_rows: int | None = None
    why: str = ""
    groups: int | None = None
    seconds: float | None = None
    rules: tuple[RuleCount, ...] = ()
    interval: tuple[str, str] | None = None
    definition: str = ""
    mixed: bool = False


def newest_batches(source: Source, pipeline: Pipeline, limit: int = NEWEST) -> tuple[CommittedBatch, ...]:
    """Return the newest batches of a pipeline's tables, newest first.

    A job copies its commits to the event log when it ends; after a killed job, the next one does. Until then only the
    tables' own logs have them, of which the newest commits are read.
    """
    lake = source.lake(pipeline)
    compute = partial(_copied_batches, limit=limit)
    log_batches: Copied = source.compute_once(lake.events, ("batches", limit), compute) or ((), {})
    copied, versions = log_batches
    more = [
        batch
        for logged in event_log.logged_tables(pipeline, lake)
        for batch in _uncopied_batches(source, logged, versions)
    ]
    if not more:
        return copied
    return tuple(sorted((*copied, *more), key=_place, reverse=True)[:limit])


Copied = tuple[tuple[CommittedBatch, ...], Mapping[str, int]]
"""Batches of the event log, newest first, and the newest version that they have of each table, by its id."""


def _copied_batches(events: DeltaTable, limit: int) -> Copied:
    rows = event_log.newest_events(events, limit).to_pylist()
    versions: dict[str, int] = {}
    for row in rows:
        versions[row["table_id"]] = max(versions.get(row["table_id"], -1), row["version"])
    return tuple(sorted((_batch(row) for row in rows), key=_place, reverse=True)), versions


def _place(batch: CommittedBatch) -> tuple[datetime, str, int]:
    """Return the sort key of a batch, in the order of ``history``."""
    return batch.time, batch.table, batch.version


def _uncopied_batches(source: Source, of: Logged, versions: Mapping[str, int]) -> tuple[CommittedBatch, ...]:
    """Return the batches of a table that are not yet in the event log.

    A table that cannot be read has none here: its own page says why.
    """
    try:
        table = source.table(of.uri)
        if table is None:
            return ()
        copied = versions.get(tables.table_id(table), -1)
        if table.version() <= copied:
            return ()
        compute = partial(_batches_since, of=of, copied=copied)
        return source.compute_for_version(of.uri, table, ("since", copied), compute)
    except SluicegateError:
        return ()


def _batches_since(table: DeltaTable, of: Logged, copied: int) -> tuple[CommittedBatch, ...]:
    return tuple(_batch(row) for row in event_log.events_since(table, of, copied, OF_A_TABLE))


def table_batches(source: Source, pipeline: Pipeline, layer: str, table: str) -> tuple[CommittedBatch, ...]:
    """Return the newest batches of one table, newest first.

    Its own log supplies those that the newest batches of its pipeline lack.
    """
    of_log = [batch for batch in newest_batches(source, pipeline) if batch.table == table]
    if len(of_log) < OF_A_TABLE:
        of = Logged(table, source.lake(pipeline).table(layer, table))
        compute = partial(_batches_since, of=of, copied=-1)
        committed: tuple[CommittedBatch, ...] = source.compute_once(of.uri, "batches", compute) or ()
        written = {batch.version for batch in of_log if batch.mode not in _OF_REJECTED_ROWS}
        more = [batch for batch in committed if batch.version not in written]
        of_log = sorted([*of_log, *more], key=_place, reverse=True)
    return tuple(of_log[:OF_A_TABLE])


def _batch(row: Mapping[str, Any]) -> CommittedBatch:
    details = json.loads(row["details"] or "{}")
    cost = details.get("cost") or {}
    return CommittedBatch(
        time=row["time"].astimezone(UTC), layer=row["layer"], table=row["table"] or "", version=row["version"],
        run_id=_text(details, "run_id"), by_airflow=bool(details.get("dag_id")), mode=_text(row, "mode"),
        balance=_balance(row, details), files=int(details.get("files") or 0), bytes=_bytes(row["layer"], details),
        failed=len(details.get("failed") or ()), strategy=_text(details, "strategy"),
        technique=_text(cost, "technique"), because=_text(details, "because"),
        estimates=cost.get("estimates") or {}, all_rows=(cost.get("rows") or {}).get("all"),
        why=_text(details, "why"), groups=details.get("groups"), seconds=cost.get("seconds"),
        rules=_rules(details.get("expectations") or {}), interval=_interval(details),
        definition=_text(details, "definition") or _text(details, "fingerprint"), mixed=bool(details.get("mixed")),
    )  # fmt: skip


def _text(facts: Mapping[str, Any], name: str) -> str:
    """Return a fact as text, empty where it is missing or empty."""
    return str(facts.get(name) or "")


def _bytes(layer: str, details: Mapping[str, Any]) -> int | None:
    """Return the bytes of the files that bronze read, or that gold wrote."""
    size = details.get("bytes")
    if layer == "bronze":
        return size
    return (size or {}).get("written")


def _interval(details: Mapping[str, Any]) -> tuple[str, str] | None:
    interval = details.get("interval")
    if not isinstance(interval, list) or len(interval) != 2:
        return None
    return interval[0], interval[1]


def _balance(row: Mapping[str, Any], details: Mapping[str, Any]) -> Balance:
    counts = {name: int(row[name] or 0) for name in ("written", "quarantined", "dropped", "duplicates")}
    rows_of_records = None
    if "no_rows" in details:
        rows_of_records = details.get("rows")
    return Balance(row["read"], rows_of_records, int(details.get("no_rows") or 0), **counts)


def _rules(counts: Mapping[str, Mapping[str, int]]) -> tuple[RuleCount, ...]:
    return tuple(
        RuleCount(name, int(count.get("passed") or 0), int(count.get("failed") or 0)) for name, count in counts.items()
    )


def total_balance(batches: Sequence[CommittedBatch]) -> Balance:
    """Add up the balances of several batches."""
    return sum((batch.balance for batch in batches), Balance())


def _sum(first: int | None, second: int | None) -> int | None:
    if first is None and second is None:
        return None
    return (first or 0) + (second or 0)

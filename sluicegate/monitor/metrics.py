"""Metrics of runs: what each table read, wrote and set aside, as counters and gauges that monitoring systems take.

The text format is that of Prometheus, https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any, Literal

from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport

PREFIX = "sluicegate_"

Kind = Literal["counter", "gauge"]
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: its name without prefix.
        kind: a counter grows by each value; a gauge is the last value.
        help: what it counts, and its unit.
    """

    name: str
    kind: Kind
    help: str


@dataclass(frozen=True)
class MetricSample:
    """Value of a metric, with what it is about."""

    metric: Metric
    value: float
    labels: Labels


def _counter(name: str, text: str) -> Metric:
    return Metric(name, "counter", text)


_OF_TABLES: Mapping[Metric, Callable[[TableReport], float]] = {
    _counter("rows_read_total", "Records or rows that runs read for the table."): lambda table: table.read,
    _counter("rows_written_total", "Rows that runs wrote to the table."): lambda table: table.written,
    _counter("rows_quarantined_total", "Rows moved to its quarantine."): lambda table: table.quarantined,
    _counter("rows_dropped_total", "Rows that its rules dropped."): lambda table: table.dropped,
    _counter("rows_duplicates_total", "Records superseded by another record with the same key."): lambda table: (
        table.duplicates
    ),
    _counter("rows_corrupt_total", "Records kept as corrupt text."): lambda table: table.corrupt,
    _counter("rows_rescued_total", "Records with values in _rescued_data."): lambda table: table.rescued,
    _counter("files_read_total", "Landed files that were read."): lambda table: table.files,
    _counter("files_failed_total", "Landed files that could not be read."): lambda table: len(table.failed),
    _counter("bytes_read_total", "Bytes of the landed files that were read."): lambda table: table.bytes,
    _counter("seconds_total", "Seconds that runs took for the table."): lambda table: table.seconds,
}
_RULE_FAILED = _counter("rule_failed_rows_total", "Rows that broke an expectation.")
_RULE_PASSED = _counter("rule_passed_rows_total", "Rows that passed an expectation.")
_ROWS = Metric("table_rows", "gauge", "Rows in the table after its last run.")
_CHANGED = Metric("table_changed_timestamp_seconds", "gauge", "When a run last changed the table; its age is its lag.")
_BATCHES = _counter("batches_total", "Batches of the continuous run.")
_FAILURES = _counter("batch_failures_total", "Batches of the continuous run that failed.")
_IN_A_ROW = Metric("batch_failures_in_a_row", "gauge", "Failed batches since the last successful one.")
_BATCH_SECONDS = Metric("batch_seconds", "gauge", "Seconds that the last batch took.")
_BATCH_ENDED = Metric("batch_ended_timestamp_seconds", "gauge", "When the last batch ended.")

# All metrics, in the order in which they are shown.
METRICS: tuple[Metric, ...] = (
    *_OF_TABLES, _RULE_FAILED, _RULE_PASSED, _ROWS, _CHANGED, _BATCHES, _FAILURES, _IN_A_ROW, _BATCH_SECONDS,
    _BATCH_ENDED,
)  # fmt: skip


def report_samples(report: RunReport, ended: datetime) -> Iterator[MetricSample]:
    """Yield the samples of a run's report.

    Args:
        report: the report of a layer.
        ended: when it ended.
    """
    for table in report.tables:
        if table.state in ("idle", "blocked", "validated"):
            continue
        labels = (("pipeline", report.pipeline), ("layer", table.layer), ("table", table.table))
        for metric, value in _OF_TABLES.items():
            yield MetricSample(metric, value(table), labels)
        for rule, counts in table.expectations.items():
            yield MetricSample(_RULE_FAILED, counts["failed"], (*labels, ("rule", rule)))
            yield MetricSample(_RULE_PASSED, counts["passed"], (*labels, ("rule", rule)))
        yield MetricSample(_ROWS, table.total, labels)
        yield MetricSample(_CHANGED, ended.timestamp(), labels)


def batch_samples(facts: Mapping[str, Any]) -> Iterator[MetricSample]:
    """Yield the samples of a continuous run's line about a batch (see ``flow.report.BATCH``)."""
    labels = (("pipeline", str(facts["pipeline"])),)
    if "failed" in facts:
        yield MetricSample(_FAILURES, 1, labels)
        yield MetricSample(_IN_A_ROW, facts["in_a_row"], labels)
        return
    ended = datetime.fromisoformat(facts["ended"])
    yield MetricSample(_BATCHES, 1, labels)
    yield MetricSample(_IN_A_ROW, 0, labels)
    yield MetricSample(_BATCH_SECONDS, facts["seconds"], labels)
    yield MetricSample(_BATCH_ENDED, ended.timestamp(), labels)
    for report in facts["layers"]:
        yield from report_samples(RunReport.from_dict(report), ended)


class Registry:
    """Values of all metrics since the process began; its methods may be called by several threads."""

    def __init__(self) -> None:
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in METRICS}
        self._lock = Lock()

    def add(self, samples: Iterable[MetricSample]) -> None:
        """Take samples in."""
        with self._lock:
            for sample in samples:
                values = self._values[sample.metric]
                before = values.get(sample.labels, 0) if sample.metric.kind == "counter" else 0
                values[sample.labels] = before + sample.value

    def text(self) -> str:
        """Return all values in Prometheus' text format."""
        with self._lock:
            lines = [line for metric in METRICS for line in _lines(metric, self._values[metric])]
        return "".join(f"{line}\n" for line in lines)


def _lines(metric: Metric, values: Mapping[Labels, float]) -> Iterator[str]:
    name = PREFIX + metric.name
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, value in values.items():
        about = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels)
        yield f"{name}{{{about}}} {float(value)!r}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

"""Metrics of runs by Airflow's own means, StatsD or OpenTelemetry: where these are off, nothing is sent.

Counters are sent by the task whose job did the work, and the state of the tables by the last task of a run. Plain
StatsD has no tags, so there pipeline, layer and table are parts of the name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sluicegate.flow.report import RunReport
from sluicegate.monitor.metrics import Labels, MetricSample, report_samples

log = logging.getLogger(__name__)

PREFIX = "sluicegate"


def send_reports(result: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None) -> None:
    """Send what a job did.

    Args:
        result: its report, or those of the layers that it ran.
    """
    if result is None:
        reports = []
    elif isinstance(result, Mapping):
        reports = [result]
    else:
        reports = [*result]
    try:
        for report in reports:
            for sample in report_samples(RunReport.from_dict(dict(report)), datetime.now(UTC)):
                _send(sample)
    except Exception:  # the job's result stands
        log.warning("the metrics of this job are not sent", exc_info=True)


def send_tables(pipeline: str, tables: Iterable[Mapping[str, Any]], changed: Mapping[str, datetime | None]) -> None:
    """Send the state of tables: their rows, quarantined rows, whether one is behind, and its age.

    Args:
        pipeline: name of the pipeline.
        tables: facts of each, as the last task of a run returns them.
        changed: when a run last changed each of them.
    """
    try:
        for table in tables:
            labels = (("pipeline", pipeline), ("layer", str(table["layer"])), ("table", str(table["table"])))
            _gauge("table_rows", table["rows"], labels)
            if "quarantined" in table:
                _gauge("quarantined_rows", table["quarantined"], labels)
            _gauge("table_behind", int("waits" in table), labels)
            if (last := changed.get(str(table["table"]))) is not None:
                _gauge("table_age_seconds", (datetime.now(UTC) - last).total_seconds(), labels)
    except Exception:
        log.warning("the metrics of this run are not sent", exc_info=True)


def _send(sample: MetricSample) -> None:
    from airflow.sdk.observability import stats

    name = sample.metric.name.removesuffix("_total")
    if name == "seconds":
        stats.timing(_metric_name(name, sample.labels), timedelta(seconds=sample.value), tags=_tags(sample.labels))
    elif sample.metric.kind == "gauge":
        _gauge(name, sample.value, sample.labels)
    elif sample.value:
        stats.incr(_metric_name(name, sample.labels), int(sample.value), tags=_tags(sample.labels))


def _gauge(name: str, value: float, labels: Labels) -> None:
    from airflow.sdk.observability import stats

    stats.gauge(_metric_name(name, labels), value, tags=_tags(labels))


def _metric_name(name: str, labels: Labels) -> str:
    """Name of a metric."""
    parts = []
    if not _has_tags():
        parts = [text for _, text in labels]
    return ".".join([PREFIX, *parts, name])


def _tags(labels: Labels) -> dict[str, str]:
    if _has_tags():
        return dict(labels)
    return {}


def _has_tags() -> bool:
    """Whether what Airflow sends its metrics to knows tags."""
    from airflow.sdk.configuration import conf

    kinds = ("statsd_influxdb_enabled", "statsd_datadog_enabled")
    plain = conf.getboolean("metrics", "statsd_on", fallback=False)
    return not plain or any(conf.getboolean("metrics", kind, fallback=False) for kind in kinds)

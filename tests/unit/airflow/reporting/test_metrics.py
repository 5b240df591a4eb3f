"""What Airflow sends of runs, by its own clients of StatsD and OpenTelemetry to servers of this machine."""

from __future__ import annotations

import atexit
import gzip
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sluicegate.airflow.reporting import metrics
from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where Airflow sends its metrics to."""
    from airflow.sdk._shared.observability.metrics import stats, statsd_logger
    from statsd import StatsClient

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.settimeout(5)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        made = statsd_logger.get_statsd_logger(
            stats_class=StatsClient, host="127.0.0.1", port=taken.getsockname()[1], prefix="airflow"
        )
        monkeypatch.setattr(stats, "_backend", made)
        yield taken


def lines(server: socket.socket, count: int) -> set[str]:
    return {server.recv(1000).decode() for _ in range(count)}


def report() -> dict[str, Any]:
    rules = {"valid": {"passed": 3, "failed": 2}}
    table = TableReport(
        "t", "silver", state="written", read=5, written=3, quarantined=2, seconds=1.5, expectations=rules
    )
    return RunReport("shop", "silver", [table]).as_dict()


def test_a_job_sends_what_it_did(server: socket.socket) -> None:
    metrics.send_reports(report())
    found = lines(server, 8)
    assert "airflow.sluicegate.shop.silver.t.rows_read:5|c" in found
    assert "airflow.sluicegate.shop.silver.t.rows_quarantined:2|c" in found
    assert "airflow.sluicegate.shop.silver.t.valid.rule_failed_rows:2|c" in found
    assert any(line.startswith("airflow.sluicegate.shop.silver.t.seconds:1500") for line in found)


def test_a_run_sends_the_state_of_its_tables(server: socket.socket) -> None:
    tables = [{"layer": "silver", "table": "t", "rows": 7, "quarantined": 2, "waits": "1 row"}]
    metrics.send_tables("shop", tables, {"t": datetime.now(UTC)})
    found = lines(server, 4)
    assert {
        "airflow.sluicegate.shop.silver.t.table_rows:7|g",
        "airflow.sluicegate.shop.silver.t.table_behind:1|g",
    } < found


def test_metrics_that_cannot_be_sent_fail_nothing(caplog: pytest.LogCaptureFixture) -> None:
    metrics.send_reports({"no": "report"})
    metrics.send_tables("shop", [{}], {})
    assert [record.getMessage() for record in caplog.records if "metrics" in record.getMessage()]


# --- OpenTelemetry ---------------------------------------------------------------------------------------------------


class Collector(ThreadingHTTPServer):
    """A receiver of metrics by OTLP over HTTP; ``points`` has the last value of each by name and tags."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Received)
        self.points: dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, Any]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, body: bytes) -> None:
        """Takes a request in."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (one for scope in of_resource.scope_metrics for one in scope.metrics):
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    tags = frozenset((one.key, one.value.string_value) for one in point.attributes)
                    value = point.sum if kind.endswith("histogram") else getattr(point, point.WhichOneof("value"))
                    self.points[metric.name, tags] = kind, value


class _Received(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/metrics":
            self.server.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Where Airflow sends its metrics to, by the settings that docs/howto/metrics.md names."""
    from airflow.sdk._shared.observability.metrics import otel_logger, stats
    from airflow.sdk.observability.metrics import stats_utils
    from opentelemetry.metrics import get_meter_provider

    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        for name in ("_factory", "_backend", "_export_legacy_names"):
            monkeypatch.setattr(stats, name, getattr(stats, name))
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)  # as a task does
        yield made
        get_meter_provider().shutdown()  # type: ignore[attr-defined]
        atexit.unregister(otel_logger.flush_otel_metrics)  # what a task sends at its end
        made.shutdown()
        thread.join()


def received(collector: Collector) -> dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, Any]]:
    from opentelemetry.metrics import get_meter_provider

    assert get_meter_provider().force_flush()  # type: ignore[attr-defined]
    return collector.points


TABLE = {"pipeline": "shop", "layer": "silver", "table": "t"}


def test_opentelemetry_has_what_a_job_did_with_tags(collector: Collector) -> None:
    metrics.send_reports(report())
    metrics.send_reports(report())
    found = received(collector)
    tags, of_rule = frozenset(TABLE.items()), frozenset({**TABLE, "rule": "valid"}.items())
    assert found["airflow.sluicegate.rows_read", tags] == ("sum", 10)
    assert found["airflow.sluicegate.rows_quarantined", tags] == ("sum", 4)
    assert found["airflow.sluicegate.rule_failed_rows", of_rule] == ("sum", 4)
    assert found["airflow.sluicegate.seconds", tags] == ("exponential_histogram", 3000.0)  # milliseconds
    assert found["airflow.sluicegate.table_rows", tags][0] == "gauge"
    assert not [name for name, _ in found if "shop" in name]


def test_opentelemetry_has_the_state_of_the_tables(collector: Collector) -> None:
    tables = [{"layer": "silver", "table": "t", "rows": 7, "quarantined": 2, "waits": "1 row"}]
    metrics.send_tables("shop", tables, {"t": datetime.now(UTC)})
    found = received(collector)
    tags = frozenset(TABLE.items())
    for name, value in {"table_rows": 7, "quarantined_rows": 2, "table_behind": 1}.items():
        assert found[f"airflow.sluicegate.{name}", tags] == ("gauge", value)
    assert found["airflow.sluicegate.table_age_seconds", tags][1] < 60

"""What Airflow sends of runs, by its own StatsD client to a server of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate.airflow import metrics
from sluicegate.flow.report import RunReport, TableReport
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

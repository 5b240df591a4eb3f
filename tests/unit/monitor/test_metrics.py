"""Metrics of runs in Prometheus' text format, read by Prometheus' own parser; and the dashboard of them."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from scripts import grafana
from sluicegate.cli import app
from sluicegate.cli.running.streams import _batch_handler
from sluicegate.errors import UserError
from sluicegate.flow.report import BATCH, RunReport
from sluicegate.flow.table_report import TableReport
from sluicegate.launch import metrics_server
from sluicegate.monitor.metrics import METRICS, PREFIX, Registry, batch_samples, report_samples

pytestmark = pytest.mark.unit

ENDED = datetime(2026, 11, 26, 12, tzinfo=UTC)


def report(**said: Any) -> RunReport:
    table = TableReport("orders", "silver", state="written", **said)
    return RunReport("shop", "silver", [table, TableReport("idle", "silver")])


def values(registry: Registry) -> dict[str, float]:
    """Values by name and labels, as Prometheus reads them."""
    found = {}
    for family in text_string_to_metric_families(registry.text()):
        for sample in family.samples:
            labels = ",".join(f"{name}={text}" for name, text in sorted(sample.labels.items()) if name != "pipeline")
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_counters_grow_and_gauges_are_the_last_value() -> None:
    registry = Registry()
    rule = {"valid": {"passed": 8, "failed": 2}}
    for total in (10, 20):
        registry.add(report_samples(report(read=10, written=8, quarantined=2, expectations=rule, total=total), ENDED))
    found = values(registry)
    of_table = "{layer=silver,table=orders}"
    assert found[f"sluicegate_rows_read_total{of_table}"] == 20
    assert found[f"sluicegate_rows_quarantined_total{of_table}"] == 4
    assert found["sluicegate_rule_failed_rows_total{layer=silver,rule=valid,table=orders}"] == 4
    assert found[f"sluicegate_table_rows{of_table}"] == 20
    assert found[f"sluicegate_table_changed_timestamp_seconds{of_table}"] == ENDED.timestamp()
    assert not [name for name in found if "idle" in name]


def test_each_metric_has_a_type_and_a_help_though_it_has_no_value() -> None:
    families = {family.name: family for family in text_string_to_metric_families(Registry().text())}
    assert {PREFIX + metric.name.removesuffix("_total") for metric in METRICS} == set(families)
    assert all(family.documentation for family in families.values())
    assert {metric.kind for metric in METRICS} == {"counter", "gauge"}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "ä", "{x}"])
def test_odd_names_come_back_as_they_are(name: str) -> None:
    registry = Registry()
    registry.add(
        report_samples(RunReport(name, "silver", [TableReport("t", "silver", state="written", read=1)]), ENDED)
    )
    families = text_string_to_metric_families(registry.text())
    read = next(family for family in families if family.name == "sluicegate_rows_read")
    assert read.samples[0].labels["pipeline"] == name


def batch(**facts: Any) -> str:
    return f"{BATCH} {json.dumps({'pipeline': 'shop', 'id': 'x', **facts}, default=str)}"


def test_batches_of_a_continuous_run(capsys: pytest.CaptureFixture[str]) -> None:
    registry = Registry()
    tell = _batch_handler(True, registry)
    tell("SLUICEGATE_OTHER {}")
    tell(f"{BATCH} {{cut off")
    tell(batch(failed={"code": "SG100"}, in_a_row=1))
    assert values(registry)["sluicegate_batch_failures_in_a_row{}"] == 1
    tell(batch(batch=1, ended=ENDED.isoformat(), seconds=2.5, layers=[report(read=3, seconds=1.5).as_dict()]))
    found = values(registry)
    assert found["sluicegate_batch_failures_in_a_row{}"] == 0
    assert (found["sluicegate_batches_total{}"], found["sluicegate_batch_failures_total{}"]) == (1, 1)
    assert found["sluicegate_batch_seconds{}"] == 2.5
    assert found["sluicegate_seconds_total{layer=silver,table=orders}"] == 1.5
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["x", "x"]


def test_metrics_are_served_to_this_machine_alone() -> None:
    registry = Registry()
    registry.add(batch_samples({"pipeline": "shop", "failed": {}, "in_a_row": 1}))
    with metrics_server.serve_metrics(registry, 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"] == metrics_server.CONTENT_TYPE
            assert answer.read().decode() == registry.text()
        for other in ("/", "/metrics/..", "/metrics.txt"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{other}")
        with pytest.raises(UserError, match=f"metrics cannot be served at 127.0.0.1:{port}"):
            metrics_server.serve_metrics(registry, port).__enter__()
    assert metrics_server.HERE == "127.0.0.1"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--metrics-port", "1"], "--continuous"),
        (["--continuous", "--metrics-host", "0.0.0.0"], "--metrics-port"),
    ],
)
def test_options_that_go_together(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app.app, ["run", "heart_rate", *arguments])
    assert said in str(done.exception)


def test_the_dashboard_names_metrics_that_there_are() -> None:
    text = grafana.OUT.read_text(encoding="utf-8")
    assert text == grafana.text(), "python -m scripts.grafana"
    queries = [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(rf"\b{PREFIX}\w+", query)}
    assert named <= {PREFIX + metric.name for metric in METRICS}
    assert all(re.search(rf"\b{PREFIX}\w+", query) for query in queries)
    assert len(named) > 10

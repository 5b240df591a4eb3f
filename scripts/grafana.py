"""Grafana dashboard of the metrics of continuous runs: ``python -m scripts.grafana`` writes it into ``docs``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from sluicegate.monitor.metrics import PREFIX

OUT = Path(__file__).resolve().parent.parent / "docs" / "grafana" / "sluicegate.json"

# Title, unit, and queries with their legends, in which names have neither PREFIX nor the pipeline.
PANELS = (
    ("Rows written", "short", [("sum by (table) (rate(rows_written_total[5m]))", "{{table}}")]),
    ("Rows quarantined, dropped, duplicate", "short", [
        ("sum by (table) (rate(rows_quarantined_total[5m]))", "{{table}} quarantined"),
        ("sum by (table) (rate(rows_dropped_total[5m]))", "{{table}} dropped"),
        ("sum by (table) (rate(rows_duplicates_total[5m]))", "{{table}} duplicates"),
    ]),
    ("Share of rows that break a rule", "percentunit", [(
        "sum by (table, rule) (rate(rule_failed_rows_total[15m])) / (sum by (table, rule) "
        "(rate(rule_failed_rows_total[15m])) + sum by (table, rule) "
        "(rate(rule_passed_rows_total[15m])))", "{{table}} {{rule}}",
    )]),
    ("Age of tables", "s", [("time() - table_changed_timestamp_seconds", "{{table}}")]),
    ("Files read and failed", "short", [
        ("sum by (table) (increase(files_read_total[5m]))", "{{table}} read"),
        ("sum by (table) (increase(files_failed_total[5m]))", "{{table}} failed"),
    ]),
    ("Bytes read", "Bps", [("sum by (table) (rate(bytes_read_total[5m]))", "{{table}}")]),
    ("Seconds of a batch", "s", [("batch_seconds", "{{pipeline}}")]),
    ("Failed batches in a row", "short", [("batch_failures_in_a_row", "{{pipeline}}")]),
    ("Rows in tables", "short", [("table_rows", "{{table}}")]),
    ("Seconds by table", "percentunit", [
        ("sum by (table) (rate(seconds_total[5m]))", "{{table}}"),
    ]),
)  # fmt: skip
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 12, 8


def dashboard(names: list[str]) -> dict[str, Any]:
    """The dashboard as Grafana imports it.

    Args:
        names: all metrics, which queries name without their prefix.
    """
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "pipeline", "type": "query", "datasource": _SOURCE, "multi": True, "includeAll": True, "refresh": 2,
            "query": f"label_values({PREFIX}table_rows, pipeline)",
        },
    ]  # fmt: skip
    return {
        "title": "Sluicegate", "uid": "sluicegate", "schemaVersion": 39, "version": 1, "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"}, "tags": ["sluicegate"], "templating": {"list": variables},
        "panels": [_panel(number, *panel, names) for number, panel in enumerate(PANELS)],
    }  # fmt: skip


def _panel(number: int, title: str, unit: str, queries: list[tuple[str, str]], names: list[str]) -> dict[str, Any]:
    return {
        "id": number + 1, "title": title, "type": "timeseries", "datasource": _SOURCE,
        "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": _prefix_names(query, names), "legendFormat": legend}
            for place, (query, legend) in enumerate(queries)
        ],
    }  # fmt: skip


def _prefix_names(query: str, names: list[str]) -> str:
    """A query whose names have their prefix, and are of the chosen pipelines."""
    known = "|".join(names)
    return re.sub(rf"\b({known})\b", rf'{PREFIX}\1{{pipeline=~"$pipeline"}}', query)


def text() -> str:
    """The dashboard's file."""
    from sluicegate.monitor.metrics import METRICS

    return json.dumps(dashboard([metric.name for metric in METRICS]), indent=2) + "\n"


def main() -> int:
    """Write the file."""
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(text(), encoding="utf-8")
    print(f"wrote {OUT.relative_to(OUT.parent.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

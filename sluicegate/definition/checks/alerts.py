"""Checks of alerts: the tables and expectations that they are about."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.definition.checks.known_tables import DefinedTables, LocatedMistake
from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.pipeline.alerts import KINDS, Alerts


def findings(tables: DefinedTables, alerts: Alerts | None) -> Iterator[LocatedMistake]:
    """Yield all mistakes in alerts across tables."""
    if alerts is None:
        return
    for kind in KINDS:
        for name in getattr(alerts, kind):
            if name not in tables.layers:
                hint = suggest_or_list(name, tables.layers, "tables:")
                yield LocatedMistake("unknown-table", ("alerts", kind, name), f"unknown table {name}", hint)
    yield from _volume_findings(tables, alerts)
    yield from _rule_rate_findings(tables, alerts)


def _volume_findings(tables: DefinedTables, alerts: Alerts) -> Iterator[LocatedMistake]:
    for name, volume in alerts.volume.items():
        bronze = tables.bronze.get(name)
        if volume.of == "files" and name in tables.layers and (bronze is None or not bronze.reads_files):
            layer = tables.layers[name]
            if layer == "bronze" and bronze is None:
                continue  # it has a mistake of its own
            message = f"{name} does not read files: `of: files` requires a bronze table that reads files"
            yield LocatedMistake("alert", ("alerts", "volume", name, "of"), message, "of: rows")


def _rule_rate_findings(tables: DefinedTables, alerts: Alerts) -> Iterator[LocatedMistake]:
    for name, rules in alerts.rule_rate.items():
        table = tables.bronze.get(name) or tables.silver.get(name) or tables.gold.get(name)
        if table is None:
            continue
        for rule in rules:
            if rule not in table.expectations:
                hint = suggest_or_list(rule, table.expectations, "its expectations:", "its expectations: none")
                message = f"unknown expectation {rule} of {name}"
                yield LocatedMistake("unknown-rule", ("alerts", "rule_rate", name, rule), message, hint)

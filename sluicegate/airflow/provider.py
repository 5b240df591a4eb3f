"""Provider metadata for the entry point ``apache_airflow_provider``: ``airflow providers list``."""

from __future__ import annotations

from typing import Any

PACKAGE = "sluicegate.airflow"
OPERATORS = ("alerts", "check_request", "maintenance", "reconcile", "spark_submission", "submit")


def get_provider_info() -> dict[str, Any]:
    """Metadata in the schema ``airflow/provider_info.schema.json``; the plugin has an entry point of its own."""
    return {
        "package-name": "sluicegate",
        "name": "Sluicegate",
        "description": "A DAG for each pipeline definition: landed files to bronze, silver and gold Delta tables.",
        "integrations": [{"integration-name": "Sluicegate", "tags": ["software"]}],
        "operators": _modules([f"{PACKAGE}.operators.{module}" for module in OPERATORS]),
        "sensors": _modules([f"{PACKAGE}.sensors.landed_files"]),
        "triggers": _modules([f"{PACKAGE}.sensors.trigger"]),
        "extra-links": [f"{PACKAGE}.operators.links.SparkUI"],
    }


def _modules(modules: list[str]) -> list[dict[str, Any]]:
    return [{"integration-name": "Sluicegate", "python-modules": modules}]

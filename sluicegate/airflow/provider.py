"""What Airflow is told of this package, by its entry point ``apache_airflow_provider``: ``airflow providers list``."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """What ``airflow/provider_info.schema.json`` asks for."""
    return {
        "package-name": "sluicegate",
        "name": "Sluicegate",
        "description": "A DAG for each pipeline definition: landed files to bronze, silver and gold Delta tables.",
    }

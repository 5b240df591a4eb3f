"""Provider metadata for the entry point ``apache_airflow_provider``: ``airflow providers list``."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Metadata in the schema ``airflow/provider_info.schema.json``."""
    return {
        "package-name": "sluicegate",
        "name": "Sluicegate",
        "description": "A DAG for each pipeline definition: landed files to bronze, silver and gold Delta tables.",
    }

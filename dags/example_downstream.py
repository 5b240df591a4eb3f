"""An example of your own DAG: it runs whenever a gold table has changed, and gets the version and number of rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from sluicegate.airflow.assets import asset

DAILY = asset("heart_rate", "daily_patient_avg")

with DAG(
    dag_id="example_downstream",
    description="Runs whenever heart_rate.daily_patient_avg has changed.",
    schedule=[DAILY],
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example"],
) as dag:

    @task
    def tell(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """Prints the versions of the table since the last run; a real task would read them."""
        extras = [dict(event.extra) for event in triggering_asset_events[DAILY]]
        for event in extras:
            print(f"version {event['version']} of {event['table']} has {event['rows']:,} rows")
        return extras

    tell()

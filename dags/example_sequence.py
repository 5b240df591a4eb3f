"""The sequence written out as a DAG of one's own: a sensor waits for landed files, then three spark-submit jobs run.

``medallion.py`` makes such a DAG of each pipeline definition, with a form, backfills and a reconciliation. Begin here
where tasks of yours belong between the layers. Give it an id of its own: the generated DAG has the pipeline's name, and
is there, too. ``CheckRequest`` as the first task adds notes of runs, ``Account`` as the last one the reconciliation.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from sluicegate.airflow.dag import settings_below
from sluicegate.airflow.operators.submit import SluicegateJob
from sluicegate.airflow.sensors.landed_files import LandedFilesSensor

PIPELINE = "heart_rate"
# Lake, landing and definitions are beside this folder.
SETTINGS = settings_below(Path(__file__).resolve().parent.parent)

with DAG(
    dag_id="example_sequence",
    description="Waits for files of heart_rate, and brings bronze, silver and gold up to them.",
    schedule=None,  # by hand; "*/15 * * * *" for every quarter of an hour
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["example"],
) as dag:
    # Succeeds when files have landed that no run has read, or a killed run left work behind. If nothing comes in time
    # it is skipped, and so are the jobs.
    wait = LandedFilesSensor(
        task_id="wait_for_files",
        pipeline=PIPELINE,
        settings=SETTINGS,
        poke_interval=timedelta(seconds=30),
        timeout=timedelta(minutes=10),
    )
    # Each starts spark-submit with spark_jobs/LAYER.py if its layer has work: an availableNow stream for each table.
    # It is in the pool `spark`, and publishes the assets of the tables that it changed.
    bronze = SluicegateJob(task_id="bronze", layer="bronze", pipeline=PIPELINE, settings=SETTINGS, retries=2)
    silver = SluicegateJob(task_id="silver", layer="silver", pipeline=PIPELINE, settings=SETTINGS, retries=2)
    gold = SluicegateJob(task_id="gold", layer="gold", pipeline=PIPELINE, settings=SETTINGS, retries=2)

    wait >> bronze >> silver >> gold

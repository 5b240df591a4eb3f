"""One Airflow DAG for each pipeline definition; nothing else decides what runs."""

from __future__ import annotations

from pathlib import Path

from sluicegate.airflow.dag import medallion_dags, settings_below

globals().update(medallion_dags(settings_below(Path(__file__).resolve().parent.parent)))

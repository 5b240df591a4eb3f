"""What a run tells of itself in Airflow: its note, metrics, OpenLineage, and notifiers of failures."""

from __future__ import annotations

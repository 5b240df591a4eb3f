"""What Airflow loads by itself where this package is installed."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sluicegate.airflow import run_note


class SluicegatePlugin(AirflowPlugin):
    """The listener that writes the notes of runs."""

    name = "sluicegate"
    listeners: list[Any] = [run_note]  # noqa: RUF012 (Airflow declares it so)

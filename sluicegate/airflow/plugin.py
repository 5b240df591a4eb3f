"""Airflow plugin, loaded wherever this package is installed."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sluicegate.airflow import pools, run_note


class SluicegatePlugin(AirflowPlugin):
    """Plugin with the listeners that write run notes and make the pool of the jobs."""

    name = "sluicegate"
    listeners: list[Any] = [run_note, pools]  # noqa: RUF012 (Airflow declares it so)

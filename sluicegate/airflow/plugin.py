"""Airflow plugin, loaded wherever this package is installed."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sluicegate.airflow import run_note


class SluicegatePlugin(AirflowPlugin):
    """Plugin with the listener that writes run notes."""

    name = "sluicegate"
    listeners: list[Any] = [run_note]  # noqa: RUF012 (Airflow declares it so)

"""Airflow plugin, loaded wherever this package is installed."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sluicegate.airflow import pools, run_note
from sluicegate.airflow.loaded import NAME
from sluicegate.airflow.timetable import PipelineTimetable


class SluicegatePlugin(AirflowPlugin):
    """Plugin with the timetable, and the listeners that write run notes and make the pool of the jobs."""

    name = NAME
    listeners: list[Any] = [run_note, pools]  # noqa: RUF012 (Airflow declares it so)
    timetables: list[Any] = [PipelineTimetable]  # noqa: RUF012

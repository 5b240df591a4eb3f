"""Airflow plugin, loaded wherever this package is installed."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sluicegate.airflow import pools
from sluicegate.airflow.loaded import NAME
from sluicegate.airflow.page.mounted import Lakehouse
from sluicegate.airflow.reporting import run_note
from sluicegate.airflow.timetable import PipelineTimetable

ICON = {"icon": "lakehouse/static/icon.svg", "icon_dark_mode": "lakehouse/static/icon-dark.svg"}

# Relative to Airflow's base address, so that they hold behind a path prefix. A route is the view's for itself.
VIEWS = [
    {"name": "Lakehouse", "href": "lakehouse/", "destination": "nav", "nav_top_level": True, "url_route": "lakehouse",
     **ICON},
    {"name": "Lakehouse", "href": "lakehouse/dag/{DAG_ID}", "destination": "dag", "url_route": "lakehouse-dag", **ICON},
    {"name": "Lakehouse", "href": "lakehouse/dag/{DAG_ID}/run/{RUN_ID}", "destination": "dag_run",
     "url_route": "lakehouse-run", **ICON},
]  # fmt: skip


class SluicegatePlugin(AirflowPlugin):
    """Plugin with the timetable, the listeners that write run notes and make the pool of the jobs, and the page."""

    name = NAME
    listeners: list[Any] = [run_note, pools]  # noqa: RUF012 (Airflow declares it so)
    timetables: list[Any] = [PipelineTimetable]  # noqa: RUF012
    fastapi_apps: list[Any] = [{"app": Lakehouse(), "url_prefix": "/lakehouse", "name": "Lakehouse"}]  # noqa: RUF012
    external_views: list[Any] = VIEWS

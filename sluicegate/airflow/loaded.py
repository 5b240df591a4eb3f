"""Whether Airflow has loaded this package's plugin, where DAGs are made."""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from sluicegate.airflow.timetable import PipelineTimetable

NAME = "sluicegate"
"""Name of the plugin."""


def plugin_is_loaded() -> bool:
    """Whether Airflow has the plugin here; a task, which stores no DAG and need not load plugins, takes it for granted.

    It has not where the package is on the path of Airflow's processes, and not installed. Then nobody would make the
    pool, and Airflow would store no timetable of ours.
    """
    if get_parsing_context().dag_id is not None:
        return True
    from airflow import plugins_manager

    return PipelineTimetable in plugins_manager.get_timetables_plugins().values()

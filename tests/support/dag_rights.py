"""An auth manager of Airflow with rights on single DAGs, as those of real installations have them."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

from tests.support.page_states import STATES

READS = {
    "reader": {"heart_rate", "mistaken", "we-ird"},
    "counter": {"heart_rate"},  # may not read logs
    "starter": {"heart_rate"},  # may trigger runs, too
    "editor": {"heart_rate"},  # the same
    "both": {"heart_rate", "secret"},
    "auditor": {"heart_rate", "secret"},  # may not read runs
    "operator": {"heart_rate", *STATES},  # may trigger runs, too
}
STARTS = {"starter", "editor", "operator"}


class DagRights(SimpleAuthManager):
    """Airflow's simple auth manager, but each user may read some DAGs alone."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        """Whether a user may do something with a DAG."""
        if details is None or details.id is None:
            return True
        if user.username == "counter" and access_entity == DagAccessEntity.TASK_LOGS:
            return False
        if user.username == "auditor" and access_entity == DagAccessEntity.RUN:
            return False
        may_start = user.username in STARTS and access_entity == DagAccessEntity.RUN and method == "POST"
        return (method == "GET" or may_start) and details.id in READS.get(user.username, set())

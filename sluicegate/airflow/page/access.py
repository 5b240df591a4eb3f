"""Who may see what: Airflow's own login, and its rights on DAGs.

FastAPI apps of plugins are not protected by Airflow. So each view depends on ``viewer``, which resolves the user from
the token as Airflow's own API does, and names no pipeline whose DAG the user may not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, status

from sluicegate.airflow.page.forms import Forbidden
from sluicegate.definition.dag_ids import dag_id


class Viewer:
    """A user of Airflow who views pages.

    Args:
        user: the user.
    """

    def __init__(self, user: BaseUser) -> None:
        self._user = user

    def readable_pipelines(self, names: Iterable[str]) -> list[str]:
        """Return the pipelines whose DAG the user may read."""
        permitted = get_auth_manager().get_authorized_dag_ids(user=self._user, method="GET")
        return [name for name in names if dag_id(name) in permitted]

    def demand_read(self, pipeline: str, names: Iterable[str]) -> None:
        """Check that the user may read the DAG of a pipeline.

        Raises:
            HTTPException: 404, as for a pipeline that does not exist, so that its name stays secret.
        """
        if pipeline not in names or not self._is_permitted(pipeline):
            raise HTTPException(status.HTTP_404_NOT_FOUND, "This pipeline does not exist, or you may not read its DAG.")

    def may_read_runs(self, pipeline: str) -> bool:
        """Return whether the user may read the DAG's runs."""
        return self._is_permitted(pipeline, DagAccessEntity.RUN)

    def may_read_rows(self, pipeline: str) -> bool:
        """Return whether the user may read rows of tables: as for the logs of the tasks, which show rows, too."""
        return self._is_permitted(pipeline, DagAccessEntity.TASK_LOGS)

    def may_start_runs(self, pipeline: str) -> bool:
        """Return whether the user may trigger runs of the DAG, by its form as well as from a page."""
        return self._is_permitted(pipeline, DagAccessEntity.RUN, "POST")

    def demand_start(self, pipeline: str) -> None:
        """Check that the user, who may read a pipeline's DAG, may trigger its runs.

        Raises:
            Forbidden: the user may not.
        """
        if not self.may_start_runs(pipeline):
            raise Forbidden(
                "You may not trigger runs of this DAG.", "Ask your Airflow administrator for the permission."
            )

    @property
    def user_identity(self) -> tuple[str, str]:
        """Id and name of the user, for an audit log."""
        return str(self._user.get_id()), str(self._user.get_name())

    def _is_permitted(
        self, pipeline: str, entity: DagAccessEntity | None = None, method: Literal["GET", "POST"] = "GET"
    ) -> bool:
        dag = dag_id(pipeline)
        details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
        return bool(
            get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=self._user)
        )


def viewer(user: Annotated[BaseUser, Depends(get_user)]) -> Viewer:
    """Return the user who views a page; without a valid token Airflow answers 401 or 403."""
    return Viewer(user)


ViewerDep = Annotated[Viewer, Depends(viewer)]

"""The task that maintains the tables of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sluicegate.airflow.asked import failure
from sluicegate.airflow.operator import SluicegateJob, alone
from sluicegate.definition import load
from sluicegate.errors import SluicegateError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.definition import Layer


class Maintenance(SluicegateJob):
    """Runs ``spark_jobs/maintain.py``, unless there is nothing to gain.

    Args:
        kwargs: what SluicegateJob takes, but for the layer.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(layer=cast("Layer", "maintain"), **kwargs)  # the name of the job; it belongs to no layer

    def execute(self, context: Context) -> dict[str, Any] | None:  # type: ignore[override]
        """Runs the job.

        Returns:
            the job's report, whose notes say what it did to each table; None when there was nothing to do.

        Raises:
            AirflowFailException: the definition has mistakes, or the like; a retry would end the same way.
            AirflowException: anything else; a retry does what is left.
        """
        from sluicegate import lake, maintain  # not above: parsing a DAG file needs neither pyarrow nor deltalake

        try:
            pipeline = load(self.pipeline, self.settings)
            tables = maintain.look(pipeline, lake.Lake(self.settings.lake, pipeline.name))
            if not any(table.due for table in tables):
                self.log.info("%s: there is nothing to gain; Spark was not started", self.name)
                return None
            with alone(self.pipeline, self.settings, context):
                self.prepare(None)
                self._submit(context)
        except SluicegateError as error:
            raise failure(error) from None
        return self._told()
